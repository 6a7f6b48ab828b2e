"""The laws of a table on Spark and Delta: many histories in each job, read back by delta-rs.

The reference adapter, which is tested against the model, defines the state after each batch:
rows with their positions, all counts, and the quarantine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import laps
import pytest

from lakeward.adapters.formats.delta.options import TableOptions
from lakeward.plugins.testing import Bench, table_contract

pytestmark = pytest.mark.spark

LAYOUTS = {
    "deletion vectors": TableOptions(),
    "copy-on-write, partitioned": TableOptions(write_mode="copy-on-write", partition_by=["a"]),
    "deletion vectors, partitioned": TableOptions(partition_by=["b"]),
    "copy-on-write": TableOptions(write_mode="copy-on-write"),
}


def bench(lake: Any, make: Callable[..., Any]) -> Bench:
    return laps.bench(lake, make, lambda columns: TableOptions(partition_by=columns))


@pytest.fixture(params=[*[*LAYOUTS][:1], *[pytest.param(name, marks=pytest.mark.long) for name in [*LAYOUTS][1:]]])
def layout(request: pytest.FixtureRequest) -> TableOptions:
    return LAYOUTS[request.param]


@pytest.fixture
def any_layout() -> TableOptions:
    return laps.draw_layout(LAYOUTS)


@pytest.fixture(autouse=True)
def trimming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    laps.trim_often(request, monkeypatch)
    laps.pack_enough(request, monkeypatch)


TestLayouts = table_contract(
    lambda make_delta, layout: bench(make_delta(layout), make_delta), laws=laps.EVERY_LAYOUT
)
TestReloads = table_contract(
    lambda make_delta, any_layout: bench(make_delta(any_layout), make_delta), laws=laps.ANY_LAYOUT - laps.SHARED
)
TestHistories = table_contract(
    lambda make_delta, any_layout: bench(make_delta(any_layout), make_delta),
    laws=laps.HISTORIES - laps.SHARED,
    cases=laps.WAYS["delta"],
)
TestOtherWays = pytest.mark.long(
    table_contract(
        lambda make_delta, any_layout: bench(make_delta(any_layout), make_delta),
        laws=laps.HISTORIES - laps.SHARED,
        cases=laps.other_ways("delta"),
    )
)
TestLines = pytest.mark.lap(
    pytest.mark.lines(table_contract(lambda make_delta: bench(make_delta(), make_delta), laws=laps.LINES))
)
TestLap = pytest.mark.lap(
    table_contract(lambda make_delta: bench(make_delta(), make_delta), laws=laps.LAP - laps.SHARED - laps.ROLLBACK)
)
TestBySpark = pytest.mark.lap(
    table_contract(lambda make_delta, by_spark: bench(make_delta(), make_delta), laws=laps.EVERY_LAYOUT)
)
TestMoreBySpark = pytest.mark.long(
    table_contract(
        lambda make_delta, by_spark: bench(make_delta(), make_delta),
        laws=laps.BY_SPARK - laps.SHARED - laps.SLOW - laps.APPENDING - laps.EVERY_LAYOUT,
    )
)
TestCrashes = pytest.mark.lap(
    laps.on_each_line(table_contract(lambda make_delta: bench(make_delta(), make_delta), laws=laps.CRASHES))
)
TestDelta = pytest.mark.long(
    table_contract(
        lambda make_delta: bench(make_delta(), make_delta),
        laws=laps.remaining_laws(
            *(laps.EVERY_LAYOUT, laps.LINES, laps.CRASHES),
            (laps.ANY_LAYOUT | laps.HISTORIES | laps.LAP) - laps.SHARED - laps.ROLLBACK,
        ),
    )
)
