"""What a run is told by its queue, and at which tables it looks: of hidden notices, and lost ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import structlog
from buckets import Buckets
from dependency_injector import providers
from failing_sources import FailingSource
from hiding_queue import HidingQueue
from queues_of_aws import Sqs
from structlog.testing import capture_logs

from lakeward.adapters.memory import MemoryLedger, MemoryQueue, MemoryTarget
from lakeward.adapters.queues.poll import Poll
from lakeward.adapters.queues.sqlite import SqliteQueue
from lakeward.adapters.queues.visibility import LEAST
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError, SourceError, StoreUnreachable
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import EXTEND_EVERY, Notice
from lakeward.core.text.durations import seconds_of
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.runtime import inbox as module
from lakeward.entrypoints.runtime import worker
from lakeward.entrypoints.runtime.discovery_schedule import FILE, DiscoverySchedule
from lakeward.entrypoints.runtime.inbox import Inbox
from lakeward.entrypoints.runtime.pipeline_run import run_tables, settings_digests
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.runtime.table_run import TableRun
from lakeward.entrypoints.settings.configuration import Configuration, validate
from lakeward.plugins.manager import load

ORDERS, LINES = NAMES = (TableName("shop", "orders"), TableName("shop", "lines"))
TABLES = tuple(map(str, NAMES))
HOUR = 3_600_000_000
MEMORY: Mapping[str, Any] = {"kind": "memory"}


def rung(*tables: str) -> HidingQueue:
    return HidingQueue([Notice(table, str(number)) for number, table in enumerate(tables)])


# What is in work.


def test_notices_of_tables_of_the_run_are_told_and_the_others_are_not() -> None:
    with Inbox(rung(*TABLES, "shop.other"), TABLES) as inbox:
        assert [notice.table for notice in inbox.receive()] == [*TABLES]


def test_what_is_still_in_work_at_the_end_is_given_back() -> None:
    queue = rung(*TABLES, *TABLES)
    with Inbox(queue, TABLES) as inbox:
        first, second, third, _ = inbox.receive()
        inbox.acknowledge([first])
        inbox.release([second])
        inbox.give_back([third])
        assert queue.receive() == [third]
    assert [notice.receipt for notice in queue.receive()] == ["3"]
    queue.pass_time(1.0)
    assert [notice.receipt for notice in queue.receive()] == ["1", "2", "3"]


class Extended(HidingQueue):
    """Counts how often a notice is extended, and says when it was for the second time."""

    def __init__(self, *tables: str) -> None:
        super().__init__([Notice(table, str(number)) for number, table in enumerate(tables)])
        self.times: list[Sequence[Notice]] = []
        self.twice = threading.Event()

    def extend(self, notices: Sequence[Notice]) -> None:
        self.times.append(notices)
        if len(self.times) > 1:
            self.twice.set()


def test_what_is_in_work_is_extended_again_and_again_and_nothing_else() -> None:
    queue = Extended(*TABLES)
    with Inbox(queue, TABLES, every=0.001) as inbox:
        first, second = inbox.receive()
        inbox.acknowledge([first])
        queue.times.clear()
        queue.twice.clear()
        assert queue.twice.wait(60)
        assert queue.times[-1] == [second]
    assert not [thread for thread in threading.enumerate() if thread.name == "queue"]


@pytest.mark.parametrize("error", [StoreUnreachable("the network is gone"), ConfigError("access is denied")])
def test_what_cannot_be_extended_is_said_once_and_tried_again(error: LakewardError) -> None:
    class Fails(Extended):
        def extend(self, notices: Sequence[Notice]) -> None:
            Extended.extend(self, notices)
            raise error

    queue = Fails(*TABLES)
    with capture_logs() as logs, Inbox(queue, TABLES, every=0.001) as inbox:
        inbox.receive()
        assert queue.twice.wait(60)
        assert inbox._thread.is_alive()
    warned = [(entry["log_level"], entry["error"]) for entry in logs if entry["log_level"] == "warning"]
    assert warned == [("warning", error.what)]


def test_only_what_is_in_work_is_extended_and_several_times_while_a_queue_hides_it() -> None:
    queue = Extended(*TABLES)
    with Inbox(queue, TABLES) as inbox:
        received = inbox.receive()
        inbox.release(received[:1])
        inbox.extend(received)
    assert queue.times == [received[1:]]
    assert seconds_of(LEAST) > EXTEND_EVERY * 3


def test_what_is_given_back_while_it_is_extended_is_shown() -> None:
    class Slow(HidingQueue):
        def __init__(self) -> None:
            super().__init__([Notice(TABLES[0], "1")])
            self.begins, self.may_end = threading.Event(), threading.Event()

        def extend(self, notices: Sequence[Notice]) -> None:
            self.begins.set()
            assert self.may_end.wait(60)
            HidingQueue.extend(self, notices)

    queue = Slow()
    with Inbox(queue, TABLES) as inbox, ThreadPoolExecutor(2) as pool:
        received = inbox.receive()
        extends = pool.submit(inbox.extend, received)
        assert queue.begins.wait(60)
        gives_back = pool.submit(inbox.give_back, received)
        wait([gives_back], 0.1)  # long enough to give it back at once, were it not to wait
        queue.may_end.set()
        extends.result(60), gives_back.result(60)
        assert queue.receive() == received


def test_a_run_ends_though_its_queue_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs(Extended):
        def __init__(self) -> None:
            super().__init__(TABLES[0])
            self.may_end = threading.Event()

        def extend(self, notices: Sequence[Notice]) -> None:
            self.twice.set()
            assert self.may_end.wait(60)

    monkeypatch.setattr(module, "PATIENCE", 0.01)
    queue = Hangs()
    with capture_logs() as logs, Inbox(queue, TABLES, every=0.001) as inbox:
        inbox.receive()
        assert queue.twice.wait(60)
    assert [(entry["log_level"], entry["notices"]) for entry in logs] == [("warning", 1)]
    queue.may_end.set()
    inbox._thread.join(60)


def test_nothing_is_given_back_to_a_queue_that_has_just_failed() -> None:
    queue = rung(*TABLES)
    with capture_logs(), Inbox(queue, TABLES) as inbox:
        inbox.receive()
        inbox.queue = Away()
        inbox.receive()
        inbox.queue = queue
    assert queue.receive() == []


def test_the_thread_has_the_logging_context_of_the_run() -> None:
    class Logged(Extended):
        context: dict[str, Any]

        def extend(self, notices: Sequence[Notice]) -> None:
            self.context = structlog.contextvars.get_contextvars()
            Extended.extend(self, notices)

    queue = Logged(*TABLES)
    with structlog.contextvars.bound_contextvars(run="7"), Inbox(queue, TABLES, every=0.001) as inbox:
        inbox.receive()
        assert queue.twice.wait(60)
    assert queue.context["run"] == "7"


# Names, and many notices.


def test_names_are_compared_without_case_and_what_is_done_is_told_to_the_queue_once() -> None:
    class Counting(HidingQueue):
        ended: ClassVar[list[tuple[str, Notice]]] = []

        def acknowledge(self, notices: Sequence[Notice]) -> None:
            self.ended.extend(("acknowledged", notice) for notice in notices)

        def give_back(self, notices: Sequence[Notice]) -> None:
            self.ended.extend(("given back", notice) for notice in notices)

    with Inbox(Counting([Notice("SHOP.Orders", "1")]), TABLES) as inbox:
        notices = inbox.receive()
        assert notices == [Notice(TABLES[0], "1")], "the name is that of the settings"
        for _ in range(2):
            inbox.acknowledge(notices)
        inbox.give_back(notices)
        inbox.acknowledge([Notice(TABLES[1])])
    assert [(ending, notice.receipt) for ending, notice in Counting.ended] == [("acknowledged", "1")]


def test_names_of_no_table_are_said_once_each_time() -> None:
    with capture_logs() as logs, Inbox(rung(TABLES[0], "shop.a", "shop.b"), TABLES) as inbox:
        assert len(inbox.receive()) == 1
    found = [(entry["log_level"], entry["notices"], entry["example"]) for entry in logs]
    assert found == [("warning", 2, "shop.a")]


class Portions(HidingQueue):
    """Gives out one notice at once."""

    def receive(self) -> Sequence[Notice]:
        found = HidingQueue.receive(self)
        self.give_back(found[1:])
        return found[:1]


def test_a_run_receives_until_nothing_new_comes() -> None:
    queue = Portions([Notice(TABLES[0], str(number)) for number in range(5)])
    with Inbox(queue, TABLES) as inbox:
        assert inbox.receive_all() == queue.notices
    with Inbox(MemoryQueue([Notice(TABLES[0], "1")]), TABLES) as inbox:
        assert len(inbox.receive_all()) == 1


def test_a_run_says_that_it_received_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECEIVES", 3)
    queue = Portions([Notice(TABLES[0], str(number)) for number in range(5)])
    with capture_logs() as logs, Inbox(queue, TABLES) as inbox:
        assert len(inbox.receive_all()) == 3
    assert [(entry["log_level"], entry["notices"]) for entry in logs] == [("warning", 3)]


# A queue that does not answer.


class Away(MemoryQueue):
    """Does not answer for now, whatever it is asked."""

    def receive(self) -> Sequence[Notice]:
        raise StoreUnreachable("the queue is away", found="no route to host", todo="Look at the network.")

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        raise StoreUnreachable("the queue is away")

    give_back = acknowledge


class Closed(HidingQueue):
    """Tells nothing, as access is denied."""

    def receive(self) -> Sequence[Notice]:
        raise ConfigError("access is denied")


def test_a_queue_that_does_not_answer_is_said_once_until_it_does() -> None:
    queue: Any = Away()
    with capture_logs() as logs, Inbox(queue, TABLES) as inbox:
        for _ in range(3):
            assert inbox.receive() == []
            assert not inbox.answers
        inbox.queue = MemoryQueue()
        inbox.receive()
        assert inbox.answers
        inbox.queue = queue
        inbox.receive()
    warnings = [entry for entry in logs if entry["log_level"] == "warning"]
    assert [entry["todo"] for entry in warnings] == ["Look at the network."] * 2


def test_an_error_that_stays_so_is_raised_where_it_is_received_and_logged_else() -> None:
    class Denied(HidingQueue):
        def acknowledge(self, notices: Sequence[Notice]) -> None:
            raise ConfigError("access is denied")

        give_back = acknowledge

    with capture_logs() as logs, Inbox(Denied([Notice(one, "1") for one in TABLES]), TABLES) as inbox:
        first, _ = inbox.receive()
        inbox.acknowledge([first])
    assert [entry["log_level"] for entry in logs] == ["warning"] * 2
    with Inbox(Closed(), TABLES) as inbox, pytest.raises(ConfigError):
        inbox.receive()


# When all tables are looked at.


def test_all_tables_are_looked_at_again_after_a_while(tmp_path: Path) -> None:
    now = 5 * HOUR
    file, tables = tmp_path / "state" / FILE, dict.fromkeys(TABLES, "a")
    looks = DiscoverySchedule(HOUR, lambda: now, tables, file)
    assert looks.due == [*TABLES]
    looks.note(TABLES, began=now)
    for later, is_due in ((0, False), (HOUR - 1, False), (HOUR, True), (-1, True)):
        assert DiscoverySchedule(HOUR, lambda now=now + later: now, tables, file).is_due is is_due
    for text in ("?", str(now), '{"began": 1}', '{"began": 1, "tables": 5}'):
        file.write_text(text)
        assert DiscoverySchedule(HOUR, lambda: now, tables, file).due == [*TABLES]
    assert DiscoverySchedule(0, lambda: now, tables, last=now).is_due


def test_tables_that_are_not_in_the_note_or_are_read_in_another_way_are_looked_at(tmp_path: Path) -> None:
    def looks(**tables: str) -> DiscoverySchedule:
        return DiscoverySchedule(HOUR, lambda: HOUR, tables, tmp_path / FILE)

    looks(a="1", b="1").note(["a", "b"], began=HOUR)
    assert looks(a="1", b="2", c="1").due == ["b", "c"]
    looks(a="1", b="2", c="1").note(["b", "c"], again=["a"])
    assert looks(a="1", b="2", c="1").due == ["a"]
    looks(c="1").note(())
    assert looks(b="2", c="1").due == ["b"], "it was none of the run meanwhile"


def test_a_note_that_says_the_same_is_not_written_again(tmp_path: Path) -> None:
    looks = DiscoverySchedule(HOUR, lambda: HOUR, {"a": "1"}, tmp_path / FILE)
    looks.note(["a"], began=HOUR)
    (tmp_path / FILE).unlink()
    looks.note(["a"])
    assert not (tmp_path / FILE).exists()


# Runs.


class Lake:
    """What outlives a process, and a clock."""

    def __init__(self, folder: Path, queue: Any) -> None:
        self.folder, self.queue = folder, queue
        self.source, self.target, self.ledger = FailingSource(), MemoryTarget(), MemoryLedger()
        self.now = 5 * HOUR

    def deliver(self, table: TableName, order: int) -> None:
        event = ChangeEvent(
            operation=Operation.UPDATE, position=Position(1, order, order, 1), key=(1,), cells={"id": 1}
        )
        self.source.put(table, order, [event])

    def configured(self, tables: Sequence[str] = TABLES, source: Mapping[str, Any] = MEMORY) -> Configuration:
        content = {
            "pipeline": {"name": "shop", "parallel": 1},
            "source": source,
            "target": {"kind": "memory"},
            "tables": {name: {"key": ["id"], "columns": {"id": "int"}} for name in tables},
        }
        return validate(content, self.folder / "lakeward.toml")

    def run(
        self,
        *,
        named: bool = False,
        tables: Sequence[TableName] = NAMES,
        configured: Sequence[str] = TABLES,
        stops: bool = False,
    ) -> list[TableRun]:
        """Run as a process of its own would; return the runs of the tables that were looked at.

        One that `stops` is asked to behind the first batch, or as the first table is done.
        """
        container = Container(configured=self.configured(configured))
        container.manager.override(providers.Object(load(entry_points=False)))
        for name in ("source", "target", "ledger", "queue"):
            getattr(container, name).override(providers.Object(getattr(self, name)))
        container.runtime().now = lambda: self.now
        self.source.looks.clear()
        with ThreadPoolExecutor(1) as pool:
            stop = Stop(print)
            observer = Unobserved(stop.ask if stops else lambda: None)
            return run_tables(container, tables, observer, stop, pool, named=named)

    def looked(self, **how: Any) -> set[TableName]:
        self.run(**how)
        return {*self.source.looks}

    def batches(self) -> dict[str, int]:
        return {name.table: table.progress.batch for name, table in self.target.tables.items()}


@dataclass
class Unobserved:
    at_end: Callable[[], object]

    def step(self, table: TableName, name: str) -> None: ...

    def batch(self, table: TableName, report: Any) -> None:
        self.at_end()

    def done(self, run: TableRun) -> None:
        self.at_end()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, HidingQueue())


def test_the_first_run_looks_at_all_tables_and_the_next_at_those_that_are_told(lake: Lake) -> None:
    assert lake.looked() == {*NAMES}
    assert lake.looked() == set()
    lake.queue.notices.append(Notice(TABLES[0], "1"))
    assert lake.looked() == {ORDERS}
    assert lake.queue.notices == []
    lake.now += HOUR
    assert lake.looked() == {*NAMES}
    (lake.folder / "state" / FILE).unlink()
    assert lake.looked() == {*NAMES}, "nothing is known of the run before"
    lake.queue = Away()
    with capture_logs():
        assert lake.looked() == {*NAMES}, "the queue tells nothing"


def test_tables_that_are_named_are_looked_at_and_the_queue_is_left_alone(lake: Lake) -> None:
    lake.run()
    lake.queue.notices.append(Notice(TABLES[0], "1"))
    assert lake.looked(named=True, tables=[LINES]) == {LINES}
    assert lake.queue.hidden == {}
    assert lake.looked() == {ORDERS}


def test_a_table_that_failed_is_looked_at_by_the_next_run(lake: Lake) -> None:
    lake.source.errors[LINES] = SourceError("it cannot be read")
    for _ in range(2):
        lake.run()
        assert LINES in lake.source.looks
    lake.source.errors.clear()
    assert lake.looked() == {LINES}
    assert lake.looked() == set()


def test_a_table_that_was_added_or_switched_on_is_looked_at_by_the_next_run_and_no_other_is(lake: Lake) -> None:
    assert lake.looked(configured=TABLES[:1], tables=[ORDERS]) == {ORDERS}
    for _ in range(2):
        assert lake.looked() == {LINES}
        assert lake.looked() == set()
        assert lake.looked(configured=TABLES[:1], tables=[ORDERS]) == set()


def test_a_table_that_is_switched_on_again_is_looked_at_behind_a_run_that_failed(lake: Lake) -> None:
    lake.run()
    lake.queue = Closed()
    with pytest.raises(ConfigError):
        lake.run(configured=TABLES[:1], tables=[ORDERS])
    lake.queue = HidingQueue()
    assert lake.looked() == {LINES}


def test_a_table_in_whose_turn_a_run_is_stopped_is_looked_at_by_the_next(lake: Lake) -> None:
    lake.run(configured=TABLES[1:], tables=[LINES])
    for number in (1, 2):
        lake.deliver(ORDERS, number)
    lake.run(stops=True)
    assert lake.batches()["orders"] == 1
    assert lake.looked() == {ORDERS}
    assert lake.batches()["orders"] == 2


def test_notices_that_are_acknowledged_call_for_no_second_listing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    def noted(job: Job[Any], *more: Any) -> Any:
        called.append([notice.receipt for notice in job.notices])
        return apply_changes(job, *more)

    lake.run()
    monkeypatch.setattr(worker, "apply_changes", noted)
    lake.deliver(ORDERS, 1)
    lake.queue.notices.append(Notice(TABLES[0], "1"))
    lake.run()
    assert called == [["1"], []]


def test_tables_of_another_source_are_looked_at(lake: Lake) -> None:
    lake.run()
    first = settings_digests(lake.configured(), TABLES)
    assert first != settings_digests(lake.configured(source={"kind": "memory", "path": "else"}), TABLES)
    assert first == settings_digests(lake.configured(), TABLES)


def test_a_table_that_waits_for_a_full_load_has_no_dead_letters_and_is_looked_at_by_each_run(lake: Lake) -> None:
    lake.run()
    lake.source.awaited[ORDERS] = AwaitedLoad(epoch=2, objects=1)
    lake.queue.notices.append(Notice(TABLES[0], "1"))
    for _ in range(3):
        assert lake.looked() == {ORDERS}
        assert lake.queue.notices == []
    lake.source.awaited.clear()
    assert lake.looked() == {ORDERS}
    assert lake.looked() == set()


def test_a_run_that_is_stopped_looks_at_nothing_less_the_next_time(lake: Lake) -> None:
    lake.run()
    lake.source.awaited[ORDERS] = AwaitedLoad(epoch=2, objects=1)
    lake.queue.notices.append(Notice(TABLES[0], "1"))
    lake.run(stops=True)
    assert lake.queue.notices == []
    assert lake.looked() == {ORDERS}


def test_many_notices_of_a_table_are_one_batch_after_the_other_and_forgotten_behind_the_last(lake: Lake) -> None:
    lake.run()
    for number in range(1, 4):
        lake.deliver(ORDERS, number)
        lake.queue.notices.append(Notice(TABLES[0], str(number)))
    lake.run()
    assert lake.batches()["orders"] == 3
    assert lake.queue.notices == []
    assert lake.source.looks.count(ORDERS) == 4


def test_a_table_that_fails_gives_its_notices_back_at_once(lake: Lake) -> None:
    lake.run()
    lake.source.errors[ORDERS] = SourceError("it cannot be read")
    lake.queue.notices += [Notice(TABLES[0], "1"), Notice(TABLES[1], "2")]
    lake.run()
    assert lake.queue.receive() == [Notice(TABLES[0], "1")]


def test_an_acknowledgement_that_is_lost_fails_no_table(lake: Lake) -> None:
    class Deaf(HidingQueue):
        def acknowledge(self, notices: Sequence[Notice]) -> None:
            raise StoreUnreachable("the queue is away")

    lake.queue = Deaf([Notice(TABLES[0], "1")])
    lake.deliver(ORDERS, 1)
    with capture_logs():
        runs = lake.run()
    assert [run.error for run in runs] == [None] * 2
    assert lake.batches()["orders"] == 1


def test_a_queue_that_tells_of_all_tables_each_time_leaves_no_note(lake: Lake) -> None:
    lake.queue = Poll(TABLES)
    for _ in range(2):
        assert lake.looked() == {*NAMES}
    assert not (lake.folder / "state" / FILE).exists()


def test_the_queue_of_a_file_calls_for_its_tables(lake: Lake) -> None:
    lake.queue = SqliteQueue(lake.folder / "queue.db", lambda: lake.now, HOUR, 5)
    lake.run()
    lake.deliver(LINES, 1)
    lake.queue.add(TABLES[1])
    assert lake.looked() == {LINES}
    lake.now += HOUR - 1
    assert lake.queue.receive() == []


def test_a_queue_of_aws_calls_for_the_tables_of_the_objects_that_came(
    s3: Buckets, sqs: Sqs, tmp_path: Path
) -> None:
    content = {
        "pipeline": {"name": "shop"},
        "source": {"kind": "dms", "path": "s3://bucket/landing"},
        "target": {"kind": "memory"},
        "queue": {"kind": "sqs", "url": sqs.url, "wait": 0},
        "tables": {
            "shop.orders": {"key": ["id"], "columns": {"id": "int"}},
            "lake.orders": {"key": ["id"], "columns": {"id": "int"}, "reads": "shop.orders"},
            "shop.lines": {"key": ["id"], "columns": {"id": "int"}},
        },
    }
    container = Container(configured=validate(content, tmp_path / "lakeward.toml"))
    key = "landing/shop/orders/LOAD00000001.csv"
    sqs.send(
        f'{{"Records": [{{"eventName": "ObjectCreated:Put", "s3": {{"bucket": {{"name": "bucket"}}, '
        f'"object": {{"key": "{key}"}}}}}}]}}'
    )
    queue = container.queue()
    assert sorted(notice.table for notice in queue.receive()) == ["lake.orders", "shop.orders"]
    queue.client.close()
