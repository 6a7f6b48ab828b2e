"""What a truncate is to a batch, and to what waits in quarantine."""

from __future__ import annotations

import pytest
from memory_jobs import item

from lakeward.core.dimension import ORDERED, Lateness, Within
from lakeward.core.events import LOAD_SEQUENCE, Operation, Position, SourceOrder
from lakeward.core.merge.change_log import Reason, Record
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.facts import BatchFacts, Capability
from lakeward.core.merge.truncates import Truncates, remembered_truncates
from lakeward.core.plan import plan
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, parse_type


def at(sequence: int, object_: int = 1) -> Position:
    return Position(1, sequence, object_, 1)


def record(batch: int, *truncates: Position) -> Record:
    return Record(batch, frozenset({batch}), at(1), at(9), truncates=truncates)


def test_the_newest_truncate_below_the_low_watermark_is_remembered() -> None:
    records = [record(1, at(2), at(4)), record(2, at(3), at(7)), record(3)]
    assert remembered_truncates(records, SourceOrder(1, 4)) == {at(4), at(7)}
    assert remembered_truncates(records) == {at(2), at(3), at(4), at(7)}
    assert not remembered_truncates([record(1)], SourceOrder(1, 4))


def test_each_truncate_is_counted_once() -> None:
    found = Truncates.of(frozenset({at(5)}), [at(5), at(3), at(8), at(7)])
    assert found.counts(in_history=False) == Counts(duplicates=1, stale=1, superseded=1, applied=1)
    assert found.counts(in_history=True) == Counts(duplicates=1, applied=3)
    assert (found.newest, found.removes_below, found.all) == (at(5), at(8), (at(3), at(5), at(7), at(8)))
    assert Truncates.of(frozenset({at(5)}), [at(3)]).counts(in_history=False) == Counts(stale=1)
    assert Truncates().counts(in_history=False) == Counts()


def test_a_truncate_with_an_equal_unique_sequence_is_a_copy() -> None:
    again = [at(5, object_=9), at(6, object_=2), at(6, object_=3)]
    assert Truncates.of(frozenset({at(5)}), again, unique=True).arrived == (at(6, object_=2),)
    assert Truncates.of(frozenset({at(5)}), again, unique=True).copies == 2
    assert Truncates.of(frozenset({at(5)}), again).copies == 0


def test_an_ordered_table_meets_truncates_above_its_events_and_the_newest_one() -> None:
    old = Truncates(frozenset(at(sequence) for sequence in range(2, 900)), (at(1200),), copies=3)
    assert old.met_from(at(1000)) == Truncates(frozenset({at(899)}), (at(1200),), copies=3)
    assert old.met_from(at(897)).remembered == {at(897), at(898), at(899)}
    assert old.met_from(None).remembered == {at(899)}
    assert Truncates().met_from(at(1)) == Truncates()


def test_a_truncate_overrules_holds_below_it_unless_their_position_is_unknown() -> None:
    truncates = Truncates(frozenset({at(5)}), (at(8),))
    assert truncates.overrules(at(7), Reason.CAST)
    assert not truncates.overrules(at(9), Reason.CAST)
    assert truncates.overrules(at(LOAD_SEQUENCE), Reason.CAST)
    assert not truncates.overrules(at(LOAD_SEQUENCE), Reason.SEQUENCE)


@pytest.mark.parametrize(
    ("mark", "lateness"),
    [(SourceOrder(1, 500), Within(9)), (SourceOrder(2, 5), ORDERED)],
    ids=["reload", "ordered"],
)
def test_a_truncate_is_not_compared_with_the_low_watermark_of_an_earlier_epoch_or_lateness(
    mark: SourceOrder, lateness: Lateness
) -> None:
    """The sequences of the new epoch may begin anew, below it; an `ordered` table tells copies by what stands."""
    columns, place = Schema((Column("id", parse_type("int")),)), Position(2, 3, 5, 1)
    facts = BatchFacts(
        schema=columns, operations={Operation.TRUNCATE: 1}, least=place, greatest=place, truncates=(place,)
    )
    planned = plan(
        item(columns, lateness=lateness),
        facts,
        Progress(batch=2, epoch=2, key=("id",), low_watermark=mark),
        stored=columns,
        capabilities=frozenset(Capability),
    )
    assert planned.truncates.arrived == (place,)
    assert planned.low_watermark is None
