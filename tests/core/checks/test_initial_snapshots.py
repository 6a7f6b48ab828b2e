"""Rows of an initial snapshot between the positions of a table: their log starts over, or they come late."""

from __future__ import annotations

from functools import reduce
from typing import Final

import pytest
from memory_jobs import READ, UPDATE, TableFeed, columns, event, item

from lakeward.adapters.memory import MemorySource
from lakeward.core.checks.log_restart import ObjectSpans, find_restarts
from lakeward.core.checks.log_steps import (
    LEAST_GAP,
    LogChange,
    LogName,
    LogReached,
    LogStep,
    SnapshotPlace,
    find_steps,
    spans_of,
)
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import Operation, Sequences

TABLE: Final = LogReached(lowest=100, highest=900, time=10 * LEAST_GAP)


def change(row: int, place: int, seconds: float | None) -> LogChange:
    return LogChange(row, place, None if seconds is None else int(seconds * LEAST_GAP))


def read(row: int, place: int, seconds: float | None, *, is_initial: bool = True) -> LogChange:
    return change(row, place, seconds)._replace(is_read=True, is_initial=is_initial)


def found(*changes: LogChange, before: LogReached = TABLE) -> LogStep | None:
    return find_steps(changes, before, TABLE).sure


def test_a_newer_row_of_an_initial_snapshot_with_a_lower_place_is_of_a_new_log() -> None:
    """Only that row is named, and the changes behind it need no decision of their own."""
    changes = [read(1, 500, 60), read(2, 500, 60), change(3, 501, 70)]
    assert found(*changes) == LogStep(1, is_read=True)
    in_log = ObjectSpans("b.json", 2, spans_of(changes), find_steps(changes, TABLE, TABLE))
    (restart,) = find_restarts([in_log], TABLE, [])
    assert (restart.restart[:2], restart.restart.offset > 900) == ((2, 1), True)
    assert "of an initial snapshot" in restart.why


def test_a_row_of_an_initial_snapshot_behind_an_old_change_of_its_object_is_found() -> None:
    assert found(change(1, 900, 10), read(2, 500, 60)) == LogStep(2, is_read=True)
    assert found(change(1, 950, 20), read(2, 940, 60)) == LogStep(2, is_read=True)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([read(1, 500, 60, is_initial=False)], id="an incremental snapshot, or one that nothing tells"),
        pytest.param([read(1, 500, 10)], id="delivered again"),
        pytest.param([read(1, 500, 10.5)], id="times cross"),
        pytest.param([read(1, 500, None)], id="no time"),
        pytest.param([read(1, 900, 60), read(2, 950, 60)], id="the same log"),
        pytest.param([read(1, 100, 60), read(2, 50, 60)], id="the first snapshot of the table"),
        pytest.param([change(1, 950, 70), read(2, 940, 70)], id="changes came before it from another partition"),
        pytest.param(
            [read(1, 940, 70), change(2, 950, 60), read(3, 940, 70)], id="another partition of the same snapshot"
        ),
    ],
)
def test_other_rows_of_snapshots_are_no_restart(changes: list[LogChange]) -> None:
    assert found(*changes) is None


def test_the_time_of_snapshot_rows_counts_for_the_objects_behind_them() -> None:
    """All rows of a snapshot have one time: changes made while it was read are above it in the log."""
    first = spans_of([read(1, 940, 70), change(2, 950, 60)])
    before = TABLE
    for span in first:
        before = before.with_span(span)
    assert found(read(1, 940, 70), before=before) is None
    assert found(read(1, 940, 80), before=before) == LogStep(1, is_read=True)


def test_a_table_without_changes_takes_a_snapshot() -> None:
    assert found(read(1, 500, 60), before=LogReached()) is None


# A transaction that was open when the snapshot was taken: it wrote below its place, and committed behind it.

SNAPSHOT: Final = LogReached(snapshot=SnapshotPlace(500, 7200 * LEAST_GAP))
UNTOLD: Final = LogName(overlap=True)


def untold(row: int, place: int, seconds: float | None) -> LogChange:
    """Return a change that does not say where its transaction committed."""
    return change(row, place, seconds)._replace(log=UNTOLD)


def test_a_change_below_an_initial_snapshot_without_the_place_of_its_commit_stops_the_table() -> None:
    changes = [read(1, 500, 7200), read(2, 500, 7300), untold(3, 100, 7201), untold(4, 101, 7201)]
    step = LogStep(3, UNTOLD, was_open=True)
    assert found(*changes, before=LogReached()) == step
    in_log = ObjectSpans("b.json", 2, spans_of(changes), find_steps(changes, LogReached(), LogReached()))
    (restart,) = find_restarts([in_log], LogReached(), [])
    assert (restart.restart[:2], restart.was_open) == ((2, 3), True)
    assert "lies below the initial snapshot before it" in restart.why
    offset = restart.restart.offset
    lifted = [*changes[:2], *(one._replace(place=one.place + offset) for one in changes[2:])]
    assert found(*lifted, before=LogReached()) is None, "one decision is enough"
    for second in (3600, 7201):
        assert found(untold(1, 400, second), before=SNAPSHOT) == LogStep(1, UNTOLD, was_open=True)


