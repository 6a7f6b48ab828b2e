"""The change log entries of a small batch, as Arrow rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from lakeward.adapters.formats.shared.change_log.entries import (
    BASE,
    CHANGE,
    DELETE,
    KIND,
    OLD_RECORD,
    RECORD,
    RELEASED,
    WAITING,
)
from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.formats.shared.rows.unset_cells import unset_paths, without_unset
from lakeward.adapters.formats.shared.small_batches.keys import KeyTexts, key_values
from lakeward.adapters.formats.shared.small_batches.version_rows import base_row_columns
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import DELETED
from lakeward.core.events import UNSET, Cell, ChangeEvent, Key, Operation, Position
from lakeward.core.merge.change_log import BaseRow
from lakeward.core.plan import MergePlan

_RELEASED_COLUMNS: Final = (KIND, *names.POSITION, names.OPERATION, names.TIME, names.BATCH, RECORD)


@dataclass(frozen=True)
class Entries:
    """Collects the entries of a batch, each with the columns of its kind."""

    plan: MergePlan
    texts: KeyTexts
    entries: list[dict[str, Any]]

    @cached_property
    def columns(self) -> Sequence[str]:
        """The names of the folded columns."""
        return self.plan.folded.names

    def add_changes(self, events: Iterable[ChangeEvent]) -> None:
        """Add events that were applied, stale or superseded."""
        for event in events:
            kind = DELETE if event.operation is Operation.DELETE else CHANGE
            self.entries.append(self._event(kind, event))

    def add_waiting(self, events: Iterable[ChangeEvent]) -> None:
        """Add events that wait behind a held key."""
        self.entries.extend(self._event(WAITING, event) for event in events)

    def add_released(self, events: Iterable[ChangeEvent]) -> None:
        """Add entries that say that events no longer wait."""
        for event in events:
            entry = self._event(RELEASED, event)
            self.entries.append({name: entry.get(name) for name in (*_RELEASED_COLUMNS, *self.plan.dimension.key)})

    def add_bases(self, bases: Iterable[BaseRow]) -> None:
        """Add base rows. A key that was absent before its first remembered event has no entry."""
        for base in bases:
            if base.row is None:
                continue
            for version in base.row.versions:
                entry = self._entry(BASE, version.position, base.key) | self._cells(version.cells)
                self.entries.append(entry | base_row_columns(self.plan.dimension, version))
            if self.plan.dimension.history is None:
                entry = self._entry(BASE, base.row.position, base.key) | self._cells(base.row.cells)
                self.entries.append(entry | {DELETED: base.row.deleted})

    def _entry(self, kind: str, place: Position, key: Key) -> dict[str, Any]:
        return {
            KIND: kind,
            names.EPOCH: self.plan.epoch,
            names.SEQUENCE: Decimal(place.sequence) if self.plan.dimension.sequences.are_wide else place.sequence,
            names.OBJECT: place.object,
            names.ROW: place.row,
            names.BATCH: self.plan.batch,
            RECORD: self.texts.text(key) if key else None,
        }

    def _event(self, kind: str, event: ChangeEvent) -> dict[str, Any]:
        dimension, columns = self.plan.dimension, self.columns
        entry = self._entry(kind, event.position, event.key) | self._cells(event.cells)
        entry |= {names.OPERATION: event.operation.value, names.TIME: event.time, names.INSTANT: event.instant}
        not_sent = []
        if event.operation not in (Operation.DELETE, Operation.TRUNCATE) and event.lacks(columns):
            not_sent = [path for name in columns for path in unset_paths(name, event.cells.get(name, UNSET))]
        if event.old_key is not None:
            entry[names.OLD] = key_values(event.old_key, dimension)
            entry[OLD_RECORD] = self.texts.text(event.old_key)
        return entry | {names.UNSET: not_sent or None, names.TRANSACTION: event.transaction}

    def _cells(self, cells: Mapping[str, Cell]) -> dict[str, Any]:
        return {name: without_unset(value) for name, value in cells.items()}

    def rows(self, columns: Mapping[str, Any]) -> pa.Table:
        """Return the entries as rows with these columns, given with their types."""
        arrays = {
            name: pa.array([entry.get(name) for entry in self.entries], arrow_type(type_))
            for name, type_ in columns.items()
        }
        return pa.table(arrays)
