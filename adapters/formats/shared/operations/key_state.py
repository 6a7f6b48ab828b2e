"""The state of one key, in a table and its side tables, read without Spark."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from lakeward.adapters.formats.shared.change_log import entries
from lakeward.adapters.formats.shared.change_log.batch_record import is_ordered, renames_of
from lakeward.adapters.formats.shared.rows.conditions import All, AtLeast, AtMost, Condition, Is, OneOf
from lakeward.adapters.formats.shared.rows.system_columns import batch_of, position_of
from lakeward.adapters.formats.shared.rows.unset_cells import with_unset
from lakeward.adapters.formats.shared.side_tables import quarantine
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES, QUARANTINE
from lakeward.adapters.spark.history.version_rows import ENDS
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import DELETED, Dimension, Ordered
from lakeward.core.events import ChangeEvent, Key, Operation, Position, canonical
from lakeward.core.history.version_rows import current_row
from lakeward.core.merge.change_log import HOLDING, BaseRow, Reason
from lakeward.core.merge.fold import Row
from lakeward.core.merge.truncates import Truncates
from lakeward.core.operations.key_state import BatchCommit, KeyState, QuarantinedRow, Remembered, Stored
from lakeward.core.progress import Progress

Entry = Mapping[str, Any]


class RowFinder(Protocol):
    """Finds rows of a table, or of its side table with a suffix, without Spark."""

    def columns(self, suffix: str = "") -> Collection[str]:
        """Return the names of the columns; none if the table does not exist."""
        ...

    def rows(self, where: Condition, suffix: str = "") -> Sequence[Entry]:
        """Return the rows that meet a condition, with all columns."""
        ...


def read_key_state(
    find: RowFinder, dimension: Dimension, key: Key, progress: Progress, commits: Mapping[int, BatchCommit]
) -> KeyState:
    """Return the state of a key as of the last commit of ours.

    `commits` are the commits that still exist, by batch.
    """
    search = _Search(find, dimension, key, progress)
    records = search.records()
    at = {batch: BatchCommit(content["at"]) for batch, content in records} | dict(commits)
    search.renames = {batch: renames_of(content) for batch, content in sorted(records)}
    search.ordered_until = max((batch for batch, content in records if is_ordered(content)), default=0)
    search.truncates = [(batch, Position(*t)) for batch, content in records for t in content.get("truncates", ())]
    remembered, base = search.remembered()
    return KeyState(
        key=key,
        progress=progress,
        remembered=remembered,
        quarantined=search.refused(),
        stored=search.stored(),
        deleted_row=search.gone(),
        base=base,
        objects={order: name for _, content in records for name, order, *_ in content["objects"]},
        commits=at,
        has_loads=any(content.get("loads") for _, content in records),
    )


class _Search:
    """Searches for one key in a table and its side tables, as of the table's batch and its epoch or a later one."""

    def __init__(self, find: RowFinder, dimension: Dimension, key: Key, progress: Progress) -> None:
        self.find = find
        self.dimension = dimension
        self.key = key
        self.renames: Mapping[int, Mapping[str, str]] = {}
        self.ordered_until = 0
        self.truncates: Sequence[tuple[int, Position]] = ()
        self.upto = AtMost(names.BATCH, progress.batch)
        self.of_epoch = All([self.upto, AtLeast(names.EPOCH, progress.epoch)])

    def of_key(self, *prefix: str) -> Condition:
        """Return the condition that a row, or the struct at `prefix`, has the key."""
        return All([Is((*prefix, name), value) for name, value in zip(self.dimension.key, self.key, strict=True)])

    def stored(self) -> Stored | None:
        """Return the stored row; in a history the current version."""
        history = self.dimension.history
        live_rows = (row for row in self.rows if not self._is_soft_deleted(row))
        row = next(live_rows, None) if history is None else current_row(history, self.rows)
        return None if row is None else Stored(self._row(row), batch_of(row))

    def gone(self) -> Stored | None:
        """Return the soft-deleted row, if there is one."""
        return next(
            (Stored(self._row(row), batch_of(row)) for row in self.rows if self._is_soft_deleted(row)), None
        )

    @cached_property
    def rows(self) -> Sequence[Entry]:
        """The rows of the key."""
        return self.find.rows(self.of_key())

    def _row(self, row: Entry) -> Row:
        cells = {name: row[name] for name in self.dimension.schema.names if name in row}
        return Row(cells, position_of(row), deleted=self._is_soft_deleted(row))

    def _is_soft_deleted(self, row: Entry) -> bool:
        """Return whether a row is soft-deleted."""
        return self.dimension.is_soft and bool(row.get(DELETED))

    # The change log.

    def records(self) -> Sequence[tuple[int, Any]]:
        """Return batch and content of the records of all batches."""
        rows = self.find.rows(All([Is((entries.KIND,), entries.BATCH), self.upto]), CHANGES)
        return [(row[names.BATCH], json.loads(row[entries.RECORD])) for row in rows]

    def remembered(self) -> tuple[Sequence[Remembered], BaseRow | None]:
        """Return the remembered and waiting events of the key, and its base row.

        Where events are folded over base rows, a key with remembered events and no base entry was absent before.
        """
        columns = self.find.columns(CHANGES)
        if self.dimension.key[0] not in columns:
            return [], None
        conditions = [self.of_key(), Is((names.OPERATION,), Operation.TRUNCATE.value)]
        in_part = names.OLD in columns
        if in_part:
            conditions.append(self.of_key(names.OLD))
        stored_rows = self.find.rows(All([OneOf(conditions), self.of_epoch]), CHANGES)
        rows = [row for row in stored_rows if row[entries.KIND] != entries.BATCH]
        events = list(self._events(rows))
        bases = [row for row in rows if row[entries.KIND] == entries.BASE and _batch(row) > self.ordered_until]
        bases.sort(key=_batch)
        if bases:
            newest = _batch(bases[-1])
            live_rows = [row for row in bases if _batch(row) == newest and row.get(ENDS) is None]
            return events, BaseRow(self.key, self._row(live_rows[0]) if live_rows else None, newest)
        was_absent = in_part and not isinstance(self.dimension.lateness, Ordered)
        was_absent = was_absent and any(event.batch > self.ordered_until for event in events)
        return events, BaseRow(self.key, None, 0) if was_absent else None

    def _events(self, rows: Sequence[Entry]) -> Iterator[Remembered]:
        released = {position_of(row): _batch(row) for row in rows if row[entries.KIND] == entries.RELEASED}
        waiting = {position_of(row) for row in rows if row[entries.KIND] == entries.WAITING}
        for row in rows:
            place = position_of(row)
            if row[entries.KIND] == entries.WAITING:
                yield Remembered(event=self._event(row), batch=_batch(row), settled=released.get(place))
            elif row[entries.KIND] in (entries.CHANGE, entries.DELETE) and place not in waiting:
                yield Remembered(event=self._event(row), batch=_batch(row), settled=_batch(row))

    def _event(self, row: Entry) -> ChangeEvent:
        not_sent = self._not_sent(row)
        old = row.get(names.OLD)
        operation = Operation(row[names.OPERATION])
        return ChangeEvent(
            operation=operation,
            position=position_of(row),
            key=() if operation is Operation.TRUNCATE else self._key(row),
            cells={n: with_unset(row[n], quoted(n), not_sent) for n in self.dimension.schema.names if n in row},
            old_key=None if old is None else self._key(old),
            transaction=row.get(names.TRANSACTION),
            time=row[names.TIME],
        )

    def _not_sent(self, row: Entry) -> Collection[str]:
        """Return the quoted paths of cells that an event did not send, with current names."""
        paths = [name if name.startswith("`") else quoted(name) for name in row.get(names.UNSET) or ()]
        for batch, renames in self.renames.items():
            for old, new in renames.items() if _batch(row) < batch else ():
                old_path = quoted(old)
                paths = [
                    quoted(new) + p.removeprefix(old_path) if f"{p}.".startswith(f"{old_path}.") else p
                    for p in paths
                ]
        return paths

    def _key(self, row: Entry) -> Key:
        return tuple(canonical(row[name]) for name in self.dimension.key)

    # The quarantine.

    def refused(self) -> Sequence[QuarantinedRow]:
        """Return the quarantined rows of the key, and when they were discarded or overruled by a truncate.

        A row that was repaired and replayed is an event like any other, and is left out.
        """
        settled = [Is((quarantine.STATE,), state) for state in quarantine.SETTLED]
        rows = self.find.rows(All([OneOf([self.of_key(), *settled]), self.of_epoch]), QUARANTINE)
        given_up = {position_of(row): _batch(row) for row in rows if row[quarantine.STATE] == quarantine.GIVEN_UP}
        replayed = {position_of(row) for row in rows if row[quarantine.STATE] == quarantine.REPLAYED}
        refused = [row for row in rows if row[quarantine.STATE] in quarantine.REFUSED]
        for row in refused:
            place, reason = position_of(row), Reason(row[names.REASON])
            overruling = [b for b, t in self.truncates if Truncates(frozenset({t})).overrules(place, reason)]
            if reason in HOLDING and overruling:
                given_up.setdefault(place, min(overruling))
        return [_refused(row, given_up) for row in refused if position_of(row) not in replayed]


def _refused(row: Entry, given_up: Mapping[Position, int]) -> QuarantinedRow:
    operation = row[names.OPERATION]
    return QuarantinedRow(
        position=position_of(row),
        reason=Reason(row[names.REASON]),
        batch=_batch(row),
        operation=None if operation is None else Operation(operation),
        detail=row[names.DETAIL] or "",
        text=row[names.TEXT] or "",
        time=row[names.TIME],
        discarded_in=given_up.get(position_of(row)),
    )


def _batch(row: Entry) -> int:
    return int(row[names.BATCH])


def entries_of(rows: pa.Table) -> Sequence[Entry]:
    """Return rows as Python values, for the few rows of one key."""
    columns = {name: values_of(rows[name]) for name in rows.column_names}
    return [{name: values[place] for name, values in columns.items()} for place in range(rows.num_rows)]


def values_of(column: pa.ChunkedArray) -> Sequence[object]:
    """Return the values of a column; if one is a time outside Python's years, all are texts."""
    try:
        return list(column.to_pylist())
    except OverflowError:
        return list(column.cast(pa.string()).to_pylist())
