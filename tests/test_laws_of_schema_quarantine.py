"""The law of schema with policy `quarantine`: no row loses or changes a value, and each can be replayed.

On the reference adapter, with random schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from drifting import KEY, Drift, Row, fits, illegal, legal, row_of, rows_after, stored_row
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from lakeward.adapters.memory import MemorySource, MemoryTarget, table
from lakeward.core.dimension import Dimension, TableName, Unbounded
from lakeward.core.errors import RepairError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job, Settlement
from lakeward.core.pipeline.release import find_replayable, release
from lakeward.core.ports import Entry
from lakeward.core.schema import Schema
from lakeward.core.schema_changes import changed_rows
from lakeward.core.schema_changes.evolution import DEFAULT_POLICIES, Policies, Policy, evolve

NAME = TableName("shop", "item")
ALL = Policies(
    add=Policy.QUARANTINE,
    drop=Policy.QUARANTINE,
    widen=Policy.QUARANTINE,
    narrow=Policy.QUARANTINE,
    incompatible=Policy.QUARANTINE,
)


@st.composite
def cases(draw: st.DrawFn, drifts: st.SearchStrategy[Drift]) -> Case:
    """Draw a change without renames, rows before it, rows with it, and later rows without it."""
    drift = draw(drifts.filter(lambda drift: not drift.renames))
    then = [draw(row_of(drift.before, key)) for key in (1, 2)]
    now = [draw(row_of(drift.after, key)) for key in (1, 2, 3)]
    return drift, then, now, [draw(row_of(drift.before, key)) for key in (2, 3)]


Case = tuple[Drift, Sequence[Row], Sequence[Row], Sequence[Row]]


class Lake:
    """One table in memory, and what is delivered to it.

    Only the column of the key is declared. The other columns have the types of their objects, because a replay
    would use a declared type.
    """

    def __init__(self, before: Schema) -> None:
        self.source, self.target = MemorySource(), MemoryTarget()
        self.before = before

    def job(self, policies: Policies) -> Job[Any]:
        declared = Schema((KEY,))
        dimension = Dimension(
            name=NAME, schema=declared, key=("id",), lateness=Unbounded(), policies=policies, keeps_text=True
        )
        opened = self.target.open(dimension)
        self.target.tables[NAME].dimension = replace(self.target.tables[NAME].dimension, policies=policies)
        return Job(dimension=dimension, source=self.source, opened=opened)

    def put(self, order: int, operation: Operation, rows: Sequence[Row], schema: Schema | None = None) -> None:
        events = [
            ChangeEvent(
                operation=operation, position=Position(1, 10 * order, order, n), key=(row["id"],), cells=dict(row)
            )
            for n, row in enumerate(rows)
        ]
        self.source.put(NAME, order, events, schema or self.before)

    def rows(self) -> Mapping[Any, Row]:
        return {key[0]: row.cells for key, row in self.target.tables[NAME].rows.items()}

    def touched_by(self, order: int) -> set[Any]:
        return {key[0] for key, row in self.target.tables[NAME].rows.items() if row.position.object == order}

    def entries(self, policies: Policies) -> Sequence[Entry]:
        opened = self.job(policies).opened
        return opened.quarantine.entries(opened.table.state().progress)


def delivered_lake(case: Case) -> Lake:
    drift, then, now, _ = case
    lake = Lake(drift.before)
    lake.put(1, Operation.INSERT, then)
    apply_changes(lake.job(DEFAULT_POLICIES))
    lake.put(2, Operation.UPDATE, now[:2], drift.after)
    lake.put(3, Operation.INSERT, now[2:], drift.after)
    apply_changes(lake.job(ALL))
    return lake


def refused_keys(lake: Lake) -> set[int]:
    found = lake.entries(ALL)
    assert {Reason(entry.reason) for entry in found} <= {Reason.SCHEMA}
    return {int(entry.key.strip('["]')) for entry in found if entry.key is not None}


def check(case: Case) -> None:
    """Check that applied rows have all their values, and that all others wait with their later events."""
    drift, then, now, later = case
    lake = delivered_lake(case)
    assert lake.target.tables[NAME].dimension.schema == drift.before
    refused, rows = refused_keys(lake), lake.rows()
    types = {column.name: column.type for column in drift.before}
    for row in now:
        if row["id"] not in refused:
            values = {name: value for name, value in row.items() if value is not None}
            assert all(name in types and fits(value, types[name]) for name, value in values.items())
            assert stored_row(rows[row["id"]], drift.before) == stored_row(row, drift.before)
    for row in then:
        if row["id"] in refused:
            assert rows[row["id"]] == row
    lake.put(4, Operation.UPDATE, later)
    apply_changes(lake.job(ALL))
    for row in later:
        assert (row["id"] in lake.touched_by(4)) is (row["id"] not in refused)
    if refused:
        release(lake.job(ALL), Settlement(discarded=lake.entries(ALL)))
    assert not lake.entries(ALL)
    assert all(lake.rows()[row["id"]] == row for row in later)


def breaks(case: Case) -> bool:
    try:
        check(case)
    except AssertionError:
        return True
    return False


@settings(max_examples=40)
@given(cases(legal() | illegal()))
def test_rows_with_a_column_change_wait_and_no_other_loses_a_value(case: Case) -> None:
    check(case)


@settings(max_examples=40)
@given(cases(legal(may_lack=False)))
def test_waiting_rows_are_replayed_as_if_the_table_had_changed_in_time(case: Case) -> None:
    drift, then, now, _ = case
    lake = delivered_lake(case)
    entries = lake.entries(ALL)
    for entry in entries:
        with pytest.raises(RepairError, match="cannot be replayed as it was written"):
            find_replayable(lake.job(ALL), [entry])
    ready = find_replayable(lake.job(DEFAULT_POLICIES), entries)
    assert len(ready) == len(entries)
    if ready:
        release(lake.job(DEFAULT_POLICIES), Settlement(repaired=ready))
    schema = evolve(drift.before, drift.after, DEFAULT_POLICIES, ["id"]).schema
    assert [stored_row(row, schema) for _, row in sorted(lake.rows().items())] == rows_after(
        drift, schema, then, now
    )
    assert not lake.entries(DEFAULT_POLICIES)


def sees_nothing(*_: object) -> bool:
    return False


def looks_at_columns_alone(change: Any, cells: Mapping[str, Any], incoming: Schema) -> bool:
    return not change.is_nested and changed_rows.shows_change(change, cells, incoming)


@pytest.mark.parametrize("broken", [sees_nothing, looks_at_columns_alone])
def test_the_law_fails_where_values_are_lost(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "shows_change", broken)
    few = settings(max_examples=500, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    assert breaks(find(cases(legal() | illegal()), breaks, settings=few))
