"""The laws of a table on Spark and Iceberg: many histories in each job, read back by PyIceberg.

The reference adapter, which is tested against the model, defines the state after each batch:
rows with their positions, all counts, and the quarantine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import law_sets
import pytest
from parts import split_chains

from lakeward.adapters.formats.iceberg.options import TableOptions
from lakeward.adapters.spark.execution import parallelism
from lakeward.adapters.spark.merge.fold import batch_fold
from lakeward.plugins.testing import LAWS, Bench, table_contract
from lakeward.plugins.testing.bench import Trial

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


def bench(lake: Any, make: Callable[..., Any]) -> Bench:
    return law_sets.bench(lake, make, lambda columns: TableOptions(partition_by=columns))


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name in IN_THE_GATE else pytest.mark.long) for name in LAYOUTS]
)
def layout(request: pytest.FixtureRequest) -> TableOptions:
    return LAYOUTS[request.param]


@pytest.fixture
def any_layout() -> TableOptions:
    return law_sets.draw_layout(LAYOUTS)


@pytest.fixture(autouse=True)
def trimming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    law_sets.trim_often(request, monkeypatch)
    law_sets.pack_enough(request, monkeypatch)


@pytest.fixture
def all_is_large(by_spark: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat all batches as large: Spark resolves them, and does not fold keys with a single event."""
    monkeypatch.setattr(batch_fold, "SMALL", -1)
    monkeypatch.setattr(parallelism, "ROWS_A_PART", 100)


@pytest.fixture
def without_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no process end in the middle of a batch."""
    monkeypatch.setattr(Trial, "ends", lambda *_: ())


@pytest.fixture
def several_parts(all_is_large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    split_chains(monkeypatch)


TestLayouts = table_contract(
    lambda make_lake, layout: bench(make_lake(layout), make_lake), laws=law_sets.EVERY_LAYOUT
)
TestReloads = table_contract(
    lambda make_lake, any_layout: bench(make_lake(any_layout), make_lake), laws=law_sets.ANY_LAYOUT
)
TestHistories = table_contract(
    lambda make_lake, any_layout: bench(make_lake(any_layout), make_lake),
    laws=law_sets.HISTORIES - {"a_reload_ends_versions_of_missing_rows"},
    cases=law_sets.HISTORY_CASES["iceberg"] - LARGE,
)
TestLargeBatches = table_contract(
    lambda make_lake, all_is_large, without_crashes: bench(make_lake(), make_lake),
    laws=law_sets.HISTORIES,
    cases=LARGE,
)
TestKnown = pytest.mark.long(
    table_contract(lambda make_lake, all_is_large: bench(make_lake(), make_lake), laws=law_sets.KNOWN, cases=LARGE)
)
TestNumbers = pytest.mark.long(
    table_contract(lambda make_lake, several_parts: bench(make_lake(), make_lake), laws=law_sets.NUMBERED)
)
TestOtherWays = pytest.mark.long(
    table_contract(
        lambda make_lake, any_layout: bench(make_lake(any_layout), make_lake),
        laws=law_sets.HISTORIES - {"a_reload_ends_versions_of_missing_rows"},
        cases=law_sets.other_history_cases("iceberg"),
    )
)
TestLines = pytest.mark.lap(
    pytest.mark.lines(table_contract(lambda make_lake: bench(make_lake(), make_lake), laws=law_sets.LINES))
)
TestCrashes = pytest.mark.lap(
    law_sets.on_each_line(table_contract(lambda make_lake: bench(make_lake(), make_lake), laws=law_sets.CRASHES))
)
TestLap = pytest.mark.lap(
    table_contract(lambda make_lake: bench(make_lake(), make_lake), laws=law_sets.LAP - law_sets.ROLLBACK)
)
TestBySpark = pytest.mark.lap(
    table_contract(
        lambda make_lake, by_spark, without_crashes: bench(make_lake(), make_lake),
        laws=law_sets.BY_SPARK - law_sets.CRASHES_BY_SPARK - law_sets.EVERY_LAYOUT - TOO_LATE,
        cases=law_sets.CASES_BY_SPARK,
    )
)
"""The law of repaired rows also plays any delivery of many histories."""
TestCrashesBySpark = pytest.mark.lap(
    table_contract(lambda make_lake, by_spark: bench(make_lake(), make_lake), laws=law_sets.CRASHES_BY_SPARK)
)
TestMoreBySpark = pytest.mark.long(
    table_contract(lambda make_lake, by_spark: bench(make_lake(), make_lake), laws=TOO_LATE)
)
TestIceberg = table_contract(
    lambda make_lake: bench(make_lake(), make_lake),
    laws=law_sets.remaining_laws(
        *(
            law_sets.EVERY_LAYOUT,
            law_sets.ANY_LAYOUT,
            law_sets.HISTORIES,
            law_sets.KNOWN,
            law_sets.NUMBERED,
            law_sets.LINES,
            law_sets.CRASHES,
        ),
        *(
            law_sets.LAP,
            law_sets.ONCE,
            law_sets.SLOW,
            law_sets.CORPUS,
            law_sets.SOFT,
            law_sets.RACES,
            law_sets.IN_RANDOM_LAWS,
        ),
    ),
    cases={name for law in LAWS for name in law.cases} - {"soft deletes"},
)
TestSoftDeletes = pytest.mark.long(
    table_contract(
        lambda make_lake: bench(make_lake(), make_lake),
        laws=law_sets.SOFT | {"an_update_without_a_column_creates_no_row"},
        cases={"ordered", "within", "unbounded", "soft deletes"},
    )
)
TestOnce = table_contract(lambda make_lake: bench(make_lake(), make_lake), laws=law_sets.ONCE, cases={"within"})
TestOfAnyLateness = pytest.mark.long(
    table_contract(
        lambda make_lake: bench(make_lake(), make_lake), laws=law_sets.ONCE, cases={"ordered", "unbounded"}
    )
)
TestLong = pytest.mark.long(
    table_contract(
        lambda make_lake: bench(make_lake(), make_lake),
        laws=law_sets.SLOW
        | law_sets.RACES
        | law_sets.ROLLBACK
        | law_sets.IN_RANDOM_LAWS
        | law_sets.CORPUS - law_sets.LAP,
    )
)


def test_the_laws_that_trim_with_each_batch_are_laws() -> None:
    assert {law.name for law in LAWS} >= law_sets.TRIMMED
