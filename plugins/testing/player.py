"""The player: plays a script on a lake through the pipeline, with crashes, and settles rows in quarantine.

After each batch the player records the visible state of the table. Every table must show the same states as the
reference adapter, which is tested against the model.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol, Self

from lakeward.adapters.memory import MemoryLedger, MemoryQueue, MemoryTable, MemoryTarget
from lakeward.core.dimension import Dimension
from lakeward.core.errors import RepairError
from lakeward.core.events import UNSET, Cell, ChangeEvent, Key, Position
from lakeward.core.history import version_rows
from lakeward.core.history.options import History
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.merge.change_log import Reason
from lakeward.core.operations.rollback import preview_rollback, roll_back, versions
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import BATCH_STEPS, Job, Report, Settlement, StepObserver, no_observer
from lakeward.core.pipeline.release import release, repair_row
from lakeward.core.ports import Entry, Notice, Opened, RepairedRow, TableState
from lakeward.plugins.testing.moments import Moment, difference, with_one_nan
from lakeward.plugins.testing.scripted_source import ScriptedSource
from lakeward.plugins.testing.scripts import NAME, PACKED, Item, Rows, Script, stored_rows


class Lake(Protocol):
    """A table format under test, written by its author for the kit. The tables of a new lake are empty."""

    def open(self, dimension: Dimension) -> Opened[Any]:
        """Open the table as a new process would, without state of earlier calls. Create no table."""
        ...

    def frame(self, dimension: Dimension, items: Sequence[Item], *, in_part: bool = False) -> Any:
        """Return events and rejects in the form that the format takes, in the order of their positions.

        With `in_part` the frame must be able to say which cells were not sent, which key a row had
        before, and which changes are of one transaction.
        """
        ...

    def rows(self, dimension: Dimension) -> Rows:
        """Return the stored rows, read by another reader than the one that wrote them.

        By key, or by position where the table has no key: the cells of the columns of the
        dimension as it is `stored`, and the position of the row. Nothing where the table does not exist.
        Of a history each version is a row, by key and start, and, where that is known, since when it is believed.
        """
        ...


class Crash(BaseException):
    """Raised at the step of a batch at which the process ends."""


CRASHES = [(step, moment) for step in BATCH_STEPS for moment in ("before", "after")]
ABOUT_THE_COMMIT = (("record_batch", "after"), ("commit", "before"), ("commit", "after"))
UNCOMMITTED = CRASHES[: CRASHES.index(("commit", "before")) + 1]
"""The crashes before the commit. After a later crash the next batch trims, so some counts come a batch later."""


@dataclass
class Player:
    """Plays a script on a lake, and records the visible state of the table after each batch.

    With `expected`, the moments of another player, it stops at the first one that differs. `refused` counts the
    refused repaired rows. `between` is called between two deliveries and `meanwhile` before each step of a batch;
    they act as another writer.
    """

    script: Script
    lake: Lake
    queue: MemoryQueue = field(default_factory=MemoryQueue)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    expected: Sequence[Moment] | None = None
    moments: list[Moment] = field(default_factory=list)
    crashed: list[tuple[str, str]] = field(default_factory=list)
    refused: int = 0
    between: Callable[[], object] = lambda: None
    meanwhile: Callable[[str], object] = lambda _: None

    def __post_init__(self) -> None:
        self.source = ScriptedSource(self.script, self.lake.frame)

    def play(self, crashes: Iterable[tuple[str, str]] = ()) -> Self:
        """Deliver everything. Each batch ends in the next crash and is continued by a new process."""
        random, ends = Random(0), iter(crashes)
        for _ in self.script.deliveries:
            self.deliver(next(ends, None))
            self.settle(random, self.script.settles, ends)
        self.settle(random, 1.0, ends)
        return self

    def deliver(self, end: tuple[str, str] | None = None) -> None:
        """Add the next delivery of the script and run. With `end`, the first run crashes at that step."""
        if self.moments:
            self.between()
        self.source.arrived += 1
        self.queue.notices.append(Notice(str(NAME), str(self.source.arrived)))
        self._attempted(self._run, end)

    def leave(self, end: tuple[str, str]) -> None:
        """Add the next delivery and run until the crash at `end`. No other process continues."""
        self.source.arrived += 1
        self.queue.notices.append(Notice(str(NAME), str(self.source.arrived)))
        with suppress(Crash):
            self._run(self._watch(end))

    def roll_back(self, batch: int) -> None:
        """Roll the table back to the commit of this batch."""
        job = self.job()
        (name,) = [version.name for version in versions(job) if version.progress.batch == batch]
        roll_back(job, preview_rollback(job, name))

    @property
    def reasons(self) -> Set[str]:
        """The reasons of all rows that were ever in quarantine."""
        return {reason for moment in self.moments for reason, *_ in moment.quarantine.values()}

    @property
    def promised(self) -> Sequence[object]:
        """The part of each moment that every table must show."""
        return [moment.promised for moment in self.moments]

    def _run(self, observe: StepObserver) -> None:
        """Apply the notices of the queue, as a new process would."""
        notices = self.queue.receive()
        if notices:
            self.apply(notices, observe)

    def apply(self, notices: Sequence[Notice] = (), observe: StepObserver = no_observer) -> None:
        """Apply what has arrived, as a new process would. Raises AssertionError if an object is applied twice."""
        selection: Counter[str] = Counter()

        def bound(report: Report) -> None:
            selection.update(fact.object.name for fact in report.plan.facts.objects)
            again = sorted(name for name, times in selection.items() if times > 1)
            assert not again, (
                f"batch {report.progress.batch} has objects that one before it had: the table forgets what it "
                f"was given, and would be given it for ever. Its `read_state` must return the objects of all "
                f"batches; it lacks {', '.join(again)}."
            )

        apply_changes(self.job(notices), observe, bound)

    def settle(self, random: Random, chance: float, ends: Iterator[tuple[str, str]]) -> None:
        """Repair or discard rows in quarantine. Repaired rows may wait a while until they are replayed."""
        places = {entry.position for entry in self._entries() if random.random() < chance}
        self._repair([entry for entry in self._entries() if entry.position in places])
        if not places or (self.script.fixes and random.random() > chance + 0.5):
            return

        def work(observe: StepObserver) -> None:
            remaining = [entry for entry in self._entries() if entry.position in places]
            if remaining:
                repaired = [entry for entry in remaining if entry.repaired is not None]
                given_up = [entry for entry in remaining if entry.repaired is None]
                try:
                    release(self.job(), Settlement(repaired=repaired, discarded=given_up), observe)
                except RepairError:  # a repaired row may be ambiguous
                    self.refused += 1
                    release(self.job(), Settlement(discarded=remaining), observe)

        self._attempted(work, next(ends, None))

    def _repair(self, entries: Sequence[Entry]) -> None:
        fixes = self.script.fixes
        repairable = [entry for entry in entries if entry.position in fixes]
        if repairable:
            repair_row(
                self.job(),
                [replace(entry, repaired=_repaired(entry, fixes[entry.position])) for entry in repairable],
            )

    def _attempted(self, work: Callable[[StepObserver], object], end: tuple[str, str] | None) -> None:
        try:
            work(self._watch(end))
        except Crash:
            work(self._watch(None))
        self.moments.append(self.observe())
        if self.expected is not None:
            self._check(self.moments[-1], self.expected[len(self.moments) - 1])

    def observe(self) -> Moment:
        """Return the visible state of the table."""
        opened = self.lake.open(self.script.dimension)
        progress = opened.table.state().progress
        quarantine = {
            entry.position: (entry.reason, entry.waiting_events, _held_keys(entry), entry.repaired is not None)
            for entry in self._entries()
        }
        incomplete = frozenset(entry.position for entry in opened.quarantine.incomplete(progress))
        rows = with_one_nan(self.lake.rows(self.script.table_after(self.source.arrived)))
        return Moment(progress, rows, quarantine, incomplete)

    def _check(self, actual: Moment, expected: Moment) -> None:
        if actual.promised != expected.promised:
            raise AssertionError(difference(actual, expected, self.delivered))

    @property
    def delivered(self) -> Sequence[Item]:
        """All events and rejects that have arrived, in the order of deliveries."""
        return [item for items in self.script.deliveries[: self.source.arrived] for item in items]

    def _watch(self, end: tuple[str, str] | None) -> StepObserver:
        def reach(step: str, moment: str) -> None:
            if (step, moment) == end:
                self.crashed.append(end)
                raise Crash

        @contextmanager
        def observe(step: str) -> Iterator[None]:
            self.meanwhile(step)
            reach(step, "before")
            yield
            reach(step, "after")

        return observe

    def job(self, notices: Sequence[Notice] = ()) -> Job[Any]:
        """Return the job of a new process that has opened the table."""
        dimension = self.script.dimension
        opened = self.lake.open(dimension)
        return Job(
            dimension=dimension,
            source=self.source,
            opened=opened,
            queue=self.queue,
            notices=notices,
            ledger_writer=LedgerWriter(ledger=self.ledger, now=lambda: self.source.arrived * self.script.pause),
            read_table_state=self._table_state,
        )

    def _table_state(self) -> TableState:
        return self.lake.open(self.script.dimension).table.state()

    def _entries(self) -> list[Entry]:
        opened = self.lake.open(self.script.dimension)
        entries = opened.quarantine.entries(opened.table.state().progress)
        return sorted(entries, key=lambda entry: entry.position)


def _held_keys(entry: Entry) -> frozenset[str]:
    """Return the keys that a row in quarantine holds, in one normalized form of JSON."""
    try:
        return frozenset(json.dumps(json.loads(key), ensure_ascii=False) for key in entry.held_keys)
    except ValueError as error:
        raise AssertionError(f"a key of a row in quarantine is no list in JSON: {entry}") from error


def _repaired(entry: Entry, event: ChangeEvent) -> RepairedRow:
    sent = {name: value for name, value in event.cells.items() if value is not UNSET}
    cells = {name: str(sent[name]) if name in sent else UNSET for name in PACKED.names}
    time = str(event.position.sequence) if Reason(entry.reason) is Reason.SEQUENCE else None
    old = None if event.old_key is None else dict(zip(("h", "id"), map(str, event.old_key), strict=True))
    return RepairedRow(operation=event.operation, cells=cells, time=time, old_key=old)


@dataclass
class MemoryLake:
    """The reference adapter as a lake under test."""

    kind: type[MemoryTable] = MemoryTable
    target: MemoryTarget = field(default_factory=MemoryTarget)

    def open(self, dimension: Dimension) -> Opened[Any]:
        """Return the table. Its state is in the object."""
        self.target.tables.setdefault(dimension.name, self.kind(dimension))
        return self.target.open(dimension)

    def frame(self, dimension: Dimension, items: Sequence[Item], *, in_part: bool = False) -> Sequence[Item]:
        """Return the items: they are the frame."""
        return items

    def rows(self, dimension: Dimension) -> Rows:
        """Return the rows of the dictionary."""
        table = self.target.tables[dimension.name]
        if dimension.history is not None:
            return dict(
                _versions(dimension, table)
                if not dimension.history.is_bitemporal
                else _known_versions(dimension, table)
            )
        return stored_rows(dimension, table.rows)


def _versions(
    dimension: Dimension, table: MemoryTable
) -> Iterator[tuple[Key, tuple[Mapping[str, Cell], Position]]]:
    """Return the versions of all keys as their table shows them."""
    form = (dimension.history or History()).validity_columns
    for key, row in table.rows.items():
        rows = version_rows.rows(dimension, key, row.versions, table.numbers)
        for version, cells in zip(row.versions, rows, strict=True):
            yield (*key, cells[form.valid_from]), (cells, version.position)


def _known_versions(
    dimension: Dimension, table: MemoryTable
) -> Iterator[tuple[Key, tuple[Mapping[str, Cell], Position]]]:
    """Return all that was ever believed of the versions of all keys, as their table shows it."""
    history, stored = dimension.history or History(), dimension.stored
    for key, known_versions in table.known_versions.items():
        for known in known_versions:
            cells = known.row(history, stored.schema.names)
            yield (*key, *(cells[name] for name in stored.key[len(key) :])), (cells, known.position)
