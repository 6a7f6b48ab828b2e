"""What is known of one key, in a table and in those beside it, found without Spark."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from lakeward.adapters.formats.shared.change_log import entries
from lakeward.adapters.formats.shared.change_log.batch_record import is_ordered, renames_of
from lakeward.adapters.formats.shared.rows.conditions import All, AtLeast, AtMost, Is, OneOf, Where
from lakeward.adapters.formats.shared.rows.system_columns import batch_of, position_of
from lakeward.adapters.formats.shared.side_tables import quarantine
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES, QUARANTINE
from lakeward.adapters.spark.history.version_rows import ENDS
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import DELETED, Dimension, Ordered
from lakeward.core.events import UNSET, ChangeEvent, Key, Operation, Position, canonical
from lakeward.core.history.version_rows import current_row
from lakeward.core.merge.change_log import HOLDING, BaseRow, Reason
from lakeward.core.merge.fold import Row
from lakeward.core.merge.truncates import Truncates
from lakeward.core.operations.key_state import Known, Made, Refused, Remembered, Stored
from lakeward.core.progress import Progress

Entry = Mapping[str, Any]


class Finder(Protocol):
    """Finds rows of a table, or of what stands beside it by its suffix, without Spark."""

    def columns(self, suffix: str = "") -> Collection[str]:
        """Return the names of its columns; none where it is not there."""
        ...

    def rows(self, where: Where, suffix: str = "") -> Sequence[Entry]:
        """Return the rows that meet a condition, whole."""
        ...


def known_of(
    find: Finder, dimension: Dimension, key: Key, progress: Progress, commits: Mapping[int, Made]
) -> Known:
    """Return all that is known of a key, as of the last commit of ours; `commits` are those that are remembered."""
    search = _Search(find, dimension, key, progress)
    records = search.records()
    at = {batch: Made(content["at"]) for batch, content in records} | dict(commits)
    search.renames = {batch: renames_of(content) for batch, content in sorted(records)}
    search.turned = max((batch for batch, content in records if is_ordered(content)), default=0)
    search.truncates = [(batch, Position(*t)) for batch, content in records for t in content.get("truncates", ())]
    remembered, base = search.remembered()
    return Known(
        key=key,
        progress=progress,
        remembered=remembered,
        refused=search.refused(),
        stored=search.stored(),
        gone=search.gone(),
        base=base,
        objects={order: name for _, content in records for name, order, *_ in content["objects"]},
        made=at,
        has_loads=any(content.get("loads") for _, content in records),
    )


class _Search:
    """Looks for one key, in what a table knows as of its batch, of its epoch and of one that waits for its load."""

    def __init__(self, find: Finder, dimension: Dimension, key: Key, progress: Progress) -> None:
        self.find = find
        self.dimension = dimension
        self.key = key
        self.renames: Mapping[int, Mapping[str, str]] = {}
        self.turned = 0
        self.truncates: Sequence[tuple[int, Position]] = ()
        self.upto = AtMost(names.BATCH, progress.batch)
        self.of_epoch = All([self.upto, AtLeast(names.EPOCH, progress.epoch)])

    def of_key(self, *prefix: str) -> Where:
        """Return the condition that a row, or a struct of it, has the key."""
        return All([Is((*prefix, name), value) for name, value in zip(self.dimension.key, self.key, strict=True)])

    def stored(self) -> Stored | None:
        """Return the row that stands, of a history the current one."""
        history = self.dimension.history
        stand = (row for row in self.rows if not self._went(row))
        row = next(stand, None) if history is None else current_row(history, self.rows)
        return None if row is None else Stored(self._row(row), batch_of(row))

    def gone(self) -> Stored | None:
        """Return the row that was deleted and stays, where deletes are soft."""
        return next((Stored(self._row(row), batch_of(row)) for row in self.rows if self._went(row)), None)

    @cached_property
    def rows(self) -> Sequence[Entry]:
        """The rows of the key."""
        return self.find.rows(self.of_key())

    def _row(self, row: Entry) -> Row:
        cells = {name: row[name] for name in self.dimension.schema.names if name in row}
        return Row(cells, position_of(row), deleted=self._went(row))

    def _went(self, row: Entry) -> bool:
        """Whether a row is one that was deleted, where deletes are soft."""
        return self.dimension.is_soft and bool(row.get(DELETED))

    # The companion.

    def records(self) -> Sequence[tuple[int, Any]]:
        """Return the records of all batches."""
        found = self.find.rows(All([Is((entries.KIND,), entries.BATCH), self.upto]), CHANGES)
        return [(row[names.BATCH], json.loads(row[entries.RECORD])) for row in found]

    def remembered(self) -> tuple[Sequence[Remembered], BaseRow | None]:
        """Return the events of the key that are remembered or wait, and the row before them.

        Where events are folded, a key of which events are remembered and no row was absent before.
        """
        columns = self.find.columns(CHANGES)
        if self.dimension.key[0] not in columns:
            return [], None
        wanted = [self.of_key(), Is((names.OPERATION,), Operation.TRUNCATE.value)]
        in_part = names.OLD in columns
        if in_part:
            wanted.append(self.of_key(names.OLD))
        found = self.find.rows(All([OneOf(wanted), self.of_epoch]), CHANGES)
        rows = [row for row in found if row[entries.KIND] != entries.BATCH]
        events = list(self._events(rows))
        bases = [row for row in rows if row[entries.KIND] == entries.BASE and _batch(row) > self.turned]
        bases.sort(key=_batch)
        if bases:
            newest = _batch(bases[-1])
            stood = [row for row in bases if _batch(row) == newest and row.get(ENDS) is None]
            return events, BaseRow(self.key, self._row(stood[0]) if stood else None, newest)
        was_absent = in_part and not isinstance(self.dimension.lateness, Ordered)
        was_absent = was_absent and any(event.batch > self.turned for event in events)
        return events, BaseRow(self.key, None, 0) if was_absent else None

    def _events(self, rows: Sequence[Entry]) -> Iterator[Remembered]:
        released = {position_of(row): _batch(row) for row in rows if row[entries.KIND] == entries.RELEASED}
        waited = {position_of(row) for row in rows if row[entries.KIND] == entries.WAITING}
        for row in rows:
            place = position_of(row)
            if row[entries.KIND] == entries.WAITING:
                yield Remembered(event=self._event(row), batch=_batch(row), settled=released.get(place))
            elif row[entries.KIND] in (entries.CHANGE, entries.DELETE) and place not in waited:
                yield Remembered(event=self._event(row), batch=_batch(row), settled=_batch(row))

    def _event(self, row: Entry) -> ChangeEvent:
        not_sent = self._not_sent(row)
        old = row.get(names.OLD)
        operation = Operation(row[names.OPERATION])
        return ChangeEvent(
            operation=operation,
            position=position_of(row),
            key=() if operation is Operation.TRUNCATE else self._key(row),
            cells={n: _sent(row[n], quoted(n), not_sent) for n in self.dimension.schema.names if n in row},
            old_key=None if old is None else self._key(old),
            transaction=row.get(names.TRANSACTION),
            time=row[names.TIME],
        )

    def _not_sent(self, row: Entry) -> Collection[str]:
        """Return the paths of the columns and fields that an event did not send, quoted, as they are called now."""
        found = [name if name.startswith("`") else quoted(name) for name in row.get(names.UNSET) or ()]
        for batch, renames in self.renames.items():
            for old, new in renames.items() if _batch(row) < batch else ():
                was = quoted(old)
                found = [quoted(new) + p.removeprefix(was) if f"{p}.".startswith(f"{was}.") else p for p in found]
        return found

    def _key(self, row: Entry) -> Key:
        return tuple(canonical(row[name]) for name in self.dimension.key)

    # The quarantine.

    def refused(self) -> Sequence[Refused]:
        """Return the rows of the key in quarantine, and when those were given up, or overruled by a truncate.

        What was mended and replayed is an event like any other, and none of them.
        """
        settled = [Is((quarantine.STATE,), state) for state in quarantine.SETTLED]
        rows = self.find.rows(All([OneOf([self.of_key(), *settled]), self.of_epoch]), QUARANTINE)
        gone = {position_of(row): _batch(row) for row in rows if row[quarantine.STATE] == quarantine.GIVEN_UP}
        replayed = {position_of(row) for row in rows if row[quarantine.STATE] == quarantine.REPLAYED}
        refused = [row for row in rows if row[quarantine.STATE] in quarantine.REFUSED]
        for row in refused:
            place, reason = position_of(row), Reason(row[names.REASON])
            overruling = [b for b, t in self.truncates if Truncates(frozenset({t})).overrule(place, reason)]
            if reason in HOLDING and overruling:
                gone.setdefault(place, min(overruling))
        return [_refused(row, gone) for row in refused if position_of(row) not in replayed]


def _sent(value: Any, path: str, not_sent: Collection[str]) -> Any:
    """Return a cell, or a field within one, without what was not sent of it."""
    if path in not_sent:
        return UNSET
    if not isinstance(value, dict):
        return value
    return {name: _sent(part, f"{path}.{quoted(name)}", not_sent) for name, part in value.items()}


def _refused(row: Entry, gone: Mapping[Position, int]) -> Refused:
    operation = row[names.OPERATION]
    return Refused(
        position=position_of(row),
        reason=Reason(row[names.REASON]),
        batch=_batch(row),
        operation=None if operation is None else Operation(operation),
        detail=row[names.DETAIL] or "",
        text=row[names.TEXT] or "",
        time=row[names.TIME],
        given_up=gone.get(position_of(row)),
    )


def _batch(row: Entry) -> int:
    return int(row[names.BATCH])


def entries_of(rows: pa.Table) -> Sequence[Entry]:
    """Return rows as values of Python, for the few of one key."""
    columns = {name: values_of(rows[name]) for name in rows.column_names}
    return [{name: values[place] for name, values in columns.items()} for place in range(rows.num_rows)]


def values_of(column: pa.ChunkedArray) -> Sequence[object]:
    """Return a column's values; where one is a time of a year that Python has not, all are texts."""
    try:
        return list(column.to_pylist())
    except OverflowError:
        return list(column.cast(pa.string()).to_pylist())
