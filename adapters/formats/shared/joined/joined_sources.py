"""A source of a joined table: how it is, what it touched since it was passed, its rows at a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log.batch_record import BatchRecord
from lakeward.adapters.formats.shared.change_log.retention import beyond, next_trim
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.operations.rollback import Line
from lakeward.adapters.formats.shared.rows.system_columns import row_columns
from lakeward.adapters.formats.shared.rows.table_rows import placed
from lakeward.adapters.formats.shared.side_tables.keys import completed
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.history.instants import of_cell, of_countable, of_time
from lakeward.adapters.spark.history.version_rows import BEGINS, ENDS, VersionRows
from lakeward.adapters.spark.joined.sides import Side
from lakeward.adapters.spark.joined.touched_rows import carried
from lakeward.adapters.spark.merge.resolution import STANDS
from lakeward.adapters.spark.schema_changes.schema_alignment import called_now, fitted
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension, Ordered
from lakeward.core.errors import CommitConflict
from lakeward.core.events import LOAD_SEQUENCE, Operation, Sequences
from lakeward.core.history.options import History
from lakeward.core.joined.plan import JoinPlan, Passed, SourceState, noted
from lakeward.core.pipeline.consistent_read import read_consistently
from lakeward.core.ports import TableState, Version
from lakeward.core.progress import Progress

R = TypeVar("R")


class Readable(Protocol):
    """A table as a joined one finds it."""

    @property
    def kept(self) -> Keeping:
        """What it remembers."""
        ...

    def standing(self) -> TableState:
        """Return what its last commit of ours says."""
        ...

    def line(self) -> Line | None:
        """Return the commits that its state comes from, or None where it is not there."""
        ...

    def as_of(self, name: str) -> DataFrame:
        """Return its rows as of a commit of ours."""
        ...


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one source of a joined table for a batch of it."""

    side: Side
    table: Readable
    plan: JoinPlan

    @property
    def _dimension(self) -> Dimension:
        return self.side.table

    @property
    def _now(self) -> Passed:
        return self.plan.progress.passed[self.side.name]

    def rows(self) -> DataFrame:
        """Return its rows at the commit that is read: versions, where all are read, else what is current."""
        return self._named(self._standing(self._read(self._now.batch)))

    def changes(self) -> DataFrame:
        """Return the keys that it touched since it was passed, each with when it was last."""
        wrote = self._named(self._read(self._now.batch).where(f"{names.BATCH} > {self._since}"))
        found = [wrote.select(*self.side.key, self.side.instant), *self._remembered()]
        instant = f"max({self.side.instant}) AS {self.side.instant}"
        every = reduce(DataFrame.unionByName, found).groupBy(*self.side.key).agg(F.expr(instant)).localCheckpoint()
        if not remembers(self.table, self._now.batch, self._since):
            raise CommitConflict(f"{self._dimension.name}: it forgot deletes behind batch {self._since} meanwhile")
        return every

    def before(self, changes: DataFrame) -> DataFrame:
        """Return the rows of these keys as they were when it was passed."""
        rows = self._named(self._standing(self._read(self._since)))
        return rows.join(changes.select(*self.side.key), self.side.key, "left_semi")

    @property
    def _since(self) -> int:
        return self.plan.since[self.side.name]

    def _read(self, batch: int) -> DataFrame:
        """Return its rows as they were with a batch, by the names and types that they have now."""
        line = self.table.line()
        name = None if line is None else line.shown_by(batch)
        if name is None:
            raise CommitConflict(f"{self._dimension.name}: its rows as of batch {batch} went meanwhile")
        stored = self._dimension.stored.schema
        rows = fitted(called_now(placed(self.table.as_of(name)), self._dimension.new_names), stored)
        types = {c.name: ddl(c.type) for c in stored}
        types |= {name: ddl(type_) for name, type_ in row_columns(self._dimension).items()}
        rows = completed(rows, types)
        return rows if self._shown is None else self._shown.read(rows)

    @property
    def _shown(self) -> VersionRows | None:
        return VersionRows.of(self._dimension, self._dimension.schema, 1)

    def _standing(self, rows: DataFrame) -> DataFrame:
        if self._dimension.is_soft:
            return rows.where(STANDS)
        is_whole = self.side.reads_versions or self._shown is None
        return rows if is_whole else rows.where(f"{ENDS} IS NULL")

    def _named(self, rows: DataFrame) -> DataFrame:
        """Return rows with what is needed of them, and the instant of each."""
        return self.side.named(rows, self._instant, BEGINS, ENDS)

    @property
    def _instant(self) -> str:
        """Return from when a row counts, as SQL, where the joined table asks: `of_row` of the core."""
        history, validity = self._dated_by, self.side.source.validity
        if history is None:
            return "NULL"
        if validity is not None:
            column = self._dimension.schema.find(validity)
            said = "bigint(NULL)" if column is None else of_cell(quoted(validity), column.type, history)
            return of_countable(said, history)
        if self._dimension.sequences is not Sequences.TIMES:
            return "NULL"
        told = of_countable(of_time(names.SEQUENCE, history), history)
        return f"CASE WHEN {names.SEQUENCE} NOT IN (0, {LOAD_SEQUENCE}) THEN {told} END"

    @property
    def _dated_by(self) -> History | None:
        """The history that asks from when rows count: one whose versions are not those of its sources."""
        joining = self.side.joining
        return None if joining.over_time else joining.joined.history

    def _remembered(self) -> Sequence[DataFrame]:
        """Return the keys of remembered events that may have left no row behind.

        With an event of one key also the row may go that a key change has carried on to another.
        """
        events = self.table.kept.change_log.every_event(self._now.batch)
        if events is None:
            return []
        if names.OLD in events.columns:
            gone = carried(self._dimension, events, f"{names.BATCH} > {self._since}")
        else:
            deletes = "true" if self._shown is not None else f"{names.OPERATION} = '{Operation.DELETE.value}'"
            gone = events.where(f"{names.BATCH} > {self._since} AND {deletes}")
        history = self._dated_by
        time = "bigint(NULL)" if history is None else of_countable(of_time(names.TIME, history), history)
        shown = zip(self._dimension.key, self.side.key, strict=True)
        return [gone.selectExpr(*[f"{quoted(n)} AS {own}" for n, own in shown], f"{time} AS {self.side.instant}")]


