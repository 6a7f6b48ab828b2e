"""Mended rows through the pipeline, by example; the law of quarantine says the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakeward.adapters.memory import MemorySource, MemoryTable, MemoryTarget
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import MendError
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position
from lakeward.core.memory import Reason, Reject
from lakeward.core.pipeline import Job, Settlement, apply_changes, mend, release
from lakeward.core.ports import Entry, Mended
from lakeward.core.schema import Column, Schema, Type

NAME = TableName("shop", "item")
DIMENSION = Dimension(name=NAME, schema=Schema((Column("id", Type("int")), Column("a", Type("int")))), key=("id",))


def update(sequence: int, a: int) -> ChangeEvent:
    place = Position(1, sequence, sequence, 1)
    return ChangeEvent(operation=Operation.UPDATE, position=place, key=(1,), cells={"id": 1, "a": a})


def bad(sequence: int, reason: Reason = Reason.CAST) -> Reject:
    place = Position(1, sequence if reason is Reason.CAST else LOAD_SEQUENCE, sequence, 1)
    return Reject(place, reason, ((1,),))


def playing(*items: ChangeEvent | Reject) -> Job[Any]:
    source, target = MemorySource(), MemoryTarget({NAME: MemoryTable(DIMENSION)})
    source.put(NAME, 1, items)
    job = Job(dimension=DIMENSION, source=source, opened=target.open(DIMENSION))
    apply_changes(job)
    return job


def entries(job: Job[Any]) -> list[Entry]:
    return list(job.opened.quarantine.entries(job.opened.table.standing().progress))


def mended(entry: Entry, *, time: str | None = None, **cells: str | None) -> Entry:
    made = Mended(operation=Operation.UPDATE, cells={"id": "1", "a": "7", **cells}, time=time)
    return replace(entry, mended=made)


def stands(job: Job[Any]) -> object:
    table = job.opened.table
    assert isinstance(table, MemoryTable)
    return table.rows[1,].cells["a"] if (1,) in table.rows else None


def test_a_mended_row_behind_one_that_is_held_waits_for_it() -> None:
    job = playing(update(1, 1), bad(2), update(3, 3), bad(4), update(5, 5))
    first, second = entries(job)
    mend(job, [mended(second)])
    (_, second) = entries(job)
    report = release(job, Settlement(mended=[second]))
    assert (report.counts.released, report.written, stands(job)) == (0, 0, 1)
    (first,) = entries(job)
    assert first.waits == 3, "what was mended waits as any other"
    release(job, Settlement(given_up=[first]))
    assert (stands(job), entries(job)) == (5, [])


def test_what_was_mended_again_counts_and_can_still_be_given_up() -> None:
    job = playing(update(1, 1), bad(2))
    mend(job, [mended(entries(job)[0], a="8")])
    mend(job, [mended(entries(job)[0], a="9")])
    (entry,) = entries(job)
    assert entry.mended is not None
    assert entry.mended.cells["a"] == "9"
    release(job, Settlement(given_up=[entry]))
    assert (stands(job), entries(job)) == (1, [])


def test_a_row_without_a_time_is_put_where_its_time_says() -> None:
    job = playing(update(1, 1), bad(3, Reason.SEQUENCE), update(5, 5))
    assert stands(job) is None, "its place is not known, so all wait"
    mend(job, [mended(entries(job)[0], time="3")])
    release(job, Settlement(mended=entries(job)))
    assert stands(job) == 5


@pytest.mark.parametrize(
    "wrong", [{"a": "x"}, {"id": "2"}, {"id": None}, {"b": "1"}, {"time": "3"}], ids=lambda wrong: next(iter(wrong))
)
def test_what_does_not_fit_is_refused_and_not_kept(wrong: dict[str, Any]) -> None:
    job = playing(update(1, 1), bad(2))
    with pytest.raises(MendError):
        mend(job, [mended(entries(job)[0], **wrong)])
    assert [entry.mended for entry in entries(job)] == [None]


def test_a_row_that_was_mended_for_other_columns_is_refused() -> None:
    job = playing(update(1, 1), bad(2))
    mend(job, [mended(entries(job)[0])])
    table = job.opened.table
    assert isinstance(table, MemoryTable)
    table.dimension = replace(DIMENSION, schema=Schema((*DIMENSION.schema, Column("b", Type("int")))))
    with pytest.raises(MendError) as refused:
        release(job, Settlement(mended=entries(job)))
    assert "it lacks b" in str(refused.value.found)
    assert stands(job) == 1
