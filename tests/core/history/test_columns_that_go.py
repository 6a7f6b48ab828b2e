"""Columns that options of a history name and the source has no more: they stay, with their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import NAME, item, memory_job

from lakeward.adapters.memory import MemorySource, MemoryTable, MemoryTarget
from lakeward.core.dimension import ORDERED, Lateness, Unbounded
from lakeward.core.errors import ConfigError
from lakeward.core.events import Cell, ChangeEvent, Operation, Position
from lakeward.core.history.options import ByColumn, History, Kind, Track, ValidityColumns
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import Policies, Policy

WHOLE = Schema((Column("id", Type("int")), Column("a", Type("int")), Column("seen", Type("bigint"))))
TRACKED = History(track=Track(frozenset({"a"}), but=False))
OVERWRITTEN = History(kinds={"a": Kind.OVERWRITE})
BY_NUMBER = History(validity=ByColumn("seen"), validity_columns=ValidityColumns(type=Type("bigint")))
DIMENSION = item(WHOLE)


def event(place: int, operation: Operation = Operation.UPDATE, key: int = 1, **cells: Cell) -> ChangeEvent:
    every = {"id": key, **cells}
    position = Position(1, place, place, key)
    return ChangeEvent(operation=operation, position=position, key=(key,), cells=every, time=place)


def playing(history: History | None, lateness: Lateness, *items: ChangeEvent) -> tuple[Job[Any], MemoryTable]:
    dimension = replace(DIMENSION, history=history, lateness=lateness)
    table, source = MemoryTable(dimension), MemorySource(lateness=lateness)
    source.put(NAME, 1, items)
    job = memory_job(dimension, source, table)
    apply_changes(job)
    return job, table


def deliver_without(job: Job[Any], column: str, items: Sequence[ChangeEvent]) -> None:
    schema = Schema(tuple(c for c in WHOLE if c.name != column))
    job.source.put(NAME, 2, items, schema=schema)  # type: ignore[attr-defined]
    apply_changes(job)


def versions(table: MemoryTable, key: int, *columns: str) -> list[tuple[object, ...]]:
    row = table.rows.get((key,))
    every = () if row is None else row.versions
    return [(v.valid_from, v.valid_to, *(v.cells[name] for name in columns)) for v in every]


@pytest.mark.parametrize("lateness", [ORDERED, Unbounded()])
@pytest.mark.parametrize("history", [TRACKED, OVERWRITTEN])
def test_a_column_that_is_tracked_or_has_a_kind_keeps_its_values(history: History, lateness: Lateness) -> None:
    job, table = playing(history, lateness, event(1, Operation.INSERT, a=5, seen=1))
    deliver_without(job, "a", [event(2, seen=2), event(3, Operation.INSERT, key=2, seen=3)])
    assert [row[-1] for row in versions(table, 1, "a")] == ([5] if history is TRACKED else [5, 5])
    assert versions(table, 2, "a") == [(3, None, None)]


@pytest.mark.parametrize("history", [None, TRACKED, OVERWRITTEN])
def test_an_update_without_the_column_finds_a_row_or_goes_into_quarantine(history: History | None) -> None:
    """From change to change of a batch; an insert has NULL there, and no cell that was not sent."""
    job, table = playing(history, ORDERED, event(1, Operation.INSERT, a=5, seen=1))
    gone = [event(2, Operation.DELETE), event(3, seen=3)]
    here = [event(2, key=3, seen=2), event(3, Operation.INSERT, key=3, seen=3), event(4, key=3, seen=4)]
    deliver_without(job, "a", [*gone, *here, event(2, key=2, seen=2), event(3, key=2, seen=3)])
    live = {key: row.cells for key, row in table.rows.items() if not row.deleted}
    assert live == {(3,): {"id": 3, "a": None, "seen": 4}}
    refused = [(entry.key, entry.sequence, entry.reason) for entry in table.entries(table.progress)]
    assert sorted(refused) == [(f'["{k}"]', n, "incomplete_row") for k, n in ((1, 3), (2, 2), (2, 3))]
    counts = table.progress.counts
    assert (counts.read, counts.quarantined, counts.update_on_missing, counts.unset_as_null) == (7, 3, 0, 0)


@pytest.mark.parametrize("lateness", [ORDERED, Unbounded()])
def test_without_the_column_that_dates_versions_no_version_begins(lateness: Lateness) -> None:
    job, table = playing(BY_NUMBER, lateness, event(1, Operation.INSERT, a=5, seen=10))
    items = [event(2, a=6), event(2, key=2, a=7), event(2, Operation.INSERT, key=3, a=8)]
    deliver_without(job, "seen", items)
    assert versions(table, 1, "a", "seen") == [(10, None, 6, 10)]
    assert (versions(table, 2), versions(table, 3)) == ([], [])
    refused = {entry.key: entry.reason for entry in table.entries(table.progress)}
    waits = {'["2"]': "incomplete_row"} if lateness is ORDERED else {}
    assert refused == {'["3"]': "undated", **waits}
    assert len(table.incomplete(table.progress)) == (0 if lateness is ORDERED else 1)


def test_a_column_of_the_options_that_the_table_never_had_is_refused() -> None:
    job, table = playing(TRACKED, ORDERED, event(1, Operation.INSERT, a=5, seen=1))
    ignores = replace(job.dimension, policies=Policies(add=Policy.IGNORE))
    unknown = replace(TRACKED, track=Track(frozenset({"b"}), but=False))
    fresh = MemoryTable(replace(ignores, history=unknown))
    opened = MemoryTarget({NAME: fresh}).open(fresh.dimension)
    with pytest.raises(ConfigError) as refused:
        apply_changes(replace(job, dimension=fresh.dimension, opened=opened))
    assert refused.value.found == "no column b"
    assert (table.progress.batch, fresh.progress.batch) == (1, 0)
