"""A source of a joined table: its state, the keys changed since it was read last, and its rows at a commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log.batch_record import BatchRecord
from lakeward.adapters.formats.shared.change_log.retention import beyond, next_trim
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.operations.opened_table import FormatTable
from lakeward.adapters.formats.shared.rows.system_columns import column_types
from lakeward.adapters.formats.shared.rows.table_rows import with_default_positions
from lakeward.adapters.formats.shared.side_tables.keys import with_exact_columns
from lakeward.adapters.spark.history.instants import of_cell, of_countable, of_time
from lakeward.adapters.spark.history.version_rows import BEGINS, ENDS, VersionRows
from lakeward.adapters.spark.joined.source_frames import JoinedSource
from lakeward.adapters.spark.joined.touched_keys import find_changed_keys
from lakeward.adapters.spark.merge.resolution import IS_NOT_DELETED
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted, rename_columns
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension, Ordered
from lakeward.core.errors import CommitConflict
from lakeward.core.events import LOAD_SEQUENCE, Operation, Sequences
from lakeward.core.history.options import History
from lakeward.core.joined.plan import JoinPlan, SourceCommit, SourceState
from lakeward.core.pipeline.consistent_read import read_consistently
from lakeward.core.ports import TableState, Version
from lakeward.core.progress import Progress


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Reads one source of a joined table for a batch of that."""

    source: JoinedSource
    table: FormatTable
    plan: JoinPlan

    @property
    def _dimension(self) -> Dimension:
        return self.source.table

    @property
    def _now(self) -> SourceCommit:
        return self.plan.progress.passed[self.source.name]

    def rows(self) -> DataFrame:
        """Return the rows at the commit that the plan names: all versions, or the current ones."""
        return self._select_needed(self._existing_rows(self._read(self._now.batch)))

    def changes(self) -> DataFrame:
        """Return the keys that changed since the source was read last, each with the instant of its last change."""
        written_rows = self._select_needed(self._read(self._now.batch).where(f"{names.BATCH} > {self._since}"))
        keys = [written_rows.select(*self.source.key, self.source.instant), *self._removed_keys()]
        newest = F.expr(f"max({self.source.instant}) AS {self.source.instant}")
        all_keys = reduce(DataFrame.unionByName, keys).groupBy(*self.source.key).agg(newest).localCheckpoint()
        state = state_of(self.table)
        if state is None or state.remembers > self._since:
            raise CommitConflict(f"{self._dimension.name}: it forgot deletes behind batch {self._since} meanwhile")
        return all_keys

    def before(self, changes: DataFrame) -> DataFrame:
        """Return the rows of these keys as of when the source was read last."""
        rows = self._select_needed(self._existing_rows(self._read(self._since)))
        return rows.join(changes.select(*self.source.key), self.source.key, "left_semi")

    @property
    def _since(self) -> int:
        return self.plan.since[self.source.name]

    def _read(self, batch: int) -> DataFrame:
        """Return the rows as of a batch, with current names and types. Raises CommitConflict if they are gone."""
        lineage = self.table.lineage()
        name = None if lineage is None else lineage.commit_showing(batch)
        if name is None:
            raise CommitConflict(f"{self._dimension.name}: its rows as of batch {batch} went meanwhile")
        rows = rename_columns(with_default_positions(self.table.as_of(name)), self._dimension.new_names)
        types = {name: ddl(type_) for name, type_ in column_types(self._dimension).items()}
        rows = with_exact_columns(fitted(rows, self._dimension.stored.schema), types)
        return rows if self._version_rows is None else self._version_rows.read(rows)

    @property
    def _version_rows(self) -> VersionRows | None:
        return VersionRows.of(self._dimension, self._dimension.schema, 1)

    def _existing_rows(self, rows: DataFrame) -> DataFrame:
        if self._dimension.is_soft:
            return rows.where(IS_NOT_DELETED)
        is_whole = self.source.reads_versions or self._version_rows is None
        return rows if is_whole else rows.where(f"{ENDS} IS NULL")

    def _select_needed(self, rows: DataFrame) -> DataFrame:
        """Return rows with the columns that the join needs, and the instant of each."""
        return self.source.select_needed(rows, self._instant, BEGINS, ENDS)

    @property
    def _instant(self) -> str:
        """Return SQL for the instant from which a row counts, if the join needs it.

        A row of a mirror is dated by the validity column of its source, else by its source time. Rows of a full
        load have none, nor have those whose sequences are not commit times. An instant at which no version may
        begin, such as a "never" at the open end, is NULL.
        """
        history, validity = self._dating_history, self.source.declaration.validity
        if history is None:
            return "NULL"
        if validity is not None:
            column = self._dimension.schema.find(validity)
            instant = "bigint(NULL)" if column is None else of_cell(quoted(validity), column.type, history)
            return of_countable(instant, history)
        if self._dimension.sequences is not Sequences.TIMES:
            return "NULL"
        instant_of_sequence = of_countable(of_time(names.SEQUENCE, history), history)
        return f"CASE WHEN {names.SEQUENCE} NOT IN (0, {LOAD_SEQUENCE}) THEN {instant_of_sequence} END"

    @property
    def _dating_history(self) -> History | None:
        """The history whose rows need instants: one whose versions are not those of its sources."""
        joining = self.source.joining
        return None if joining.over_time else joining.joined.history

    def _removed_keys(self) -> Sequence[DataFrame]:
        """Return the keys of remembered events that may have left no row.

        An event of one key may also remove the row that a key change has moved to another key.
        """
        events = self.table.side_tables.change_log.every_event(self._now.batch)
        if events is None:
            return []
        are_new = f"{names.BATCH} > {self._since}"
        if names.OLD in events.columns:
            removed = find_changed_keys(self._dimension, events, are_new)
        else:
            removed = events.where(are_new)
            if self._version_rows is None:
                removed = removed.where(f"{names.OPERATION} = '{Operation.DELETE.value}'")
        history = self._dating_history
        time = "bigint(NULL)" if history is None else of_countable(of_time(names.TIME, history), history)
        columns = zip(self._dimension.key, self.source.key, strict=True)
        key = [f"{quoted(name)} AS {column}" for name, column in columns]
        return [removed.selectExpr(*key, f"{time} AS {self.source.instant}")]


