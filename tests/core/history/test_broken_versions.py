"""Versions that break a rule are not written: their key waits, and all others go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from memory_jobs import NAME, READ, UPDATE, TableFeed, event, item

from lakeward.core.dimension import Dimension, Unbounded
from lakeward.core.errors import RepairError
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation
from lakeward.core.history.options import History, ValidityColumns
from lakeward.core.history.versions import Versions
from lakeward.core.merge.fold import row_of
from lakeward.core.pipeline.job import Settlement
from lakeward.core.pipeline.release import release, repair_row
from lakeward.core.ports import RepairedRow
from lakeward.core.schema import Type

DIMENSION = item(
    lateness=Unbounded(),
    history=History(validity_columns=ValidityColumns(type=Type("date"))),
)
DAY = 86_400_000_000


def put(day: int, a: int, key: int = 1, old: int | None = None) -> ChangeEvent:
    return event(UPDATE, day, key, row=key, time=day * DAY, old=old, transaction=day, a=a)


class Lake(TableFeed):
    """One table, into which others write."""

    def forget(self) -> None:
        """Remember nothing, as once the mark has passed all."""
        self.table.read_state(self.progress)
        self.table.memory.bases.clear()
        self.table.memory.changes.clear()

    def alter(self, change: Callable[[Versions], Versions], key: int = 1) -> None:
        self.table.rows[key,] = row_of(change(self.table.rows[key,].versions))

    def replay(self) -> None:
        (entry,) = self.entries()
        (written,) = self.source.repair_row(self.table.dimension, [entry])
        cells = {"id": "1", "a": str(written.cells["a"])}
        repair_row(self.job, [replace(entry, repaired=RepairedRow(operation=UPDATE, cells=cells))])
        release(self.job, Settlement(repaired=self.entries()))


def with_versions(dimension: Dimension = DIMENSION) -> Lake:
    """Return a table with three versions of the key 1, and one of the key 2, which the mark has passed."""
    lake = Lake(dimension)
    lake.deliver(1, put(1, a=1), put(1, a=1, key=2))
    lake.deliver(3, put(3, a=3))
    lake.deliver(5, put(5, a=5))
    assert lake.periods() == [(1, 3, 1), (3, 5, 3), (5, None, 5)]
    lake.forget()
    return lake


def reopened(versions: Versions) -> Versions:
    return (replace(versions[0], valid_to=None), *versions[1:])


def prolonged(versions: Versions) -> Versions:
    return (replace(versions[0], valid_to=4), *versions[1:])


def shortened(versions: Versions) -> Versions:
    return (replace(versions[0], valid_to=2), *versions[1:])


def alike(versions: Versions) -> Versions:
    return (versions[0], replace(versions[1], cells=versions[0].cells), *versions[2:])


def emptied(versions: Versions) -> Versions:
    return (replace(versions[0], valid_to=1), *versions[1:])


ALTERED = {
    reopened: "two versions are current (valid_from = 1970-01-02)",
    prolonged: "two versions are valid at once (valid_from = 1970-01-04)",
    shortened: "between two versions there is none, though the row was not deleted (valid_from = 1970-01-04)",
    alike: "a version is equal to the one that it follows at once (valid_from = 1970-01-04)",
    emptied: "a version ends where it begins, or before (valid_from = 1970-01-02)",
}


@pytest.mark.parametrize(("change", "rule"), ALTERED.items())
def test_a_key_with_broken_versions_is_held_and_other_keys_go_on(
    change: Callable[[Versions], Versions], rule: str
) -> None:
    lake = with_versions()
    lake.alter(change)
    stored = lake.table.rows[1,]
    counts = lake.deliver(7, put(7, a=7), put(7, a=7, key=2), put(7, a=0, key=3))
    assert (counts.read, counts.applied, counts.quarantined) == (3, 2, 1)
    assert lake.table.rows[1,] == stored
    assert (lake.periods(2), lake.periods(3)) == ([(1, 7, 1), (7, None, 7)], [(7, None, 0)])
    (entry,) = lake.entries()
    assert (entry.reason, entry.detail, entry.key, entry.is_held) == ("history", rule, '["1"]', True)
    assert lake.table.progress.held == 1
    assert lake.deliver(8, put(8, a=8)).waiting == 1
    assert lake.table.rows[1,] == stored


def test_waiting_events_are_applied_in_order_once_the_table_is_corrected() -> None:
    lake = with_versions()
    right = lake.table.rows[1,].versions
    lake.alter(reopened)
    lake.deliver(7, put(7, a=7))
    lake.deliver(8, put(8, a=8))
    with pytest.raises(RepairError, match="meets versions of its key that are not right") as refused:
        lake.replay()
    assert refused.value.found == ALTERED[reopened]
    assert len(lake.entries()) == 1
    lake.alter(lambda _: right)
    lake.replay()
    assert lake.entries() == []
    assert lake.periods() == [(1, 3, 1), (3, 5, 3), (5, 7, 5), (7, 8, 7), (8, None, 8)]


def test_an_event_behind_a_discarded_one_holds_the_key_until_the_table_is_corrected() -> None:
    lake = with_versions()
    right = lake.table.rows[1,].versions
    lake.alter(reopened)
    lake.deliver(7, put(7, a=7))
    lake.deliver(8, put(8, a=8))
    for day in (7, 8):
        (entry,) = lake.entries()
        assert entry.sequence == day
        release(lake.job, Settlement(discarded=[entry]))
    assert (lake.entries(), lake.table.progress.held) == ([], 0)
    lake.alter(lambda _: right)
    lake.deliver(9, put(9, a=9))
    assert lake.periods() == [(1, 3, 1), (3, 5, 3), (5, 9, 5), (9, None, 9)]


def test_a_key_change_holds_both_its_keys() -> None:
    lake = with_versions()
    lake.alter(reopened)
    counts = lake.deliver(7, put(7, a=7, key=2), put(8, a=8, key=3, old=2), put(9, a=9, key=1, old=3))
    assert (counts.applied, counts.quarantined) == (2, 1), "each key goes as far as it may"
    (entry,) = lake.entries()
    assert (entry.key, entry.other_key) == ('["1"]', '["3"]')
    assert (lake.periods(2), lake.periods(3)) == ([(1, 7, 1), (7, 8, 7)], [(8, None, 8)])


def test_broken_versions_of_a_key_without_events_stay() -> None:
    lake = with_versions()
    lake.alter(reopened)
    stored = lake.table.rows[1,]
    counts = lake.deliver(7, event(Operation.TRUNCATE, 7, time=7 * DAY))
    assert (counts.applied, counts.quarantined, lake.entries()) == (1, 0, [])
    assert (lake.table.rows[1,], lake.periods(2)) == (stored, [(1, 7, 1)])
    lake.deliver(8, put(8, a=8))
    assert [entry.reason for entry in lake.entries()] == ["history"], "it waits with the first event that names it"


def test_broken_versions_of_a_key_that_a_full_load_lacks_stay() -> None:
    lake = with_versions()
    lake.alter(reopened)
    stored = lake.table.rows[1,]
    lake.source.loaded[NAME] = 2
    reads = [event(READ, LOAD_SEQUENCE, key, at=9, row=key, epoch=2, time=9 * DAY, a=key) for key in (2, 3)]
    counts = lake.deliver(9, *reads)
    assert (counts.applied, lake.entries()) == (2, [])
    assert (lake.table.rows[1,], lake.periods(2)) == (stored, [(1, 9, 1), (9, None, 2)])
    assert lake.table.progress.rows == len(lake.periods(2)) + len(stored.versions) + 1
