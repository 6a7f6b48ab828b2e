"""The table formats that a job of AWS can write, with what each needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from lakeward.adapters.formats.delta.job_requirements import REQUIREMENTS as DELTA
from lakeward.adapters.formats.hudi.job_requirements import REQUIREMENTS as HUDI
from lakeward.adapters.formats.iceberg.job_requirements import REQUIREMENTS as ICEBERG
from lakeward.adapters.formats.shared.job_requirements import JobRequirements

FormatName: TypeAlias = Literal["iceberg", "delta", "hudi"]

TABLE_FORMATS: Final[Mapping[str, JobRequirements]] = {"iceberg": ICEBERG, "delta": DELTA, "hudi": HUDI}
"""The needs of each format by its `kind`."""

DEFAULT_FORMAT: Final[FormatName] = "iceberg"
