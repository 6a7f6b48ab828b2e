"""Error messages of S3."""

from __future__ import annotations

import pytest
from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

from lakeward.adapters.aws.s3.error_messages import explain_s3_errors
from lakeward.core.errors import StoreUnreachable


@pytest.mark.parametrize(
    "error",
    [
        IncompleteReadError(actual_bytes=10, expected_bytes=20),
        ReadTimeoutError(endpoint_url="s3://shop"),
        ResponseStreamingError(error="connection broken"),
    ],
    ids=["too short", "too long", "broken"],
)
def test_an_incomplete_response_is_a_transient_error(error: Exception) -> None:
    with pytest.raises(StoreUnreachable), explain_s3_errors("s3://shop/landing/a.csv"):
        raise error
