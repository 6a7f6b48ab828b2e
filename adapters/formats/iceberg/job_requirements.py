"""The needs of Iceberg tables in a job of AWS."""

from __future__ import annotations

from typing import Final

from lakeward.adapters.formats.shared.job_requirements import JobRequirements
from lakeward.adapters.spark.session.compatibility import LINES

REQUIREMENTS: Final = JobRequirements(lines=LINES, emr_jars="/usr/share/aws/iceberg/lib/iceberg-spark3-runtime.jar")
