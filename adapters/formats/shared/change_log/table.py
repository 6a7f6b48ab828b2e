"""The change log table: remembered events, base rows and waiting events as of a batch.

Entries above the table's own batch come from a crash and are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log.batch_log import BatchLog
from lakeward.adapters.formats.shared.change_log.column_changes import (
    NO_COMING_COLUMNS,
    ColumnChanges,
    ComingColumns,
)
from lakeward.adapters.formats.shared.change_log.entries import (
    BASE,
    BY_PLACE,
    CHANGE,
    DELETE,
    KIND,
    OLD_RECORD,
    PLACE,
    RECORD,
    RELEASED,
    WAITING,
)
from lakeward.adapters.formats.shared.rows.system_columns import position_of
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES, UNKNOWN, OpenSideTable
from lakeward.adapters.spark.history.version_rows import previous_columns
from lakeward.adapters.spark.merge.fold.fold_items import unset_columns, with_all
from lakeward.adapters.spark.merge.resolution import stored_column
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import column, quoted
from lakeward.core.dimension import Dimension
from lakeward.core.errors import TableError
from lakeward.core.events import Operation
from lakeward.core.quarantine.holds import Waiter, Waiters
from lakeward.core.schema import Schema

_IS_UPDATE: Final = f"{names.OPERATION} = '{Operation.UPDATE.value}'"
_WAITS: Final = f"{KIND} = '{WAITING}' AND {_IS_UPDATE}"


class ChangeLogTable:
    """The change log of one table. `n` below is the batch that the table itself is at."""

    def __init__(self, dimension: Dimension, open_side_table: OpenSideTable) -> None:
        self.dimension = dimension
        self.table = open_side_table(CHANGES, dimension.new_names, lambda: self.rows.names)
        self.batches = BatchLog(dimension.name, self.table)
        self.coming_columns: ComingColumns = NO_COMING_COLUMNS
        self._version_without_key_changes: int | None = UNKNOWN

    @property
    def rows(self) -> Schema:
        """The columns of remembered rows: those of the table and, in a history, those for previous values."""
        return Schema((*self.dimension.schema, *previous_columns(self.dimension)))

    @property
    def has_parts(self) -> bool:
        """Whether some remembered event may be partial."""
        return names.UNSET in self.table.columns

    def has_key_changes(self, upto: int) -> bool:
        """Return True if a key change up to batch `upto` is remembered or waits. Needs no Spark."""
        if not self.has_parts or self._is_without_key_changes:
            return False
        within = f"{names.BATCH} <= {upto} and {names.EPOCH} = {self.batches.epoch}"
        if self.table.rows(f"{OLD_RECORD} is not null and {within}", (KIND,)).num_rows:
            return True
        self._version_without_key_changes = self.batches.version
        return False

    @property
    def _is_without_key_changes(self) -> bool:
        """Whether this process knows that the change log has no key change, without reading it."""
        return self.batches.version != UNKNOWN and self.batches.version == self._version_without_key_changes

    def set_version(self, version: int | None, *, may_have_key_changes: bool) -> None:
        """Set the version after this process has added entries to the version that it knew."""
        was_without = self._is_without_key_changes
        self.batches.version = version
        if was_without and not may_have_key_changes:
            self._version_without_key_changes = version

    @property
    def counts(self) -> str:
        """The condition for entries that still count for the state of a key."""
        key_changes = f" or {OLD_RECORD} is not null" if self.has_parts else ""
        return f"({names.BATCH} > {self.batches.ordered_until} or {KIND} = '{DELETE}'{key_changes})"

    @property
    def outdated_entries(self) -> str:
        """The condition for entries from before the table was `ordered` that no longer count.

        It needs `has_parts`: otherwise nothing waits for its row.
        """
        truncate = Operation.TRUNCATE.value
        changes = f"{KIND} = '{CHANGE}' and {names.OPERATION} != '{truncate}' and {OLD_RECORD} is null"
        return f"(({KIND} = '{BASE}' or ({changes})) and {names.BATCH} <= {self.batches.ordered_until})"

    def events(self, upto: int) -> DataFrame | None:
        """Return the remembered events of keys up to `n`, or None if there is no change log."""
        entries = self._changes(upto, f"!= '{Operation.TRUNCATE.value}' AND {self.counts}")
        return None if entries is None else self._with_columns_since(entries)

    def _with_columns_since(self, events: DataFrame) -> DataFrame:
        """Add to updates the columns and fields that the table got later: an update says nothing of these."""
        no_names = "CAST(array() AS array<string>)"
        later_names = self._columns_since.with_added(no_names, _IS_UPDATE)
        return events if later_names == no_names else events.withColumn(names.CAME_SINCE, F.expr(later_names))

    def every_event(self, upto: int) -> DataFrame | None:
        """Return all stored events of keys up to `n`, also those that no longer count."""
        return self._changes(upto, f"!= '{Operation.TRUNCATE.value}'")

    def truncated(self, upto: int) -> DataFrame | None:
        """Return the remembered truncates up to `n`, or None if there is no change log."""
        return self._changes(upto, f"= '{Operation.TRUNCATE.value}'")

    def _changes(self, upto: int, is_wanted: str) -> DataFrame | None:
        kinds = f"{KIND} IN ('{DELETE}', '{CHANGE}')"
        return self._frame(f"{kinds} AND {names.OPERATION} {is_wanted}", upto)

    def facts(self, upto: int) -> list[DataFrame]:
        """Return the remembered events and the waiting ones, up to `n`."""
        events, waiting = self.events(upto), self.waiting(upto)
        if events is not None and names.CAME_SINCE in events.columns:
            events = with_all(events)
            events = events.withColumn(names.UNSET, F.expr(unset_columns(events))).drop(names.CAME_SINCE)
        return [frame for frame in (events, waiting) if frame is not None]

    def bases(self, upto: int) -> DataFrame | None:
        """Return the base rows up to `n`; their position columns are named like those of stored rows."""
        entries = self._frame(f"{KIND} = '{BASE}' AND {names.BATCH} > {self.batches.ordered_until}", upto)
        place = {name: stored_column(name) for name in PLACE}
        return None if entries is None else entries.withColumnsRenamed(place)

    def deletes(self, upto: int) -> DataFrame | None:
        """Return key and position of the remembered deletes, up to `n`."""
        return self._kind(DELETE, upto)

    def waiting(self, upto: int) -> DataFrame | None:
        """Return the entries of events that wait as of `n`, or None if there is no change log."""
        waiting, released = (self._kind(kind, upto) for kind in (WAITING, RELEASED))
        if waiting is None or released is None:
            return None
        return waiting.join(released, [names.OBJECT, names.ROW], "left_anti")

    def waiting_events(self, upto: int, keys: Sequence[str] | None = None) -> DataFrame:
        """Return the events that wait as of `n`, as a frame of events: those of these keys (as texts).

        All are returned if no keys are given, or if key changes may join keys. Raises TableError if there is no
        change log.
        """
        waiting = self.waiting(upto)
        if waiting is None:
            raise TableError(
                f"{self.dimension.name} has no change log, so nothing can wait",
                todo="Restore the change log table, or drop the table to load it anew.",
            )
        freed = waiting if self.has_parts or keys is None else waiting.where(column(RECORD).isin(list(keys)))
        wanted = (names.UNSET, names.OLD, names.TRANSACTION, names.INSTANT)
        in_part = [name for name in wanted if name in waiting.columns]
        return freed.selectExpr(
            *map(quoted, self.dimension.schema.names),
            *(names.OPERATION, names.SEQUENCE, names.OBJECT, names.ROW, names.TIME),
            *in_part,
            f"{BY_PLACE} AS {names.ARRIVAL}",
            *[f"string(NULL) AS {name}" for name in (names.REASON, names.DETAIL, names.TEXT)],
        )

    def waiters(self, upto: int) -> Waiters[str]:
        """Return the waiting events with the texts of their keys. Spark is not needed."""
        wanted = (KIND, *names.POSITION, RECORD, *([OLD_RECORD] if self.has_parts else []))
        condition = f"{KIND} in ('{WAITING}', '{RELEASED}') and {names.BATCH} <= {upto}"
        condition += f" and {names.EPOCH} = {self.batches.epoch}"
        rows = self.table.rows(condition, wanted).to_pylist()
        released = {(row[names.OBJECT], row[names.ROW]) for row in rows if row[KIND] == RELEASED}
        return Waiters.of(
            Waiter(
                position_of(row),
                tuple(key for key in (row.get(OLD_RECORD), row[RECORD]) if key is not None),
            )
            for row in rows
            if row[KIND] == WAITING and (row[names.OBJECT], row[names.ROW]) not in released
        )

    def _kind(self, kind: str, upto: int) -> DataFrame | None:
        return self._frame(f"{KIND} = '{kind}'", upto)

    def _frame(self, condition: str, upto: int) -> DataFrame | None:
        """Return entries up to `n` with the columns that the table has now.

        Lists of cells not sent have the current names, too. Waiting updates did not send the columns that the table
        got later. Before the first batch there are no entries: decisions recorded by then have no columns for
        events.
        """
        within = f"{names.BATCH} <= {upto} AND {names.EPOCH} = {self.batches.epoch}"
        entries = self.table.frame(f"{condition} AND {within}") if upto else None
        if entries is None:
            return None
        entries = fitted(entries, self.rows)
        if names.UNSET not in entries.columns:
            return entries
        unset = self._columns_since.with_added(names.UNSET, _WAITS)
        return entries if unset == names.UNSET else entries.withColumn(names.UNSET, F.expr(unset))

    @property
    def _columns_since(self) -> ColumnChanges:
        """The changes of columns since events were remembered."""
        return ColumnChanges(self.batches.records, self.dimension.policies.renames, self.coming_columns)
