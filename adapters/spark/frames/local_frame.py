"""The event frame of a small batch: Arrow rows in this process, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.spark.session.compatibility import from_arrow


@dataclass(frozen=True, slots=True, eq=False)
class LocalFrame:
    """An event frame (`adapters.spark.frames.event_frame`) as an Arrow table.

    Its column types are those that `adapters.spark.session.compatibility.to_arrow` gives for the same frame of
    Spark. `spark` returns the session of the calling thread; its first call starts Spark.
    """

    rows: pa.Table
    spark: Callable[[], SparkSession]

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self.rows.column_names)

    def drop(self, *columns: str) -> LocalFrame:
        """Return the frame without these columns; unknown names are ignored."""
        return self.with_rows(self.rows.drop_columns([name for name in columns if name in self.columns]))

    def with_rows(self, rows: pa.Table) -> LocalFrame:
        """Return the frame with these rows instead."""
        return replace(self, rows=rows)

    def in_spark(self) -> DataFrame:
        """Return the same rows as a Spark frame."""
        return from_arrow(self.spark(), self.rows)


Frame: TypeAlias = DataFrame | LocalFrame
"""The event frame of a batch: in Spark, or in this process if the batch is small."""


def in_spark(frame: Frame) -> DataFrame:
    """Return an event frame as a Spark frame."""
    return frame.in_spark() if isinstance(frame, LocalFrame) else frame
