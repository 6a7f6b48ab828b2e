"""Transient errors of S3, in the errors of each client."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from lakeward.adapters.spark.session.errors import unreachable


def thrown(*classes: str) -> PySparkException:
    """An error of Spark for a Java exception, the outermost class first."""
    java: Any = None
    for name in reversed(classes):
        found = SimpleNamespace(getName=lambda name=name: name)
        java = SimpleNamespace(
            getClass=lambda found=found: found,
            getCause=lambda cause=java: cause,
            getMessage=lambda: "in its own words",
        )
    error = PySparkException("failed")
    error._origin = java  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "is_so"),
    [
        (thrown("org.apache.spark.SparkException", "java.net.ConnectException"), True),
        (thrown("org.apache.hadoop.fs.s3a.AWSServiceThrottledException", "software.amazon.SomeException"), True),
        (thrown("org.apache.spark.SparkException", "java.nio.file.AccessDeniedException"), False),
        (thrown("java.io.FileNotFoundException"), False),
        (OSError("When reading: AWS Error NETWORK_CONNECTION during HeadObject operation"), True),
        (OSError("When reading: AWS Error ACCESS_DENIED during HeadObject operation"), False),
        (ValueError("AWS Error NETWORK_CONNECTION"), False),
    ],
)
def test_transient_errors_are_retryable(error: BaseException, is_so: bool) -> None:
    found = unreachable("shop.item", error)
    assert (found is not None) is is_so
    assert found is None or (found.retryable and found.what == "shop.item: S3 does not answer")