def state_of(table: Readable, known: Sequence[Passed] = ()) -> SourceState | None:
    """Return a source as it is, or None where it has no commit.

    It is seen from how far it was passed: from the first commit of which it is `known` to have been made then.
    """
    return _steadily(table, partial(_state_of, table, known))


def _steadily(table: Readable, read: Callable[[TableState], R]) -> R:
    """Return what is read of a source, which another run may keep up; it takes its columns from where it stands."""
    return read_consistently(table.kept.change_log.dimension.name, table.standing, read)


def _state_of(table: Readable, known: Sequence[Passed], found: TableState) -> SourceState | None:
    standing, line = found.progress, table.line()
    if line is None or not standing.batch:
        return None
    commits = line.commits() or [Version(name="", progress=standing)]
    made_of = [Passed(commit.progress.batch, commit.name) for commit in commits]
    progress, names_ = commits[0].progress, {commit.commit for commit in made_of}
    change_log = table.kept.change_log
    change_log.batches.objects(progress)
    kept = next((one for one in known if one.commit in names_), None)
    is_there = not known or kept == known[0]
    is_expired = not is_there and known[0].batch < min(commit.batch for commit in made_of)
    return SourceState(
        now=made_of[0],
        behind=noted(made_of),
        goes_on=is_there or is_expired,
        kept=kept,
        remembers=progress.batch if is_expired else forgotten(change_log, progress),
        emptied=emptied(change_log),
        spliced=spliced(change_log),
        shows_before=not known or (kept is not None and line.shown_by(kept.batch) is not None),
    )


def emptied(change_log: ChangeLogTable) -> int:
    """Return the newest batch with a truncate, or with which a full load took the place of all rows (0: none)."""
    newest, epoch = 0, 1
    for batch, found in sorted(change_log.batches.records.items()):
        if found.epoch > epoch or (found.record is not None and found.record.truncates):
            newest = batch
        epoch = found.epoch
    return newest


def spliced(change_log: ChangeLogTable) -> int:
    """Return the newest batch that put a snapshot between others (0: none): of what it removed nothing is left."""
    return max((batch for batch, found in change_log.batches.records.items() if found.spliced), default=0)


def remembers(table: Readable, batch: int, since: int) -> bool:
    """Whether what was read of a source, which may have gone on, has all deletes between two of its batches."""

    def has_all(found: TableState) -> bool:
        change_log, progress = table.kept.change_log, found.progress
        if progress.batch <= batch:
            return True
        change_log.batches.objects(progress)
        return forgotten(change_log, progress) <= since

    return _steadily(table, has_all)


def forgotten(change_log: ChangeLogTable, progress: Progress) -> int:
    """Return the newest batch of which deletes may have been forgotten when it was trimmed (0: none).

    An `ordered` table takes no changes of keys. What it remembers from before it was that, a mark may have passed.
    """
    lateness, records = change_log.dimension.lateness, change_log.batches.records
    trimmed = next_trim(progress.batch) - next_trim(0)
    if isinstance(lateness, Ordered):
        passed = min(trimmed, beyond({b: len(found.facts) for b, found in records.items()}, lateness.redelivery))
        return max([passed, *(b for b, found in records.items() if b <= trimmed and not found.ordered)])
    return max((b for b, found in records.items() if b <= trimmed and _may_go(found, progress)), default=0)


def _may_go(found: BatchRecord, progress: Progress) -> bool:
    """Whether the mark may have passed an event of a batch; of what was released, its record does not say when."""
    return found.record is None or (progress.mark is not None and found.record.least.mark <= progress.mark)
