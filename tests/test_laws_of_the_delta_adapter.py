"""The laws of a table on Spark and Delta: many histories in each job, read back by delta-rs.

The reference adapter, which is tested against the model, defines the state after each batch:
rows with their positions, all counts, and the quarantine.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from delta_lake import LakeOfDelta
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
    on_each_line,
    other_ways,
    others,
)

from lakeward.adapters.formats.delta.options import TableOptions
from lakeward.adapters.formats.shared.change_log import retention
from lakeward.plugins.testing import Bench, table_contract

pytestmark = pytest.mark.spark

LAYOUTS = {
    "deletion vectors": TableOptions(),
    "copy-on-write, partitioned": TableOptions(write_mode="copy-on-write", partition_by=["a"]),
    "deletion vectors, partitioned": TableOptions(partition_by=["b"]),
    "copy-on-write": TableOptions(write_mode="copy-on-write"),
}
EVERY_LAYOUT = {"any_delivery_gives_the_rows_of_the_source"}
ANY_LAYOUT = {
    "a_reload_leaves_only_the_new_epoch",
    "a_reload_of_partial_rows_leaves_only_the_new_epoch",
}


def bench(lake: LakeOfDelta, make: Callable[..., LakeOfDelta]) -> Bench:
    return Bench(
        lake=lake,
        histories=40,
        foreign=lake.commit_as_another_writer,
        partitioned=lambda columns: make(TableOptions(partition_by=list(columns))),
    )


@pytest.fixture(params=[*[*LAYOUTS][:1], *[pytest.param(name, marks=pytest.mark.long) for name in [*LAYOUTS][1:]]])
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


TestLayouts = table_contract(lambda make_delta, layout: bench(make_delta(layout), make_delta), laws=EVERY_LAYOUT)
TestReloads = table_contract(
    lambda make_delta, any_layout: bench(make_delta(any_layout), make_delta), laws=ANY_LAYOUT - SHARED
)
TestHistories = table_contract(
    lambda make_delta, any_layout: bench(make_delta(any_layout), make_delta),
    laws=HISTORIES - SHARED,
    cases=WAYS["delta"],
)
TestOtherWays = pytest.mark.long(
    table_contract(
        lambda make_delta, any_layout: bench(make_delta(any_layout), make_delta),
        laws=HISTORIES - SHARED,
        cases=other_ways("delta"),
    )
)
TestLines = pytest.mark.lap(
    pytest.mark.lines(table_contract(lambda make_delta: bench(make_delta(), make_delta), laws=LINES))
)
TestLap = pytest.mark.lap(
    table_contract(lambda make_delta: bench(make_delta(), make_delta), laws=LAP - SHARED - ROLLBACK)
)
TestBySpark = pytest.mark.lap(
    table_contract(lambda make_delta, by_spark: bench(make_delta(), make_delta), laws=EVERY_LAYOUT)
)
TestMoreBySpark = pytest.mark.long(
    table_contract(
        lambda make_delta, by_spark: bench(make_delta(), make_delta),
        laws=BY_SPARK - SHARED - SLOW - APPENDING - EVERY_LAYOUT,
    )
)
TestCrashes = pytest.mark.lap(
    on_each_line(table_contract(lambda make_delta: bench(make_delta(), make_delta), laws=CRASHES))
)
TestDelta = pytest.mark.long(
    table_contract(
        lambda make_delta: bench(make_delta(), make_delta),
        laws=others(EVERY_LAYOUT, (ANY_LAYOUT | HISTORIES | LAP) - SHARED - ROLLBACK, LINES, CRASHES),
    )
)
