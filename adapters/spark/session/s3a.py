"""Settings with which Spark reads and writes `s3://`: Hadoop's S3A, with the same credentials as boto3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.adapters.aws.s3.access import Access
from lakeward.adapters.spark.session.compatibility import line

_CREDENTIALS: Final[Mapping[str, str]] = {
    "4.1": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    "3.5": "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
}
"""The class that finds the credentials, by line: Spark 3.5 comes with the older SDK of AWS."""


def s3a_settings(access: Access) -> Mapping[str, str]:
    """Return the settings of a session that reaches S3."""
    settings = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.aws.credentials.provider": _CREDENTIALS[line()],
        "fs.s3a.endpoint.region": access.region,
        "fs.s3a.path.style.access": str(access.by_path).lower(),
    }
    if access.endpoint is not None:
        settings |= {"fs.s3a.endpoint": access.endpoint}
    return {f"spark.hadoop.{name}": value for name, value in settings.items()}
