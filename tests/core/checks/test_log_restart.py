"""A source log that starts over stops its table until an operator decides; nothing else raises the alarm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_jobs import NAME, TableFeed, columns, event, item, values

from lakeward.adapters.memory import MemorySource
from lakeward.core.checks.log_restart import LOG_ALARM, LogRestart, lift_place
from lakeward.core.checks.log_steps import LEAST_GAP, LogName
from lakeward.core.dimension import ORDERED, Lateness, Within
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import UNSET, Operation, Position, Sequences
from lakeward.core.history.options import History
from lakeward.core.operations.acknowledge import acknowledge
from lakeward.core.pipeline.apply import apply_changes

SECOND = 1_000_000
HOUR = 3600
DAY = Within(24 * HOUR * SECOND)
PLAIN, OVERLAPPING = LogName(), LogName(overlap=True)
C, U, D, R, T = (Operation[name] for name in ("INSERT", "UPDATE", "DELETE", "READ", "TRUNCATE"))
PARTITION = 1000
"""How many orders a partition has."""

Change = tuple[Any, ...]
"""Operation, key, value, position, time in seconds, and a log of its own where it has one."""


class Object(NamedTuple):
    """Changes that are delivered together, and their log."""

    changes: Sequence[Change]
    log: LogName = PLAIN
    partition: int | None = None


def plain(*changes: Change, partition: int | None = None) -> Object:
    return Object(changes, PLAIN, partition)


def over(*changes: Change, partition: int | None = None) -> Object:
    """Return an object of a log in which transactions overlap."""
    return Object(changes, OVERLAPPING, partition)


class Feed(TableFeed):
    """Objects of a table whose changes name their log, delivered and applied one by one.

    Objects of a partition lie behind those of the partitions before it.
    """

    def __init__(self, lateness: Lateness = DAY, history: History | None = None) -> None:
        self.logs: dict[tuple[int, int], LogName] = {}
        source = MemorySource(
            logs=lambda event: self.logs[event.position.object, event.position.row],
            partition_end=lambda order: None if order < PARTITION else (order // PARTITION + 1) * PARTITION,
        )
        schema = columns(id="int", v="string")
        super().__init__(item(schema, lateness=lateness, history=history, sequences=Sequences.PLACES), source)
        self.delivered = 0

    def put(self, *changes: Change, log: LogName = PLAIN, partition: int | None = None) -> None:
        self.delivered += 1
        order = self.delivered + (0 if partition is None else (partition + 1) * PARTITION)
        events = []
        for row, (operation, key, value, place, time, *own) in enumerate(changes, 1):
            self.logs[order, row] = own[0] if own else log
            events.append(event(operation, place, key, at=order, row=row, time=int(time * SECOND), v=value))
        self.source.put(NAME, order, events)

    def apply(self, *objects: Object) -> None:
        """Deliver and apply objects one by one."""
        for changes, log, partition in objects:
            self.put(*changes, log=log, partition=partition)
            apply_changes(self.job)

    def decide(self) -> int:
        """Apply all that waits, and acknowledge each alarm; return how many there were."""
        for stops in range(20):
            try:
                apply_changes(self.job)
            except AlarmRaised:
                acknowledge(self.job, LOG_ALARM, by="ada", reason=None, at=0)
            else:
                return stops
        raise AssertionError("the table stops again and again")

    def stops(self, at: Object | None = None) -> AlarmRaised:
        """Deliver an object at which the table stops, however often it runs."""
        if at is not None:
            self.put(*at.changes, log=at.log, partition=at.partition)
        before = self.progress
        for _ in range(2):
            with pytest.raises(AlarmRaised) as raised:
                apply_changes(self.job)
        assert (raised.value.code, self.progress) == (LOG_ALARM, before)
        return raised.value

    def restarts(self, at: Object) -> str:
        """Deliver an object at which the table stops, and acknowledge the one alarm; return what was found."""
        found = self.stops(at).found or ""
        assert self.decide() == 1
        return found

    @property
    def rows(self) -> dict[Any, Any]:
        return values(self.job, "v")


BOTH = pytest.mark.parametrize("lateness", [DAY, ORDERED], ids=["a day", "ordered"])
FORMS = pytest.mark.parametrize("history", [None, History()], ids=["mirror", "history"])

SERVERS = (LogName("bin.", "1", overlap=True), LogName("bin.", "2", overlap=True))
RENAMED = (LogName("old-bin.", "1", overlap=True), LogName("new-bin.", "2", overlap=True))


@BOTH
@pytest.mark.parametrize("log", [PLAIN, OVERLAPPING])
@pytest.mark.parametrize(("operation", "after"), [(U, {1: "b"}), (D, {})])
def test_a_restarted_log_stops_the_table_until_an_operator_decides(
    lateness: Lateness, log: LogName, operation: Operation, after: dict[int, str]
) -> None:
    """An acknowledgement is for one restart alone: the next one is another decision."""
    feed = Feed(lateness)
    feed.apply(Object([(C, 1, "a", 900_000, 0)], log))
    raised = feed.stops(Object([(operation, 1, "b", 5000, HOUR)], log))
    assert "row 1 of 00000002" in str(raised.found)
    todo = (f"ack {NAME} {LOG_ALARM}", 'places = "arrival"', "reload")
    assert all(text in str(raised.todo) for text in todo)
    assert (feed.decide(), feed.rows, feed.progress.counts.stale) == (1, after, 0)
    feed.apply(Object([(C, 1, "c", 5001, HOUR + 1)], log))
    assert feed.rows == {1: "c"}
    feed.restarts(Object([(U, 1, "d", 7, 2 * HOUR)], log))
    assert feed.rows == {1: "d"}


@BOTH
@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize(
    ("before", "after", "row", "rows"),
    [
        pytest.param(
            plain((C, 1, "a", 900_000, 0)), plain((U, 1, "b", 5000, HOUR)), 1, {1: "b"}, id="a lower place"
        ),
        pytest.param(
            plain((C, 1, "a", 899_000, 0), (U, 1, "b", 900_100, 1)),
            plain((C, 1, "a", 899_000, 0), (U, 1, "c", 899_500, HOUR)),
            2,
            {1: "c"},
            id="behind a change that is delivered again",
        ),
        *(
            pytest.param(
                Object([(C, 1, "a", 900_000, 0), (C, 2, "b", 900_100, 1)], old),
                Object([(U, 1, "a2", 899_000, HOUR), (D, 2, None, 899_500, HOUR), (C, 3, "c", 905_000, HOUR)], new),
                1,
                {1: "a2", 3: "c"},
                id=f"the new log climbs past the old one, {name}",
            )
            for name, (old, new) in {
                "plain": (PLAIN, PLAIN),
                "overlapping": (OVERLAPPING, OVERLAPPING),
                "another server": SERVERS,
            }.items()
        ),
        pytest.param(
            plain((C, 1, "a", 1000, 50)), plain((U, 1, "b", 0, 40)), 1, {1: "b"}, id="changes without a place"
        ),
    ],
)
def test_a_restart_is_found_whether_both_logs_are_read_in_one_run_or_in_two(
    lateness: Lateness, runs: int, before: Object, after: Object, row: int, rows: dict[int, str]
) -> None:
    feed = Feed(lateness)
    if runs == 2:
        feed.apply(before)
    else:
        feed.put(*before.changes, log=before.log)
    assert f"row {row} of 00000002" in feed.restarts(after)
    assert feed.rows == rows


@BOTH
@FORMS
@pytest.mark.parametrize(
    ("before", "after", "row", "rows"),
    [
        pytest.param(
            [],
            plain((C, 1, "a", 900_000, 0), (U, 1, "b", 900_001, 1), (U, 1, "c", 5000, 60)),
            3,
            {1: "c"},
            id="within one object",
        ),
        pytest.param(
            [],
            over((C, 1, "a", 900_000, 0), (C, 2, "a", 900_100, 1), (U, 1, "b", 5000, HOUR)),
            3,
            {1: "b", 2: "a"},
            id="within one object where transactions overlap",
        ),
        pytest.param(
            [over((C, 9, "first", 100, 0), (C, 1, "a", 899_000, 10), (U, 1, "b", 900_100, 11))],
            over((C, 4, "new", 899_400, HOUR - 10), (U, 1, "c", 899_500, HOUR)),
            1,
            {9: "first", 4: "new", 1: "c"},
            id="a lower update",
        ),
        pytest.param(
            [over((C, 9, "first", 100, 0), (C, 1, "a", 899_000, 10), (U, 1, "b", 900_100, 11))],
            over((C, 4, "new", 899_400, HOUR - 10), (D, 1, "c", 899_500, HOUR)),
            1,
            {9: "first", 4: "new"},
            id="a lower delete",
        ),
        pytest.param(
            [
                over((C, 9, "first", 100, 0), (C, 1, "a", 800, 10)),
                over((C, 2, "new", 500, HOUR)),  # its transaction comes in two batches
            ],
            over((U, 1, "b", 510, HOUR), (C, 3, "c", 520, HOUR)),
            1,
            {9: "first", 1: "b", 2: "new", 3: "c"},
            id="behind newer changes of the new log",
        ),
    ],
)
def test_a_restart_is_found_in_mirrors_and_histories(
    lateness: Lateness, history: History | None, before: list[Object], after: Object, row: int, rows: dict[int, str]
) -> None:
    """In a history a lower change is an earlier version, or none, and never stale."""
    feed = Feed(lateness, history)
    feed.apply(*before)
    assert f"row {row} of {len(before) + 1:08}" in feed.restarts(after)
    assert feed.rows == rows


def test_a_part_of_a_row_that_is_lower_and_newer_is_a_restart() -> None:
    """It fills a cell that a newer change did not send, so it is applied and not stale."""
    feed = Feed()
    feed.apply(over((C, 9, "first", 100, 0), (C, 1, "a", 899_000, 10), (U, 1, UNSET, 900_100, 11)))
    assert "row 1 of 00000002" in feed.restarts(over((U, 1, "c", 899_500, HOUR)))
    assert feed.rows == {9: "first", 1: "c"}


def test_a_restart_is_found_where_its_changes_would_come_too_late() -> None:
    """Their positions are below the low watermark; else they would go into quarantine one by one."""
    feed = Feed(Within(HOUR * SECOND))
    feed.apply(over((C, 9, "first", 100, 0), (C, 1, "a", 500, 10)), over((C, 2, "b", 900_000, 3 * HOUR)))
    feed.restarts(over((U, 1, "new", 400, 4 * HOUR)))
    assert feed.rows == {9: "first", 1: "new", 2: "b"}


@pytest.mark.parametrize("apart", [True, False])
def test_a_change_of_a_new_log_below_a_truncate_of_the_old_one_is_a_restart(*, apart: bool) -> None:
    feed = Feed()
    feed.apply(over((C, 9, "first", 100, 0), (C, 1, "a", 800, 10)))
    truncate, new = (T, None, None, 900, 20), (C, 2, "new", 500, HOUR)
    if apart:
        feed.apply(over(truncate))
    feed.restarts(over(new) if apart else over(truncate, new))
    assert feed.rows == {2: "new"}


@pytest.mark.parametrize("partition", [None, 0])
def test_a_truncate_of_a_new_log_is_a_restart_where_transactions_overlap(partition: int | None) -> None:
    """It waits until all changes of its table are committed, so no change of the same log overlaps it."""
    feed = Feed()
    feed.apply(over((C, 1, "a", 100, 0), (C, 2, "b", 1000, 5), partition=partition))
    feed.restarts(over((T, None, None, 500, HOUR), (C, 3, "c", 510, HOUR + 1), partition=partition))
    assert feed.rows == {3: "c"}


@BOTH
def test_a_new_slot_that_begins_with_a_snapshot_is_a_restart(lateness: Lateness) -> None:
    """Its rows are newer than all, and lower than all, and would be stale."""
    feed = Feed(lateness)
    feed.apply(plain((C, 1, "a", 900_000, 0), (C, 2, "b", 900_100, 1)))
    feed.restarts(plain((R, 1, "a2", 5000, HOUR), (R, 2, "b2", 5000, HOUR)))
    assert feed.rows == {1: "a2", 2: "b2"}


@pytest.mark.parametrize("runs", [1, 2])
def test_a_snapshot_before_the_first_change_of_a_new_log_is_of_that_log(runs: int) -> None:
    """A new slot begins with a snapshot, whose rows came before the change that shows the new log."""
    feed = Feed()
    feed.put((R, 1, "s", 1000, 0), (U, 1, "u", 1010, 1), (C, 2, "x", 1020, 2))
    if runs == 2:
        apply_changes(feed.job)
    feed.put((R, 1, "snap", 400, 90), (R, 3, "snap", 400, 90))
    assert "row 1 of 00000002" in feed.restarts(plain((U, 3, "v", 410, 91)))
    assert feed.rows == {1: "snap", 2: "x", 3: "v"}


def test_a_snapshot_before_changes_of_the_old_log_is_of_the_old_log() -> None:
    feed = Feed()
    feed.apply(plain((C, 1, "a", 1000, 0), (C, 2, "x", 1010, 1)))
    feed.put((R, 3, "lagging", 400, 90))
    feed.put((U, 1, "b", 1020, 91))
    assert "row 1 of 00000004" in str(feed.stops(plain((U, 1, "c", 500, 200))).found)


def test_a_snapshot_of_another_log_is_a_restart_and_one_of_the_same_log_is_none() -> None:
    feed, log, other = Feed(), LogName("bin."), LogName("other.")
    feed.apply(
        Object([(C, 9, "a", 400_000, 0), (C, 1, "a", 400_090, 0), (D, 9, None, 400_091, 0)], log),
        Object([(R, 2, "a", 400_050, HOUR), (R, 1, "old", 400_060, HOUR)], log),
    )
    assert feed.rows == {1: "a", 2: "a"}
    feed.restarts(Object([(R, 1, "b", 1004, 2 * HOUR)], other))
    feed.apply(Object([(U, 2, "b", 1005, 2 * HOUR + 1)], other))
    assert feed.rows == {1: "b", 2: "b"}


@pytest.mark.parametrize(
    ("after", "place"),
    [(LogName("replica-bin.", "2"), 10), (LogName("replica-bin.", "2"), 2000), (LogName("mysql-bin.", "2"), 10)],
)
def test_another_log_or_a_lower_place_of_another_server_is_a_restart_whatever_its_time(
    after: LogName, place: int
) -> None:
    feed = Feed()
    feed.apply(Object([(C, 1, "a", 1000, 50)], LogName("mysql-bin.", "1")))
    feed.restarts(Object([(U, 1, "b", place, 40)], after))
    assert feed.rows == {1: "b"}
    feed.apply(Object([(U, 1, "c", place + 1, 60)], after))
    assert feed.rows == {1: "c"}


@BOTH
@pytest.mark.parametrize("apart", [0.0, 0.5, HOUR])
@pytest.mark.parametrize("log", [PLAIN, OVERLAPPING])
def test_a_change_without_a_place_among_changes_with_places_stops_the_table(
    lateness: Lateness, apart: float, log: LogName
) -> None:
    """Whatever the time in between; each sequence of such changes needs a decision of its own."""
    feed = Feed(lateness)
    placed: list[Change] = [(C, 1, "a", 900, 0, log), (C, 2, "b", 901, 0, log)]
    found = feed.restarts(plain(*placed, (U, 1, "new", 0, apart), (U, 1, "newer", 0, apart)))
    assert "row 3 of 00000001 tells no place" in found
    assert feed.rows == {1: "newer", 2: "b"}
    found = feed.restarts(plain((U, 2, "c", 902, apart, log), (D, 1, None, 0, apart)))
    assert "row 2 of 00000002 tells no place" in found
    assert feed.rows == {2: "c"}


TWO = LogName("mysql-bin.", "1"), LogName("mysql-bin.", "2")


@BOTH
@pytest.mark.parametrize(
    ("objects", "rows"),
    [
        pytest.param(
            [
                over((C, 9, "first", 50, 0), (U, 1, "before", 100, 10)),
                over((U, 1, "waited", 200, 5)),
                over((U, 1, "before", 100, 10)),
                over((U, 1, "waited", 200, 5), (U, 1, "before", 100, 10)),
            ],
            {9: "first", 1: "waited"},
            id="a change that waited for a lock, whose time is when its statement began",
        ),
        *(
            pytest.param(
                [
                    over((C, 9, "first", 100, 0), (C, 1, "a", 120, 1), partition=lags),
                    over((T, None, None, 900, 20), (C, 3, "b", 910, 21), partition=ahead),
                    over((C, 1, "a", 120, 1), (C, 2, "gone", 500, 15), partition=lags),
                ],
                {3: "b"},
                id=f"a partition that lags behind a truncate, of partition {lags}",
            )
            for lags, ahead in ((None, None), (0, 1))
        ),
        pytest.param(
            [
                over((C, 9, "first", 100, 0), (C, 1, "a", 120, 1)),
                over((T, None, None, 900, 20), (C, 2, "gone", 500, 15), (C, 3, "b", 910, 21)),
            ],
            {3: "b"},
            id="a change that lags behind a truncate in one batch",
        ),
        pytest.param(
            [
                over((C, 1, "a", 100, 1), (C, 2, "a", 110, 2), partition=0),
                over((C, 3, "a", 120, 3), (U, 1, "new", 500, 50), partition=1),
                over(
                    *((C, 1, "a", 100, 1), (C, 2, "a", 110, 2), (U, 1, "old", 200, 20), (U, 2, "b", 210, 21)),
                    partition=0,
                ),
            ],
            {1: "new", 2: "b", 3: "a"},
            id="a key that moved to a partition which is ahead",
        ),
        pytest.param(
            [
                over((C, 1, "a", 100, 0), (T, None, None, 500, 60), (C, 2, "b", 900, 10)),
                over((T, None, None, 500, 60), (C, 3, "c", 910, 70)),
            ],
            {2: "b", 3: "c"},
            id="a truncate that is delivered again, behind which an older transaction commits",
        ),
        pytest.param(
            [
                over((C, 9, "first", 100, 0), (C, 1, "a", 900, 10), (C, 2, "long", 500, 60)),
                over((U, 1, "b", 950, 70), (U, 2, "longer", 550, 90)),
            ],
            {9: "first", 1: "b", 2: "longer"},
            id="transactions that overlap within an object",
        ),
        pytest.param(
            [
                plain((C, 1, "a", 10, 0, TWO[0]), (C, 2, "b", 11, 1, TWO[1]), (U, 1, "c", 12, 2, TWO[0])),
                plain((U, 2, "d", 13, 3, TWO[1]), (U, 1, "e", 14, 4, TWO[0])),
            ],
            {1: "e", 2: "d"},
            id="servers whose changes are in one log",
        ),
        pytest.param(
            [plain((C, 1, "a", 0, 0), (C, 2, "b", 0, 0), (U, 1, "c", 900, 0.5)), plain((U, 1, "d", 901, 0.6))],
            {1: "d", 2: "b"},
            id="changes with places after changes without",
        ),
        pytest.param(
            [
                plain((C, 1, "a", 1000, 10), (C, 2, "b", 1001, 11)),
                plain((R, 3, "c", 5, 100), (R, 4, "d", 0, 100)),
                plain((C, 1, "a", 1000, 10), (C, 2, "b", 1001, 11)),
                plain((C, 5, "e", 900, 9)),
                plain((U, 2, "f", 1002, 12)),
            ],
            {1: "a", 2: "f", 3: "c", 4: "d", 5: "e"},
            id="rows of snapshots, redelivered events and lag",
        ),
    ],
)
def test_nothing_else_raises_the_alarm(lateness: Lateness, objects: list[Object], rows: dict[int, str]) -> None:
    feed = Feed(lateness)
    feed.apply(*objects)
    assert feed.rows == rows
    assert feed.progress.backwards is None or any(log is OVERLAPPING for _, log, _ in objects)


@pytest.mark.parametrize("partition", [None, 0])
def test_transactions_that_overlap_at_the_beginning_of_a_table_are_no_restart(partition: int | None) -> None:
    """The longest began first: it is newer and lower than all before it."""
    feed = Feed()
    feed.put((C, 3, "c", 38, 0), (C, 1, "long", 22, 57), log=OVERLAPPING, partition=partition)
    feed.apply(over((C, 4, "d", 50, 60), (U, 5, "longest", 10, 90), partition=partition))
    assert feed.rows == {3: "c", 1: "long", 4: "d", 5: "longest"}


def test_a_restart_is_found_in_a_partition_that_is_new() -> None:
    feed = Feed()
    feed.apply(over((C, 9, "x", 100, 0), (C, 5, "old", 150, 1), (C, 3, "y", 200, 2), partition=0))
    feed.restarts(over((U, 5, "new", 120, HOUR), partition=1))
    assert feed.rows == {9: "x", 5: "new", 3: "y"}


def test_partitions_that_switch_in_one_batch_are_one_decision() -> None:
    feed = Feed()
    for partition in range(3):
        feed.put((C, partition, "old", 900 + partition, partition), partition=partition)
    apply_changes(feed.job)
    for partition in range(3):
        feed.put((U, partition, "new", 5 + partition, 100), partition=partition)
    raised = feed.stops()
    assert "so it does in 2 other partitions" in str(raised.found)
    assert (len(raised.about), feed.decide()) == (3, 1)
    assert feed.rows == dict.fromkeys(range(3), "new")


def test_a_truncate_of_the_new_log_removes_rows_of_the_old_log_in_other_partitions() -> None:
    """It removes later rows of the old log, too; positions of the new log get the same offset in all partitions."""
    feed = Feed()
    feed.put((C, 1, "old", 1001, 1), partition=0)
    feed.apply(plain((C, 2, "old", 1002, 2), (C, 3, "old", 1003, 3), partition=1))
    feed.restarts(plain((C, 1, "new", 10, 100), (T, None, None, 11, 101), partition=0))
    feed.restarts(plain((U, 3, "rest", 1500, 50), (C, 2, "new", 12, 102), partition=1))
    assert feed.rows == {2: "new"}


@pytest.mark.parametrize(
    ("logs", "place"),
    [(SERVERS, 10), (RENAMED, 10), (RENAMED, 2000), ((OVERLAPPING, OVERLAPPING), 10), ((PLAIN, PLAIN), 0)],
)
def test_a_lagging_partition_is_compared_with_its_own_earlier_changes(
    logs: tuple[LogName, LogName], place: int
) -> None:
    """This holds for servers, names, overlapping transactions, and changes without a position."""
    feed, (old, new) = Feed(), logs
    feed.put((C, 1, "o1", 1001, 1), log=old, partition=0)
    feed.apply(Object([(C, 2, "o2", 1002, 2)], old, 1))
    feed.restarts(Object([(U, 1, "n1", place and place + 5, 110)], new, 0))
    feed.restarts(Object([(U, 2, "n2", place, 100)], new, 1))
    assert feed.rows == {1: "n1", 2: "n2"}


def test_the_first_changes_of_a_partition_after_a_restart_are_a_decision() -> None:
    """A key may have been in another partition before."""
    feed = Feed()
    feed.apply(plain((C, 1, "old", 1001, 1), (C, 2, "old", 1002, 2), partition=0))
    feed.restarts(plain((U, 1, "new", 10, 100), (U, 2, "new", 20, 110), partition=0))
    feed.restarts(plain((U, 2, "late", 15, 105), (U, 2, "newest", 25, 112), partition=1))
    assert feed.rows == {1: "new", 2: "newest"}


def deliver_in_pieces(data: st.DataObject, feed: Feed, partitions: list[list[Change]], *, names: bool) -> int:
    """Deliver the changes of partitions in pieces of any size; return how many alarms an operator acknowledged."""
    alarms = 0
    while any(partitions):
        which = data.draw(st.sampled_from([p for p, waiting in enumerate(partitions) if waiting]))
        size = data.draw(st.integers(1, len(partitions[which])))
        feed.put(*partitions[which][:size], partition=which if names else None)
        del partitions[which][:size]
        if data.draw(st.booleans()):
            alarms += feed.decide()
    return alarms + feed.decide()


@given(st.data())
def test_rows_are_right_once_every_restart_of_a_partition_is_decided(data: st.DataObject) -> None:
    """Whatever the places of the new log, and in whichever order partitions come."""
    old = [(100 + n, n) for n in range(data.draw(st.integers(0, 6)))]
    begins = data.draw(st.integers(1, 300))
    new = [(begins + n, 1000 + 2 * n) for n in range(data.draw(st.integers(1, 6)))]
    partitions: list[list[Change]] = [[], [], []]
    expected: dict[Any, Any] = {}
    for place, time in old + new:
        key = data.draw(st.integers(0, 5))
        operation = data.draw(st.sampled_from([U, U, D]))
        partitions[key % 3].append((operation, key, f"{time}", place, time))
        expected[key] = None if operation is D else f"{time}"
    feed = Feed()
    deliver_in_pieces(data, feed, partitions, names=True)
    assert feed.rows == {key: value for key, value in expected.items() if value is not None}


@given(st.data(), st.booleans())
def test_no_delivery_of_one_log_in_two_partitions_raises_an_alarm(data: st.DataObject, names_tell: bool) -> None:
    """Positions and times rise together, except for less than a second; keys stay in their partition."""
    count = data.draw(st.integers(1, 12))
    shakes = data.draw(st.lists(st.integers(0, LEAST_GAP - 1), min_size=count, max_size=count))
    partitions: list[list[Change]] = [[], []]
    for n, shake in enumerate(shakes):
        key = data.draw(st.integers(0, 3))
        partitions[key % 2].append((U, key, str(n), 100 + n, n * LEAST_GAP / SECOND + shake / SECOND))
    feed = Feed()
    assert deliver_in_pieces(data, feed, partitions, names=names_tell) == 0
    assert feed.progress.counts.quarantined == 0


@given(st.data(), st.sampled_from([DAY, ORDERED]))
def test_overlapping_transactions_and_redelivered_events_raise_nothing(
    data: st.DataObject, lateness: Lateness
) -> None:
    """Positions and times of a key rise together; those of two keys may cross."""
    feed = Feed(lateness)
    feed.apply(over((C, 9, "first", 1, 0)))
    times, changes = [0] * 3, []
    for n in range(data.draw(st.integers(1, 10))):
        key = data.draw(st.integers(0, 2))
        times[key] += data.draw(st.integers(0, 100))
        changes.append((U, key, str(n), 100 + n, times[key]))
    ranks = [data.draw(st.integers(0, 9)) for _ in times]  # keys come in any order, the changes of one in theirs
    waiting = sorted(changes, key=lambda change: (change[3] + 3 * ranks[change[1]], change[3]))
    delivered: list[Change] = []
    while waiting:
        again = delivered[-data.draw(st.integers(1, 5)) :] if data.draw(st.booleans()) else []
        new = [waiting.pop(0) for _ in range(data.draw(st.integers(1, len(waiting))))]
        feed.put(*again, *new, log=OVERLAPPING)
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
