"""A session of Spark that no test may ask for."""

from __future__ import annotations

from typing import NoReturn


def no_spark() -> NoReturn:
    """Fail a test that asks for Spark."""
    raise AssertionError("no Spark is needed")
