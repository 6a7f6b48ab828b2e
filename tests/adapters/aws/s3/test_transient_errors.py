"""Transient errors of S3, in the errors of each client."""

from __future__ import annotations

import pytest
from java_errors import java_error

from lakeward.adapters.spark.session.errors import unreachable


@pytest.mark.parametrize(
    ("error", "is_so"),
    [
        (java_error("org.apache.spark.SparkException", "java.net.ConnectException"), True),
        (
            java_error("org.apache.hadoop.fs.s3a.AWSServiceThrottledException", "software.amazon.SomeException"),
            True,
        ),
        (java_error("org.apache.spark.SparkException", "java.nio.file.AccessDeniedException"), False),
        (java_error("java.io.FileNotFoundException"), False),
        (OSError("When reading: AWS Error NETWORK_CONNECTION during HeadObject operation"), True),
        (OSError("When reading: AWS Error ACCESS_DENIED during HeadObject operation"), False),
        (ValueError("AWS Error NETWORK_CONNECTION"), False),
    ],
)
def test_transient_errors_are_retryable(error: BaseException, is_so: bool) -> None:
    found = unreachable("shop.item", error)
    assert (found is not None) is is_so
    assert found is None or (found.retryable and found.what == "shop.item: S3 does not answer")
