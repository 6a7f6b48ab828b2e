"""Errors of Spark for exceptions of Java, as py4j shows them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyspark.errors import PySparkException


def java_error(*classes: str, message: str = "in its own words") -> PySparkException:
    """Return an error of Spark for a Java exception, the outermost class first, all with one message."""
    java: Any = None
    for name in reversed(classes):
        found = SimpleNamespace(getName=lambda name=name: name)
        java = SimpleNamespace(
            getClass=lambda found=found: found, getCause=lambda cause=java: cause, getMessage=lambda: message
        )
    error = PySparkException(message)
    error._origin = java  # type: ignore[attr-defined]
    return error
