"""Columns that options of a history name and the source has no more: they stay, with their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from memory_jobs import DELETE, INSERT, NAME, UPDATE, TableFeed, columns, event, item

from lakeward.adapters.memory import MemoryTable, MemoryTarget
from lakeward.core.dimension import ORDERED, Lateness, Unbounded
from lakeward.core.errors import ConfigError
from lakeward.core.events import Cell, ChangeEvent, Operation
from lakeward.core.history.options import ByColumn, History, Kind, Track, ValidityColumns
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.schema import Schema, Type
from lakeward.core.schema_changes.evolution import Policies, Policy

WHOLE = columns(id="int", a="int", seen="bigint")
TRACKED = History(track=Track(frozenset({"a"}), but=False))
OVERWRITTEN = History(kinds={"a": Kind.OVERWRITE})
BY_NUMBER = History(validity=ByColumn("seen"), validity_columns=ValidityColumns(type=Type("bigint")))
DIMENSION = item(WHOLE)


def change(place: int, operation: Operation = UPDATE, key: int = 1, **cells: Cell) -> ChangeEvent:
    return event(operation, place, key, row=key, time=place, **cells)


def feed_of(history: History | None, lateness: Lateness, *items: ChangeEvent) -> TableFeed:
    feed = TableFeed(replace(DIMENSION, history=history, lateness=lateness))
    feed.deliver(1, *items)
    return feed


def deliver_without(feed: TableFeed, column: str, items: Sequence[ChangeEvent]) -> None:
    feed.deliver(2, *items, schema=Schema(tuple(c for c in WHOLE if c.name != column)))


@pytest.mark.parametrize("lateness", [ORDERED, Unbounded()])
@pytest.mark.parametrize("history", [TRACKED, OVERWRITTEN])
def test_a_column_that_is_tracked_or_has_a_kind_keeps_its_values(history: History, lateness: Lateness) -> None:
    feed = feed_of(history, lateness, change(1, INSERT, a=5, seen=1))
    deliver_without(feed, "a", [change(2, seen=2), change(3, INSERT, key=2, seen=3)])
    assert [row[-1] for row in feed.periods(1, "a")] == ([5] if history is TRACKED else [5, 5])
    assert feed.periods(2, "a") == [(3, None, None)]


@pytest.mark.parametrize("history", [None, TRACKED, OVERWRITTEN])
def test_an_update_without_the_column_finds_a_row_or_goes_into_quarantine(history: History | None) -> None:
    """From change to change of a batch; an insert has NULL there, and no cell that was not sent."""
    feed = feed_of(history, ORDERED, change(1, INSERT, a=5, seen=1))
    gone = [change(2, DELETE), change(3, seen=3)]
    here = [change(2, key=3, seen=2), change(3, INSERT, key=3, seen=3), change(4, key=3, seen=4)]
    deliver_without(feed, "a", [*gone, *here, change(2, key=2, seen=2), change(3, key=2, seen=3)])
    live = {key: row.cells for key, row in feed.table.rows.items() if not row.deleted}
    assert live == {(3,): {"id": 3, "a": None, "seen": 4}}
    refused = [(entry.key, entry.sequence, entry.reason) for entry in feed.entries()]
    assert sorted(refused) == [(f'["{k}"]', n, "incomplete_row") for k, n in ((1, 3), (2, 2), (2, 3))]
    counts = feed.progress.counts
    assert (counts.read, counts.quarantined, counts.update_on_missing, counts.unset_as_null) == (7, 3, 0, 0)


@pytest.mark.parametrize("lateness", [ORDERED, Unbounded()])
def test_without_the_column_that_dates_versions_no_version_begins(lateness: Lateness) -> None:
    feed = feed_of(BY_NUMBER, lateness, change(1, INSERT, a=5, seen=10))
    items = [change(2, a=6), change(2, key=2, a=7), change(2, INSERT, key=3, a=8)]
    deliver_without(feed, "seen", items)
    assert feed.periods(1, "a", "seen") == [(10, None, 6, 10)]
    assert (feed.periods(2), feed.periods(3)) == ([], [])
    refused = {entry.key: entry.reason for entry in feed.entries()}
    waits = {'["2"]': "incomplete_row"} if lateness is ORDERED else {}
    assert refused == {'["3"]': "undated", **waits}
    assert len(feed.table.incomplete(feed.progress)) == (0 if lateness is ORDERED else 1)


def test_a_column_of_the_options_that_the_table_never_had_is_refused() -> None:
    feed = feed_of(TRACKED, ORDERED, change(1, INSERT, a=5, seen=1))
    ignores = replace(feed.job.dimension, policies=Policies(add=Policy.IGNORE))
    unknown = replace(TRACKED, track=Track(frozenset({"b"}), but=False))
    fresh = MemoryTable(replace(ignores, history=unknown))
    opened = MemoryTarget({NAME: fresh}).open(fresh.dimension)
    with pytest.raises(ConfigError) as refused:
        apply_changes(replace(feed.job, dimension=fresh.dimension, opened=opened))
    assert refused.value.found == "no column b"
    assert (feed.progress.batch, fresh.progress.batch) == (1, 0)
