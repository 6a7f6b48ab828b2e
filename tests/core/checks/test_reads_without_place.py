"""Snapshot rows without a log position: none replaces a change of its key that arrived earlier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from memory_jobs import NAME, columns, event, item, memory_job, values

from lakeward.adapters.memory import MemorySource
from lakeward.core.checks.log_restart import LogRestart, lift_place
from lakeward.core.dimension import ORDERED, Deletes, Lateness, Ordered, Ties, Within
from lakeward.core.events import READ_SEQUENCE, Operation, Position, Sequences
from lakeward.core.pipeline.apply import apply_changes

HOUR = 3600 * 1_000_000
DAY = Within(24 * HOUR)
C, U, D, R, T = Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.READ, Operation.TRUNCATE

Message = tuple[Operation, int]
"""What a message says: an operation, and a key; its value is the number of the message."""


def rows_after(objects: Sequence[Sequence[Message]], **own: Any) -> dict[int, int]:
    """Return the rows after objects that are applied one a batch, a day and a half apart."""
    dimension = item(columns(id="int", v="int"), sequences=Sequences.PLACES, **own)
    source = MemorySource()
    job = memory_job(dimension, source)
    number = 0
    for order, messages in enumerate(objects, 1):
        events = []
        for row, (operation, key) in enumerate(messages, 1):
            number += 1
            place, time = READ_SEQUENCE if operation is R else 0, order * 36 * HOUR
            events.append(event(operation, place, key, at=order, row=row, time=time, v=number))
        source.put(NAME, order, events)
        apply_changes(job)
    return values(job, "v")


def model(objects: Sequence[Sequence[Message]]) -> dict[int, int]:
    """Return the rows by arrival; a read of a key that was changed before says nothing."""
    rows: dict[int, int] = {}
    changed: set[int] = set()
    is_truncated = False
    for number, (operation, key) in enumerate((messages for some in objects for messages in some), 1):
        if operation is T:
            rows, is_truncated = {}, True
        elif operation is not R or not (is_truncated or key in changed):
            rows[key] = number
            changed |= set() if operation is R else {key}
            if operation is D:
                del rows[key]
    return rows


message = st.tuples(st.sampled_from([C, U, D, R, R, T]), st.integers(1, 3))
objects_of_messages = st.lists(st.lists(message, min_size=1, max_size=4), min_size=1, max_size=6)


@settings(max_examples=300)
@given(
    objects_of_messages,
    st.sampled_from([ORDERED, DAY]),
    st.sampled_from(Deletes),
    st.sampled_from([Ties.ARRIVAL, Ties.QUARANTINE]),
)
def test_a_read_never_replaces_a_change_that_arrived_before_it(
    objects: Sequence[Sequence[Message]], lateness: Lateness, deletes: Deletes, ties: Ties
) -> None:
    """For keys without a change the last read is stored, and there are no ties."""
    assert rows_after(objects, lateness=lateness, deletes=deletes, ties=ties) == model(objects)


def test_a_delete_that_is_forgotten_lets_a_read_bring_the_row_back() -> None:
    objects = [[(C, 1)], [(D, 1)], [(C, 2)], [(R, 1)]]
    assert rows_after(objects, lateness=ORDERED) == {2: 3}
    assert rows_after(objects, lateness=Ordered(1)) == {1: 4, 2: 3}


def test_a_read_behind_a_restart_of_the_log_is_below_the_changes_behind_it_alone() -> None:
    restarts = [LogRestart(5, 1, 900)]
    read, change = Position(1, READ_SEQUENCE, 5, 2), Position(1, 0, 5, 1)
    assert Position(1, 899, 4, 1) < lift_place(read, restarts) < lift_place(change, restarts)
    before = read._replace(object=4)
    assert lift_place(before, restarts) == before
