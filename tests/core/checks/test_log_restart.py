"""A source log that starts over stops its table until an operator decides; nothing else raises the alarm."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.memory import MemorySource, MemoryTable, MemoryTarget
from lakeward.core.checks.log_restart import LOG_ALARM, LogRestart, lift_place
from lakeward.core.checks.log_steps import LEAST_GAP, LogName
from lakeward.core.dimension import ORDERED, Dimension, Lateness, TableName, Within
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import UNSET, ChangeEvent, Operation, Position, Sequences
from lakeward.core.history.options import History
from lakeward.core.operations.acknowledge import ack
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type

NAME = TableName("shop", "item")
SECOND = 1_000_000
DAY = Within(24 * 3600 * SECOND)
PLAIN, OVERLAPPING = LogName(), LogName(overlap=True)


PARTITION = 1000
"""How many orders a partition has."""

Logs = tuple[LogName, LogName]


class Feed:
    """Objects of a table whose changes name their log, delivered and applied one by one.

    Objects of a partition lie behind those of the partitions before it.
    """

    def __init__(self, lateness: Lateness = DAY, history: History | None = None) -> None:
        self.dimension = Dimension(
            name=NAME,
            schema=Schema((Column("id", Type("int")), Column("v", Type("string")))),
            key=("id",),
            lateness=lateness,
            history=history,
            sequences=Sequences.PLACES,
        )
        self.logs: dict[tuple[int, int], LogName] = {}
        self.source = MemorySource(
            logs=lambda event: self.logs[event.position.object, event.position.row],
            partition_end=lambda order: None if order < PARTITION else (order // PARTITION + 1) * PARTITION,
        )
        target = MemoryTarget({NAME: MemoryTable(self.dimension)})
        self.job: Job[Any] = Job(dimension=self.dimension, source=self.source, opened=target.open(self.dimension))
        self.delivered = 0

    def deliver(self, *changes: tuple[Any, ...], log: LogName = PLAIN, partition: int | None = None) -> None:
        """Deliver an object of changes: operation, key, value, place, time in seconds, and a log of its own."""
        self.delivered += 1
        order = self.delivered + (0 if partition is None else (partition + 1) * PARTITION)
        items = []
        for row, (operation, key, value, place, time, *own) in enumerate(changes, 1):
            self.logs[order, row] = own[0] if own else log
            items.append(
                ChangeEvent(
                    operation=operation,
                    position=Position(1, place, order, row),
                    key=None if operation is T else (key,),
                    cells={} if operation is T else {"id": key, "v": value},
                    time=int(time * SECOND),
                )
            )
        self.source.put(NAME, order, items)

    def decide(self) -> int:
        """Apply all that waits, and acknowledge each alarm; return how many there were."""
        for stops in range(20):
            try:
                apply_changes(self.job)
            except AlarmRaised:
                self.ack()
            else:
                return stops
        raise AssertionError("the table stops again and again")

    def apply(self, *changes: tuple[Any, ...], log: LogName = PLAIN) -> None:
        self.deliver(*changes, log=log)
        apply_changes(self.job)

    def stops(self, *changes: tuple[Any, ...], log: LogName = PLAIN) -> AlarmRaised:
        """Deliver an object at which the table stops, however often it runs."""
        self.deliver(*changes, log=log)
        before = self.progress
        for _ in range(2):
            with pytest.raises(AlarmRaised) as raised:
                apply_changes(self.job)
        assert (raised.value.code, self.progress) == (LOG_ALARM, before)
        return raised.value

    def ack(self) -> None:
        ack(self.job, LOG_ALARM, by="ada", reason=None, at=0)

    @property
    def progress(self) -> Progress:
        return self.job.opened.table.standing().progress

    @property
    def rows(self) -> dict[Any, Any]:
        table = self.job.opened.table
        assert isinstance(table, MemoryTable)
        return {key[0]: row.cells["v"] for key, row in table.rows.items() if not row.deleted}


C, U, D, R, T = (Operation[name] for name in ("INSERT", "UPDATE", "DELETE", "READ", "TRUNCATE"))


@pytest.mark.parametrize("lateness", [DAY, ORDERED])
@pytest.mark.parametrize("log", [PLAIN, OVERLAPPING])
@pytest.mark.parametrize(("operation", "after"), [(U, {1: "b"}), (D, {})])
def test_a_restarted_log_stops_the_table_until_an_operator_decides(
    lateness: Lateness, log: LogName, operation: Operation, after: dict[int, str]
) -> None:
    feed = Feed(lateness)
    feed.apply((C, 1, "a", 900_000, 0), log=log)
    raised = feed.stops((operation, 1, "b", 5000, 3600), log=log)
    assert "00000002" in raised.found
    assert [word for word in (f"ack {NAME} {LOG_ALARM}", 'places = "arrival"', "reload") if word in raised.todo]
    feed.ack()
    apply_changes(feed.job)
    assert (feed.rows, feed.progress.counts.stale) == (after, 0)
    feed.apply((C, 1, "c", 5001, 3601), log=log)
    assert feed.rows == {1: "c"}


def test_a_restart_within_one_batch_is_found() -> None:
    feed = Feed()
    feed.deliver((C, 1, "a", 900_000, 0))
    feed.deliver((U, 1, "b", 5000, 3600))
    with pytest.raises(AlarmRaised, match="starts over"):
        apply_changes(feed.job)
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {1: "b"}


@pytest.mark.parametrize("runs", [1, 2])
def test_a_snapshot_before_the_first_change_of_a_new_log_is_of_that_log(runs: int) -> None:
    """A new slot begins with a snapshot, whose rows came before the change that shows the new log."""
    feed = Feed()
    feed.deliver((R, 1, "s", 1000, 0), (U, 1, "u", 1010, 1), (C, 2, "x", 1020, 2))
    if runs == 2:
        apply_changes(feed.job)
    feed.deliver((R, 1, "snap", 400, 90), (R, 3, "snap", 400, 90))
    feed.deliver((U, 3, "v", 410, 91))
    with pytest.raises(AlarmRaised) as raised:
        apply_changes(feed.job)
    assert "row 1 of 00000002" in raised.value.found
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {1: "snap", 2: "x", 3: "v"}


def test_a_snapshot_before_changes_of_the_old_log_is_of_that_one() -> None:
    feed = Feed()
    feed.apply((C, 1, "a", 1000, 0), (C, 2, "x", 1010, 1))
    feed.deliver((R, 3, "lagging", 400, 90))
    feed.deliver((U, 1, "b", 1020, 91))
    raised = feed.stops((U, 1, "c", 500, 200))
    assert "row 1 of 00000004" in raised.found


def test_a_restart_within_one_object_is_found_at_its_row() -> None:
    feed = Feed()
    raised = feed.stops((C, 1, "a", 900_000, 0), (U, 1, "b", 900_001, 1), (U, 1, "c", 5000, 60))
    assert "row 3 of 00000001" in raised.found
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {1: "c"}


@pytest.mark.parametrize("lateness", [DAY, ORDERED])
@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize(
    "logs",
    [
        (PLAIN, PLAIN),
        (OVERLAPPING, OVERLAPPING),
        (LogName("bin.", "1", overlap=True), LogName("bin.", "2", overlap=True)),
    ],
)
def test_a_restart_is_found_though_the_new_log_climbs_past_it(lateness: Lateness, logs: Logs, runs: int) -> None:
    """Also where both logs are read in one run."""
    feed = Feed(lateness)
    old, new = logs
    before = [(C, 1, "a", 900_000, 0), (C, 2, "b", 900_100, 1)]
    after = [(U, 1, "a2", 899_000, 3600), (D, 2, None, 899_500, 3601), (C, 3, "c", 905_000, 3605)]
    feed.deliver(*before, log=old)
    if runs == 2:
        apply_changes(feed.job)
    raised = feed.stops(*after, log=new)
    assert "row 1 of 00000002" in raised.found
    feed.ack()
    apply_changes(feed.job)
    assert (feed.rows, feed.progress.counts.stale) == ({1: "a2", 3: "c"}, 0)


@pytest.mark.parametrize("lateness", [DAY, ORDERED])
@pytest.mark.parametrize("runs", [1, 2])
def test_a_restart_is_found_behind_a_change_that_is_delivered_again(lateness: Lateness, runs: int) -> None:
    feed = Feed(lateness)
    feed.deliver((C, 1, "a", 899_000, 0), (U, 1, "b", 900_100, 1))
    if runs == 2:
        apply_changes(feed.job)
    raised = feed.stops((C, 1, "a", 899_000, 0), (U, 1, "c", 899_500, 3600))
    assert "row 2 of 00000002" in raised.found
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {1: "c"}


@pytest.mark.parametrize("lateness", [DAY, ORDERED])
@pytest.mark.parametrize(
    "again", [[], [(C, 1, "a", 899_000, 10)], [(C, 1, "a", 899_000, 10), (C, 5, "late", 899_100, 9)]]
)
def test_a_restart_is_found_where_transactions_overlap_and_a_newer_change_is_stale(
    lateness: Lateness, again: list[tuple[Any, ...]]
) -> None:
    """It lies above the first of the table, and the new log climbs past the old one."""
    feed = Feed(lateness)
    feed.apply((C, 9, "first", 100, 0), (C, 1, "a", 899_000, 10), (U, 1, "b", 900_100, 11), log=OVERLAPPING)
    feed.stops(*again, (U, 1, "c", 899_500, 3600), (C, 3, "d", 905_000, 3605), log=OVERLAPPING)
    feed.ack()
    apply_changes(feed.job)
    late = {key: value for _, key, value, *_ in again if key == 5}
    assert feed.rows == {9: "first", 1: "c", 3: "d", **late}


@pytest.mark.parametrize("lateness", [DAY, ORDERED])
@pytest.mark.parametrize("operation", [U, D])
@pytest.mark.parametrize("history", [None, History()], ids=["mirror", "history"])
def test_a_restart_is_found_whatever_becomes_of_a_change_that_is_lower(
    lateness: Lateness, operation: Operation, history: History | None
) -> None:
    """In a history the change is an earlier version, or none, and never stale; it may also send a part of a row."""
    feed = Feed(lateness, history)
    feed.apply((C, 9, "first", 100, 0), (C, 1, "a", 899_000, 10), (U, 1, "b", 900_100, 11), log=OVERLAPPING)
    raised = feed.stops((C, 4, "new", 899_400, 3590), (operation, 1, "c", 899_500, 3600), log=OVERLAPPING)
    assert "lower in the log" in raised.found
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {9: "first", 4: "new"} | ({1: "c"} if operation is U else {})


def test_a_part_of_a_row_that_is_lower_and_newer_is_a_restart() -> None:
    """It fills a cell that a newer change did not send, so it is applied and not stale."""
    feed = Feed()
    feed.apply((C, 9, "first", 100, 0), (C, 1, "a", 899_000, 10), (U, 1, UNSET, 900_100, 11), log=OVERLAPPING)
    raised = feed.stops((U, 1, "c", 899_500, 3600), log=OVERLAPPING)
    assert "row 1 of 00000002" in raised.found
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {9: "first", 1: "c"}


@pytest.mark.parametrize("apart", [True, False])
def test_a_change_of_a_new_log_below_a_truncate_of_the_old_one_is_a_restart(*, apart: bool) -> None:
    feed = Feed()
    feed.apply((C, 9, "first", 100, 0), (C, 1, "a", 800, 10), log=OVERLAPPING)
    feed.deliver((T, None, None, 900, 20), *([] if apart else [(C, 2, "new", 500, 3600)]), log=OVERLAPPING)
    if apart:
        apply_changes(feed.job)
        feed.deliver((C, 2, "new", 500, 3600), log=OVERLAPPING)
    assert feed.decide() == 1
    assert feed.rows == {2: "new"}


@pytest.mark.parametrize("history", [None, History()], ids=["mirror", "history"])
@pytest.mark.parametrize("lateness", [DAY, ORDERED])
def test_a_restart_is_found_where_the_table_has_newer_changes_of_the_new_log(
    lateness: Lateness, history: History | None
) -> None:
    """The first transaction of the new log comes in two batches: what the second brings is as new as the first."""
    feed = Feed(lateness, history)
    feed.apply((C, 9, "first", 100, 0), (C, 1, "a", 800, 10), log=OVERLAPPING)
    feed.apply((C, 2, "new", 500, 3600), log=OVERLAPPING)
    feed.stops((U, 1, "b", 510, 3600), (C, 3, "c", 520, 3600), log=OVERLAPPING)
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {9: "first", 1: "b", 2: "new", 3: "c"}


def test_a_restart_is_found_where_its_changes_would_come_too_late() -> None:
    """Their positions are below the low watermark; else they would go into quarantine one by one."""
    feed = Feed(Within(3600 * SECOND))
    feed.apply((C, 9, "first", 100, 0), (C, 1, "a", 500, 10), log=OVERLAPPING)
    feed.apply((C, 2, "b", 900_000, 3 * 3600), log=OVERLAPPING)
    feed.stops((U, 1, "new", 400, 4 * 3600), log=OVERLAPPING)
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {9: "first", 1: "new", 2: "b"}


def test_a_restart_is_found_in_a_partition_that_is_new() -> None:
    feed = Feed()
    feed.deliver((C, 9, "x", 100, 0), (C, 5, "old", 150, 1), (C, 3, "y", 200, 2), log=OVERLAPPING, partition=0)
    apply_changes(feed.job)
    feed.deliver((U, 5, "new", 120, 3600), log=OVERLAPPING, partition=1)
    assert feed.decide() == 1
    assert feed.rows == {9: "x", 5: "new", 3: "y"}


def test_a_change_that_waited_for_a_lock_makes_no_restart_of_what_is_delivered_again() -> None:
    """Its time is when its statement began: it is older than the change before it, and higher in the log."""
    feed = Feed()
    before, waited = (U, 1, "before", 100, 10), (U, 1, "waited", 200, 5)
    feed.apply((C, 9, "first", 50, 0), before, log=OVERLAPPING)
    feed.apply(waited, log=OVERLAPPING)
    feed.apply(before, log=OVERLAPPING)
    feed.apply(waited, before, log=OVERLAPPING)
    assert feed.rows == {9: "first", 1: "waited"}


@pytest.mark.parametrize("partition", [None, 0])
def test_what_lags_behind_a_truncate_of_another_partition_is_no_restart(partition: int | None) -> None:
    other = None if partition is None else 1
    feed = Feed()
    feed.deliver((C, 9, "first", 100, 0), (C, 1, "a", 120, 1), log=OVERLAPPING, partition=partition)
    apply_changes(feed.job)
    feed.deliver((T, None, None, 900, 20), (C, 3, "b", 910, 21), log=OVERLAPPING, partition=other)
    apply_changes(feed.job)
    feed.deliver((C, 1, "a", 120, 1), (C, 2, "gone", 500, 15), log=OVERLAPPING, partition=partition)
    apply_changes(feed.job)
    assert feed.rows == {3: "b"}


def test_a_change_that_lags_behind_a_truncate_in_one_batch_is_no_restart() -> None:
    """Its partition is in no name: it is newer than the table, and older than the truncate."""
    feed = Feed()
    feed.apply((C, 9, "first", 100, 0), (C, 1, "a", 120, 1), log=OVERLAPPING)
    feed.deliver((T, None, None, 900, 20), (C, 2, "gone", 500, 15), (C, 3, "b", 910, 21), log=OVERLAPPING)
    assert feed.decide() == 0
    assert feed.rows == {3: "b"}


def test_a_key_that_moved_to_a_partition_which_is_ahead_is_no_restart() -> None:
    """The other partition lags and was delivered again: its changes are newer than before, and not lower."""
    feed = Feed()
    feed.deliver((C, 1, "a", 100, 1), (C, 2, "a", 110, 2), log=OVERLAPPING, partition=0)
    apply_changes(feed.job)
    feed.deliver((C, 3, "a", 120, 3), (U, 1, "new", 500, 50), log=OVERLAPPING, partition=1)
    apply_changes(feed.job)
    again = [(C, 1, "a", 100, 1), (C, 2, "a", 110, 2)]
    feed.deliver(*again, (U, 1, "old", 200, 20), (U, 2, "b", 210, 21), log=OVERLAPPING, partition=0)
    apply_changes(feed.job)
    assert feed.rows == {1: "new", 2: "b", 3: "a"}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("history", [None, History()], ids=["mirror", "history"])
def test_a_restart_is_found_where_both_logs_are_in_one_batch(history: History | None, *, is_first: bool) -> None:
    """Changes of a row are also compared with earlier ones of the same batch."""
    feed = Feed(DAY, history)
    before = [(C, 9, "first", 100, 0), (C, 1, "a", 899_000, 10)]
    if not is_first:
        feed.apply(*before, log=OVERLAPPING)
    old = [*(before if is_first else ()), (C, 3, "old", 900_100, 20), (C, 4, "long", 899_800, 60)]
    feed.stops(*old, (U, 3, "new", 900_000, 3600), log=OVERLAPPING)
    assert feed.decide() == 1
    assert feed.rows == {9: "first", 1: "a", 3: "new", 4: "long"}


@pytest.mark.parametrize("partition", [None, 0])
def test_a_truncate_of_a_new_log_is_told_where_transactions_overlap(partition: int | None) -> None:
    """It waits until all changes of its table are committed, so no change of the same log overlaps it."""
    feed = Feed()
    feed.deliver((C, 1, "a", 100, 0), (C, 2, "b", 1000, 5), log=OVERLAPPING, partition=partition)
    apply_changes(feed.job)
    feed.deliver((T, None, None, 500, 3600), (C, 3, "c", 510, 3601), log=OVERLAPPING, partition=partition)
    assert feed.decide() == 1
    assert feed.rows == {3: "c"}


def test_a_truncate_that_is_delivered_again_is_no_restart() -> None:
    """A transaction that began before it may commit behind it, with an older time."""
    feed = Feed()
    truncate = (T, None, None, 500, 60)
    feed.apply((C, 1, "a", 100, 0), truncate, (C, 2, "b", 900, 10), log=OVERLAPPING)
    feed.apply(truncate, (C, 3, "c", 910, 70), log=OVERLAPPING)
    assert feed.rows == {2: "b", 3: "c"}


def test_two_restarts_are_two_decisions() -> None:
    feed = Feed()
    feed.apply((C, 1, "a", 900_000, 0))
    for at, (value, place) in enumerate([("b", 800_000), ("c", 7)], 1):
        feed.stops((U, 1, value, place, 100 * at))
        feed.ack()
        apply_changes(feed.job)
        assert feed.rows == {1: value}


def test_an_acknowledgement_is_for_one_restart_alone() -> None:
    feed = Feed()
    feed.apply((C, 1, "a", 900_000, 0))
    feed.stops((U, 1, "b", 5000, 3600))
    feed.ack()
    apply_changes(feed.job)
    feed.stops((U, 1, "c", 4000, 7200))
    assert feed.rows == {1: "b"}


def test_a_snapshot_of_another_log_is_a_restart_and_one_of_the_same_log_is_none() -> None:
    feed, log, other = Feed(), LogName("bin."), LogName("other.")
    feed.apply((C, 9, "a", 400_000, 0), (C, 1, "a", 400_090, 0), (D, 9, None, 400_091, 0), log=log)
    feed.apply((R, 2, "a", 400_050, 3600), (R, 1, "old", 400_060, 3600), log=log)
    assert feed.rows == {1: "a", 2: "a"}
    feed.stops((R, 1, "b", 1004, 7200), log=other)
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {1: "b", 2: "a"}
    feed.apply((U, 2, "b", 1005, 7201), log=other)
    assert feed.rows == {1: "b", 2: "b"}


@pytest.mark.parametrize("lateness", [DAY, ORDERED])
def test_a_new_slot_that_begins_with_a_snapshot_is_a_restart(lateness: Lateness) -> None:
    """Its rows are newer than all, and lower than all, and would be stale."""
    feed = Feed(lateness)
    feed.apply((C, 1, "a", 900_000, 0), (C, 2, "b", 900_100, 1))
    feed.stops((R, 1, "a2", 5000, 3600), (R, 2, "b2", 5000, 3600))
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {1: "a2", 2: "b2"}


@pytest.mark.parametrize("lateness", [DAY, ORDERED])
def test_a_restart_within_an_object_is_found_where_transactions_overlap(lateness: Lateness) -> None:
    feed = Feed(lateness)
    feed.stops((C, 1, "a", 900_000, 0), (C, 2, "a", 900_100, 1), (U, 1, "b", 5000, 3600), log=OVERLAPPING)
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {1: "b", 2: "a"}


@pytest.mark.parametrize("partition", [None, 0])
def test_transactions_that_overlap_at_the_beginning_of_a_table_are_no_restart(partition: int | None) -> None:
    """The longest began first: it is newer and lower than all before it."""
    feed = Feed()
    feed.deliver((C, 3, "c", 38, 0), (C, 1, "long", 22, 57), log=OVERLAPPING, partition=partition)
    feed.deliver((C, 4, "d", 50, 60), (U, 5, "longest", 10, 90), log=OVERLAPPING, partition=partition)
    assert feed.decide() == 0
    assert feed.rows == {3: "c", 1: "long", 4: "d", 5: "longest"}


def test_transactions_that_overlap_within_an_object_are_no_restart() -> None:
    """The longer one is newer and lower than the other, and both lie above what came first."""
    feed = Feed()
    feed.apply((C, 9, "first", 100, 0), (C, 1, "a", 900, 10), (C, 2, "long", 500, 60), log=OVERLAPPING)
    feed.apply((U, 1, "b", 950, 70), (U, 2, "longer", 550, 90), log=OVERLAPPING)
    assert feed.rows == {9: "first", 1: "b", 2: "longer"}


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        (LogName("mysql-bin.", "1"), LogName("replica-bin.", "2"), 10),
        (LogName("mysql-bin.", "1"), LogName("replica-bin.", "2"), 2000),
        (LogName("mysql-bin.", "1"), LogName("mysql-bin.", "2"), 10),
    ],
)
def test_another_log_or_a_lower_place_of_another_server_is_a_restart_whatever_its_time(
    before: LogName, after: LogName, place: int
) -> None:
    feed = Feed()
    feed.apply((C, 1, "a", 1000, 50), log=before)
    feed.stops((U, 1, "b", place, 40), log=after)
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {1: "b"}
    feed.apply((U, 1, "c", place + 1, 60), log=after)
    assert feed.rows == {1: "c"}


def test_servers_whose_changes_are_in_one_log_raise_nothing() -> None:
    one, two = LogName("mysql-bin.", "1"), LogName("mysql-bin.", "2")
    feed = Feed()
    feed.apply((C, 1, "a", 10, 0, one), (C, 2, "b", 11, 1, two), (U, 1, "c", 12, 2, one))
    feed.apply((U, 2, "d", 13, 3, two), (U, 1, "e", 14, 4, one))
    assert feed.rows == {1: "e", 2: "d"}


def test_changes_that_tell_no_place_after_those_that_do_stop_the_table_and_go_by_arrival_once_passed() -> None:
    feed = Feed()
    feed.apply((C, 1, "a", 1000, 50))
    feed.stops((U, 1, "b", 0, 40))
    feed.ack()
    apply_changes(feed.job)
    feed.apply((U, 1, "c", 0, 30))
    assert feed.rows == {1: "c"}


@pytest.mark.parametrize("lateness", [DAY, ORDERED])
@pytest.mark.parametrize("apart", [0.0, 0.5, 3600])
@pytest.mark.parametrize("log", [PLAIN, OVERLAPPING])
def test_a_change_that_tells_no_place_among_those_that_do_stops_the_table(
    lateness: Lateness, apart: float, log: LogName
) -> None:
    """Whatever the time in between; each sequence of such changes needs a decision of its own."""
    feed = Feed(lateness)
    placed: list[tuple[Any, ...]] = [(C, 1, "a", 900, 0, log), (C, 2, "b", 901, 0, log)]
    raised = feed.stops(*placed, (U, 1, "new", 0, apart), (U, 1, "newer", 0, apart))
    assert "row 3 of 00000001 tells no place" in raised.found
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {1: "newer", 2: "b"}
    raised = feed.stops((U, 2, "c", 902, apart, log), (D, 1, None, 0, apart))
    assert "row 2 of 00000002 tells no place" in raised.found
    feed.ack()
    apply_changes(feed.job)
    assert feed.rows == {2: "c"}


def test_changes_that_tell_places_after_those_that_tell_none_raise_nothing() -> None:
    feed = Feed()
    feed.apply((C, 1, "a", 0, 0), (C, 2, "b", 0, 0), (U, 1, "c", 900, 0.5))
    feed.apply((U, 1, "d", 901, 0.6))
    assert feed.rows == {1: "d", 2: "b"}


@pytest.mark.parametrize("lateness", [DAY, ORDERED])
def test_rows_of_snapshots_redelivered_events_and_lag_raise_nothing(lateness: Lateness) -> None:
    feed = Feed(lateness)
    feed.apply((C, 1, "a", 1000, 10), (C, 2, "b", 1001, 11))
    feed.apply((R, 3, "c", 5, 100), (R, 4, "d", 0, 100))
    feed.apply((C, 1, "a", 1000, 10), (C, 2, "b", 1001, 11))
    feed.apply((C, 5, "e", 900, 9))
    feed.apply((U, 2, "f", 1002, 12))
    assert feed.rows[2] == "f"
    assert feed.progress.backwards is None


def test_transactions_that_overlap_raise_nothing_where_no_change_is_stale() -> None:
    """A position is that of the change: a long transaction commits last, and lies below others."""
    feed = Feed()
    feed.apply((R, 0, "s", 100, 0), (C, 9, "z", 150, 1), log=OVERLAPPING)
    feed.apply((C, 1, "a", 1000, 10), log=OVERLAPPING)
    feed.apply((C, 2, "b", 900, 60), log=OVERLAPPING)
    assert feed.rows == {0: "s", 1: "a", 2: "b", 9: "z"}
    feed.stops((U, 1, "c", 950, 90), log=OVERLAPPING)


@pytest.mark.parametrize("lateness", [DAY, ORDERED])
def test_each_partition_goes_over_to_a_new_log_at_a_row_of_its_own(lateness: Lateness) -> None:
    """One lags: it brings the rest of the old log, and then changes older than those of the other."""
    feed = Feed(lateness)
    feed.deliver((C, 1, "o1", 1001, 1), (C, 3, "o3", 1002, 2), partition=0)
    feed.deliver((C, 2, "o2", 1003, 3), (C, 4, "o4", 1004, 3), partition=1)
    apply_changes(feed.job)
    feed.deliver((U, 1, "n1", 10, 100), partition=0)
    assert feed.decide() == 1
    feed.deliver((D, 3, None, 20, 110), partition=0)
    rest = [(U, 2, "rest", 1500, 50), (D, 4, None, 1501, 51)]
    feed.deliver(*rest, (U, 2, "n2", 11, 101), (C, 4, "n4", 12, 102), partition=1)
    with pytest.raises(AlarmRaised, match="starts over") as raised:
        apply_changes(feed.job)
    assert "row 3 of 00002005" in raised.value.found
    assert feed.decide() == 1
    assert feed.rows == {1: "n1", 2: "n2", 4: "n4"}
    feed.deliver((U, 1, "n5", 30, 120), partition=0)
    assert (feed.decide(), feed.rows[1]) == (0, "n5")


def test_partitions_that_go_over_in_one_batch_are_one_decision() -> None:
    feed = Feed()
    for partition in range(3):
        feed.deliver((C, partition, "old", 900 + partition, partition), partition=partition)
    apply_changes(feed.job)
    for partition in range(3):
        feed.deliver((U, partition, "new", 5 + partition, 100), partition=partition)
    with pytest.raises(AlarmRaised, match="starts over") as raised:
        apply_changes(feed.job)
    assert "so it does in 2 other partitions" in raised.value.found
    assert (len(raised.value.about), feed.decide()) == (3, 1)
    assert feed.rows == dict.fromkeys(range(3), "new")


def test_a_truncate_of_the_new_log_takes_what_other_partitions_have_of_the_old() -> None:
    """It removes later rows of the old log, too; positions of the new log get the same offset in all partitions."""
    feed = Feed()
    feed.deliver((C, 1, "old", 1001, 1), partition=0)
    feed.deliver((C, 2, "old", 1002, 2), (C, 3, "old", 1003, 3), partition=1)
    apply_changes(feed.job)
    feed.deliver((C, 1, "new", 10, 100), (T, None, None, 11, 101), partition=0)
    assert feed.decide() == 1
    feed.deliver((U, 3, "rest", 1500, 50), (C, 2, "new", 12, 102), partition=1)
    assert feed.decide() == 1
    assert feed.rows == {2: "new"}


@pytest.mark.parametrize(
    ("logs", "place"),
    [
        ((LogName("bin.", "1", overlap=True), LogName("bin.", "2", overlap=True)), 10),
        ((LogName("old-bin.", "1", overlap=True), LogName("new-bin.", "2", overlap=True)), 10),
        ((LogName("old-bin.", "1", overlap=True), LogName("new-bin.", "2", overlap=True)), 2000),
        ((OVERLAPPING, OVERLAPPING), 10),
        ((PLAIN, PLAIN), 0),
    ],
)
def test_a_partition_that_lags_is_compared_with_what_it_had_itself(logs: Logs, place: int) -> None:
    """This holds for servers, names, overlapping transactions, and changes without a position."""
    feed, (old, new) = Feed(), logs
    feed.deliver((C, 1, "o1", 1001, 1), log=old, partition=0)
    feed.deliver((C, 2, "o2", 1002, 2), log=old, partition=1)
    apply_changes(feed.job)
    feed.deliver((U, 1, "n1", place and place + 5, 110), log=new, partition=0)
    assert feed.decide() == 1
    feed.deliver((U, 2, "n2", place, 100), log=new, partition=1)
    assert feed.decide() == 1
    assert feed.rows == {1: "n1", 2: "n2"}


def test_the_first_changes_of_a_partition_that_comes_behind_a_restart_are_a_decision() -> None:
    """A key may have been in another partition before."""
    feed = Feed()
    feed.deliver((C, 1, "old", 1001, 1), (C, 2, "old", 1002, 2), partition=0)
    apply_changes(feed.job)
    feed.deliver((U, 1, "new", 10, 100), (U, 2, "new", 20, 110), partition=0)
    assert feed.decide() == 1
    feed.deliver((U, 2, "late", 15, 105), (U, 2, "newest", 25, 112), partition=1)
    assert feed.decide() == 1
    assert feed.rows == {1: "new", 2: "newest"}


@given(st.data())
def test_rows_are_right_once_every_restart_of_a_partition_is_decided(data: st.DataObject) -> None:
    """Whatever the places of the new log, and in whichever order partitions come."""
    old = [(100 + n, n) for n in range(data.draw(st.integers(0, 6)))]
    begins = data.draw(st.integers(1, 300))
    new = [(begins + n, 1000 + 2 * n) for n in range(data.draw(st.integers(1, 6)))]
    partitions: list[list[tuple[Any, ...]]] = [[], [], []]
    expected: dict[Any, Any] = {}
    for place, time in old + new:
        key = data.draw(st.integers(0, 5))
        operation = data.draw(st.sampled_from([U, U, D]))
        partitions[key % 3].append((operation, key, f"{time}", place, time))
        expected[key] = None if operation is D else f"{time}"
    feed = Feed()
    while any(partitions):
        which = data.draw(st.sampled_from([p for p, waiting in enumerate(partitions) if waiting]))
        size = data.draw(st.integers(1, len(partitions[which])))
        feed.deliver(*partitions[which][:size], partition=which)
        del partitions[which][:size]
        if data.draw(st.booleans()):
            feed.decide()
    feed.decide()
    assert feed.rows == {key: value for key, value in expected.items() if value is not None}


@given(st.data(), st.booleans())
def test_no_delivery_of_one_log_in_two_partitions_raises_an_alarm(data: st.DataObject, names_tell: bool) -> None:
    """Positions and times rise together, except for less than a second; keys stay in their partition."""
    count = data.draw(st.integers(1, 12))
    shakes = data.draw(st.lists(st.integers(0, LEAST_GAP - 1), min_size=count, max_size=count))
    partitions: list[list[tuple[Any, ...]]] = [[], []]
    for n, shake in enumerate(shakes):
        key = data.draw(st.integers(0, 3))
        partitions[key % 2].append((U, key, str(n), 100 + n, n * LEAST_GAP / SECOND + shake / SECOND))
    feed = Feed()
    while any(partitions):
        which = data.draw(st.sampled_from([p for p, waiting in enumerate(partitions) if waiting]))
        size = data.draw(st.integers(1, len(partitions[which])))
        feed.deliver(*partitions[which][:size], partition=which if names_tell else None)
        del partitions[which][:size]
        if data.draw(st.booleans()):
            apply_changes(feed.job)
    apply_changes(feed.job)
    assert feed.progress.counts.quarantined == 0


@given(st.data(), st.sampled_from([DAY, ORDERED]))
def test_transactions_that_overlap_and_events_delivered_again_raise_nothing(
    data: st.DataObject, lateness: Lateness
) -> None:
    """Positions and times of a key rise together; those of two keys may cross."""
    feed = Feed(lateness)
    feed.apply((C, 9, "first", 1, 0), log=OVERLAPPING)
    times, changes = [0] * 3, []
    for n in range(data.draw(st.integers(1, 10))):
        key = data.draw(st.integers(0, 2))
        times[key] += data.draw(st.integers(0, 100))
        changes.append((U, key, str(n), 100 + n, times[key]))
    ranks = [data.draw(st.integers(0, 9)) for _ in times]  # keys come in any order, the changes of one in theirs
    waiting = sorted(changes, key=lambda change: (change[3] + 3 * ranks[change[1]], change[3]))
    delivered: list[tuple[Any, ...]] = []
    while waiting:
        again = delivered[-data.draw(st.integers(1, 5)) :] if data.draw(st.booleans()) else []
        new = [waiting.pop(0) for _ in range(data.draw(st.integers(1, len(waiting))))]
        feed.deliver(*again, *new, log=OVERLAPPING)
        delivered += new
        if data.draw(st.booleans()):
            apply_changes(feed.job)
    apply_changes(feed.job)
    last = {key: value for _, key, value, _, _ in changes}
    assert feed.rows == {9: "first", **last}


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_lifted_place_lies_above_the_old_log_and_keeps_the_order_of_the_new(one: int, other: int) -> None:
    restarts = [LogRestart(4, 2, 10**6 + 1)]
    old, low, high = (
        lift_place(Position(1, place, order, row), restarts)
        for place, order, row in [(10**6, 4, 1), (one, 4, 2), (other, 5, 1)]
    )
    assert old.sequence == 10**6 < low.sequence
    assert (low.sequence < high.sequence) == (one < other)
