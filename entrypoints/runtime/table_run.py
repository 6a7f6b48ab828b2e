"""The result of a run for one table, collected batch by batch, and the observer of a run."""

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
    """Return cautions about rows as sentences, each with the number of rows.

    >>> caution_words({"A row is odd.": 1200})
    ['A row is odd. Rows: 1,200.']
    """
    return [f"{words} Rows: {rows:,}." for words, rows in cautions.items()]


def words_of_files_left_alone(names: Sequence[str], limit: int, more: str = "") -> Sequence[str]:
    """Return a sentence about files in the table's folder that the source does not read, or nothing.

    At most `limit` names are listed; `more` is appended if there are others.
    """
    if not names:
        return ()
    files = format_count(len(names), "other file is", "other files are")
    rest = f" …{more}" if len(names) > limit else ""
    listed = ", ".join(names[:limit])
    return (f"{files} not read, since the names are not those of files of the table: {listed}{rest}",)


def row_cautions(facts: BatchFacts, counts: Counts, lacked: Sequence[str] = ()) -> Mapping[str, int]:
    """Return the cautions about rows of a batch, each with the number of rows.

    They are the cautions of the source, keys that occur more than once in a full load, and rows that have NULL in
    columns that their files lack (`lacked`). In a batch that has only full loads, a superseded row is a row whose
    key occurs again later in the load.
    """
    is_doubled = facts.is_of_loads and counts.superseded
    cautions = {**facts.cautions, **({_DOUBLED: counts.superseded} if is_doubled else {})}
    reads = facts.operations.get(Operation.READ, 0)
    if lacked and reads:
        names = ", ".join(lacked)
        cautions[
            f"The files lack {names}: rows of loads and snapshots have NULL there, whatever they had before."
        ] = reads
    return cautions


_DOUBLED: Final = (
    "A key occurs more than once in a full load: its last row is used, and the others are `superseded`."
)


@dataclass(slots=True)
class TableRun:
    """Result of a run for one table.

    Counts, `warnings` and `row_cautions` are sums over all batches. `reports` may be bounded: a follower keeps
    only the last. `progress` is the progress after the last commit, `unreported` that of batches whose alarm is
    not reported yet. `committed` is the time of the last commit in microseconds since 1970 (None: unknown).
    `error` is the error of the last attempt, `failures` the number of failures in a row, `failed_turns` of all
    failed attempts. `others` counts messages of other tables in its files. `files_left_alone` names files in its
    folder that the source does not read. `seconds` is the time spent on the table.
    """

    table: TableName
    reports: deque[Report] = field(default_factory=deque)
    counts: Counts = field(default_factory=Counts)
    batches: int = 0
    files: int = 0
    warnings: Counter[str] = field(default_factory=Counter)
    row_cautions: Counter[str] = field(default_factory=Counter)
    progress: Progress | None = None
    unreported: list[Progress] = field(default_factory=list)
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
    def must_be_examined(self) -> bool:
        """True if the next run must examine the table even without a notice."""
        return self.waits_for_load or any(alarm.code == "CATALOG-001" for alarm in self.alarms)

    @property
    def waits_for_load(self) -> bool:
        """True if the table waits for a full load that was requested or has begun."""
        return self.awaited is not None and self.awaited.is_pending

    def add(self, report: Report) -> None:
        """Add the report of a committed batch to the sums."""
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
            self.unreported.append(report.progress)

    def words_of_others(self, source: TableName) -> Sequence[str]:
        """Return sentences about messages of other tables; `source` is the name of the table at the source."""
        progress = self.progress or Progress()
        others = self.others if progress.has_rows else progress.others or self.others
        return words_of(others, str(source), has_rows=progress.has_rows)

    @property
    def all_cautions(self) -> Sequence[str]:
        """All cautions about the table and about the rows of its batches."""
        more = f" (`lakeward plan {self.table}` names more)"
        left_alone = words_of_files_left_alone(self.files_left_alone, 3, more)
        return (*self.cautions, *left_alone, *caution_words(self.row_cautions))

    @property
    def backwards(self) -> Sequence[Backwards]:
        """Batches whose source order runs backwards; if the run had no batch, those of the last commit."""
        return [progress.backwards for progress in self._progresses if progress.backwards is not None]

    @property
    def duplicate_objects(self) -> Sequence[DuplicateObject]:
        """Files whose content equals that of another file; if the run had no batch, those of the last commit."""
        return [progress.twin for progress in self._progresses if progress.twin is not None]

    @property
    def _progresses(self) -> Sequence[Progress]:
        return [*self.unreported, *([] if self.progress is None else [self.progress])]


class Observer(Protocol):
    """Observer of a run. Its methods are called in the threads of the tables."""

    def step(self, table: TableName, name: str) -> None:
        """A step begins."""
        ...

    def batch(self, table: TableName, report: Report) -> None:
        """A batch was committed."""
        ...

    def done(self, run: TableRun) -> None:
        """A table is done for now, or failed."""
        ...
