"""The laws of a table on Spark and Hudi: many histories in each job.

The reference adapter, which is tested against the model, defines the state after each batch:
rows with their positions, all counts, and the quarantine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hudi_lake import EVERY_COMMIT, LakeOfHudi
from hypothesis import settings
from laps import (
    APPENDING,
    BY_SPARK,
    CRASHES,
    HISTORIES,
    LAP,
    LINES,
    ROLLBACK,
    SHARED,
    SLOW,
    TRIMMED,
    WAYS,
    other_ways,
    others,
)

from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.shared.change_log import retention
from lakeward.plugins.testing import Bench, table_contract

pytestmark = [pytest.mark.spark, pytest.mark.hudi]

LAYOUTS = {
    "merge-on-read": TableOptions(),
    "copy-on-write, partitioned": TableOptions(write_mode="copy-on-write", partition_by=["a"], buckets=2),
    "merge-on-read, partitioned": TableOptions(partition_by=["b"], buckets=1),
    "copy-on-write": TableOptions(write_mode="copy-on-write"),
}
IN_THE_GATE = "copy-on-write, partitioned"
"""The layout that no other law of the gate has: they use merge-on-read."""

EVERY_LAYOUT = {"any_delivery_gives_the_rows_of_the_source"}
ANY_LAYOUT = {
    "a_reload_leaves_only_the_new_epoch",
    "a_reload_of_partial_rows_leaves_only_the_new_epoch",
}


def bench(lake: LakeOfHudi, make: Callable[..., LakeOfHudi]) -> Bench:
    return Bench(
        lake=lake,
        histories=40,
        foreign=lake.commit_as_another_writer,
        partitioned=lambda columns: make(TableOptions(partition_by=list(columns), buckets=1)),
    )


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name == IN_THE_GATE else pytest.mark.long) for name in LAYOUTS]
)
def layout(request: pytest.FixtureRequest) -> TableOptions:
    return LAYOUTS[request.param]


@pytest.fixture
def any_layout() -> TableOptions:
    random = Random(0) if settings().derandomize else Random()
    return random.choice([*LAYOUTS.values()])


@pytest.fixture
def kept(any_layout: TableOptions) -> TableOptions:
    return any_layout.model_copy(update={"properties": EVERY_COMMIT})


@pytest.fixture(autouse=True)
def trimmed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.function.__name__.removeprefix("test_") in TRIMMED:
        monkeypatch.setattr(retention, "_TRIM_EVERY", 1)


TestLayouts = pytest.mark.long(
    table_contract(lambda make_hudi, layout: bench(make_hudi(layout), make_hudi), laws=EVERY_LAYOUT)
)
TestReloads = table_contract(
    lambda make_hudi, any_layout: bench(make_hudi(any_layout), make_hudi), laws=ANY_LAYOUT - SHARED
)
TestHistories = table_contract(
    lambda make_hudi, any_layout: bench(make_hudi(any_layout), make_hudi),
    laws=HISTORIES - SHARED,
    cases=WAYS["hudi"],
)
TestOtherWays = pytest.mark.long(
    table_contract(
        lambda make_hudi, any_layout: bench(make_hudi(any_layout), make_hudi),
        laws=HISTORIES - SHARED,
        cases=other_ways("hudi"),
    )
)
TestLines = pytest.mark.lap(table_contract(lambda make_hudi: bench(make_hudi(), make_hudi), laws=LINES | CRASHES))
TestLap = pytest.mark.lap(
    table_contract(lambda make_hudi: bench(make_hudi(), make_hudi), laws=LAP - SHARED - ROLLBACK)
)
TestBySpark = pytest.mark.lap(
    table_contract(
        lambda make_hudi, by_spark, layout: replace(bench(make_hudi(layout), make_hudi), histories=10),
        laws=EVERY_LAYOUT,
    )
)
"""With few histories, because each value of `a` is a partition whose files a batch writes anew."""

TestMoreBySpark = pytest.mark.long(
    table_contract(
        lambda make_hudi, by_spark: bench(make_hudi(), make_hudi),
        laws=BY_SPARK - SHARED - SLOW - APPENDING - EVERY_LAYOUT,
    )
)
TestRollback = pytest.mark.long(
    pytest.mark.lap(table_contract(lambda make_hudi, kept: bench(make_hudi(kept), make_hudi), laws=ROLLBACK))
)
TestHudi = pytest.mark.long(
    table_contract(
        lambda make_hudi: bench(make_hudi(), make_hudi),
        laws=others(EVERY_LAYOUT, (ANY_LAYOUT | HISTORIES | LAP) - SHARED, LINES, CRASHES),
    )
)
