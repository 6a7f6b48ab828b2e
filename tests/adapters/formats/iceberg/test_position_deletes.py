"""Positions of rows that go: as runs from Spark to the driver, as bitmaps into delete files."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.formats.iceberg.writes.position_deletes import by_file, runs
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.session.compatibility import to_arrow

pytestmark = pytest.mark.spark


def test_the_positions_of_each_file_arrive_whatever_runs_they_form(spark: SparkSession) -> None:
    random = Random(3)
    wanted = {
        "all": set(range(5_000)),
        "one": {2**40},
        "two runs": {*range(7, 10), *range(90, 95)},
        "scattered": set(random.sample(range(10_000), 500)),
    }
    rows = [(file, place) for file, places in wanted.items() for place in places]
    random.shuffle(rows)
    found = to_arrow(runs(spark.createDataFrame(rows, f"{FILE} string, {POS} bigint")))
    lengths = {row[0]: len(row[1]) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)}
    assert (lengths["all"], lengths["one"], lengths["two runs"]) == (1, 1, 2)
    assert {file: set(positions) for file, positions in by_file(found)} == wanted
