"""Which rows show a change of columns is the same in Spark as in plain Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from drifting import Drift, Row, as_arrow, illegal, legal, row_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyspark.sql import SparkSession

from lakeward.adapters.formats.iceberg.metadata.columns import to_iceberg
from lakeward.adapters.spark.schema_changes import changed_rows as showing
from lakeward.adapters.spark.session.compatibility import from_arrow
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.changed_rows import shows_change
from lakeward.core.schema_changes.evolution import SchemaChange, compare

pytestmark = pytest.mark.spark

ROWS = 12
Case = tuple[Drift, list[Row]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a change of many columns at once, and rows that have it."""
    drift = draw((legal(10, 14) | illegal()).filter(lambda drift: len(drift.before) > 8))
    return drift, [draw(row_of(drift.after, key)) for key in range(ROWS)]


def in_spark(spark: SparkSession, changes: tuple[SchemaChange, ...], schema: Schema, rows: list[Row]) -> list[Any]:
    content = pa.Table.from_pylist(
        [as_arrow(row) for row in rows], schema_to_pyarrow(to_iceberg(schema), include_field_ids=False)
    )
    frame = from_arrow(spark, content)
    said = [f"{showing.shows(change, frame.schema)} AS c{place}" for place, change in enumerate(changes)]
    found = {row["id"]: list(row)[1:] for row in frame.selectExpr("id", *said).collect()}
    return [found[row["id"]] for row in rows]


@settings(max_examples=3, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_spark_sees_the_same_rows(spark: SparkSession, case: Case) -> None:
    drift, rows = case
    changes = compare(drift.before, drift.after)
    wanted: list[list[bool]] = [[shows_change(change, row, drift.after) for change in changes] for row in rows]
    assert in_spark(spark, changes, drift.after, rows) == wanted
