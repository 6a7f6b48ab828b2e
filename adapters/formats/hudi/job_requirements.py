"""The needs of Hudi tables in a job of AWS."""

from __future__ import annotations

from typing import Final

from lakeward.adapters.formats.shared.job_requirements import JobRequirements

REQUIREMENTS: Final = JobRequirements(
    extras=("hudi",),
    lines=("3.5",),
    emr_jars="/usr/lib/hudi/hudi-spark-bundle.jar",
    has_glue_partitions=True,
)
