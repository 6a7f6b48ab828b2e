"""Opening the prefix of a bucket in which a source stages the files of a batch for Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.adapters.aws.s3.access import JARS, find_access, normal
from lakeward.adapters.spark.session.s3a import s3a_settings
from lakeward.plugins import Runtime

if TYPE_CHECKING:
    from lakeward.adapters.sources.staging.prefix import StagingPrefix


def open_staging(said: str | None, runtime: Runtime, kind: str) -> StagingPrefix | None:
    """Return where a source of a kind stages what Spark reads; None where that is this machine's disk.

    `said` is the setting `staging`. Each pipeline has a prefix of its own below it. Spark is told what it needs to
    reach it. Raises SetupError without boto3.
    """
    url = said or runtime.staging
    if url is None:
        return None
    access = find_access()
    from lakeward.adapters.sources.staging.prefix import StagingPrefix  # noqa: PLC0415  # it imports boto3

    runtime.require(JARS, settings=s3a_settings(access))
    return StagingPrefix("/".join((normal(url), runtime.pipeline or "pipeline", kind)), access.client)
