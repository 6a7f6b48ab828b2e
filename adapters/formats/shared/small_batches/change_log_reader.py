"""Read the change log of the keys of a small batch, as the core takes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.formats.shared.change_log.entries import (
    BASE,
    CHANGE,
    DELETE,
    KIND,
    OLD_RECORD,
    RELEASED,
    WAITING,
)
from lakeward.adapters.formats.shared.rows.system_columns import position_of
from lakeward.adapters.formats.shared.rows.unset_cells import quoted_paths, with_unset
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.formats.shared.small_batches.batch import columns_of
from lakeward.adapters.formats.shared.small_batches.keys import KeyTexts, key_in, keys_in
from lakeward.adapters.formats.shared.small_batches.version_rows import VersionReader
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import DELETED, Ordered
from lakeward.core.events import Cell, ChangeEvent, Key, Operation, Position, canonical
from lakeward.core.merge.change_log import BaseRow, Change, ChangeLogContents, Hold
from lakeward.core.merge.fold import Row, row_of
from lakeward.core.plan import MergePlan
from lakeward.core.schema_changes.evolution import SchemaChange

MOST_ENTRIES: Final = 1_000_000
"""A change log with more entries is read by Spark."""

MOST_NEAR: Final = 250_000
"""If more entries may concern a batch, Spark resolves it."""


def read_change_log(
    side_tables: SideTables, plan: MergePlan, touched: Collection[Key]
) -> tuple[ChangeLogContents, frozenset[Key]]:
    """Return the change log of these keys and of all keys that key changes join to them, and all these keys.

    Raises SparkNeeded if the change log has too many entries to be read into this process.
    """
    batches = side_tables.change_log.batches
    records = [item.record for item in batches.records.values() if item.record is not None]
    contents = ChangeLogContents(
        epoch=batches.epoch,
        loaded=max((record.loaded for record in records), default=0),
        low_watermark=plan.low_watermark,
        records=records,
    )
    if not needs_change_log(plan) or plan.batch == 1:
        return contents, frozenset(touched)
    entries = _Entries.read(side_tables, plan, touched)
    linked = entries.linked(touched) if not plan.truncates.arrived else frozenset({*touched, *entries.keys()})
    contents.changes = {change.event.position: change for change in entries.changes(linked)}
    contents.bases = entries.bases(linked, contents.changes.values())
    return contents, linked


def needs_change_log(plan: MergePlan) -> bool:
    """Return whether the change log of a key can matter to a batch."""
    needs = plan.recalls or plan.folds_remembered or plan.holds or plan.releases or plan.truncates.all
    return bool(needs) and not plan.appends


def holds_of(plan: MergePlan, keys: Collection[Key], texts: KeyTexts) -> Iterator[Hold]:
    """Return the holds of these keys. The plan's holds name keys by their texts."""
    keys_by_text = {texts.text(key): key for key in keys} if plan.holds else {}
    for hold in plan.holds:
        held_keys = tuple(keys_by_text[str(text)] for (text,) in hold.keys if str(text) in keys_by_text)
        if held_keys:
            yield Hold(hold.position, held_keys, hold.reason, hold.batch, hold.transaction)


