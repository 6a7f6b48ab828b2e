"""The instant from which a joined row counts whose sources are mirrors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from joined_frames import DAY
from joined_shops import shapes, tables_of
from pyspark.sql import SparkSession

from lakeward.adapters.spark.joined.difference import _TOUCHED, _change_instant
from lakeward.core.dimension import TableName
from lakeward.core.history.options import ByRun, History, ValidityColumns
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.joined.plan import JoinPlan, JoinProgress
from lakeward.core.schema import Type

pytestmark = pytest.mark.spark

RUN = 20


def plan_of(history: History, *, is_first: bool = False) -> JoinPlan:
    joined = JoinDeclaration(name=TableName("dw", "t"), sources=shapes()["dimension"], history=history)
    progress = JoinProgress(batch=2, digest="", passed={})
    return JoinPlan(
        joining=validate_joined(joined, tables_of()),
        progress=progress,
        ran=RUN,
        is_first=is_first,
    )


def begins(spark: SparkSession, plan: JoinPlan, touched: int | None, row: int | None, reached: int | None) -> int:
    """Return from when a row counts; without `reached` there is no version of its key, without `row` no time."""
    values = {_TOUCHED: touched, "instant": row, "reached": reached}
    columns = ", ".join(
        f"CAST({'NULL' if one is None else one} AS bigint) AS {name}" for name, one in values.items()
    )
    structs = "named_struct('instant', instant) AS row"
    structs += ", CASE WHEN reached IS NOT NULL THEN named_struct('reached', reached) END AS last"
    [[found]] = spark.sql(
        f"SELECT {_change_instant(plan)} FROM (SELECT {_TOUCHED}, {structs} FROM (SELECT {columns}))"
    ).collect()
    return int(found)


@pytest.mark.parametrize(
    ("touched", "row", "reached", "right"),
    [
        (None, 7, None, 7),  # a new row
        (9, 7, None, 9),
        (None, None, None, RUN),
        (8, 7, 5, 8),  # a change that a source lists
        (8, 9, 5, 9),
        (8, None, 5, 8),
        (4, 5, 5, 5),
        (None, 7, 5, 7),  # no source lists it, and a row is newer than the last version
        (None, 5, 5, RUN),
        (None, None, 5, RUN),
    ],
)
def test_a_change_counts_from_its_time_and_from_the_run_where_nothing_dates_it(
    spark: SparkSession, touched: int | None, row: int | None, reached: int | None, right: int
) -> None:
    assert begins(spark, plan_of(History()), touched, row, reached) == right


def test_the_first_batch_and_the_run_date_rows_by_option(spark: SparkSession) -> None:
    first = plan_of(History(first_load=3), is_first=True)
    assert begins(spark, first, None, 7, None) == 3
    assert begins(spark, replace(first, is_first=False), None, 7, None) == 7
    by_run = History(validity=ByRun(), validity_columns=ValidityColumns(type=Type("date")))
    assert begins(spark, replace(plan_of(by_run), ran=RUN * DAY), 8, 7, 5) == RUN
