"""What a run did to a table, batch after batch, and who is told of it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lakeward.core.checks.source_clock import Backwards
from lakeward.core.dimension import TableName
from lakeward.core.events import Operation
from lakeward.core.ledger.duplicate_objects import DuplicateObject
from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.ledger.other_tables import OtherTables, add_others, words_of
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.pipeline.job import Report
from lakeward.core.progress import Progress
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.text.numbers import format_count


def caution_words(cautions: Mapping[str, int]) -> list[str]:
    """Return what to know of rows in words, each with their number.

    >>> caution_words({"A row is odd.": 1200})
    ['A row is odd. Rows: 1,200.']
    """
    return [f"{words} Rows: {rows:,}." for words, rows in cautions.items()]


def words_of_files_left_alone(names: Sequence[str], shown: int, more: str = "") -> Sequence[str]:
    """Return what to say of files beside those of a table; some are shown, and `more` says who names more."""
    if not names:
        return ()
    files = format_count(len(names), "other file is", "other files are")
    rest = f" …{more}" if len(names) > shown else ""
    listed = ", ".join(names[:shown])
    return (f"{files} left alone, since the source takes no file of such a name: {listed}{rest}",)


def row_cautions(facts: BatchFacts, counts: Counts, lacked: Sequence[str] = ()) -> Mapping[str, int]:
    """Return what a person should know of rows of a batch, with their number.

    That is what its source says, doubled keys, and rows that have NULL in columns that their files lack (`lacked`).
    In a batch of full loads alone, a row is superseded where its key stands in a later row of the load.
    """
    is_doubled = facts.is_of_loads and counts.superseded
    cautions = {**facts.cautions, **({_DOUBLED: counts.superseded} if is_doubled else {})}
    reads = facts.operations.get(Operation.READ, 0)
    if lacked and reads:
        names = ", ".join(lacked)
        cautions[f"The files lack {names}: a row that is no update has NULL there, whatever it had before."] = reads
    return cautions


_DOUBLED: Final = (
    "A key stands more than once in a full load: its last row is taken, and the others are `superseded`."
)


@dataclass(slots=True)
class TableRun:
    """What a run did to one table.

    Its sums are those of all batches, `row_cautions` among them. `reports`
    may be bounded: one that follows keeps the last.
    `progress` is where the table stands, `odd` where it stood after batches with an alarm of which nobody was
    told yet; the newest batch was `committed` then, in microseconds since 1970 (None: nobody knows). `error` is
    that of the last turn, and so many `failures` there were in a row, of all `failed_turns`. `others` are the
    messages of other tables among its files, and `files_left_alone` the names of files beside them that the
    source takes for none of the table's.
    """

    table: TableName
    reports: deque[Report] = field(default_factory=deque)
    counts: Counts = field(default_factory=Counts)
    batches: int = 0
    files: int = 0
    warnings: Counter[str] = field(default_factory=Counter)
    row_cautions: Counter[str] = field(default_factory=Counter)
    progress: Progress | None = None
    odd: list[Progress] = field(default_factory=list)
    error: BaseException | None = None
    failures: int = 0
    failed_turns: int = 0
    committed: int | None = None
    acked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    alarms: Sequence[Alarm] = ()
    cautions: Sequence[str] = ()
    awaited: AwaitedLoad | None = None
    others: OtherTables | None = None
    files_left_alone: Sequence[str] = ()
    seconds: float = 0.0
    is_begun: bool = False

    @property
    def must_be_looked_at(self) -> bool:
        """Whether the next run has to look at it, whatever the queue tells."""
        return self.waits_for_load or any(alarm.code == "CATALOG-001" for alarm in self.alarms)

    @property
    def waits_for_load(self) -> bool:
        """Whether it waits for a full load that was asked for or has begun."""
        return self.awaited is not None and self.awaited.is_told

    def took(self, report: Report) -> None:
        """Take in what a batch did; `warnings` say how many rows broke a rule that only warns."""
        self.reports.append(report)
        self.counts += report.counts
        self.batches += 1
        self.files += len(report.plan.facts.objects)
        self.warnings.update(report.plan.facts.warnings)
        lacked = report.plan.evolution.lacked
        self.row_cautions.update(row_cautions(report.plan.facts, report.counts, lacked))
        self.others = add_others(self.others, report.plan.facts.others)
        self.progress = report.progress
        if report.progress.backwards is not None or report.progress.twin is not None:
            self.odd.append(report.progress)

    def words_of_others(self, source: TableName) -> Sequence[str]:
        """Return what to say of messages of other tables; `source` is what the source calls the table."""
        progress = self.progress or Progress()
        others = self.others if progress.has_rows else progress.others or self.others
        return words_of(others, str(source), has_rows=progress.has_rows)

    @property
    def all_cautions(self) -> Sequence[str]:
        """What a person should know of the table, and of the rows of its batches."""
        more = f" (`lakeward plan {self.table}` names more)"
        left_alone = words_of_files_left_alone(self.files_left_alone, 3, more)
        return (*self.cautions, *left_alone, *caution_words(self.row_cautions))

    @property
    def backwards(self) -> Sequence[Backwards]:
        """Where the order of its batches runs backwards; without a batch, that of the one before."""
        return [found.backwards for found in self._progresses if found.backwards is not None]

    @property
    def duplicate_objects(self) -> Sequence[DuplicateObject]:
        """Which files of its batches have the content of another; without a batch, those of the one before."""
        return [found.twin for found in self._progresses if found.twin is not None]

    @property
    def _progresses(self) -> Sequence[Progress]:
        return [*self.odd, *([] if self.progress is None else [self.progress])]


class Observer(Protocol):
    """Told what happens, from the threads that it happens in."""

    def step(self, table: TableName, name: str) -> None:
        """A step begins."""
        ...

    def batch(self, table: TableName, report: Report) -> None:
        """A batch was committed."""
        ...

    def done(self, run: TableRun) -> None:
        """A table is done for now, or failed."""
        ...
