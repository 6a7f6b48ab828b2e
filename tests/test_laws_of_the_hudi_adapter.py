"""The laws of a table on Spark and Hudi: many histories in each job.

The reference adapter, which is tested against the model, defines the state after each batch:
rows with their positions, all counts, and the quarantine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import law_sets
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
    return law_sets.bench(lake, make, lambda columns: TableOptions(partition_by=columns, buckets=1))


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name == IN_THE_GATE else pytest.mark.long) for name in LAYOUTS]
)
def layout(request: pytest.FixtureRequest) -> TableOptions:
    return LAYOUTS[request.param]


@pytest.fixture
def any_layout() -> TableOptions:
    return law_sets.draw_layout(LAYOUTS)


@pytest.fixture
def kept_commits(any_layout: TableOptions) -> TableOptions:
    return any_layout.model_copy(update={"properties": EVERY_COMMIT})


@pytest.fixture(autouse=True)
def trimming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    law_sets.trim_often(request, monkeypatch)
    law_sets.pack_enough(request, monkeypatch)


TestLayouts = pytest.mark.long(
    table_contract(lambda make_hudi, layout: bench(make_hudi(layout), make_hudi), laws=law_sets.EVERY_LAYOUT)
)
TestReloads = table_contract(
    lambda make_hudi, any_layout: bench(make_hudi(any_layout), make_hudi),
    laws=law_sets.ANY_LAYOUT - law_sets.SHARED,
)
TestHistories = table_contract(
    lambda make_hudi, any_layout: bench(make_hudi(any_layout), make_hudi),
    laws=law_sets.HISTORIES - law_sets.SHARED,
    cases=law_sets.HISTORY_CASES["hudi"],
)
TestOtherWays = pytest.mark.long(
    table_contract(
        lambda make_hudi, any_layout: bench(make_hudi(any_layout), make_hudi),
        laws=law_sets.HISTORIES - law_sets.SHARED,
        cases=law_sets.other_history_cases("hudi"),
    )
)
TestLines = pytest.mark.lap(
    table_contract(lambda make_hudi: bench(make_hudi(), make_hudi), laws=law_sets.LINES | law_sets.CRASHES)
)
TestLap = pytest.mark.lap(
    table_contract(
        lambda make_hudi: bench(make_hudi(), make_hudi), laws=law_sets.LAP - law_sets.SHARED - law_sets.ROLLBACK
    )
)
TestBySpark = pytest.mark.lap(
    table_contract(
        lambda make_hudi, by_spark, layout: replace(bench(make_hudi(layout), make_hudi), histories=5),
        laws=law_sets.EVERY_LAYOUT,
    )
)
"""With few histories, because each value of `a` is a partition whose files a batch writes anew."""

TestMoreBySpark = pytest.mark.long(
    table_contract(
        lambda make_hudi, by_spark: bench(make_hudi(), make_hudi),
        laws=law_sets.BY_SPARK - law_sets.SHARED - law_sets.SLOW - law_sets.APPENDING - law_sets.EVERY_LAYOUT,
    )
)
TestRollback = pytest.mark.long(
    pytest.mark.lap(
        table_contract(
            lambda make_hudi, kept_commits: bench(make_hudi(kept_commits), make_hudi), laws=law_sets.ROLLBACK
        )
    )
)
TestHudi = pytest.mark.long(
    table_contract(
        lambda make_hudi: bench(make_hudi(), make_hudi),
        laws=law_sets.remaining_laws(
            *(law_sets.EVERY_LAYOUT, law_sets.LINES, law_sets.CRASHES),
            (law_sets.ANY_LAYOUT | law_sets.HISTORIES | law_sets.LAP) - law_sets.SHARED,
        ),
    )
)
