"""Sequences of a source by example: copies, ties, an order that runs backwards, and rows without one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import NAME, UPDATE, TableFeed, columns, event, item

from lakeward.adapters.memory import MemorySource
from lakeward.core.checks.event_order import ARRIVAL, LOG_PLACE, OrderBy
from lakeward.core.checks.source_clock import Backwards
from lakeward.core.dimension import ORDERED, Dimension, Lateness, Unbounded, Within
from lakeward.core.errors import RepairError, SchemaConflict
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position, Sequences
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job, Settlement
from lakeward.core.pipeline.release import release, repair_row
from lakeward.core.ports import RepairedRow
from lakeward.core.progress import Progress
from lakeward.core.quarantine.repair import may_give, must_give
from lakeward.core.reporting.alarms import alarms

DIMENSION = item(columns(id="int", a="int"), lateness=Unbounded(), sequences=Sequences.UNIQUE)
FIRST = 20261121_10000000 * 10**19


def change(
    count: int, a: int, object_: int, row: int = 1, operation: Operation = UPDATE, time: int | None = None
) -> ChangeEvent:
    return event(operation, FIRST + count, at=object_, row=row, time=time, a=a)


class Feed(TableFeed):
    def __init__(self, *objects: list[ChangeEvent | Reject], dimension: Dimension = DIMENSION) -> None:
        super().__init__(dimension, MemorySource())
        for items in objects:
            self.deliver(items[0].position.object, *items)

    @property
    def row(self) -> Any:
        return self.table.rows.get((1,))

    def ordered_by(self, column: str | None) -> Job[Any]:
        self.source.order_column = column
        return self.job


@pytest.mark.parametrize("lateness", [ORDERED, Unbounded()], ids=repr)
def test_other_contents_at_a_sequence_are_a_tie_across_batches_and_the_later_arrival_wins(
    lateness: Lateness,
) -> None:
    dimension = replace(DIMENSION, lateness=lateness)
    feed = Feed([change(2, 2, object_=5)], [change(2, 3, object_=9)], dimension=dimension)
    assert (feed.progress.counts.ties, feed.row.cells["a"]) == (1, 3)


def test_another_kind_of_sequences_is_refused() -> None:
    feed = Feed([change(1, 1, object_=5)])
    feed.source.put(NAME, 6, [change(2, 2, object_=6)])
    with pytest.raises(SchemaConflict) as refused:
        apply_changes(replace(feed.job, dimension=replace(DIMENSION, sequences=Sequences.TIMES)))
    assert "cannot be made of something else" in refused.value.what
    apply_changes(feed.job)
    assert feed.row.cells["a"] == 2


def test_progress_of_an_earlier_version_has_times_and_every_digit_is_stored() -> None:
    now = Feed([change(1, 1, object_=5)]).progress
    assert Progress.from_json(now.to_json()) == now
    assert (now.high_watermark and now.high_watermark.sequence) == FIRST + 1
    assert Progress.from_json('{"batch": 3}').sequences is Sequences.TIMES


def test_progress_of_a_mirror_has_no_fields_of_histories() -> None:
    assert "current" not in Progress().to_json()
    assert Progress.from_json(Progress(current=0).to_json()).current == 0


def test_a_falling_sequence_within_an_object_raises_an_alarm() -> None:
    feed = Feed([change(2, 2, object_=5), change(1, 1, object_=5, row=2)])
    assert feed.progress.backwards == Backwards("00000005", 2)
    (alarm,) = alarms("shop.item", None, [Backwards("00000005", 2)] * 2, [], now=0)
    assert (alarm.code, "row 2" in alarm.found) == ("SEQUENCE-001", True)
    feed.deliver(6, change(3, 3, object_=6), change(4, 4, object_=6, row=2))
    assert feed.progress.backwards is None


@pytest.mark.parametrize(("lateness", "found"), [(5, None), (4, Backwards("00000005", 2))])
def test_a_time_may_fall_by_up_to_the_lateness(lateness: int, found: Backwards | None) -> None:
    dimension = replace(DIMENSION, lateness=Within(lateness), sequences=Sequences.TIMES)
    feed = Feed([change(15, 1, object_=5), change(10, 2, object_=5, row=2)], dimension=dimension)
    assert feed.progress.backwards == found


def test_an_event_that_is_too_late_raises_an_alarm() -> None:
    dimension = replace(DIMENSION, lateness=Within(5))
    deliveries = [[change(n, n, object_=n, time=10 * n)] for n in (1, 2, 3)]
    feed = Feed(*deliveries, [change(0, 0, object_=4, time=5)], dimension=dimension)
    assert feed.progress.counts.quarantined == 1
    assert feed.progress.backwards == Backwards("00000004", None)
    assert [Reason(entry.reason) for entry in feed.entries()] == [Reason.TOO_LATE]


def test_a_row_without_a_sequence_is_repaired_with_one() -> None:
    lacking = Reject(Position(1, LOAD_SEQUENCE, 5, 1), Reason.SEQUENCE, ((1,),), time=7)
    feed = Feed([lacking, change(1, 1, object_=5, row=2), change(3, 3, object_=5, row=3)])
    (entry,) = feed.entries()
    assert (must_give(DIMENSION, entry), may_give(DIMENSION, entry)) == ({"sequence"}, {"sequence"})
    assert may_give(DIMENSION, replace(entry, time=None)) == {"sequence", "time"}
    assert must_give(DIMENSION, replace(entry, sequence=FIRST)) == {"time"}
    cells = {"id": "1", "a": "2"}
    for given, words in (({"time": "7"}, "its commit time is known"), ({}, "its sequence is not given")):
        wrong = replace(entry, repaired=RepairedRow(operation=Operation.UPDATE, cells=cells, **given))
        with pytest.raises(RepairError, match=words):
            repair_row(feed.job, [wrong])
    right = RepairedRow(operation=Operation.UPDATE, cells=cells, sequence=str(FIRST + 2))
    repair_row(feed.job, [replace(entry, repaired=right)])
    release(feed.job, Settlement(repaired=feed.entries()))
    assert feed.row.cells["a"] == 3


IN_UTC, IN_TOKYO = str(OrderBy("at", "UTC")), str(OrderBy("at", "Asia/Tokyo"))
AS_IT_IS, BY_DAYS, BY_MONTHS = (str(OrderBy("at", "UTC", one)) for one in ("", "dd/MM/yyyy", "MM/dd/yyyy"))


@pytest.mark.parametrize(
    ("was", "is_", "words"),
    [
        ("at", "version", "the table goes by `at`; the settings say `version`"),
        ("at", "", "the table goes by `at`; the settings say the order of files and rows alone"),
        ("", "at", "the table goes by the order of files and rows alone; the settings say `at`"),
        ("_cdc.at", "_cdc.lsn", "the table goes by `_cdc.at`; the settings say `_cdc.lsn`"),
        (IN_UTC, IN_TOKYO, "the table goes by `at` in UTC; the settings say `at` in Asia/Tokyo"),
        (BY_DAYS, BY_MONTHS, "`at` in the format 'dd/MM/yyyy'; the settings say `at` in the format 'MM/dd/yyyy'"),
        (BY_DAYS, AS_IT_IS, "the table goes by `at` in the format 'dd/MM/yyyy'; the settings say `at` as it is"),
        (ARRIVAL, LOG_PLACE, f"the table goes by {ARRIVAL}; the settings say {LOG_PLACE}"),
    ],
)
def test_another_order_column_is_refused(was: str, is_: str, words: str) -> None:
    places = replace(DIMENSION, sequences=Sequences.PLACES)
    feed = Feed(dimension=places)
    feed.source.order_column = was
    feed.deliver(5, change(1, 1, object_=5))
    for waits in (False, True):  # nothing, and then a file
        if waits:
            feed.source.put(NAME, 6, [change(2, 2, object_=6)])
        with pytest.raises(SchemaConflict) as refused:
            apply_changes(feed.ordered_by(is_))
        assert str(refused.value.found).endswith(words)
    apply_changes(feed.ordered_by(was))
    assert feed.row.cells["a"] == 2


@pytest.mark.parametrize(
    ("was", "is_", "renames"),
    [
        ("at", "since", {"at": "since"}),
        (IN_TOKYO, str(OrderBy("since", "Asia/Tokyo")), {"at": "since"}),
        ("at", IN_TOKYO, {}),
        (IN_UTC, BY_DAYS, {}),
        (BY_DAYS, IN_UTC, {}),
        ("paid in cash", "cash", {"paid in cash": "cash"}),
        (str(OrderBy("a", "UTC")), str(OrderBy("a", "Asia/Tokyo")), {}),
        ("_cdc.at", "meta.at", {"_cdc": "meta"}),
        (None, "at", {}),
        (LOG_PLACE, ARRIVAL, {}),
        ("at", None, {}),
    ],
)
def test_an_order_column_may_get_a_new_name(was: str | None, is_: str | None, renames: dict[str, str]) -> None:
    feed = Feed(dimension=replace(DIMENSION, sequences=Sequences.PLACES))
    feed.source.order_column = was
    feed.deliver(5, change(1, 1, object_=5))
    feed.source.put(NAME, 6, [change(2, 2, object_=6)])
    policies = replace(feed.job.dimension.policies, renames=renames)
    job = feed.ordered_by(is_)
    apply_changes(replace(job, dimension=replace(job.dimension, policies=policies)))
    assert (feed.row.cells["a"], feed.progress.order_by) == (2, is_ or was)


def test_commit_times_may_replace_the_order_of_files_and_not_the_reverse() -> None:
    feed = Feed(dimension=replace(DIMENSION, sequences=Sequences.TIMES))
    feed.source.order_column = ""
    feed.deliver(5, change(1, 1, object_=5))
    feed.source.put(NAME, 6, [change(2, 2, object_=6)])
    apply_changes(feed.ordered_by("committed_at"))
    assert feed.row.cells["a"] == 2
    with pytest.raises(SchemaConflict):
        apply_changes(feed.ordered_by(""))
