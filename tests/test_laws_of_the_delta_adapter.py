"""The laws of a table on Spark and Delta: many histories in each job, read back by delta-rs.

The reference adapter, which is tested against the model, defines the state after each batch:
rows with their positions, all counts, and the quarantine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import law_sets
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
    return law_sets.bench(lake, make, lambda columns: TableOptions(partition_by=columns))


@pytest.fixture(params=[*[*LAYOUTS][:1], *[pytest.param(name, marks=pytest.mark.long) for name in [*LAYOUTS][1:]]])
def layout(request: pytest.FixtureRequest) -> TableOptions:
    return LAYOUTS[request.param]


@pytest.fixture
def any_layout() -> TableOptions:
    return law_sets.draw_layout(LAYOUTS)


@pytest.fixture(autouse=True)
def trimming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    law_sets.trim_often(request, monkeypatch)
    law_sets.pack_enough(request, monkeypatch)


TestLayouts = table_contract(
    lambda make_delta, layout: bench(make_delta(layout), make_delta), laws=law_sets.EVERY_LAYOUT
)
TestReloads = table_contract(
    lambda make_delta, any_layout: bench(make_delta(any_layout), make_delta),
    laws=law_sets.ANY_LAYOUT - law_sets.SHARED,
)
TestHistories = table_contract(
    lambda make_delta, any_layout: bench(make_delta(any_layout), make_delta),
    laws=law_sets.HISTORIES - law_sets.SHARED,
    cases=law_sets.HISTORY_CASES["delta"],
)
TestOtherWays = pytest.mark.long(
    table_contract(
        lambda make_delta, any_layout: bench(make_delta(any_layout), make_delta),
        laws=law_sets.HISTORIES - law_sets.SHARED,
        cases=law_sets.other_history_cases("delta"),
    )
)
TestLines = pytest.mark.lap(
    pytest.mark.lines(table_contract(lambda make_delta: bench(make_delta(), make_delta), laws=law_sets.LINES))
)
TestLap = pytest.mark.lap(
    table_contract(
        lambda make_delta: bench(make_delta(), make_delta), laws=law_sets.LAP - law_sets.SHARED - law_sets.ROLLBACK
    )
)
TestBySpark = pytest.mark.lap(
    table_contract(lambda make_delta, by_spark: bench(make_delta(), make_delta), laws=law_sets.EVERY_LAYOUT)
)
TestMoreBySpark = pytest.mark.long(
    table_contract(
        lambda make_delta, by_spark: bench(make_delta(), make_delta),
        laws=law_sets.BY_SPARK - law_sets.SHARED - law_sets.SLOW - law_sets.APPENDING - law_sets.EVERY_LAYOUT,
    )
)
TestCrashes = pytest.mark.lap(
    law_sets.on_each_line(table_contract(lambda make_delta: bench(make_delta(), make_delta), laws=law_sets.CRASHES))
)
TestDelta = pytest.mark.long(
    table_contract(
        lambda make_delta: bench(make_delta(), make_delta),
        laws=law_sets.remaining_laws(
            *(law_sets.EVERY_LAYOUT, law_sets.LINES, law_sets.CRASHES),
            (law_sets.ANY_LAYOUT | law_sets.HISTORIES | law_sets.LAP) - law_sets.SHARED - law_sets.ROLLBACK,
        ),
    )
)
