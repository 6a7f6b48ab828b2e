"""What the companion remembers of the keys of a small batch, as the core's memory."""

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
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.formats.shared.small_batches.arrow_values import columns_of, key_in, keys_in, paths_of, sent
from lakeward.adapters.formats.shared.small_batches.eligibility import NotSmall, needs_memory
from lakeward.adapters.formats.shared.small_batches.key_texts import KeyTexts
from lakeward.adapters.formats.shared.small_batches.version_rows import VersionReader
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import DELETED, Ordered
from lakeward.core.events import Cell, ChangeEvent, Key, Operation, Position, canonical
from lakeward.core.merge.change_log import BaseRow, Change, ChangeLogContents, Hold
from lakeward.core.merge.fold import Row, row_of
from lakeward.core.plan import MergePlan
from lakeward.core.schema_changes.evolution import SchemaChange

MOST_ENTRIES: Final = 1_000_000
"""A companion with more entries is not read by this process."""

MOST_NEAR: Final = 250_000
"""Of more entries that may matter no values are made."""


def read_memory(
    kept: Keeping, plan: MergePlan, touched: Collection[Key]
) -> tuple[ChangeLogContents, frozenset[Key]]:
    """Return what is remembered of these keys, and of all that key changes join to them, with all these keys.

    Raises NotSmall where more is remembered than this process may read.
    """
    batches = kept.change_log.batches
    records = [found.record for found in batches.records.values() if found.record is not None]
    memory = ChangeLogContents(
        epoch=batches.epoch,
        loaded=max((record.loaded for record in records), default=0),
        mark=plan.mark,
        records=records,
    )
    if not needs_memory(plan) or plan.batch == 1:
        return memory, frozenset(touched)
    entries = _Entries.read(kept, plan, touched)
    joined = entries.joined(touched) if not plan.truncates.arrived else frozenset({*touched, *entries.keys()})
    memory.changes = {change.event.position: change for change in entries.changes(joined)}
    memory.bases = entries.bases(joined, memory.changes.values())
    return memory, joined


def holds_of(plan: MergePlan, keys: Collection[Key], texts: KeyTexts) -> Iterator[Hold]:
    """Return the holds of these keys; those of the plan name their keys by texts."""
    key_of = {texts.text(key): key for key in keys} if plan.holds else {}
    for hold in plan.holds:
        own = tuple(key_of[str(text)] for (text,) in hold.keys if str(text) in key_of)
        if own:
            yield Hold(hold.position, own, hold.reason, hold.batch, hold.transaction)


