"""The laws of a table on Spark and Hudi: many histories in each job.

The reference adapter, which is tested against the model, defines the state after each batch:
rows with their positions, all counts, and the quarantine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import laps
import pytest
from hudi_lake import EVERY_COMMIT

from lakeward.adapters.formats.hudi.options import TableOptions
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


def bench(lake: Any, make: Callable[..., Any]) -> Bench:
    return laps.bench(lake, make, lambda columns: TableOptions(partition_by=columns, buckets=1))


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name == IN_THE_GATE else pytest.mark.long) for name in LAYOUTS]
)
def layout(request: pytest.FixtureRequest) -> TableOptions:
    return LAYOUTS[request.param]


@pytest.fixture
def any_layout() -> TableOptions:
    return laps.draw_layout(LAYOUTS)


@pytest.fixture
def kept_commits(any_layout: TableOptions) -> TableOptions:
    return any_layout.model_copy(update={"properties": EVERY_COMMIT})


@pytest.fixture(autouse=True)
def trimming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    laps.trim_often(request, monkeypatch)
    laps.pack_enough(request, monkeypatch)


TestLayouts = pytest.mark.long(
    table_contract(lambda make_hudi, layout: bench(make_hudi(layout), make_hudi), laws=laps.EVERY_LAYOUT)
)
TestReloads = table_contract(
    lambda make_hudi, any_layout: bench(make_hudi(any_layout), make_hudi), laws=laps.ANY_LAYOUT - laps.SHARED
)
TestHistories = table_contract(
    lambda make_hudi, any_layout: bench(make_hudi(any_layout), make_hudi),
    laws=laps.HISTORIES - laps.SHARED,
    cases=laps.WAYS["hudi"],
)
TestOtherWays = pytest.mark.long(
    table_contract(
        lambda make_hudi, any_layout: bench(make_hudi(any_layout), make_hudi),
        laws=laps.HISTORIES - laps.SHARED,
        cases=laps.other_ways("hudi"),
    )
)
TestLines = pytest.mark.lap(
    table_contract(lambda make_hudi: bench(make_hudi(), make_hudi), laws=laps.LINES | laps.CRASHES)
)
TestLap = pytest.mark.lap(
    table_contract(lambda make_hudi: bench(make_hudi(), make_hudi), laws=laps.LAP - laps.SHARED - laps.ROLLBACK)
)
TestBySpark = pytest.mark.lap(
    table_contract(
        lambda make_hudi, by_spark, layout: replace(bench(make_hudi(layout), make_hudi), histories=5),
        laws=laps.EVERY_LAYOUT,
    )
)
"""With few histories, because each value of `a` is a partition whose files a batch writes anew."""

TestMoreBySpark = pytest.mark.long(
    table_contract(
        lambda make_hudi, by_spark: bench(make_hudi(), make_hudi),
        laws=laps.BY_SPARK - laps.SHARED - laps.SLOW - laps.APPENDING - laps.EVERY_LAYOUT,
    )
)
TestRollback = pytest.mark.long(
    pytest.mark.lap(
        table_contract(
            lambda make_hudi, kept_commits: bench(make_hudi(kept_commits), make_hudi), laws=laps.ROLLBACK
        )
    )
)
TestHudi = pytest.mark.long(
    table_contract(
        lambda make_hudi: bench(make_hudi(), make_hudi),
        laws=laps.remaining_laws(
            *(laps.EVERY_LAYOUT, laps.LINES, laps.CRASHES),
            (laps.ANY_LAYOUT | laps.HISTORIES | laps.LAP) - laps.SHARED,
        ),
    )
)
