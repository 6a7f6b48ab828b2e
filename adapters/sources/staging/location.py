"""The place where sources stage files for Spark, by the setting `staging` or by default."""

from __future__ import annotations

from typing import Final

from lakeward.adapters.aws.s3.access import is_url, normal_url
from lakeward.core.errors import ConfigError

SETTING: Final = (
    "A prefix of a bucket for files of a batch that Spark's workers read, as `s3://bucket/prefix`. Without it they "
    "are on this machine's disk, or, if Spark's workers are on other machines and the lake is in S3, in `_staging` "
    "in its warehouse (docs/reference/s3.md#staging)."
)
"""The description of the setting `staging` of each source."""


def staging_url(value: str | None) -> str | None:
    """Return the prefix of a bucket that a setting names; raises ValueError for an invalid one."""
    if value is not None:
        try:
            normal_url(value)
        except ConfigError as error:
            raise ValueError("must be a prefix of a bucket, as s3://bucket/prefix, without `//` in it") from error
    return value


def default_staging(warehouse: object, master: str) -> str | None:
    """Return the default place of staged files, by the warehouse of the lake and Spark's master.

    None where Spark's workers are on this machine, and where the lake is on a disk, which they must share then.

    >>> default_staging("s3://shop-lake/tables/", "yarn")
    's3://shop-lake/tables/_staging'
    >>> default_staging("s3://shop-lake/tables", "local[*]"), default_staging("/mnt/lake", "yarn")
    (None, None)
    """
    if master.startswith("local") or not isinstance(warehouse, str) or not is_url(warehouse):
        return None
    return f"{normal_url(warehouse)}/_staging"
