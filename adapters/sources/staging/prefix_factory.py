"""The factory of staging prefixes in a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.adapters.aws.s3.access import JARS, find_access, normal_url
from lakeward.adapters.spark.session.s3a import s3a_settings
from lakeward.plugins import Runtime

if TYPE_CHECKING:
    from lakeward.adapters.sources.staging.prefix import StagingPrefix


def open_staging(setting: str | None, runtime: Runtime, kind: str) -> StagingPrefix | None:
    """Return the staging prefix of a source of a `kind`; None where files are staged on this machine's disk.

    `setting` is the setting `staging`. Each pipeline has a prefix of its own below it. The jars and settings with
    which Spark reads it are required. Raises SetupError without boto3.
    """
    url = setting or runtime.staging
    if url is None:
        return None
    access = find_access()
    from lakeward.adapters.sources.staging.prefix import StagingPrefix  # noqa: PLC0415  # it imports boto3

    runtime.require(JARS, settings=s3a_settings(access))
    return StagingPrefix("/".join((normal_url(url), runtime.pipeline or "pipeline", kind)), access.client)
