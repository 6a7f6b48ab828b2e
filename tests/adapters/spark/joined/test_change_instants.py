"""The instant from which a joined row counts whose sources are mirrors."""

from __future__ import annotations

import pytest
from joined_frames import DAY
from joined_shops import define_shape
from pyspark.sql import SparkSession

from lakeward.adapters.spark.joined.difference import _TOUCHED, _change_instant
from lakeward.core.history.options import ByRun, History, ValidityColumns
from lakeward.core.joined.plan import JoinPlan, JoinProgress
from lakeward.core.schema import Type

pytestmark = pytest.mark.spark

RUN = 20
TIMED, SINCE_LOAD = History(), History(first_load=3)
BY_RUN = History(validity=ByRun(), validity_columns=ValidityColumns(type=Type("date")))


@pytest.mark.parametrize(
    ("history", "is_first", "touched", "row", "reached", "right"),
    [
        (TIMED, False, None, 7, None, 7),  # a new row
        (TIMED, False, 9, 7, None, 9),
        (TIMED, False, None, None, None, RUN),
        (TIMED, False, 8, 7, 5, 8),  # a change that a source lists
        (TIMED, False, 8, 9, 5, 9),
        (TIMED, False, 8, None, 5, 8),
        (TIMED, False, 4, 5, 5, 5),
        (TIMED, False, None, 7, 5, 7),  # no source lists it, and a row is newer than the last version
        (TIMED, False, None, 5, 5, RUN),
        (TIMED, False, None, None, 5, RUN),
        (SINCE_LOAD, True, None, 7, None, 3),
        (SINCE_LOAD, False, None, 7, None, 7),
        (BY_RUN, False, 8, 7, 5, RUN),
    ],
)
def test_a_change_counts_from_its_time_and_from_the_run_where_nothing_dates_it(
    spark: SparkSession,
    history: History,
    is_first: bool,
    touched: int | None,
    row: int | None,
    reached: int | None,
    right: int,
) -> None:
    """Without `reached` there is no version of the key, without `row` no time of its row."""
    plan = JoinPlan(
        joining=define_shape("dimension", history),
        progress=JoinProgress(batch=2, digest="", passed={}),
        ran=RUN if history is TIMED else RUN * DAY,
        is_first=is_first,
    )
    last = f"CASE WHEN {reached is not None} THEN named_struct('reached', bigint({reached or 'NULL'})) END"
    columns = f"bigint({touched or 'NULL'}) AS {_TOUCHED}, named_struct('instant', bigint({row or 'NULL'})) AS row"
    [[found]] = spark.sql(f"SELECT {_change_instant(plan)} FROM (SELECT {columns}, {last} AS last)").collect()
    assert found == right
