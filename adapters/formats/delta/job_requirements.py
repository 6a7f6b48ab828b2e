"""The needs of Delta tables in a job of AWS."""

from __future__ import annotations

from typing import Final

from lakeward.adapters.formats.shared.job_requirements import JobRequirements
from lakeward.adapters.spark.session.compatibility import LINES

REQUIREMENTS: Final = JobRequirements(
    extras=("delta",),
    lines=LINES,
    emr_jars="/usr/share/aws/delta/lib/delta-spark.jar,/usr/share/aws/delta/lib/delta-storage.jar",
)
