"""The needs of a table format in a packaged or deployed job of AWS."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequirements:
    """What a job of AWS needs to write tables of a format.

    `extras` are the extras of lakeward. `lines` are the lines of Spark on which lakeward writes the format.
    `emr_jars` are the paths of its jars on EMR 7, separated by commas ("Using Apache Iceberg with EMR Serverless",
    and similar pages). `has_glue_partitions` says whether a table registered in Glue has partitions there.
    """

    extras: Collection[str] = ()
    lines: Collection[str]
    emr_jars: str
    has_glue_partitions: bool = False
