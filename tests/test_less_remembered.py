"""A table whose change log once needed less than it needs now: stored rows win over what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from resolution_switches import use_spark

from lakeward.adapters.formats.shared.change_log import entries, retention
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.spark.merge.fold import fold_items
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import ORDERED, Deletes, Dimension, Lateness, Within
from lakeward.core.events import UNSET, ChangeEvent, Operation, Position
from lakeward.core.history.options import History
from lakeward.core.progress import Progress
from lakeward.plugins.testing.player import Lake, Player
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT, Rows, Script

pytestmark = pytest.mark.spark

DIMENSION = Dimension(name=NAME, schema=PACKED, key=("h", "id"), lateness=ORDERED, tolerance=TOLERANT)
INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE


def event(operation: Operation, at: int, key: int = 1, **cells: Any) -> ChangeEvent:
    """Return a change with source time `at`."""
    every = {"h": 0, "id": key, "a": at, "b": at, **cells}
    return ChangeEvent(operation=operation, position=Position(1, at, at, key), key=(0, key), cells=every, time=at)


Make: TypeAlias = Callable[[], Lake]


@pytest.fixture(
    params=[
        "make_lake",
        pytest.param("make_delta", marks=pytest.mark.long),
        pytest.param("make_hudi", marks=[pytest.mark.long, pytest.mark.hudi]),
    ]
)
def make(request: pytest.FixtureRequest) -> Make:
    """Return a function that makes a lake of each format."""
    maker: Make = request.getfixturevalue(request.param)
    return maker


Delivered: TypeAlias = tuple[Lateness, Sequence[ChangeEvent]]


def play_batches(lake: Lake, kept: Dimension, *batches: Delivered) -> Player:
    """Deliver one object per batch, each with the lateness of the settings at that time."""
    deliveries = [events for _, events in batches]
    script = Script(kept, deliveries, [], in_part=True)
    player = Player(script, lake)
    for number, (lateness, _) in enumerate(batches):
        dimension = replace(script.dimension, lateness=lateness)
        player = Player(replace(script, dimension=dimension), lake, player.queue, player.ledger)
        player.source.arrived = number
        player.deliver()
    return player


def rows_after(lake: Lake, history: History | None, *batches: Delivered) -> Rows:
    """Deliver one object per batch, each with the lateness of the settings at that time, and return the rows."""
    return play_batches(lake, replace(DIMENSION, history=history), *batches).moments[-1].rows


def cells(rows: Rows, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in names) for row, _ in rows.values())


def rows_after_a_late_change(lake: Lake, operation: Operation) -> Rows:
    """Deliver a late change in a batch that is partly below the watermark, then a partial update of its row."""
    script = Script(replace(DIMENSION, lateness=Within(9)), [], [])
    late = replace(event(UPDATE, 18), position=Position(1, 18, 27, 1))
    behind = replace(event(INSERT, 26, 3), position=Position(1, 26, 40, 3))
    straddling = [late, event(INSERT, 27, 2)], [behind, event(INSERT, 40, 2)]
    batches = [[event(INSERT, 5)], [event(operation, 20)], *straddling]
    player = Player(replace(script, deliveries=batches), lake).play()
    part = replace(script, deliveries=[*batches, [event(UPDATE, 41, b=UNSET)]], in_part=True)
    other = Player(part, lake, player.queue, player.ledger)
    other.source.arrived = len(batches)
    other.deliver()
    return other.moments[-1].rows


def by_batch(change_log: ChangeLogTable, progress: Progress, _: object) -> str:
    """Return the condition by which an earlier version trimmed: batches wholly below the low watermark."""
    kinds = f"{entries.KIND} in ('{entries.DELETE}', '{entries.CHANGE}')"
    passed = [
        n
        for n, r in change_log.batches.records.items()
        if r.record and progress.low_watermark and r.record.greatest.source_order <= progress.low_watermark
    ]
    return f"({kinds} and {names.BATCH} <= {max(passed, default=0)})"


LATER = Within(1000)


@pytest.mark.long
def test_a_row_deleted_and_inserted_again_while_the_table_was_ordered_stays(make: Make) -> None:
    """An `ordered` table remembers the delete, and not that the row came again."""
    came = [(ORDERED, [event(INSERT, 1)]), (ORDERED, [event(DELETE, 2)]), (ORDERED, [event(INSERT, 3)])]
    rows = rows_after(make(), None, *came, (LATER, [event(UPDATE, 4, b=UNSET)]))
    assert cells(rows, "a", "b") == [(4, 3)]


@pytest.mark.long
@pytest.mark.parametrize(("more", "left"), [([event(INSERT, 3)], [1, 3, 4]), ([], [1, 4])])
def test_versions_stay_that_were_made_while_the_table_was_ordered(
    make: Make, more: list[ChangeEvent], left: list[int]
) -> None:
    """Also those of a row that was deleted when the lateness changed."""
    came = [(ORDERED, [event(INSERT, 1)]), (ORDERED, [event(DELETE, 2)]), (ORDERED, [*more, event(INSERT, 3, 2)])]
    rows = rows_after(make(), History(), *came, (LATER, [event(INSERT, 4)]))
    assert cells({key: row for key, row in rows.items() if key[1] == 1}, "a") == [(a,) for a in left]


BEFORE: Sequence[Delivered] = [(LATER, [event(INSERT, 1)]), (LATER, [event(UPDATE, 2)])]
MEANWHILE: Sequence[Delivered] = [(ORDERED, [event(UPDATE, 3)]), (ORDERED, [event(DELETE, 4)])]


@pytest.mark.long
@pytest.mark.parametrize("late", [5, 3])
def test_versions_of_a_key_that_is_gone_stay(make: Make, late: int) -> None:
    """The third was inserted while only the delete was remembered. Older events are stale."""
    came = replace(event(UPDATE, late), position=Position(1, late, 5, 1))
    rows = rows_after(make(), History(), *BEFORE, *MEANWHILE, (LATER, [came]))
    assert cells(rows, "a") == [(1,), (2,), (3,), *([(5,)] if late == 5 else [])]


@pytest.mark.long
def test_a_row_that_is_gone_keeps_the_values_that_it_had_then(make: Make) -> None:
    """Also if an object lacks them."""
    soft = replace(DIMENSION, deletes=Deletes.SOFT)
    player = play_batches(make(), soft, *BEFORE, *MEANWHILE, (LATER, [event(DELETE, 5)]))
    assert cells(player.moments[-1].rows, "a", "b") == [(3, 3)]


@pytest.mark.long
def test_a_partial_row_that_waited_for_its_row_is_reported(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing older comes to an `ordered` table."""
    monkeypatch.setattr(retention, "_TRIM_EVERY", 3)
    lake, part = make(), event(UPDATE, 2, b=UNSET)
    latenesses: Sequence[Lateness] = (ORDERED, ORDERED, LATER)
    others: list[Delivered] = [(lateness, [event(INSERT, at, at)]) for at, lateness in enumerate(latenesses, 3)]
    player = play_batches(lake, DIMENSION, (LATER, [part]), *others)
    assert player.reasons == {"incomplete_row"}


