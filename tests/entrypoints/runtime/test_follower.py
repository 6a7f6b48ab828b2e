"""Following: fair to all tables, stopped by none, silent while nothing happens; nothing is lost when it stops."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dependency_injector import providers
from failing_sources import FailingSource
from hiding_queue import HidingQueue
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from lakeward.adapters.memory import MemoryLedger, MemoryQueue, MemoryTarget
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import (
    AlarmRaised,
    CommitConflict,
    ConfigError,
    EngineLost,
    LakewardError,
    SetupError,
    SourceError,
    StoreUnreachable,
    TableError,
)
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.merge.counts import Counts
from lakeward.core.operations.small_files import MOST_BYTES
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import BATCH_STEPS, Report
from lakeward.core.ports import MaintenancePolicy, MaintenanceReport, Notice
from lakeward.core.settings.layers import MergedSettings, SettingsLayer, merge
from lakeward.entrypoints.commands import run as run_command
from lakeward.entrypoints.commands.run import exit_code
from lakeward.entrypoints.container import Container, remake
from lakeward.entrypoints.runtime import follower, join_run, worker
from lakeward.entrypoints.runtime.follower import FollowResult, follow_pipeline, follow_tables
from lakeward.entrypoints.runtime.inbox import Inbox
from lakeward.entrypoints.runtime.join_run import JoinScheduler, TableSelection
from lakeward.entrypoints.runtime.reporting.failures import failure_of
from lakeward.entrypoints.runtime.scheduler import TableOutcome, TableScheduler
from lakeward.entrypoints.runtime.settings_watch import SettingsWatch
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.runtime.table_run import TableRun
from lakeward.entrypoints.runtime.worker import TableWorker
from lakeward.entrypoints.settings.configuration import Configuration, validate
from lakeward.entrypoints.settings.models.maintenance import MaintainSettings, maintenance_policy
from lakeward.entrypoints.startup.context import complete
from lakeward.entrypoints.startup.findings import Findings
from lakeward.plugins.manager import load

NAMES = [TableName("shop", table) for table in ("customers", "orders", "lines")]
SETTINGS = {
    "pipeline": {"name": "shop", "parallel": 1},
    "source": {"kind": "memory"},
    "target": {"kind": "memory"},
    "tables": {str(name): {"key": ["id"], "columns": {"id": "int", "state": "int"}} for name in NAMES},
    "joined": {"dw.dim": {"sources": {"customers": {"table": "shop.customers", "columns": ["id"]}}}},
}
DIM = TableName("dw", "dim")


plugins = cache(load)
"""Those that are installed: to look for them takes longer than all else here."""


def event_names(logs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return what is logged without `--debug`."""
    return [line["event"] for line in logs if line["log_level"] != "debug"]


