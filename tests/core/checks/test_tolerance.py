"""How much of a batch may go into quarantine before its table stops instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import INSERT, NAME, UPDATE, event, item, memory_job, progress_of, table_of

from lakeward.adapters.memory import MemorySource
from lakeward.core.checks.batch_checks import refuse_flood
from lakeward.core.dimension import Tolerance, Unreadable, Within
from lakeward.core.errors import QuarantineFull, SourceError
from lakeward.core.events import ChangeEvent, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Idle, Job
from lakeward.core.pipeline.preparation import prepare_next_batch


def insert(row: int, object_: int = 1, time: int | None = None) -> ChangeEvent:
    return event(INSERT, object_, row, row=row, time=time, a=1)


def job(source: MemorySource, tolerance: Tolerance, **more: Any) -> Job[Any]:
    return memory_job(item(tolerance=tolerance, **more), source)


def delivering(good: int, bad: int, reason: Reason = Reason.CAST) -> MemorySource:
    source = MemorySource()
    keys = () if reason is Reason.UNREADABLE else ((0,),)
    rejects = [Reject(Position(1, 1, 1, 10_000 + row), reason, keys) for row in range(bad)]
    source.put(NAME, 1, [*map(insert, range(1, good + 1)), *rejects])
    return source


def is_untouched(of: Job[Any]) -> bool:
    table = table_of(of)
    return not (table.exists or table.quarantined or table.written)


@pytest.mark.parametrize(
    ("good", "bad", "tolerance"),
    [
        (95, 5, Tolerance()),  # a share of exactly the limit
        (49, 50, Tolerance()),  # too few rows for a share to say anything
        (0, 100, Tolerance(max_share=1.0)),
        (1, 3, Tolerance(max_rows=3)),
    ],
)
def test_refused_rows_within_the_tolerance_go_into_quarantine(good: int, bad: int, tolerance: Tolerance) -> None:
    found = job(delivering(good, bad), tolerance)
    assert apply_changes(found).quarantined == bad


def test_rows_of_other_tables_do_not_count_for_the_share() -> None:
    """Of 100 rows of the table 10 cannot be read, whatever other rows its files have."""
    source = MemorySource()
    rejects = [Reject(Position(1, 1, 1, 10_000 + row), Reason.CAST, ((0,),)) for row in range(10)]
    source.put(NAME, 1, [*map(insert, range(1, 91)), *rejects], others={"shop.order": 10_000})
    with pytest.raises(QuarantineFull, match="10 of the 100 rows"):
        apply_changes(job(source, Tolerance()))


@pytest.mark.parametrize(
    ("good", "bad", "tolerance", "limit"),
    [
        (94, 6, Tolerance(), "max_share = 0.05"),
        (299, 1, Tolerance(max_share=0.0), "max_share = 0"),
        (0, 4, Tolerance(max_rows=3), "max_rows = 3"),
        (0, 1, Tolerance(max_rows=0), "max_rows = 0"),
        (300, 10_001, Tolerance(), "max_rows = 10,000"),
    ],
)
def test_above_a_limit_nothing_is_applied_and_nothing_quarantined(
    good: int, bad: int, tolerance: Tolerance, limit: str
) -> None:
    found = job(delivering(good, bad), tolerance)
    with pytest.raises(QuarantineFull) as refused:
        apply_changes(found)
    assert limit in str(refused.value.found)
    assert f"{bad:,} cast" in str(refused.value.found)
    assert is_untouched(found)


def test_rows_that_show_a_schema_change_do_not_count_for_the_share() -> None:
    """In a file with such a change all rows may show it."""
    dimension = item(key=())
    refuse_flood(dimension, {Reason.SCHEMA: 950, Reason.CAST: 50}, 1000)
    with pytest.raises(QuarantineFull, match="1,001 of"):
        refuse_flood(dimension, {Reason.SCHEMA: 950, Reason.CAST: 51}, 1000)
    with pytest.raises(QuarantineFull, match="10,001 of"):
        refuse_flood(dimension, {Reason.SCHEMA: 10_001}, 1_000_000)


def test_a_row_whose_key_cannot_be_read_stops_the_table_or_makes_it_inexact() -> None:
    source = delivering(1, 1, Reason.UNREADABLE)
    stopping = job(source, Tolerance(unreadable=Unreadable.STOP))
    with pytest.raises(SourceError, match="1 row whose key cannot be read"):
        apply_changes(stopping)
    assert is_untouched(stopping)
    going_on = job(source, Tolerance())
    apply_changes(going_on)
    assert progress_of(going_on).inexact_since == "00000001"


def test_a_prepared_batch_has_the_number_of_rejects_by_reason() -> None:
    """This includes rows that the table itself refuses, and no duplicates of refused rows."""
    source = delivering(good=3, bad=2)
    found = job(source, Tolerance(), lateness=Within(1))
    apply_changes(found)
    source.put(NAME, 50, [insert(4, object_=50, time=50)])
    apply_changes(found)
    source.put(NAME, 90, [insert(5, object_=90, time=90)])
    apply_changes(found)
    moved = replace(insert(3, object_=91, time=91), operation=UPDATE, old_key=(1,), transaction=None)
    source.put(NAME, 91, [replace(insert(6, time=50), position=Position(1, 50, 91, 2)), moved])
    prepared = prepare_next_batch(found)
    assert not isinstance(prepared, Idle)
    assert prepared.resolved.rejects == {Reason.TOO_LATE: 1, Reason.KEY_SHIFT: 1}
    assert prepared.resolved.counts.quarantined == 2
    bare = job(source, Tolerance(max_share=1), key=())
    prepared = prepare_next_batch(bare)
    assert not isinstance(prepared, Idle)
    assert prepared.resolved.rejects == {Reason.CAST: 2, Reason.NO_KEY: 1}