def state_of(table: FormatTable, passed: SourceCommit | None = None) -> SourceState | None:
    """Return the state of a source, or None if it has no commit.

    `passed` is the commit up to which the joined table has read it, or None if it has not.
    """
    name = table.side_tables.change_log.dimension.name
    return read_consistently(name, table.state, partial(_state_of, table, passed))


def _state_of(table: FormatTable, passed: SourceCommit | None, state: TableState) -> SourceState | None:
    lineage = table.lineage()
    if lineage is None or not state.progress.batch:
        return None
    commits = lineage.commits() or [Version(name="", progress=state.progress)]
    progress, change_log = commits[0].progress, table.side_tables.change_log
    has_passed = passed is None or (
        any(commit.name == passed.commit for commit in commits) and lineage.commit_showing(passed.batch) is not None
    )
    change_log.batches.objects(progress)
    return SourceState(
        now=SourceCommit(progress.batch, commits[0].name),
        has_passed=has_passed,
        remembers=newest_forgotten(change_log, progress),
        replaced=newest_replacement(change_log),
    )


def newest_replacement(change_log: ChangeLogTable) -> int:
    """Return the newest batch that replaced rows without remembering them (0: none).

    That is a truncate, a full load that replaced all rows, or an older snapshot that was put between others.
    """
    newest, epoch = 0, 1
    for batch, record in sorted(change_log.batches.records.items()):
        is_truncated = record.record is not None and record.record.truncates
        if record.epoch > epoch or is_truncated or record.spliced:
            newest = batch
        epoch = record.epoch
    return newest


def newest_forgotten(change_log: ChangeLogTable, progress: Progress) -> int:
    """Return the newest batch of which deletes may have been trimmed (0: none).

    An `ordered` table has no key changes. Entries from before it was `ordered` may lie below a low watermark.
    """
    lateness, records = change_log.dimension.lateness, change_log.batches.records
    trimmed = next_trim(progress.batch) - next_trim(0)
    if isinstance(lateness, Ordered):
        passed_batch = min(
            trimmed, beyond({b: len(record.facts) for b, record in records.items()}, lateness.redelivery)
        )
        return max([passed_batch, *(b for b, record in records.items() if b <= trimmed and not record.ordered)])
    forgotten = (b for b, record in records.items() if b <= trimmed and _may_be_trimmed(record, progress))
    return max(forgotten, default=0)


def _may_be_trimmed(record: BatchRecord, progress: Progress) -> bool:
    """Return whether the low watermark may have passed an event of a batch; always for a batch without a record."""
    return record.record is None or (
        progress.low_watermark is not None and record.record.least.source_order <= progress.low_watermark
    )