def test_snapshot_rows_at_the_beginning_of_a_table_are_of_an_initial_snapshot() -> None:
    """Flattened messages name the kind of their snapshot only where that was configured."""
    first, below = read(1, 500, 7200, is_initial=False), untold(2, 100, 7201)
    step = LogStep(2, UNTOLD, was_open=True)
    assert found(first, below, before=LogReached()) == step
    assert found(first, below, before=LogReached(has_begun=True)) is None
    assert found(untold(1, 501, 7100), first._replace(row=2), below._replace(row=3), before=LogReached()) is None
    for rows in ([first, below], [first, below, read(3, 9000, 9000, is_initial=False)]):
        after = reduce(LogReached.with_span, spans_of(reversed(rows)), LogReached())
        assert after.snapshot == SnapshotPlace(500, 7200 * LEAST_GAP), "a change behind it ends what counts"
    reached = LogReached()
    for span in spans_of([first]):
        reached = reached.after(1, span)
    assert (reached.snapshot, reached.has_begun) == (SnapshotPlace(500, 7200 * LEAST_GAP), False)
    assert found(below, before=reached) == step, "of an object behind it"


def test_a_table_has_begun_with_all_its_partitions() -> None:
    reached = LogReached(ends={1: 10, 2: 20})
    for span in spans_of([change(1, 300, 60)]):
        reached = reached.after(1, span)
    assert (reached.has_begun, reached.of(2).has_begun) == (True, True)
    assert LogReached(ends={2: 20}).of(2).has_begun is False


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([untold(1, 500, 7300)], id="above it"),
        pytest.param([untold(1, 400, 3599)], id="long before it, and delivered late"),
        pytest.param([untold(1, 400, None)], id="no time"),
        pytest.param([change(1, 400, 7300)], id="the place of its commit"),
        pytest.param([untold(1, 400, 7300)._replace(is_truncate=True)], id="a truncate, which locks its table"),
        pytest.param([read(1, 400, 7300)], id="a row of a snapshot"),
    ],
)
def test_other_changes_below_an_initial_snapshot_are_no_restart(changes: list[LogChange]) -> None:
    assert found(*changes, before=SNAPSHOT) is None


FOLLOWING: Final = LogName(follows=True)


@pytest.mark.parametrize(
    ("change", "stops"),
    [
        pytest.param(change(1, 400, 7201), True, id="later, and the last commit before it lies below"),
        pytest.param(change(1, 400, 7201)._replace(is_truncate=True), True, id="a truncate of such a transaction"),
        pytest.param(change(1, 400, 7200.5), False, id="at the time of the snapshot"),
        pytest.param(change(1, 400, None), False, id="no time"),
        pytest.param(change(1, 500, 7300), False, id="above it"),
        pytest.param(change(1, 0, 7300)._replace(has_place=False), False, id="no place"),
    ],
)
def test_the_first_transaction_behind_a_second_snapshot_follows_a_commit_before_it(
    change: LogChange, stops: bool
) -> None:
    """A connector that goes on streaming knows the last commit that it streamed, not that of the snapshot."""
    step = LogStep(1, FOLLOWING, was_open=True) if stops else None
    assert found(change._replace(log=FOLLOWING), before=SNAPSHOT) == step


def test_the_highest_initial_snapshot_counts_from_its_first_row_on() -> None:
    spans = [
        spans_of([read(1, 500, 7300), read(2, 500, 7200)]),
        spans_of([read(1, 400, 9000)]),
        spans_of([read(1, 900, 9000, is_initial=False)]),
        spans_of([read(1, 500, 7250)]),
    ]
    reached = LogReached(has_begun=True)
    for span in (one for some in spans for one in some):
        reached = reached.with_span(span)
    assert reached.snapshot == SNAPSHOT.snapshot
    assert reached.of(1).snapshot == SNAPSHOT.snapshot
    of_partitions = reached._replace(ends={1: 10}, partitions={})
    assert of_partitions.of(1).snapshot == SNAPSHOT.snapshot, "it has one place in all partitions"
    for span in spans_of([read(1, 900, 9000)]):
        reached = reached.with_span(span)
    assert reached.snapshot == SnapshotPlace(900, 9000 * LEAST_GAP)


def test_a_table_keeps_the_place_of_the_snapshot_with_which_it_begins() -> None:
    """Rows that do not name their snapshot count in its first batch, and in none after it."""
    dimension = item(columns(id="int"), sequences=Sequences.PLACES)
    feed = TableFeed(dimension, MemorySource(sequences=Sequences.PLACES, logs=lambda _: UNTOLD))

    def deliver(number: int, place: int, operation: Operation, time: int) -> None:
        feed.deliver(number, event(operation, place, number, at=number, time=time * LEAST_GAP))

    deliver(1, 500, READ, 7200)
    kept = feed.progress.snapshot
    assert kept == SnapshotPlace(500, 7200 * LEAST_GAP)
    deliver(2, 900, READ, 9000)
    assert feed.progress.snapshot == kept
    with pytest.raises(AlarmRaised, match="committed behind the snapshot") as raised:
        deliver(3, 400, UPDATE, 7260)
    assert raised.value.code == "SEQUENCE-002"
