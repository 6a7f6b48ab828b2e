"""Repaired rows in the pipeline, by example; the law of quarantine covers the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import NAME, UPDATE, TableFeed, columns, event, item, memory_job, progress_of, table_of

from lakeward.adapters.memory import MemoryLedger, MemorySource
from lakeward.adapters.memory.shaper import MemoryShaper
from lakeward.core.dimension import ORDERED, Dimension, Unbounded
from lakeward.core.errors import RepairError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Operation, Position
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.operations.truncate import truncate_at
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job, Settlement
from lakeward.core.pipeline.release import release, repair_row
from lakeward.core.ports import Entry, RepairedRow, Written
from lakeward.core.quarantine.repair import why_not
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.shaping.column_rules import Cast, Rename
from lakeward.core.shaping.quality_rules import Range
from lakeward.core.shaping.reshaping_rules import Drop
from lakeward.core.shaping.shaped_source import ShapedSource, TableRules

DIMENSION = item()


def update(sequence: int, a: int) -> ChangeEvent:
    return event(UPDATE, sequence, a=a)


def bad(sequence: int, reason: Reason = Reason.CAST) -> Reject:
    place = Position(1, sequence if reason is Reason.CAST else LOAD_SEQUENCE, sequence, 1)
    return Reject(place, reason, ((1,),))


def job_after(*items: ChangeEvent | Reject, dimension: Dimension = DIMENSION) -> Job[Any]:
    feed = TableFeed(dimension)
    feed.deliver(1, *items)
    return feed.job


def entries(job: Job[Any]) -> list[Entry]:
    return list(job.opened.quarantine.entries(progress_of(job)))


def repaired(entry: Entry, *, time: str | None = None, **cells: Written) -> Entry:
    made = RepairedRow(operation=Operation.UPDATE, cells={"id": "1", "a": "7", **cells}, time=time)
    return replace(entry, repaired=made)


def stored_value(job: Job[Any]) -> object:
    table = table_of(job)
    return table.rows[1,].cells["a"] if (1,) in table.rows else None


def test_a_repaired_row_waits_for_a_held_one_before_it() -> None:
    job = job_after(update(1, 1), bad(2), update(3, 3), bad(4), update(5, 5))
    first, second = entries(job)
    repair_row(job, [repaired(second)])
    (_, second) = entries(job)
    report = release(job, Settlement(repaired=[second]))
    assert (report.counts.released, report.written, stored_value(job)) == (0, 0, 1)
    (first,) = entries(job)
    assert first.waiting_events == 3, "a repaired row waits as any other"
    release(job, Settlement(discarded=[first]))
    assert (stored_value(job), entries(job)) == (5, [])


def test_the_last_repair_counts_and_can_still_be_discarded() -> None:
    job = job_after(update(1, 1), bad(2))
    repair_row(job, [repaired(entries(job)[0], a="8")])
    repair_row(job, [repaired(entries(job)[0], a="9")])
    (entry,) = entries(job)
    assert entry.repaired is not None
    assert entry.repaired.cells["a"] == "9"
    release(job, Settlement(discarded=[entry]))
    assert (stored_value(job), entries(job)) == (1, [])


def test_a_row_repaired_to_the_highest_position_is_the_newest() -> None:
    """What came after it in the order of the source is judged by it: `recalls`, and what `now` is."""
    job = job_after(update(1, 1), Reject(Position(1, LOAD_SEQUENCE, 1, 2), Reason.SEQUENCE, ((1,),)))
    repair_row(job, [repaired(entries(job)[0], time="9")])
    release(job, Settlement(repaired=entries(job)))
    high = progress_of(job).high_watermark
    assert high is not None
    assert high.sequence == 9
    ledger_writer = LedgerWriter(ledger=MemoryLedger(), now=lambda: 10)
    truncate_at(replace(job, ledger_writer=ledger_writer), "now", by="me", reason=None, at=10)
    assert stored_value(job) is None


@pytest.mark.parametrize(
    "wrong", [{"a": "x"}, {"id": "2"}, {"id": None}, {"b": "1"}, {"time": "3"}], ids=lambda wrong: next(iter(wrong))
)
def test_a_repaired_row_that_does_not_fit_is_refused_and_not_stored(wrong: dict[str, Any]) -> None:
    job = job_after(update(1, 1), bad(2))
    with pytest.raises(RepairError):
        repair_row(job, [repaired(entries(job)[0], **wrong)])
    assert [entry.repaired for entry in entries(job)] == [None]


def test_a_row_repaired_for_other_columns_is_refused() -> None:
    job = job_after(update(1, 1), bad(2))
    repair_row(job, [repaired(entries(job)[0])])
    table = table_of(job)
    table.dimension = item(WIDE)
    with pytest.raises(RepairError) as refused:
        release(job, Settlement(repaired=entries(job)))
    assert "it lacks b" in str(refused.value.found)
    assert stored_value(job) == 1


WIDE = columns(id="int", a="int", b="int")
PARTS = item(WIDE, lateness=Unbounded())


def job_of_parts(*items: ChangeEvent | Reject) -> Job[Any]:
    return job_after(*items, dimension=PARTS)


def update_of(sequence: int, key: int = 1, old: int | None = None, **cells: int) -> ChangeEvent:
    return event(UPDATE, sequence, key, old=old, transaction=sequence, **cells)


def rows(job: Job[Any]) -> Mapping[Any, Any]:
    table = table_of(job)
    return {key: (row.cells["a"], row.cells["b"]) for (key,), row in table.rows.items()}


def test_an_unsent_cell_stays_unsent_in_a_repaired_row() -> None:
    """The stored value stays, and a late value for it is applied."""
    job = job_of_parts(update_of(1, a=1, b=1), bad(5), update_of(7, b=7))
    (entry,) = entries(job)
    repair_row(job, [repaired(entry, b=UNSET)])
    release(job, Settlement(repaired=entries(job)))
    assert rows(job) == {1: (7, 7)}
    job.source.put(NAME, 9, [update_of(3, a=3, b=3)])  # type: ignore[attr-defined]
    apply_changes(job)
    assert rows(job) == {1: (7, 7)}
    with pytest.raises(RepairError, match="the key column id cannot be one that was not sent"):
        repair_row(job, [repaired(entry, id=UNSET, b=UNSET)])


def test_a_repaired_key_change_has_its_old_key() -> None:
    """It holds its keys, and those of key changes behind it; the old key must be given and stays as it was."""
    held = Reject(Position(1, 3, 3, 1), Reason.CAST, ((1,), (2,)), transaction=3)
    job = job_of_parts(update_of(1, a=1, b=1), held, update_of(4, key=3, old=2), update_of(5, key=3, a=5))
    (entry,) = entries(job)
    assert (entry.key, entry.other_key, entry.also_holds, entry.waiting_events) == ('["2"]', '["1"]', ('["3"]',), 2)
    assert progress_of(job).held == 3
    row = repaired(entry, id="2", b=UNSET)
    assert row.repaired is not None
    for old_key, said in ((None, "its old key is not told"), ({"id": "4"}, "has another old key now")):
        with pytest.raises(RepairError, match=said):
            repair_row(job, [replace(row, repaired=replace(row.repaired, old_key=old_key))])
    repair_row(job, [replace(row, repaired=replace(row.repaired, old_key={"id": "1"}))])
    release(job, Settlement(repaired=entries(job)))
    assert (rows(job), entries(job)) == ({3: (5, 1)}, [])


def test_an_event_that_waits_for_its_row_is_listed_until_the_row_comes() -> None:
    job = job_of_parts(
        update_of(5, a=5), update_of(6, key=2, a=6), update_of(7, key=2, a=7, b=7), update_of(8, key=4, old=3)
    )
    found = job.opened.quarantine.incomplete(progress_of(job))
    assert [(one.key, one.detail) for one in found] == [('["1"]', "not sent: b"), ('["4"]', "not sent: a, b")]
    assert not any(one.is_held for one in found)
    job.source.put(NAME, 9, [update_of(1, a=1, b=1), update_of(2, key=3, a=3, b=3)])  # type: ignore[attr-defined]
    apply_changes(job)
    assert job.opened.quarantine.incomplete(progress_of(job)) == []
    assert rows(job) == {1: (5, 1), 2: (7, 7), 4: (3, 3)}


def test_every_row_that_cannot_be_repaired_is_named_and_none_is_stored() -> None:
    """A file of repaired rows is accepted as a whole, or not at all."""
    job = job_after(update(1, 1), bad(2), bad(3), bad(4))
    first, second, third = entries(job)
    with pytest.raises(RepairError) as refused:
        repair_row(job, [repaired(first), repaired(second, b="1"), repaired(third, id=None)])
    assert "2 of 3 rows cannot be repaired so" in refused.value.what
    assert "it has b, which the table has not" in str(refused.value.found)
    assert "the key column id cannot be NULL" in str(refused.value.found)
    assert [entry.repaired for entry in entries(job)] == [None] * 3


NESTED = Type("list", parts=(Column("element", Type("int")),))


@pytest.mark.parametrize(
    ("dimension", "said"),
    [
        (replace(PARTS, schema=Schema((Column("id", NESTED),))), "the column id is a list<int>"),
        (replace(PARTS, lateness=ORDERED), "`ordered` table takes no such row"),
        (PARTS, None),
    ],
)
def test_a_row_that_cannot_be_repaired_says_why(dimension: Dimension, said: str | None) -> None:
    right = ChangeEvent(operation=Operation.INSERT, position=Position(1, 2, 3, 2), key=(9,), cells={"id": 9})
    (entry,) = entries(job_of_parts(Reject(Position(1, 3, 3, 1), Reason.CAST, ((1,), (2,))), right))
    found = why_not(dimension, entry)
    assert found is None if said is None else said in str(found)


SOURCE = columns(nr="int", word="string")
RULES = (Rename(column="nr", to="id"), Cast(column="word", type=Type("int"), to="a"), Drop(columns=("word",)))
AT_MOST = Range(column="a", most="9")


def ruled(source: Schema = SOURCE, quality: tuple[Range, ...] = (AT_MOST,)) -> Job[Any]:
    rules, inner = TableRules(columns=RULES, quality=quality, source=source), MemorySource()
    word = ChangeEvent(operation=UPDATE, position=Position(1, 2, 2, 1), key=(1,), cells={"nr": 1, "word": "x"})
    inner.put(NAME, 2, [word])
    return memory_job(DIMENSION, ShapedSource(inner, MemoryShaper(rules)))


def test_a_row_under_column_rules_is_repaired_in_the_columns_of_its_source() -> None:
    """The rules make the row of the table from it again, and it must satisfy them."""
    job = ruled()
    apply_changes(job)
    (entry,) = entries(job)
    assert (entry.key, entry.reason) == ('["1"]', "cast")
    assert job.source.written(DIMENSION).schema == SOURCE
    assert job.source.written(DIMENSION).key == ("nr",)
    for cells, said in (
        ({"nr": "1", "word": "ten"}, "1 repaired row still breaks a rule"),
        ({"nr": "1", "word": "10"}, "1 repaired row still breaks a rule"),
        ({"nr": "2", "word": "7"}, "has another key now"),
        ({"id": "1", "a": "7"}, "its columns are not those"),
    ):
        with pytest.raises(RepairError, match=said):
            repair_row(job, [replace(entry, repaired=RepairedRow(operation=Operation.UPDATE, cells=cells))])
    repair_row(
        job, [replace(entry, repaired=RepairedRow(operation=Operation.UPDATE, cells={"nr": "1", "word": "7"}))]
    )
    release(job, Settlement(repaired=entries(job)))
    assert stored_value(job) == 7


@pytest.mark.parametrize(
    ("source", "dimension", "said"),
    [
        (Schema(()), DIMENSION, "the columns of its source are not declared"),
        (SOURCE, PARTS, "the rules make other columns than the table has"),
        (SOURCE, replace(DIMENSION, schema=Schema(DIMENSION.schema.columns[:1])), "the rules make other columns"),
    ],
)
def test_rows_of_undeclared_columns_cannot_be_repaired(source: Schema, dimension: Dimension, said: str) -> None:
    with pytest.raises(RepairError) as refused:
        ruled(source).source.written(dimension)
    assert said in f"{refused.value.what} {refused.value.found}"