@dataclass(frozen=True)
class _Entries:
    """The entries of the companion that are of the table's epoch, and of no batch above its own.

    Of other keys than those that a batch touches, and that key changes join to them, there may be some.
    """

    kept: Keeping
    plan: MergePlan
    columns: Mapping[str, Sequence[Any]]
    key: Sequence[Key | None]
    old: Sequence[Key | None]

    @classmethod
    def read(cls, kept: Keeping, plan: MergePlan, touched: Collection[Key]) -> _Entries:
        change_log, name = kept.change_log, plan.dimension.key
        kinds = "', '".join((CHANGE, DELETE, BASE, WAITING, RELEASED))
        upto, epoch = plan.batch - 1, change_log.batches.epoch
        condition = f"{KIND} in ('{kinds}') and {names.BATCH} <= {upto} and {names.EPOCH} = {epoch}"
        if change_log.table.rows(condition, (KIND,)).num_rows > MOST_ENTRIES:
            raise NotSmall(f"more than {MOST_ENTRIES:,} entries are remembered")
        rows, now = change_log.table.rows(condition, tuple(change_log.table.columns)), change_log.table.pending
        rows = rows.rename_columns([now.get(column, column) for column in rows.column_names])
        if name[0] not in rows.column_names:
            rows = rows.slice(0, 0)
            for column in name:
                rows = rows.append_column(column, pa.nulls(0))
        if rows.num_rows and not plan.truncates.arrived:
            rows = cls._near(kept, plan, rows, touched)
            if rows.num_rows > MOST_NEAR:
                raise NotSmall(f"more than {MOST_NEAR:,} entries are remembered that may matter")
        return cls._of_rows(kept, plan, rows)

    @classmethod
    def _of_rows(cls, kept: Keeping, plan: MergePlan, rows: pa.Table) -> _Entries:
        columns, name, now = columns_of(rows), plan.dimension.key, kept.change_log.table.pending
        nothing = [None] * rows.num_rows
        old = [key_in(_renamed(one, now), name) for one in columns.get(names.OLD, nothing)]
        return cls(kept, plan, columns, keys_in(columns, name), old)

    @classmethod
    def _near(cls, kept: Keeping, plan: MergePlan, rows: pa.Table, touched: Collection[Key]) -> pa.Table:
        """Return the rows that may matter to these keys: values are made of those alone.

        They are of a key that begins as one of these, or as one that key changes join to them, or change a key
        themselves, or are of no key.
        """
        name, joined = plan.dimension.key, frozenset(touched)
        kinds, operations = rows.column(KIND), rows.column(names.OPERATION)
        is_truncate = pc.fill_null(pc.equal(operations, Operation.TRUNCATE.value), False)
        is_near = pc.or_(pc.equal(kinds, RELEASED), is_truncate)
        if names.OLD in rows.column_names:
            links = pc.is_valid(rows.column(names.OLD))
            listed = [*dict.fromkeys((*name, names.OLD))]
            joined = cls._of_rows(kept, plan, rows.filter(links).select(listed)).joined(touched)
            is_near = pc.or_(is_near, links)
        firsts = {key[0] for key in joined}
        return rows.filter(pc.or_(is_near, _is_one_of(rows.column(name[0]), firsts)))

    @cached_property
    def every(self) -> Sequence[str]:
        """The names of the columns that are folded."""
        return self.plan.folded.names

    @cached_property
    def steps(self) -> Sequence[tuple[int, Mapping[str, str], Sequence[SchemaChange]]]:
        """The changes of columns since the table began, batch by batch, the one in hand included."""
        records = sorted(self.kept.change_log.batches.records.items())
        found = [(b, record.renames, record.added) for b, record in records if b < self.plan.batch]
        found.append((self.plan.batch, self.plan.dimension.policies.renames, self.plan.evolution.added))
        return [(batch, renames, added) for batch, renames, added in found if renames or added]

    def keys(self) -> Iterator[Key]:
        """Return all keys of the entries."""
        return (key for key in (*self.key, *self.old) if key is not None)

    def joined(self, touched: Collection[Key]) -> frozenset[Key]:
        """Return these keys, and those that key changes join to them, however far."""
        links: dict[Key, set[Key]] = {}
        for key, old in zip(self.key, self.old, strict=True):
            if key is not None and old is not None:
                links.setdefault(key, set()).add(old)
                links.setdefault(old, set()).add(key)
        found, rest = set(touched), [key for key in touched if key in links]
        while rest:
            for near in links.get(rest.pop(), ()):
                if near not in found:
                    found.add(near)
                    rest.append(near)
        return frozenset(found)

    def _of(self, keys: Collection[Key], *kinds: str) -> Iterator[int]:
        """Return which entries are of these kinds and keys; a truncate is of all."""
        operations = self.columns[names.OPERATION]
        for index, kind in enumerate(self.columns[KIND]):
            if kind not in kinds:
                continue
            is_truncate = operations[index] == Operation.TRUNCATE.value
            if is_truncate or self.key[index] in keys or self.old[index] in keys:
                yield index

    def changes(self, keys: Collection[Key]) -> Iterator[Change]:
        """Return the events that are remembered of these keys, and those that wait."""
        turned = self.kept.change_log.batches.turned
        released = {self._arrival(index) for index in self._every(RELEASED)}
        for index in self._of(keys, CHANGE, DELETE, WAITING):
            kind, batch = self.columns[KIND][index], self.columns[names.BATCH][index]
            if kind == WAITING:
                if self._arrival(index) not in released:
                    yield Change(self._event(index), batch, waiting=True)
            elif batch > turned or kind == DELETE or self._is_told_by_none(index):
                yield Change(self._event(index), batch)

    def _is_told_by_none(self, index: int) -> bool:
        """Return whether no row tells of a change: it is a truncate, or its row left a key."""
        olds = self.columns.get(OLD_RECORD)
        left = olds is not None and olds[index] is not None
        return left or self.columns[names.OPERATION][index] == Operation.TRUNCATE.value

    def _every(self, kind: str) -> Iterator[int]:
        return (index for index, own in enumerate(self.columns[KIND]) if own == kind)

    def _arrival(self, index: int) -> tuple[int, int]:
        return self.columns[names.OBJECT][index], self.columns[names.ROW][index]

    def bases(self, keys: Collection[Key], changes: Iterable[Change]) -> dict[Key, BaseRow]:
        """Return the rows before what is remembered of these keys, where events are folded over them.

        A key of which events are remembered, and no row, was absent before.
        """
        if not self.plan.in_part or isinstance(self.plan.dimension.lateness, Ordered):
            return {}
        turned = self.kept.change_log.batches.turned
        counted = [one for one in changes if not one.waiting and one.batch > turned]
        found = {key: BaseRow(key, None, 0) for one in counted for key in one.event.keys if key in keys}
        indices = dict[Key, list[int]]()
        for index in self._of(keys, BASE):
            key = self.key[index]
            if key is not None and self.columns[names.BATCH][index] > turned:
                indices.setdefault(key, []).append(index)
        batches = self.columns[names.BATCH]
        return found | {key: BaseRow(key, self._base(own), batches[own[0]]) for key, own in indices.items()}

    def _base(self, indices: Sequence[int]) -> Row:
        """Return the row that entries have, of a history one for each of its last versions."""
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
        cells = {name: self.columns[name][index] if name in self.columns else None for name in self.every}
        return {name: sent(value, quoted(name), not_sent) for name, value in cells.items()} if not_sent else cells

    def _not_sent(self, index: int, operation: Operation, listed: Iterable[str] | None) -> Collection[str]:
        """Return the paths of what an event did not send, as they are called now, with what the table got since."""
        found, batch = paths_of(listed), self.columns[names.BATCH][index]
        if self.columns[KIND][index] == WAITING and names.UNSET not in self.columns:
            return found  # it was whole, and kept without a word of what it lacks
        for later, renames, added in self.steps:
            if batch < later:
                found = {_called_now(path, renames) for path in found} | _added(added, operation)
        return found


def _is_one_of(values: pa.ChunkedArray, wanted: Collection[Cell]) -> pa.ChunkedArray:
    """Return whether each value, made the one of a key, is one of these."""
    found = []
    for chunk in values.chunks:
        encoded = chunk.dictionary_encode()
        own = pa.array([canonical(value) in wanted for value in encoded.dictionary.to_pylist()], pa.bool_())
        found.append(pc.fill_null(own.take(encoded.indices), False))
    return pa.chunked_array(found, pa.bool_())


def _renamed(fields: Mapping[str, Any] | None, now: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return a struct with the names that its fields have now."""
    return None if fields is None else {now.get(name, name): value for name, value in fields.items()}


def _called_now(path: str, renames: Mapping[str, str]) -> str:
    for old, new in renames.items():
        was = quoted(old)
        if path == was or path.startswith(f"{was}."):
            return quoted(new) + path.removeprefix(was)
    return path


def _added(changes: Iterable[SchemaChange], operation: Operation) -> set[str]:
    return {quoted(*change.names) for change in changes} if operation is Operation.UPDATE else set()