@pytest.mark.long
def test_a_late_event_does_not_start_from_a_row_before_the_ordered_time(make: Make) -> None:
    came = [*BEFORE, MEANWHILE[0]]
    again = [(LATER, [event(UPDATE, 4, b=UNSET)]), (LATER, [event(UPDATE, 6, b=UNSET)])]
    rows = rows_after(make(), None, *came, *again, (LATER, [event(UPDATE, 5, b=UNSET)]))
    assert cells(rows, "a", "b") == [(6, 3)]


@pytest.mark.long
def test_a_smaller_lateness_helps_where_more_key_changes_are_remembered_than_are_looked_at(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stopped each batch, so the low watermark never rose, and nothing was trimmed."""
    monkeypatch.setattr(retention, "_TRIM_EVERY", 1)
    use_spark(monkeypatch)
    monkeypatch.setattr(fold_items, "MOST_LINKS", 2)
    moves = [replace(event(UPDATE, at, 10 + at), old_key=(0, at)) for at in (1, 2, 3)]
    soon: list[Delivered] = [(Within(5), [event(INSERT, at, at)]) for at in (500, 600, 700)]
    player = play_batches(make(), DIMENSION, *[(LATER, [move]) for move in moves], *soon)
    assert cells(player.moments[-1].rows, "id") == [(key,) for key in (11, 12, 13, 500, 600, 700)]
    assert player.moments[-1].progress.low_watermark is not None


@pytest.mark.parametrize("operation", [pytest.param(UPDATE, marks=pytest.mark.long), DELETE])
def test_a_key_is_never_trimmed_to_an_older_event(
    make: Make, monkeypatch: pytest.MonkeyPatch, operation: Operation
) -> None:
    """An earlier version trimmed the newer of two events below the watermark, and took the late one for the row."""
    monkeypatch.setattr(retention, "_TRIM_EVERY", 1)
    rows = rows_after_a_late_change(make(), operation)
    left = [] if operation is DELETE else [{"h": 0, "id": 1, "a": 41, "b": 20}]
    assert [row for key, (row, _) in rows.items() if key == (0, 1)] == left


@pytest.mark.long
def test_a_late_event_remembered_longer_than_a_newer_one_changes_no_row(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of whole rows were trimmed once they were wholly below the watermark. The late one was not."""
    monkeypatch.setattr(retention, "_TRIM_EVERY", 1)
    monkeypatch.setattr(retention, "_passed", by_batch)
    rows = rows_after_a_late_change(make(), UPDATE)
    assert rows[0, 1][0] == {"h": 0, "id": 1, "a": 41, "b": 20}