@dataclass(frozen=True)
class _Entries:
    """The change log entries of the table's epoch, up to its batch.

    They include all entries of the keys of a batch and of the keys that key changes join to them. There may be
    entries of other keys too.
    """

    side_tables: SideTables
    plan: MergePlan
    columns: Mapping[str, Sequence[Any]]
    key: Sequence[Key | None]
    old: Sequence[Key | None]

    @classmethod
    def read(cls, side_tables: SideTables, plan: MergePlan, touched: Collection[Key]) -> _Entries:
        change_log, key_columns = side_tables.change_log, plan.dimension.key
        kinds = "', '".join((CHANGE, DELETE, BASE, WAITING, RELEASED))
        upto, epoch = plan.batch - 1, change_log.batches.epoch
        condition = f"{KIND} in ('{kinds}') and {names.BATCH} <= {upto} and {names.EPOCH} = {epoch}"
        if change_log.table.rows(condition, (KIND,)).num_rows > MOST_ENTRIES:
            raise SparkNeeded(f"more than {MOST_ENTRIES:,} entries are remembered")
        rows, new_names = (
            change_log.table.rows(condition, tuple(change_log.table.columns)),
            change_log.table.pending,
        )
        rows = rows.rename_columns([new_names.get(column, column) for column in rows.column_names])
        if key_columns[0] not in rows.column_names:
            rows = rows.slice(0, 0)
            for column in key_columns:
                rows = rows.append_column(column, pa.nulls(0))
        if rows.num_rows and not plan.truncates.arrived:
            rows = cls._near(side_tables, plan, rows, touched)
            if rows.num_rows > MOST_NEAR:
                raise SparkNeeded(f"more than {MOST_NEAR:,} entries are remembered that may matter")
        return cls._of_rows(side_tables, plan, rows)

    @classmethod
    def _of_rows(cls, side_tables: SideTables, plan: MergePlan, rows: pa.Table) -> _Entries:
        columns, key_columns, new_names = columns_of(rows), plan.dimension.key, side_tables.change_log.table.pending
        nothing = [None] * rows.num_rows
        old = [key_in(_renamed(struct, new_names), key_columns) for struct in columns.get(names.OLD, nothing)]
        return cls(side_tables, plan, columns, keys_in(columns, key_columns), old)

    @classmethod
    def _near(cls, side_tables: SideTables, plan: MergePlan, rows: pa.Table, touched: Collection[Key]) -> pa.Table:
        """Return the rows that may concern these keys: only they are converted to Python values.

        These are rows whose first key column equals that of a touched or linked key, key changes, and rows without
        a key.
        """
        key_columns, linked = plan.dimension.key, frozenset(touched)
        kinds, operations = rows.column(KIND), rows.column(names.OPERATION)
        is_truncate = pc.fill_null(pc.equal(operations, Operation.TRUNCATE.value), False)
        is_near = pc.or_(pc.equal(kinds, RELEASED), is_truncate)
        if names.OLD in rows.column_names:
            links = pc.is_valid(rows.column(names.OLD))
            listed = [*dict.fromkeys((*key_columns, names.OLD))]
            linked = cls._of_rows(side_tables, plan, rows.filter(links).select(listed)).linked(touched)
            is_near = pc.or_(is_near, links)
        first_parts = {key[0] for key in linked}
        return rows.filter(pc.or_(is_near, _is_one_of(rows.column(key_columns[0]), first_parts)))

    @cached_property
    def column_names(self) -> Sequence[str]:
        """The names of the folded columns."""
        return self.plan.folded.names

    @cached_property
    def steps(self) -> Sequence[tuple[int, Mapping[str, str], Sequence[SchemaChange]]]:
        """The changes of columns by batch since the table began, those of the current batch included."""
        records = sorted(self.side_tables.change_log.batches.records.items())
        steps = [(b, record.renames, record.added) for b, record in records if b < self.plan.batch]
        steps.append((self.plan.batch, self.plan.dimension.policies.renames, self.plan.evolution.added))
        return [(batch, renames, added) for batch, renames, added in steps if renames or added]

    def keys(self) -> Iterator[Key]:
        """Return all keys of the entries."""
        return (key for key in (*self.key, *self.old) if key is not None)

    def linked(self, touched: Collection[Key]) -> frozenset[Key]:
        """Return these keys, and all keys that key changes join to them, directly or through others."""
        links: dict[Key, set[Key]] = {}
        for key, old in zip(self.key, self.old, strict=True):
            if key is not None and old is not None:
                links.setdefault(key, set()).add(old)
                links.setdefault(old, set()).add(key)
        linked, rest = set(touched), [key for key in touched if key in links]
        while rest:
            for neighbour in links.get(rest.pop(), ()):
                if neighbour not in linked:
                    linked.add(neighbour)
                    rest.append(neighbour)
        return frozenset(linked)

    def _indices(self, keys: Collection[Key], *kinds: str) -> Iterator[int]:
        """Return the indices of entries of these kinds and keys; a truncate belongs to every key."""
        operations = self.columns[names.OPERATION]
        for index, kind in enumerate(self.columns[KIND]):
            if kind not in kinds:
                continue
            is_truncate = operations[index] == Operation.TRUNCATE.value
            if is_truncate or self.key[index] in keys or self.old[index] in keys:
                yield index

    def changes(self, keys: Collection[Key]) -> Iterator[Change]:
        """Return the remembered and the waiting events of these keys."""
        ordered_until = self.side_tables.change_log.batches.ordered_until
        released = {self._arrival(index) for index in self._of_kind(RELEASED)}
        for index in self._indices(keys, CHANGE, DELETE, WAITING):
            kind, batch = self.columns[KIND][index], self.columns[names.BATCH][index]
            if kind == WAITING:
                if self._arrival(index) not in released:
                    yield Change(self._event(index), batch, waiting=True)
            elif batch > ordered_until or kind == DELETE or self._left_no_row(index):
                yield Change(self._event(index), batch)

    def _left_no_row(self, index: int) -> bool:
        """Return whether an event left no row under its key: it is a truncate, or a key change."""
        old_texts = self.columns.get(OLD_RECORD)
        is_key_change = old_texts is not None and old_texts[index] is not None
        return is_key_change or self.columns[names.OPERATION][index] == Operation.TRUNCATE.value

    def _of_kind(self, kind: str) -> Iterator[int]:
        return (index for index, other in enumerate(self.columns[KIND]) if other == kind)

    def _arrival(self, index: int) -> tuple[int, int]:
        return self.columns[names.OBJECT][index], self.columns[names.ROW][index]

    def bases(self, keys: Collection[Key], changes: Iterable[Change]) -> dict[Key, BaseRow]:
        """Return the base rows of these keys, if events are folded over base rows.

        A key with remembered events and without a base entry was absent before.
        """
        if not self.plan.folds_remembered or isinstance(self.plan.dimension.lateness, Ordered):
            return {}
        ordered_until = self.side_tables.change_log.batches.ordered_until
        remembered = [change for change in changes if not change.waiting and change.batch > ordered_until]
        absent = {key: BaseRow(key, None, 0) for change in remembered for key in change.event.keys if key in keys}
        indices = dict[Key, list[int]]()
        for index in self._indices(keys, BASE):
            key = self.key[index]
            if key is not None and self.columns[names.BATCH][index] > ordered_until:
                indices.setdefault(key, []).append(index)
        batches = self.columns[names.BATCH]
        return absent | {
            key: BaseRow(key, self._base(own_indices), batches[own_indices[0]])
            for key, own_indices in indices.items()
        }

    def _base(self, indices: Sequence[int]) -> Row:
        """Return the base row that entries describe; a history has one entry for each of its last versions."""
        reader = VersionReader.of(self.plan.dimension, self.plan.folded)
        if reader is None:
            index = indices[0]
            is_deleted = DELETED in self.columns and bool(self.columns[DELETED][index])
            return Row(self._cells(index, ()), self._position(index), deleted=is_deleted)
        rows = ({name: values[index] for name, values in self.columns.items()} for index in indices)
        return row_of(reader.bases(rows))

    def _position(self, index: int) -> Position:
        return position_of({name: self.columns[name][index] for name in names.POSITION})

    def _event(self, index: int) -> ChangeEvent:
        operation = Operation(self.columns[names.OPERATION][index])
        listed = self.columns[names.UNSET][index] if names.UNSET in self.columns else None
        is_change = operation is not Operation.TRUNCATE
        return ChangeEvent(
            operation=operation,
            position=self._position(index),
            key=(self.key[index] or ()) if is_change else (),
            cells=self._cells(index, self._not_sent(index, operation, listed)) if is_change else {},
            old_key=self.old[index],
            transaction=self.columns[names.TRANSACTION][index] if names.TRANSACTION in self.columns else None,
            time=self.columns[names.TIME][index],
            instant=self.columns[names.INSTANT][index] if names.INSTANT in self.columns else None,
            was_whole=not listed,
        )

    def _cells(self, index: int, not_sent: Collection[str]) -> Mapping[str, Cell]:
        cells = {name: self.columns[name][index] if name in self.columns else None for name in self.column_names}
        return (
            {name: with_unset(value, quoted(name), not_sent) for name, value in cells.items()}
            if not_sent
            else cells
        )

    def _not_sent(self, index: int, operation: Operation, listed: Iterable[str] | None) -> Collection[str]:
        """Return the paths of cells that an event did not send, with current names and with columns added later."""
        paths, batch = quoted_paths(listed), self.columns[names.BATCH][index]
        if self.columns[KIND][index] == WAITING and names.UNSET not in self.columns:
            return paths  # a whole row waits, and the change log has no column for cells not sent
        for later, renames, added in self.steps:
            if batch < later:
                paths = {_current_path(path, renames) for path in paths} | _added_paths(added, operation)
        return paths


def _is_one_of(values: pa.ChunkedArray, wanted: Collection[Cell]) -> pa.ChunkedArray:
    """Return whether each value, in its canonical form, is one of these."""
    masks = []
    for chunk in values.chunks:
        encoded = chunk.dictionary_encode()
        mask = pa.array([canonical(value) in wanted for value in encoded.dictionary.to_pylist()], pa.bool_())
        masks.append(pc.fill_null(mask.take(encoded.indices), False))
    return pa.chunked_array(masks, pa.bool_())


def _renamed(fields: Mapping[str, Any] | None, new_names: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return a struct with the current names of its fields."""
    return None if fields is None else {new_names.get(name, name): value for name, value in fields.items()}


def _current_path(path: str, renames: Mapping[str, str]) -> str:
    """Return a quoted path with the current name of its column."""
    for old, new in renames.items():
        old_path = quoted(old)
        if path == old_path or path.startswith(f"{old_path}."):
            return quoted(new) + path.removeprefix(old_path)
    return path


def _added_paths(changes: Iterable[SchemaChange], operation: Operation) -> set[str]:
    """Return the quoted paths of columns and fields that were added after an event; none unless it is an update."""
    return {quoted(*change.names) for change in changes} if operation is Operation.UPDATE else set()
