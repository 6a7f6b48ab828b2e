"""Rows of tests as frames of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from lakeward.adapters.spark.session.compatibility import from_arrow
from lakeward.adapters.spark.sql.inline_rows import as_json
from lakeward.adapters.spark.sql.names import quoted, text


def to_frame(spark: SparkSession, rows: Sequence[Sequence[Any]], columns: str) -> DataFrame:
    """Return rows as a frame with these columns, as SQL declares them.

    They go through Arrow, because frames of Python values need Python processes in each job.
    """
    schema = to_arrow_schema(spark.createDataFrame([], columns).schema)
    values = [[_in_utc(row[place]) for row in rows] for place in range(len(schema))]
    arrays = [pa.array(of, field.type) for of, field in zip(values, schema, strict=True)]
    return from_arrow(spark, pa.Table.from_arrays(arrays, schema=schema))


def labelled_rows(frame: DataFrame, label: str) -> DataFrame:
    """Return each row of a frame as JSON with a label, so that one job can read the rows of many frames."""
    return frame.selectExpr(f"{text(label)} AS label", f"{as_json([quoted(n) for n in frame.columns])} AS row")


def _in_utc(value: Any) -> Any:
    """Return a time from Spark, which is in the zone of this machine, with its zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is None else value
