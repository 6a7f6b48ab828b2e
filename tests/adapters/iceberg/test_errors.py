"""Which failures of Iceberg mean that another writer was first: then nothing of ours is in the table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from lakeward.adapters.iceberg.java import lost_race

ICEBERG = "org.apache.iceberg.exceptions"


def thrown(*classes: str) -> PySparkException:
    """An error of Spark for a Java exception, the outermost class first."""
    java: Any = None
    for name in reversed(classes):
        found = SimpleNamespace(getName=lambda name=name: name)
        java = SimpleNamespace(getClass=lambda found=found: found, getCause=lambda cause=java: cause)
    error = PySparkException("failed")
    error._origin = java  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("classes", "is_lost"),
    [
        ([f"{ICEBERG}.CommitFailedException"], True),
        ([f"{ICEBERG}.ValidationException"], True),
        ([f"{ICEBERG}.CommitFailedException", "software.amazon.ConcurrentModificationException"], True),
        (["java.lang.RuntimeException", f"{ICEBERG}.CommitFailedException"], True),
        ([f"{ICEBERG}.CommitStateUnknownException", "java.net.SocketTimeoutException"], False),
        (["software.amazon.awssdk.services.glue.model.ValidationException"], False),
        (["java.io.IOException"], False),
    ],
)
def test_a_race_is_lost_where_iceberg_says_so_anywhere_in_the_chain(classes: list[str], is_lost: bool) -> None:
    assert lost_race(thrown(*classes)) == is_lost


def test_an_error_of_python_is_no_lost_race() -> None:
    assert not lost_race(TimeoutError())
