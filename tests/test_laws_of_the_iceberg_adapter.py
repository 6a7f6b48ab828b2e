"""The laws of a table on Spark and Iceberg: many histories in each job, read back by PyIceberg.

The reference adapter, which is tested against the model, defines the state after each batch:
rows with their positions, all counts, and the quarantine.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import settings
from iceberg_lake import LakeOfIceberg
from laps import (
    BY_SPARK,
    CASES_BY_SPARK,
    CORPUS,
    CRASHES,
    CRASHES_BY_SPARK,
    HISTORIES,
    IN_RANDOM_LAWS,
    KNOWN,
    LAP,
    LINES,
    NUMBERED,
    ONCE,
    RACES,
    ROLLBACK,
    SLOW,
    SOFT,
    TRIMMED,
    WAYS,
    on_each_line,
    other_ways,
    others,
)
from parts import in_parts
from spark import MakeLake

from lakeward.adapters.formats.iceberg.options import TableOptions
from lakeward.adapters.formats.shared.change_log import retention
from lakeward.adapters.spark.execution import parallelism
from lakeward.adapters.spark.merge.fold import batch_fold
from lakeward.plugins.testing import LAWS, Bench, table_contract

pytestmark = pytest.mark.spark

LAYOUTS = {
    "format 2": TableOptions(),
    "copy-on-write, partitioned by a value": TableOptions(
        write_mode="copy-on-write", partition_by=["truncate(3, a)"]
    ),
    "format 3, partitioned and sorted": TableOptions(
        format_version=3, partition_by=["bucket(3, b)"], sort_by=["a desc"]
    ),
    "partitioned by a value": TableOptions(partition_by=["truncate(3, a)"]),
    "format 3, copy-on-write": TableOptions(format_version=3, write_mode="copy-on-write"),
}
IN_THE_GATE = {"copy-on-write, partitioned by a value"}
"""The layout that no other law of the gate has. Laws of reloads and histories draw one of all."""

LARGE = {"of kinds"}
TOO_LATE = {"events_below_the_low_watermark_are_refused"}
EVERY_LAYOUT = {"any_delivery_gives_the_rows_of_the_source"}
ANY_LAYOUT = {
    "a_reload_leaves_only_the_new_epoch",
    "a_reload_of_partial_rows_leaves_only_the_new_epoch",
}


def bench(lake: LakeOfIceberg, make_lake: MakeLake) -> Bench:
    return Bench(
        lake=lake,
        histories=40,
        foreign=lake.commit_as_another_writer,
        partitioned=lambda columns: make_lake(TableOptions(partition_by=list(columns))),
    )


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name in IN_THE_GATE else pytest.mark.long) for name in LAYOUTS]
)
def layout(request: pytest.FixtureRequest) -> TableOptions:
    return LAYOUTS[request.param]


@pytest.fixture
def any_layout() -> TableOptions:
    random = Random(0) if settings().derandomize else Random()
    return random.choice([*LAYOUTS.values()])


@pytest.fixture(autouse=True)
def trimmed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.function.__name__.removeprefix("test_") in TRIMMED:
        monkeypatch.setattr(retention, "_TRIM_EVERY", 1)


@pytest.fixture
def all_is_large(by_spark: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat all batches as large: Spark resolves them, and does not fold keys with a single event."""
    monkeypatch.setattr(batch_fold, "SMALL", -1)
    monkeypatch.setattr(parallelism, "ROWS_A_PART", 100)


@pytest.fixture
def several_parts(all_is_large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    in_parts(monkeypatch)


TestLayouts = table_contract(lambda make_lake, layout: bench(make_lake(layout), make_lake), laws=EVERY_LAYOUT)
TestReloads = table_contract(lambda make_lake, any_layout: bench(make_lake(any_layout), make_lake), laws=ANY_LAYOUT)
TestHistories = table_contract(
    lambda make_lake, any_layout: bench(make_lake(any_layout), make_lake),
    laws=HISTORIES - {"a_reload_ends_versions_of_missing_rows"},
    cases=WAYS["iceberg"] - LARGE,
)
TestLargeBatches = table_contract(
    lambda make_lake, all_is_large: bench(make_lake(), make_lake), laws=HISTORIES, cases=LARGE
)
TestKnown = pytest.mark.long(
    table_contract(lambda make_lake, all_is_large: bench(make_lake(), make_lake), laws=KNOWN, cases=LARGE)
)
TestNumbers = pytest.mark.long(
    table_contract(lambda make_lake, several_parts: bench(make_lake(), make_lake), laws=NUMBERED)
)
TestOtherWays = pytest.mark.long(
    table_contract(
        lambda make_lake, any_layout: bench(make_lake(any_layout), make_lake),
        laws=HISTORIES - {"a_reload_ends_versions_of_missing_rows"},
        cases=other_ways("iceberg"),
    )
)
TestLines = pytest.mark.lap(
    pytest.mark.lines(table_contract(lambda make_lake: bench(make_lake(), make_lake), laws=LINES))
)
TestCrashes = pytest.mark.lap(
    on_each_line(table_contract(lambda make_lake: bench(make_lake(), make_lake), laws=CRASHES))
)
TestLap = pytest.mark.lap(table_contract(lambda make_lake: bench(make_lake(), make_lake), laws=LAP - ROLLBACK))
TestBySpark = pytest.mark.lap(
    table_contract(
        lambda make_lake, by_spark: replace(bench(make_lake(), make_lake), crashes=False),
        laws=BY_SPARK - CRASHES_BY_SPARK - EVERY_LAYOUT - TOO_LATE,
        cases=CASES_BY_SPARK,
    )
)
TestCrashesBySpark = pytest.mark.lap(
    table_contract(lambda make_lake, by_spark: bench(make_lake(), make_lake), laws=CRASHES_BY_SPARK)
)
"""The law of repaired rows also plays any delivery of many histories."""
TestMoreBySpark = pytest.mark.long(
    table_contract(lambda make_lake, by_spark: bench(make_lake(), make_lake), laws=TOO_LATE)
)
TestIceberg = table_contract(
    lambda make_lake: bench(make_lake(), make_lake),
    laws=others(
        *(EVERY_LAYOUT, ANY_LAYOUT, HISTORIES, KNOWN, NUMBERED, LINES, CRASHES, LAP, ONCE, SLOW, CORPUS, SOFT),
        *(RACES, IN_RANDOM_LAWS),
    ),
    cases={name for law in LAWS for name in law.cases} - {"soft deletes"},
)
TestSoftDeletes = pytest.mark.long(
    table_contract(
        lambda make_lake: bench(make_lake(), make_lake),
        laws=SOFT | {"an_update_without_a_column_creates_no_row"},
        cases={"ordered", "within", "unbounded", "soft deletes"},
    )
)
TestOnce = table_contract(lambda make_lake: bench(make_lake(), make_lake), laws=ONCE, cases={"within"})
TestOfAnyLateness = pytest.mark.long(
    table_contract(lambda make_lake: bench(make_lake(), make_lake), laws=ONCE, cases={"ordered", "unbounded"})
)
TestLong = pytest.mark.long(
    table_contract(
        lambda make_lake: bench(make_lake(), make_lake),
        laws=SLOW | RACES | ROLLBACK | IN_RANDOM_LAWS | CORPUS - LAP,
    )
)


def test_the_laws_that_trim_with_each_batch_are_laws() -> None:
    assert {law.name for law in LAWS} >= TRIMMED