class Inline(Executor):
    """Takes each turn at once, in the thread that asks."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # it is the future's to tell
            future.set_exception(error)
        return future


def event_at(order: int, row: int, sequence: int) -> ChangeEvent:
    """A row that an object sets."""
    return ChangeEvent(
        operation=Operation.UPDATE,
        position=Position(1, sequence, order, row),
        key=(row,),
        cells={"id": row, "state": order},
    )


class Source(FailingSource):
    """One object a batch, of two rows."""

    def deliver(self, table: TableName, order: int) -> None:
        """Two rows that every object of a table sets."""
        self.put(table, order, [event_at(order, row, order) for row in (1, 2)])


@dataclass
class Lake:
    """What outlives a process: source, tables, ledger, queue, and a clock that moves while somebody waits."""

    source: Source = field(default_factory=Source)
    target: MemoryTarget = field(default_factory=MemoryTarget)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    queue: Any = None
    joined: Sequence[TableName] = ()
    now: float = 0.0
    arrivals: list[tuple[float, TableName, int]] = field(default_factory=list)

    def deliver(self) -> None:
        """Deliver what has arrived by now, with a notice each where there is a queue of its own."""
        for arrival in [one for one in self.arrivals if one[0] <= self.now]:
            self.arrivals.remove(arrival)
            _, table, order = arrival
            self.source.deliver(table, order)
            if self.queue is not None:
                self.queue.notices.append(Notice(str(table), str(order)))

    def state(self, table: TableName) -> dict[Any, Any]:
        found = self.target.tables.get(table)
        return {} if found is None else {key: row.cells["state"] for key, row in found.rows.items()}

    def container(self, configured: Configuration | None = None) -> Container:
        container = Container(configured=configured or validate(SETTINGS, Path("lakeward.toml")))
        container.manager.override(providers.Object(plugins()))
        for name in ("source", "target", "ledger", *(["queue"] if self.queue is not None else [])):
            getattr(container, name).override(providers.Object(getattr(self, name)))
        container.join_job.override(providers.Factory(SimpleNamespace))
        return container


@dataclass
class Watching:
    """Sees all that happens, and asks to stop at a step or once enough has happened."""

    lake: Lake
    stop: Stop
    stop_at: int | None = None
    is_enough: Callable[[Watching], bool] = lambda _: False
    steps: int = 0
    commits: list[tuple[str, int]] = field(default_factory=list)
    runs: int = 0

    def step(self, table: TableName, name: str) -> None:
        if self.steps == self.stop_at:
            self.stop.ask()
        self.steps += 1

    def batch(self, table: TableName, report: Report) -> None:
        self.commits.append((table.table, report.progress.batch))
        if self.is_enough(self):
            self.stop.ask()

    def done(self, run: TableRun) -> None:
        self.runs += 1


def followed(
    lake: Lake,
    *,
    until: float | None = None,
    stop_at: int | None = None,
    is_enough: Callable[[Watching], bool] = lambda _: False,
    pool: Executor | None = None,
    others: bool = False,
) -> tuple[Watching, list[TableRun]]:
    """Follow as a process of its own would; `others` write to the tables whenever they may."""
    stop = Stop(lambda _: None, until=until, clock=lambda: lake.now)
    watching = Watching(lake, stop, stop_at, is_enough)

    def idle(seconds: float) -> bool:
        assert seconds > 0, "it does not wait at all"
        lake.now += seconds if until is None else min(seconds, until - lake.now)
        lake.deliver()
        return others

    lake.deliver()
    container = lake.container()
    runs = follow_tables(
        container, NAMES, watching, stop, pool or Inline(), idle, JoinScheduler(container, lake.joined, stop)
    )
    return watching, runs


def waiting(*delivered: tuple[TableName, int]) -> Lake:
    return Lake(arrivals=[(0.0, table, order) for table, order in delivered])


# Fairness.


def test_a_long_backlog_of_one_table_holds_up_no_other() -> None:
    lake = waiting(*[(NAMES[2], order) for order in range(1, 21)], (NAMES[0], 1), (NAMES[1], 1))
    watching, _ = followed(lake, is_enough=lambda seen: len(seen.commits) == 22)
    assert {table for table, _ in watching.commits[:3]} == {"customers", "orders", "lines"}


def test_no_more_tables_are_in_hand_than_there_are_hands_and_none_twice() -> None:
    given_out: list[tuple[str, Future[TableOutcome]]] = []

    class Slow(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            given_out.append((args[0], Future()))
            return given_out[-1][1]

    line = TableScheduler(lambda *_: TableOutcome.DONE, Slow(), 2)
    line.join([Notice("a"), Notice("b"), Notice("c")])
    line.begin()
    line.join([Notice("a")])
    line.begin()
    assert [table for table, _ in given_out] == ["a", "b"]
    given_out[1][1].set_result(TableOutcome.DONE)
    assert line.finished() == [("b", TableOutcome.DONE)]
    line.begin()
    assert [table for table, _ in given_out] == ["a", "b", "c"]
    assert list(line.waiting) == ["a"], "it waits for its own turn to end"


# Failures.

ALARM = AlarmRaised("LEDGER-001", "shop.orders: 00000001 came late", todo="Decide.")
BROKEN = SourceError("shop.orders: 00000001 cannot be read", todo="Replace it.")


@pytest.mark.parametrize("error", [ALARM, BROKEN], ids=["alarm", "failure"])
def test_a_table_that_fails_stops_no_other_and_is_tried_again_later_and_later(error: Exception) -> None:
    lake = Lake(arrivals=[(float(second), NAMES[0], second // 10 + 1) for second in range(0, 2000, 10)])
    lake.source.errors[NAMES[1]] = error
    tried: list[float] = []
    usual = lake.source.select_objects

    def take(dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        tried.extend([lake.now] if dimension.name == NAMES[1] else [])
        return usual(dimension, object_history)

    lake.source.select_objects = take  # type: ignore[method-assign]
    with capture_logs() as logs:
        watching, runs = followed(lake, until=2000)
    assert len(watching.commits) == 200
    assert tried == [0, 10, 30, 70, 150, 310, 630, 1230, 1830], "twice as long each time, ten minutes at the most"
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["failed"], "said once"
    assert exit_code(runs) == 4
    assert [run.error for run in runs if run.error is not None] == [error]


def test_a_table_that_is_mended_goes_on_and_the_run_ends_well() -> None:
    lake = Lake(arrivals=[(0.0, NAMES[1], 1)])
    lake.source.errors[NAMES[1]] = BROKEN
    usual, mended_at = lake.source.select_objects, 25

    def take(dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        if lake.now >= mended_at:
            lake.source.errors.clear()
        return usual(dimension, object_history)

    lake.source.select_objects = take  # type: ignore[method-assign]
    with capture_logs() as logs:
        watching, runs = followed(lake, until=60)
    assert watching.commits == [("orders", 1)]
    assert event_names(logs) == ["failed", "committed", "goes on"]
    assert exit_code(runs) == 0


def test_the_error_of_a_table_is_kept_until_a_run_of_it_ends_without_one() -> None:
    lake, orders = Lake(arrivals=[(0.0, NAMES[0], 1), (0.0, NAMES[1], 1)]), str(NAMES[1])
    kept = [failure_of(BROKEN, 0), None, failure_of(KeyError("id"), 0), None]
    for error, expected in zip([BROKEN, ALARM, KeyError("id"), None], kept, strict=True):
        lake.source.errors = {} if error is None else {NAMES[1]: error}
        followed(lake, until=lake.now + 1)
        found = lake.ledger.account(orders).failure
        followed(lake, stop_at=0, until=lake.now + 1)
        assert found == lake.ledger.account(orders).failure, "a run that does not begin the table keeps it"
        assert expected == (None if found is None else replace(found, at=0)), error
    assert lake.ledger.account(str(NAMES[0])).failure is None


def test_a_ledger_that_cannot_keep_an_error_hides_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise TableError("the disk is full")

    lake = Lake()
    lake.source.errors[NAMES[1]] = BROKEN
    monkeypatch.setattr(MemoryLedger, "write", fails)
    _, runs = followed(lake, until=1)
    assert BROKEN in [run.error for run in runs]


def test_where_the_word_to_stop_reached_java_as_it_started_there_is_no_error() -> None:
    """SIGTERM often goes to all processes of a service."""
    lake = Lake()
    lake.source.errors[NAMES[0]] = SetupError("Spark did not start")
    _, runs = followed(lake, stop_at=2)
    assert runs == []


# Joined tables.


@dataclass
class Joint:
    """What stands for a joined table: how its source stood, and when, each time that it was joined."""

    lake: Lake
    seen: list[tuple[float, int]] = field(default_factory=list)
    error: BaseException | None = None

    def fail(self, error: BaseException, *, joins: bool) -> None:
        """Let the joined table fail, or the first one that it is joined of."""
        if joins:
            self.error = error
        else:
            self.lake.source.errors[NAMES[0]] = error

    def keep_up(self, job: Any, _watch: object) -> Any:
        assert job.table == DIM
        found = self.lake.target.tables.get(NAMES[0])
        self.seen.append((self.lake.now, 0 if found is None else found.progress.batch))
        if self.error is not None:
            raise self.error
        return SimpleNamespace(commit="c", written=1, removed=0, error=None, cautions=())


@pytest.fixture
def joint(monkeypatch: pytest.MonkeyPatch) -> Joint:
    made = Joint(Lake(joined=[DIM]))
    monkeypatch.setattr(join_run, "refresh", made.keep_up)
    return made


def test_a_table_is_joined_when_its_source_went_on_and_not_before(joint: Joint) -> None:
    joint.lake.arrivals = [(0.0, NAMES[0], 1), (50.0, NAMES[1], 1), (80.0, NAMES[0], 2)]
    followed(joint.lake, until=120)
    assert joint.seen == [(0.0, 1), (80.0, 2)]


def test_tables_that_are_never_done_hold_up_no_joined_one(joint: Joint) -> None:
    """Each has its next batch before the line is empty; the joined one stands in line with them."""
    joint.lake.arrivals = [(0.0, table, order) for table in NAMES for order in range(1, 11)]
    followed(joint.lake, is_enough=lambda seen: len(seen.commits) == 30)
    assert [batch for _, batch in joint.seen] == [2, 4, 6, 8, 10]


def test_a_joined_table_that_fails_is_tried_later_and_later(joint: Joint) -> None:
    joint.lake.arrivals = [(0.0, NAMES[0], 1)]
    joint.error = SourceError("dw.dim: no space")
    with capture_logs() as logs:
        followed(joint.lake, until=400)
    assert [at for at, _ in joint.seen] == [0, 10, 30, 70, 150, 310]
    assert event_names(logs) == ["committed", "failed"], "said once"


@pytest.mark.parametrize("joins", [False, True], ids=["a table", "a joined table"])
def test_where_java_has_ended_it_ends_to_be_started_anew(joint: Joint, joins: bool) -> None:
    joint.fail(EngineLost("Java has ended in the middle of it"), joins=joins)
    _, runs = followed(joint.lake)
    assert (joint.lake.now, exit_code(runs)) == (0, 0 if joins else 75)


@pytest.mark.parametrize("joins", [False, True], ids=["a table", "a joined table"])
def test_where_spark_cannot_start_it_says_so(joint: Joint, joins: bool) -> None:
    joint.fail(SetupError("there is no Java"), joins=joins)
    with pytest.raises(SetupError, match="there is no Java"):
        followed(joint.lake)


def test_where_another_process_may_have_written_tables_are_joined_again(joint: Joint) -> None:
    joint.lake.arrivals = [(0.0, NAMES[0], 1)]
    followed(joint.lake, until=30, others=True)
    assert [at for at, _ in joint.seen] == [0, 10, 20]


# Silence.


def test_nothing_is_said_while_nothing_happens_but_that_it_lives() -> None:
    lake = waiting((NAMES[0], 1))
    with capture_logs() as logs:
        followed(lake, until=1.5 * 3600)
    assert len(lake.source.looks) > 1500
    assert event_names(logs) == ["committed", "following"]


def test_an_alarm_of_a_batch_is_told_once_though_others_wait_behind_it() -> None:
    lake, told_of = waiting((NAMES[0], 2), (NAMES[0], 3)), list[str]()
    lake.source.put(NAMES[0], 1, [event_at(1, row, sequence) for row, sequence in ((1, 5), (2, 3))])
    stop = Stop(lambda _: None, until=60, clock=lambda: lake.now)
    watching = Watching(lake, stop)
    watching.done = lambda run: told_of.extend(alarm.code for alarm in run.alarms)  # type: ignore[method-assign]

    def idle(seconds: float) -> bool:
        lake.now += seconds
        return False

    lake.deliver()
    container = lake.container()
    follow_tables(container, NAMES[:1], watching, stop, Inline(), idle, JoinScheduler(container, [], stop))
    assert [batch for _, batch in watching.commits] == [1, 2, 3]
    assert told_of == ["SEQUENCE-001"]


# Its end.


def test_it_ends_once_its_time_is_over() -> None:
    lake = Lake(arrivals=[(float(second), NAMES[0], second // 10 + 1) for second in range(0, 100, 10)])
    watching, runs = followed(lake, until=45)
    assert lake.now == 45
    assert [batch for _, batch in watching.commits] == [1, 2, 3, 4, 5]
    assert exit_code(runs) == 0


@pytest.mark.parametrize("step", BATCH_STEPS)
def test_asked_to_stop_in_any_step_it_finishes_the_commit_in_hand_and_begins_no_other(step: str) -> None:
    lake = waiting(*[(table, order) for table in NAMES for order in (1, 2)])
    watching, runs = followed(lake, stop_at=BATCH_STEPS.index(step))
    assert watching.commits == [("customers", 1)]
    assert watching.steps == len(BATCH_STEPS), "each step of the batch in hand, and no more"
    assert exit_code(runs) == 0


def check_applied_once(lake: Lake, orders: Mapping[TableName, Sequence[int]]) -> None:
    """Check that each table has the rows of its last object, and has read each of its objects once."""
    for table in NAMES:
        assert lake.state(table) == ({(row,): orders[table][-1] for row in (1, 2)} if orders[table] else {})
        found = lake.target.tables.get(table)
        if found is not None:
            assert found.progress.totals.read == 2 * len(orders[table])
            assert found.progress.totals.duplicates == 0


ARRIVALS = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(NAMES)), max_size=12)


@settings(max_examples=50)
@given(ARRIVALS, st.lists(st.integers(0, 40), max_size=4), st.booleans())
def test_nothing_is_lost_or_applied_twice_wherever_it_is_stopped(
    arrivals: Sequence[tuple[int, TableName]], stops: Sequence[int], others: bool
) -> None:
    lake = Lake(queue=MemoryQueue())
    for number, (tick, table) in enumerate(sorted(arrivals, key=lambda one: one[0]), 1):
        lake.arrivals.append((tick * 5.0, table, number))
    orders = {table: [n for _, t, n in lake.arrivals if t == table] for table in NAMES}
    with capture_logs():
        for stop in stops:
            followed(lake, stop_at=stop, until=lake.now + 20, others=others)
        followed(lake, until=max(lake.now, 60) + 60, others=others)
    assert lake.queue.notices == []
    check_applied_once(lake, orders)
    assert all(found.progress.batch == len(orders[table]) for table, found in lake.target.tables.items())


# The queue is a hint.

HOUR = 3600.0


class Unreliable(MemoryQueue):
    """Loses, repeats and reorders what it is told, and what it is told of what is done, as it is drawn."""

    def __init__(self, fates: Sequence[int]) -> None:
        super().__init__()
        self.fates = cycle(fates or (0,))

    def receive(self) -> Sequence[Notice]:
        found = []
        for notice in list(self.notices):
            match next(self.fates):
                case 0:
                    self.notices.remove(notice)
                case 1:
                    found += [notice, notice]
                case 2:
                    found.insert(0, notice)
        return found

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        if next(self.fates):
            MemoryQueue.acknowledge(self, notices)


def lossy(arrivals: Sequence[tuple[int, TableName]], fates: Sequence[int]) -> Lake:
    """Return a lake in which objects arrive, of which an unreliable queue is told."""
    lake = Lake(queue=Unreliable(fates))
    for number, (tick, table) in enumerate(sorted(arrivals, key=lambda one: one[0]), 1):
        lake.arrivals.append((tick * 5.0, table, number))
    return lake


@settings(max_examples=30)
@given(ARRIVALS, st.lists(st.integers(0, 3), max_size=9), st.lists(st.integers(0, 40), max_size=2))
def test_the_queue_may_lose_repeat_and_reorder_everything_and_the_tables_are_right(
    arrivals: Sequence[tuple[int, TableName]], fates: Sequence[int], stops: Sequence[int]
) -> None:
    lake = lossy(arrivals, fates)
    orders = {table: [n for _, t, n in lake.arrivals if t == table] for table in NAMES}
    with capture_logs():
        for stop in stops:
            followed(lake, stop_at=stop, until=lake.now + 20)
        followed(lake, until=lake.now + HOUR + 120)
    check_applied_once(lake, orders)


def test_all_tables_are_looked_at_at_first_and_once_an_hour_and_no_other_is() -> None:
    lake = Lake(queue=MemoryQueue(), arrivals=[(600.0, NAMES[0], 1)])
    with capture_logs():
        followed(lake, until=2 * HOUR + 60)
    assert Counter(lake.source.looks) == {NAMES[0]: 4, NAMES[1]: 3, NAMES[2]: 3}


class Counted(HidingQueue):
    """Counts what it tells; what is hidden stays so, as no time passes."""

    notice_count = 0

    def receive(self) -> Sequence[Notice]:
        found = HidingQueue.receive(self)
        self.notice_count += len(found)
        return found


def test_a_table_that_failed_gives_its_notice_back_once_for_each_try() -> None:
    lake = Lake(queue=Counted([Notice(str(NAMES[0]), "1")]))
    lake.source.errors[NAMES[0]] = SourceError("it cannot be read")
    with capture_logs():
        followed(lake, until=100)
    assert lake.source.looks.count(NAMES[0]) == 4
    assert lake.queue.notice_count == 5, "for each try, and for the one that the table rests for"
    assert lake.queue.receive() != [], "what waits at the end is given back"


class Unreachable(MemoryQueue):
    """Does not answer."""

    def receive(self) -> Sequence[Notice]:
        raise StoreUnreachable("the queue is away", found="no route to host")


@pytest.mark.parametrize(("queue", "others"), [(Unreachable, False), (MemoryQueue, True)])
def test_all_tables_are_looked_at_each_time_while_the_queue_does_not_answer_or_another_process_writes(
    queue: type[MemoryQueue], others: bool
) -> None:
    lake = Lake(queue=queue(), arrivals=[(20.0, NAMES[1], 1)])
    with capture_logs():
        followed(lake, until=60, others=others)
    assert lake.state(NAMES[1]) != {}
    assert Counter(lake.source.looks) == dict.fromkeys(NAMES, 6)


def test_a_table_that_waits_for_a_full_load_is_looked_at_each_time_without_its_notice() -> None:
    lake = Lake(queue=HidingQueue(), arrivals=[(20.0, NAMES[1], 1)])
    lake.source.awaited[NAMES[1]] = AwaitedLoad(epoch=2, objects=1)
    with capture_logs():
        followed(lake, until=60)
    assert lake.queue.notices == []
    assert Counter(lake.source.looks) == {NAMES[0]: 1, NAMES[1]: 6, NAMES[2]: 1}


def test_a_table_that_failed_is_looked_at_again_though_the_queue_forgot_it() -> None:
    lake = lossy([(2, NAMES[0])], [1, 0])
    lake.source.errors[NAMES[0]] = SourceError("it cannot be read")

    with capture_logs():
        followed(lake, until=60)
        assert lake.source.looks.count(NAMES[0]) > 2
        lake.source.errors.clear()
        watching, _ = followed(lake, until=lake.now + 120, is_enough=lambda seen: bool(seen.commits))
    assert watching.commits == [(NAMES[0].table, 1)]


# Settings that change in their stores.

EVERY = 60.0
OWN: dict[str, Any] = {"key": ["id"], "columns": {"id": "int", "state": "int"}}
BASE = {name: said for name, said in SETTINGS.items() if name not in ("tables", "joined")}


@dataclass
class Stores:
    """What stores say of tables from a time of the lake on: keys of tables, more sections, or an error."""

    lake: Lake
    said: dict[float, Any]
    reads: list[float] = field(default_factory=list)
    base: Mapping[str, Any] = field(default_factory=lambda: BASE)

    def read(self) -> MergedSettings:
        self.reads.append(self.lake.now)
        said = self.said[max(at for at in self.said if at <= self.lake.now)]
        if isinstance(said, LakewardError):
            raise said
        file = SettingsLayer(origin="lakeward.toml", content=self.base, fails_whole=True)
        broken = {name: own for name, own in said["tables"].items() if isinstance(own, LakewardError)}
        whole = {name: own for name, own in said["tables"].items() if name not in broken}
        return merge([file, SettingsLayer(origin="the store", content={**said, "tables": whole}, broken=broken)])

    def follow(
        self, until: float, wanted: Sequence[TableName] | None = None
    ) -> tuple[FollowResult, list[Mapping[str, Any]]]:
        """Follow as a process does, until a time of the lake; return the log, too."""
        merged, lake = self.read(), self.lake
        container = lake.container(complete(validate(merged.content, Path("lakeward.toml"), merged=merged)))
        stop = Stop(lambda _: None, until=until, clock=lambda: lake.now)

        def idle(seconds: float) -> bool:
            lake.now += min(seconds, until - lake.now)
            lake.deliver()
            return False

        lake.deliver()
        names = [*container.configured().tables] if wanted is None else wanted
        chosen = TableSelection(names, [], named=wanted is not None)
        watch = SettingsWatch(self.read, container, EVERY, lambda: lake.now, lambda _, made: lake.container(made))
        with capture_logs() as logs:
            ended = follow_pipeline(container, chosen, Watching(lake, stop), stop, Inline(), idle, watch)
        return ended, [dict(line) for line in logs if line["log_level"] != "debug"]


def tables(*names: TableName, **others: Any) -> dict[str, Any]:
    """Return what a store says of tables; others by the name within the schema."""
    said = {str(name): OWN for name in names}
    return {"tables": {**said, **{f"shop.{name}": own for name, own in others.items()}}}


def test_a_table_that_a_store_adds_is_followed_in_bounded_time_and_one_that_it_removes_is_not() -> None:
    lake = waiting(*[(table, 1) for table in NAMES])
    lake.arrivals += [(300.0, table, 2) for table in NAMES]
    stores = Stores(lake, {0.0: tables(*NAMES[:2]), 95.0: tables(NAMES[0], NAMES[2])})
    ended, logs = stores.follow(500)
    assert [lake.state(table).get((1,)) for table in NAMES] == [2, 1, 2]
    assert stores.reads[1:] == [60.0 * number for number in range(1, 9)], "no more often than it is told to"
    assert {run.table: run.batches for run in ended.runs} == {NAMES[0]: 2, NAMES[1]: 1, NAMES[2]: 2}
    (line,) = [line for line in logs if line["event"] == "the settings have changed"]
    assert (line["new"], line["left_out"], line["changed"]) == (["shop.lines"], ["shop.orders"], [])


def test_a_table_that_is_disabled_waits_and_goes_on_where_it_was_once_it_is_enabled() -> None:
    lake = waiting(*[(table, 1) for table in NAMES])
    lake.arrivals += [(100.0, NAMES[1], 2)]
    lake.source.errors[NAMES[1]] = BROKEN
    disabled = tables(NAMES[0], orders={**OWN, "skip": True})
    stores = Stores(lake, {0.0: tables(*NAMES[:2]), 30.0: disabled, 200.0: tables(*NAMES[:2])})
    ended, _ = stores.follow(190)
    assert lake.state(NAMES[1]) == {}
    assert exit_code(ended.runs) == 0, "one that is left out has no error any more"
    lake.source.errors.clear()
    stores.follow(400)
    assert lake.state(NAMES[1]) == {(1,): 2, (2,): 2}
    assert lake.target.tables[NAMES[1]].progress.batch == 2


def test_other_keys_of_a_table_count_as_in_a_new_process() -> None:
    """Another key needs the table to be made anew: it fails alone, until the settings are as they were."""
    lake = waiting(*[(table, 1) for table in NAMES[:2]])
    lake.arrivals += [(100.0, table, 2) for table in NAMES[:2]] + [(300.0, NAMES[1], 3)]
    other = tables(NAMES[0], orders={**OWN, "key": ["state"]})
    stores = Stores(lake, {0.0: tables(*NAMES[:2]), 50.0: other})
    ended, _ = stores.follow(200)
    ended_anew, _ = Stores(lake, {0.0: other}).follow(210)
    found, anew = ({run.table: run.error for run in one.runs} for one in (ended, ended_anew))
    assert found[NAMES[0]] is anew[NAMES[0]] is None
    assert str(found[NAMES[1]]) == str(anew[NAMES[1]])
    assert "shop.orders: its key cannot become another" in str(anew[NAMES[1]])
    Stores(lake, {0.0: other, 220.0: tables(*NAMES[:2])}).follow(400)
    assert lake.state(NAMES[1])[1,] == 3


def test_a_broken_entry_fails_its_table_alone_until_it_is_mended() -> None:
    lake = waiting(*[(table, 1) for table in NAMES[:2]])
    lake.arrivals += [(100.0, table, 2) for table in NAMES[:2]]
    broken = {0.0: tables(*NAMES[:2]), 50.0: tables(NAMES[0], orders={"ties": "what"}), 200.0: tables(*NAMES[:2])}
    stores = Stores(lake, broken)
    ended, logs = stores.follow(190)
    assert (lake.state(NAMES[0])[1,], lake.state(NAMES[1])[1,]) == (2, 1)
    assert {str(run.table): str(run.error).splitlines()[0] for run in ended.runs if run.error is not None} == {
        "shop.orders": "shop.orders: the store: the settings are not right"
    }
    assert event_names(logs).count("failed") == 1
    stores.follow(400)
    assert lake.state(NAMES[1])[1,] == 2
    unread = tables(NAMES[0], orders=ConfigError("item shop.orders is no map"))
    ended, _ = Stores(lake, {0.0: tables(*NAMES[:2]), 450.0: unread}).follow(600)
    assert [str(run.error) for run in ended.runs if run.error is not None] == ["item shop.orders is no map"]


AWAY = StoreUnreachable("dynamodb table lakeward does not answer", found="no route", todo="Look at the network.")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (AWAY, AWAY.what),
        ({**tables(*NAMES), "defaults": {"ties": "what"}}, "the store: the settings are not right"),
        ({**tables(*NAMES), "joined": {"dw.dim": {}}}, "lakeward.toml: the settings are not right"),
        ({**tables(*NAMES[1:]), "joined": SETTINGS["joined"]}, "dw.dim"),
    ],
)
def test_what_cannot_be_read_again_is_warned_of_once_and_what_is_known_counts(said: Any, error: str) -> None:
    lake = waiting((NAMES[0], 1))
    lake.arrivals += [(150.0, NAMES[0], 2), (450.0, NAMES[0], 3), (450.0, NAMES[2], 1)]
    stores = Stores(lake, {0.0: tables(*NAMES[:2]), 50.0: said, 300.0: tables(*NAMES), 500.0: AWAY})
    ended, logs = stores.follow(600)
    assert (lake.state(NAMES[0])[1,], lake.state(NAMES[2])[1,]) == (3, 1)
    warnings = [line for line in logs if line["log_level"] == "warning"]
    assert [line["error"].startswith(error) for line in warnings[:1]] == [True]
    assert len(warnings) == 2, "once, and once more when the store is away later"
    assert exit_code(ended.runs) == 0


def test_settings_of_the_pipeline_count_from_the_next_start_and_it_says_so() -> None:
    lake = waiting((NAMES[0], 1))
    changed = {**tables(*NAMES), "pipeline": {"name": "shop", "parallel": 7, "poll": "1h"}, "settings": {}}
    stores = Stores(lake, {0.0: tables(NAMES[0]), 50.0: changed})
    ended, logs = stores.follow(300)
    assert [line["sections"] for line in logs if line["log_level"] == "warning"] == [["pipeline"]]
    configured = ended.container.configured()
    assert (configured.settings.pipeline.parallel, len(configured.tables)) == (1, 3)


def test_settings_are_read_again_in_time_however_seldom_the_source_is_looked_at() -> None:
    lake = waiting(*[(table, 1) for table in NAMES[:2]])
    base = {**BASE, "pipeline": {"name": "shop", "parallel": 1, "poll": "1h"}}
    stores = Stores(lake, {0.0: tables(NAMES[0]), 70.0: tables(*NAMES[:2])}, base=base)
    stores.follow(200)
    assert stores.reads[1:] == [60.0, 120.0, 180.0]
    assert lake.state(NAMES[1]) != {}


def test_of_tables_that_a_person_named_no_other_is_followed() -> None:
    lake = waiting(*[(table, 1) for table in NAMES])
    stores = Stores(lake, {0.0: tables(NAMES[0]), 50.0: tables(*NAMES), 150.0: tables(NAMES[2])})
    ended, _ = stores.follow(300, NAMES[:1])
    assert ([run.table for run in ended.runs], ended.selection.tables) == ([NAMES[0]], [])
    assert lake.state(NAMES[1]) == lake.state(NAMES[2]) == {}


@pytest.mark.parametrize(
    ("error", "until", "followed"),
    [
        pytest.param(ConfigError("shop.lines: no such rule"), 400, NAMES[:2], id="rules that Spark refuses"),
        pytest.param(AWAY, 100, NAMES, id="a store that is away for a while"),
    ],
)
def test_settings_that_fail_their_check_leave_those_of_before_until_they_pass(
    monkeypatch: pytest.MonkeyPatch, error: LakewardError, until: int, followed: list[TableName]
) -> None:
    lake, usual = waiting(*[(table, 1) for table in NAMES]), follower.check

    def check(container: Container, names: Sequence[TableName], pool: Executor) -> None:
        if NAMES[2] in names and lake.now < until:
            raise error
        usual(container, names, pool)

    monkeypatch.setattr(follower, "check", check)
    lake.arrivals += [(200.0, NAMES[0], 2)]
    ended, logs = Stores(lake, {0.0: tables(*NAMES[:2]), 50.0: tables(*NAMES)}).follow(400)
    assert (ended.selection.tables, lake.state(NAMES[0])[1,]) == (followed, 2)
    assert lake.state(NAMES[2]).get((1,)) == (1 if NAMES[2] in followed else None)
    assert [line["error"] for line in logs if line["log_level"] == "warning"] == [error.what]


def test_settings_that_are_refused_leave_spark_as_it_was() -> None:
    """What is made by them binds Spark to itself before it is refused."""
    content = {**SETTINGS, "tables": {str(NAMES[0]): OWN}, "joined": {}}
    file = Path("lakeward.toml")

    def merged(said: Mapping[str, Any]) -> MergedSettings:
        return merge([SettingsLayer(origin=str(file), content=said, fails_whole=True)])

    lake = waiting()
    container = lake.container(complete(validate(content, file, merged=merged(content))))
    asked = container.runtime()

    def refused(before: Container, configured: Configuration) -> Container:
        other = remake(before, configured).runtime()
        assert before.spark().runtime is other is not asked
        raise ConfigError("the source refuses it")

    times = iter([0.0, *[100.0] * 9])
    watch = SettingsWatch(partial(merged, SETTINGS), container, EVERY, partial(next, times), refused)
    with capture_logs() as logs:
        assert not watch.is_changed()
    assert [line["error"] for line in logs] == ["the source refuses it"]
    assert container.spark().runtime is asked


def test_how_a_table_was_left_is_written_back_only_while_it_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[TableName] = []
    monkeypatch.setattr(run_command, "inspect_source", lambda _container, _tables: Findings())

    def write_back(_: object, runs: Sequence[TableRun]) -> Sequence[str]:
        written.extend(run.table for run in runs)
        return ()

    monkeypatch.setattr(run_command, "write_back", write_back)
    people = SimpleNamespace(tell=lambda _runs, _joined, _strays: ())
    run_command._after(None, NAMES[:1], [TableRun(name) for name in NAMES], (), people)  # type: ignore[arg-type]
    assert written == NAMES[:1]


def test_a_table_that_comes_is_joined_and_turns_in_hand_are_not_cut_off(joint: Joint) -> None:
    joint.lake.arrivals = [(0.0, NAMES[0], 1)]
    stores = Stores(joint.lake, {0.0: tables(*NAMES), 50.0: {**tables(*NAMES), "joined": SETTINGS["joined"]}})
    ended, _ = stores.follow(100)
    assert joint.seen == [(60.0, 1)]
    assert [str(run.table) for run in ended.joined] == ["dw.dim"]


# What it keeps.


def test_a_table_stays_open_so_that_what_it_remembers_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[TableName] = []
    usual = MemoryTarget.open
    monkeypatch.setattr(MemoryTarget, "open", lambda self, d: opened.append(d.name) or usual(self, d))
    lake = Lake(arrivals=[(float(second), NAMES[0], second + 1) for second in range(0, 300, 10)])
    followed(lake, until=300)
    assert sorted(opened) == sorted(NAMES)
    opened.clear()
    followed(lake, until=lake.now + 100, others=True)
    assert len(opened) == 10 * len(NAMES), "another process may have written to them"


def test_thirty_batches_leave_no_more_behind_than_one() -> None:
    lake = Lake(arrivals=[(float(second), NAMES[0], second // 10 + 1) for second in range(0, 300, 10)])
    _, runs = followed(lake, until=400)
    (run,) = [run for run in runs if run.batches]
    assert (run.batches, run.files, run.counts.read, len(run.reports)) == (30, 30, 60, 1)


def merging(monkeypatch: pytest.MonkeyPatch, merge: Callable[[MaintenancePolicy, int], MaintenanceReport]) -> None:
    """Let the tables in memory merge small files by a function."""
    usual = MemoryTarget.open
    port = SimpleNamespace(merge=merge)
    monkeypatch.setattr(MemoryTarget, "open", lambda self, d: replace(usual(self, d), small_files=port))


def test_small_files_are_merged_after_each_twentieth_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[tuple[int, MaintenancePolicy, int]] = []
    lake = waiting(*[(NAMES[0], order) for order in range(1, 42)])

    def merge(policy: MaintenancePolicy, size: int) -> MaintenanceReport:
        merged.append((lake.target.tables[NAMES[0]].progress.batch, policy, size))
        return MaintenanceReport(files=20, bytes=7)

    merging(monkeypatch, merge)
    with capture_logs() as logs:
        followed(lake, is_enough=lambda seen: len(seen.commits) == 41)
    policy = maintenance_policy(MaintainSettings())
    assert merged == [(20, policy, MOST_BYTES), (40, policy, MOST_BYTES)]
    told_of = [(line["files"], line["bytes"]) for line in logs if line["event"] == "merged small files"]
    assert told_of == [(20, 7)] * 2


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (TableError("it cannot be written", found="a full disk", todo="Make room."), "warning"),
        (OSError("no such file"), "warning"),
        (CommitConflict("another writer was first"), "debug"),
    ],
)
def test_a_merge_of_small_files_that_fails_stops_no_batch(
    monkeypatch: pytest.MonkeyPatch, error: Exception, level: str
) -> None:
    def fail(_: MaintenancePolicy, __: int) -> MaintenanceReport:
        raise error

    merging(monkeypatch, fail)
    lake = waiting(*[(NAMES[0], order) for order in range(1, 22)])
    with capture_logs() as logs:
        _, runs = followed(lake, is_enough=lambda seen: len(seen.commits) == 21)
    assert lake.state(NAMES[0]) == {(1,): 21, (2,): 21}
    assert [run.error for run in runs] == [None] * len(NAMES)
    assert [line["log_level"] for line in logs if line["event"] == "small files were not merged"] == [level]


def test_turns_of_tables_side_by_side_end_alike() -> None:
    lake = waiting(*[(table, order) for table in NAMES for order in range(1, 8)])
    with ThreadPoolExecutor(2) as pool:
        watching, _ = followed(lake, is_enough=lambda seen: len(seen.commits) == 21, pool=pool)
    assert sorted(watching.commits) == sorted((table.table, n) for table in NAMES for n in range(1, 8))
    assert all(lake.state(table) == {(1,): 7, (2,): 7} for table in NAMES)


def test_a_turn_of_a_table_is_a_batch_at_most() -> None:
    lake = waiting((NAMES[0], 1), (NAMES[0], 2))
    lake.deliver()
    stop = Stop(lambda _: None)
    watching = Watching(lake, stop)
    runs = {str(NAMES[0]): TableRun(NAMES[0])}
    turns = TableWorker(lake.container(), runs, watching, stop, Inbox(MemoryQueue(), runs))
    found = [turns(str(NAMES[0]), []) for _ in range(3)]
    assert found == [TableOutcome.MORE, TableOutcome.MORE, TableOutcome.DONE]
    assert [batch for _, batch in watching.commits] == [1, 2]


@pytest.mark.parametrize(("events", "is_collected"), [(2, True), (3, False)])
def test_garbage_of_a_large_batch_is_collected_after_it(
    events: int, is_collected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch has two events; `events` is the number from which a batch is large."""

    def apply_with_garbage(*args: Any) -> Counts:
        garbage: list[Any] = [lambda: None]
        in_cycle.append(weakref.ref(garbage[0]))
        garbage.append(garbage)
        return apply_changes(*args)

    in_cycle = list[weakref.ref[Any]]()
    monkeypatch.setattr(worker, "apply_changes", apply_with_garbage)
    monkeypatch.setattr(worker, "_MANY_EVENTS", events)
    lake = waiting((NAMES[0], 1))
    lake.deliver()
    stop = Stop(lambda _: None)
    runs = {str(NAMES[0]): TableRun(NAMES[0])}
    turns = TableWorker(lake.container(), runs, Watching(lake, stop), stop, Inbox(MemoryQueue(), runs))
    gc.disable()
    try:
        assert turns(str(NAMES[0]), []) is TableOutcome.MORE
        assert [found() is None for found in in_cycle] == [is_collected]
    finally:
        gc.enable()
