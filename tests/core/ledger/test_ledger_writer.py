"""The ledger of a pipeline: what is recorded when, what a lost ledger changes, and acknowledged alarms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from memory_jobs import ID, INSERT, NAME, MemoryShop, event, item

from lakeward.adapters.memory import MemoryLedger, MemoryQueue, MemorySource, MemoryTable, MemoryTarget
from lakeward.core.checks.source_clock import SLACK
from lakeward.core.dimension import Dimension, Snapshots
from lakeward.core.errors import CommitConflict, ConfigError, SourceError
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position
from lakeward.core.ledger.objects import ObjectState, SourceObject
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection, select_objects
from lakeward.core.ledger.writer import LISTED_WHOLE, LedgerWriter
from lakeward.core.operations.acknowledge import rebuild
from lakeward.core.operations.reload import complete
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import BATCH_STEPS, Job, StepObserver
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.core.ports import Batch, ChangeLogState, Notice
from lakeward.core.progress import Progress

DIMENSION = item(ID)


class Stopped(BaseException):
    """The process ends here."""


@dataclass
class Shop(MemoryShop):
    """A table of which each object has one row."""

    dimension: Dimension = DIMENSION

    def put(self, *orders: int, time: int | None = None) -> None:
        for order in orders:
            self.source.put(NAME, order, [event(INSERT, 0, order, at=order, time=time)])

    def drop(self, *orders: int) -> None:
        listed = self.source.tables[NAME]
        self.source.tables[NAME] = [item for item in listed if item.object.order not in orders]

    @property
    def states(self) -> dict[int, str]:
        return {found.object.order: found.state.value for found in self.ledger.objects(str(NAME))}

    @property
    def rows(self) -> list[Any]:
        return sorted(key[0] for key in self.table.rows)


@pytest.fixture
def shop() -> Shop:
    shop = Shop()
    shop.put(1, 2)
    return shop


def crash(step: str, moment: str) -> StepObserver:
    """End the process before or after a step."""

    @contextmanager
    def observe(name: str) -> Iterator[None]:
        if (name, moment) == (step, "before"):
            raise Stopped
        yield
        if (name, moment) == (step, "after"):
            raise Stopped

    return observe


def test_an_applied_object_has_its_batch_and_the_number_of_its_rows(shop: Shop) -> None:
    shop.run()
    one, two = shop.ledger.objects(str(NAME))
    assert (one.state, one.batch, one.rows, one.first_seen) == (ObjectState.APPLIED, 1, 1, 1000)
    assert (two.batch, shop.ledger.account(str(NAME)).batch) == (2, 2)


def test_a_prepared_batch_writes_nothing_to_the_ledger(shop: Shop) -> None:
    prepare_next_batch(shop.job())
    assert shop.states == {}


@pytest.mark.parametrize("has_books", [True, False])
def test_a_source_is_told_whether_the_table_begins(shop: Shop, has_books: bool) -> None:
    """A new table lacks what the source archived before (LEDGER-006)."""
    asked: list[bool] = []

    class Asked(MemorySource):
        def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
            asked.append(object_history.has_no_batch)
            return super().select_objects(dimension, object_history)

    shop.source = Asked(Limits(files=1), shop.source.tables)
    job = shop.job() if has_books else replace(shop.job(), ledger_writer=None)
    apply_changes(job)
    assert (asked[0], asked[-1]) == (True, False)


def test_objects_wait_again_once_another_tool_rolled_the_table_back(shop: Shop) -> None:
    """Its files may be in an archive: they are missed, although the table does not know them."""
    shop.run()
    shop.put(3)
    earlier = deepcopy(shop.target)
    shop.run()
    shop.target = deepcopy(earlier)
    shop.drop(3)
    shop.put(4)
    assert (shop.fails().code, shop.fails().about) == ("LEDGER-003", ("00000003",))
    shop.put(3)
    with pytest.raises(Stopped):
        apply_changes(shop.job(), crash("read", "before"))
    assert shop.states == {1: "applied", 2: "applied", 3: "seen", 4: "seen"}
    shop.run()
    assert (shop.rows, shop.states[3]) == ([1, 2, 3, 4], "applied")
    shop.target = deepcopy(earlier)
    shop.drop(3)
    shop.fails()
    shop.ack("LEDGER-003")
    shop.run()
    assert shop.rows == [1, 2, 4]


def test_a_ledger_that_another_process_wrote_meanwhile_is_no_loss(shop: Shop) -> None:
    """Another process has committed in between, and its files were archived."""
    shop.run()
    shop.put(3)
    earlier, later = deepcopy(shop.target), shop.target
    shop.run()
    shop.drop(3)
    job = replace(shop.job(), opened=earlier.open(DIMENSION), read_table_state=later.open(DIMENSION).table.state)
    with pytest.raises(CommitConflict):
        prepare_next_batch(job)


class Unreadable(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Any]:
        raise SourceError("cannot be read")


def test_a_listed_object_that_cannot_be_read_is_missed_when_it_is_gone(shop: Shop) -> None:
    shop.run()
    shop.source = Unreadable(Limits(files=1), shop.source.tables)
    shop.put(3, 4)
    with pytest.raises(SourceError):
        shop.run()
    assert shop.states == {1: "applied", 2: "applied", 3: "seen", 4: "seen"}
    shop.source = MemorySource(Limits(files=1), shop.source.tables)
    shop.drop(3)
    assert shop.fails().code == "LEDGER-003"
    assert shop.rows == [1, 2]
    shop.ack("LEDGER-003")
    shop.run()
    assert (shop.rows, shop.states[3]) == ([1, 2, 4], "vanished")


def test_the_next_run_rebuilds_a_lost_ledger_and_changes_no_row(shop: Shop) -> None:
    shop.run()
    shop.ledger = MemoryLedger()
    shop.put(3)
    shop.run()
    assert (shop.rows, shop.states) == ([1, 2, 3], {1: "applied", 2: "applied", 3: "applied"})


def test_the_ledger_is_rebuilt_on_demand(shop: Shop) -> None:
    shop.run()
    before = list(shop.ledger.objects(str(NAME)))
    shop.ledger = MemoryLedger()
    job = shop.job()
    assert rebuild(job) == 2
    assert list(shop.ledger.objects(str(NAME))) == [replace(found, first_seen=None) for found in before]


@pytest.mark.parametrize("is_rebuilt", [True, False])
def test_a_waiting_object_is_missed_after_the_table_is_rolled_back(shop: Shop, *, is_rebuilt: bool) -> None:
    shop.run()
    before = deepcopy(shop.target)
    shop.put(3)
    shop.run()
    shop.put(4)
    with pytest.raises(Stopped):
        apply_changes(shop.job(), crash("read", "before"))
    shop.target = before
    if is_rebuilt:
        rebuild(shop.job())
        assert shop.states == {1: "applied", 2: "applied", 3: "seen", 4: "seen"}
    shop.drop(4)
    assert shop.fails().code == "LEDGER-003"


def test_the_ledger_of_a_dropped_table_says_nothing_of_a_new_one(shop: Shop) -> None:
    shop.run()
    shop.ledger.known[str(NAME)]["old"] = replace(
        next(shop.ledger.objects(str(NAME))), object=SourceObject("old", 9, 1, 1), state=ObjectState.SEEN
    )
    shop.target = MemoryTarget()
    shop.run()
    assert (shop.rows, shop.states) == ([1, 2], {1: "applied", 2: "applied"})


# The archive.


@dataclass
class Archiving(MemorySource):
    """Moves applied objects away; `moved` has their names."""

    moved: list[str] = field(default_factory=list)

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        listed = [item.object for item in self.tables.get(dimension.name, [])]
        return select_objects(str(dimension.name), listed, object_history, self.limits, keeps=False)

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        names = [item.name for item in objects]
        self.moved += names
        self.tables[dimension.name] = [o for o in self.tables[dimension.name] if o.object.name not in names]
        return names


@pytest.mark.parametrize("step", BATCH_STEPS)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_step_archives_each_applied_object_once(step: str, moment: str) -> None:
    shop = Shop(source=Archiving(Limits(files=1)))
    shop.put(1, 2)
    with pytest.raises(Stopped):
        apply_changes(shop.job(), crash(step, moment))
    shop.run()
    shop.run()
    assert isinstance(shop.source, Archiving)
    assert (shop.rows, shop.source.moved) == ([1, 2], ["00000001", "00000002"])
    assert shop.states == {1: "archived", 2: "archived"}


# Alarms.


def test_an_alarm_stays_until_a_run_ends_without_it(shop: Shop) -> None:
    shop.run()
    (kept, _) = shop.source.tables[NAME]
    shop.drop(1, 2)
    assert shop.fails().code == "LEDGER-005"
    (alarm,) = shop.ledger.account(str(NAME)).alarms
    assert (alarm.code, "none of its files" in alarm.what) == ("LEDGER-005", True)
    shop.source.tables[NAME].append(kept)
    shop.run()
    assert shop.ledger.account(str(NAME)).alarms == ()
    assert shop.states == {1: "applied", 2: "vanished"}


def test_an_acknowledgement_is_stored_with_the_table(shop: Shop) -> None:
    shop.run()
    shop.drop(1, 2)
    shop.fails()
    shop.ack("LEDGER-005", "moved to tape")
    assert shop.ledger.account(str(NAME)).alarms == ()
    shop.ledger = MemoryLedger()
    shop.run()
    (kept,) = shop.target.open(DIMENSION).change_log.read_state(Progress(batch=2)).acknowledgements
    assert (kept.code, kept.by, kept.reason, kept.at) == ("LEDGER-005", "me", "moved to tape", 5)
    assert shop.ledger.account(str(NAME)).acknowledged == {"LEDGER-005": frozenset({"00000002"})}


def test_an_acknowledged_late_object_is_quarantined(shop: Shop) -> None:
    shop.put(4)
    shop.run()
    shop.put(3)
    assert shop.fails().code == "LEDGER-001"
    shop.ack("LEDGER-001")
    shop.put(5)
    shop.run()
    assert (shop.rows, shop.states[3]) == ([1, 2, 4, 5], "quarantined")


def test_a_rewritten_object_has_its_own_state(shop: Shop) -> None:
    shop.run()
    first = shop.source.tables[NAME][0]
    first.object = replace(first.object, size=99)
    assert shop.fails().code == "LEDGER-002"
    assert shop.states == {1: "rewritten", 2: "applied"}
    shop.ack("LEDGER-002")
    shop.run()
    assert shop.states == {1: "rewritten", 2: "applied"}


def test_only_a_raised_alarm_can_be_acknowledged(shop: Shop) -> None:
    shop.run()
    with pytest.raises(ConfigError, match="LEDGER-001 does not stand") as refused:
        shop.ack("LEDGER-001")
    assert refused.value.found == "the table has no alarm"
    shop.drop(1, 2)
    with pytest.raises(ConfigError) as refused:
        shop.ack("LEDGER-001")
    assert "its alarm is LEDGER-005" in str(refused.value.found)


def test_not_every_alarm_can_be_acknowledged(shop: Shop) -> None:
    with pytest.raises(ConfigError, match="QUALITY-001 is no alarm that can be acknowledged"):
        shop.ack("QUALITY-001")


def test_a_time_in_the_future_can_be_acknowledged() -> None:
    shop = Shop(source=MemorySource(Limits(files=1), now=lambda: 0))
    shop.put(1, time=3 * SLACK)
    shop.run()
    made = shop.ack("CLOCK-001")
    assert made.about == (f"00000001 {3 * SLACK}",)
    assert shop.ledger.account(str(NAME)).acknowledged == {"CLOCK-001": frozenset(made.about)}


# From the mark on.


def seen(count: int) -> ChangeLogState:
    return ChangeLogState({f"f{n}": SourceObject(f"f{n}", n, 1, 0) for n in range(count)})


@pytest.mark.parametrize(
    ("count", "hours", "floor", "start"),
    [
        (LISTED_WHOLE, 1, 5, None),
        (LISTED_WHOLE + 1, 1, 5, "f5"),
        (LISTED_WHOLE + 1, 2, 5, None),
        (LISTED_WHOLE + 1, 1, None, None),
    ],
)
def test_large_tables_are_listed_from_the_watermark_on_and_completely_now_and_then(
    count: int, hours: int, floor: int | None, start: str | None
) -> None:
    clock = [0]
    ledger_writer = LedgerWriter(ledger=MemoryLedger(), now=lambda: clock[0], whole_every=2)
    change_log_state, table = seen(count), MemoryTable(DIMENSION)
    assert ledger_writer.object_history("t", Progress(), change_log_state, floor).start is None
    ledger_writer.record_listing("t", ObjectHistory(), ObjectSelection(), change_log_state, Progress(), table)
    clock[0] = hours
    assert ledger_writer.object_history("t", Progress(), change_log_state, floor).start == start
    assert ledger_writer.object_history("t", Progress(), change_log_state, floor, is_whole=True).start is None


@dataclass
class Tail(MemorySource):
    """Lists nothing where a listing begins at an object."""

    starts: list[str | None] = field(default_factory=list)

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        self.starts.append(object_history.start)
        return (
            MemorySource.select_objects(self, dimension, object_history)
            if object_history.start is None
            else ObjectSelection(is_whole=False)
        )


@pytest.mark.parametrize(("receipt", "starts"), [("1", ["00000001", None]), ("", ["00000001"])])
def test_all_objects_are_listed_where_a_notice_came_and_a_partial_listing_has_nothing(
    monkeypatch: pytest.MonkeyPatch, receipt: str, starts: Sequence[str | None]
) -> None:
    """Its object may lie before that part; without a notice the next complete listing finds it."""
    source = Tail(Limits(files=1))
    shop = Shop(source=source)
    shop.put(1)
    shop.run()
    shop.put(2)
    source.starts.clear()
    monkeypatch.setattr(LedgerWriter, "_start", lambda *_: "00000001")
    queue = MemoryQueue([Notice(str(NAME), receipt)])
    apply_changes(replace(shop.job(), queue=queue, notices=queue.receive()), is_stopped=Once())
    assert source.starts == starts
    assert shop.target.tables[NAME].progress.batch == len(starts)
    assert queue.notices == []


class Once:
    is_begun = False

    def __call__(self) -> bool:
        before, self.is_begun = self.is_begun, True
        return before


def test_unchanged_files_of_a_folder_that_is_applied_again_never_wait(shop: Shop) -> None:
    """Else an applied object would wait in the ledger, and a run would miss it once it is gone."""

    def put(order: int, modified: int) -> None:
        place = Position(1, LOAD_SEQUENCE, order, 1)
        event = ChangeEvent(operation=Operation.READ, position=place, key=(order,), cells={"id": order})
        shop.source.put(NAME, order, [event], modified=modified)

    def job() -> Job[Any]:
        return replace(shop.job(), dimension=replace(DIMENSION, snapshots=Snapshots()))

    shop.source = MemorySource(snapshot=lambda _: "day")
    put(1, 5)
    put(2, 5)
    complete(job(), by="me", at=1)
    apply_changes(job())
    put(2, 9)
    apply_changes(job())
    assert shop.states == {1: "applied", 2: "seen"}
    complete(job(), by="me", at=2)
    apply_changes(job())
    found = shop.ledger.objects(str(NAME))
    assert [(item.state.value, item.batch) for item in found] == [("applied", 2)] * 2
    assert shop.rows == [1, 2]
