"""What is known of one key, found by PyIceberg alone, in the table and in those beside it.

The tables are filtered by the key, and whole files are left out where their statistics
allow it. Of the files that are left only the columns of the key are read, and of those
that hold it the rest: in 5 million rows in no order, that takes half a second.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from math import nan
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    IsNaN,
    LessThanOrEqual,
    Or,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import Table

from lakeward.adapters.iceberg import companion, quarantine
from lakeward.adapters.iceberg.catalog import IcebergCatalog
from lakeward.adapters.iceberg.columns import position_of
from lakeward.adapters.iceberg.progress import commits_of
from lakeward.adapters.iceberg.records import renames_of
from lakeward.adapters.spark import names
from lakeward.adapters.spark.names import quoted
from lakeward.core.dimension import Dimension, Ordered
from lakeward.core.events import UNSET, ChangeEvent, Key, Operation, Position, canonical
from lakeward.core.fold import Row
from lakeward.core.known import Known, Made, Refused, Remembered, Stored
from lakeward.core.memory import HOLDING, Base, Reason
from lakeward.core.progress import Progress
from lakeward.core.truncates import Truncates

Entry = Mapping[str, Any]


def known_of(catalog: IcebergCatalog, dimension: Dimension, key: Key) -> Known:
    """Return all that is known of a key, as of the last commit of ours."""
    table = catalog.load(dimension.name)
    made = [] if table is None else list(commits_of(table))
    if table is None or not made:
        return Known(key=key, progress=Progress())
    progress = made[0][1]
    search = _Search(catalog, dimension, key, progress)
    records = search.records()
    at = {batch: Made(content["at"]) for batch, content in records}
    at |= {p.batch: Made(snapshot.timestamp_ms * 1000, str(snapshot.snapshot_id)) for snapshot, p in made}
    search.renames = {batch: renames_of(content) for batch, content in sorted(records)}
    search.truncates = [(batch, Position(*t)) for batch, content in records for t in content.get("truncates", ())]
    remembered, base = search.remembered()
    return Known(
        key=key,
        progress=progress,
        remembered=remembered,
        refused=search.refused(),
        stored=search.stored(table),
        base=base,
        objects={order: name for _, content in records for name, order, *_ in content["objects"]},
        made=at,
        has_loads=any(content.get("loads") for _, content in records),
    )


class _Search:
    """Looks for one key, in what a table knows as of its batch, of its epoch and of one that waits for its load."""

    def __init__(self, catalog: IcebergCatalog, dimension: Dimension, key: Key, progress: Progress) -> None:
        self.catalog = catalog
        self.dimension = dimension
        self.key = key
        self.renames: Mapping[int, Mapping[str, str]] = {}
        self.truncates: Sequence[tuple[int, Position]] = ()
        self.upto = LessThanOrEqual(term=Reference(names.BATCH), value=literal(progress.batch))
        self.of_epoch = And(
            self.upto, GreaterThanOrEqual(term=Reference(names.EPOCH), value=literal(progress.epoch))
        )

    def of_key(self, prefix: str = "") -> BooleanExpression:
        """Return the condition that a row, or a struct of it, has the key."""
        return reduce(And, [self._of_part(prefix + name, name) for name in self.dimension.key])

    def _of_part(self, reference: str, name: str) -> BooleanExpression:
        value, found = self.key[self.dimension.key.index(name)], self.dimension.schema.find(name)
        if value == canonical(nan) and found is not None and found.type.name in ("float", "double"):
            return IsNaN(term=Reference(reference))
        return _equal(reference, value)

    def stored(self, table: Table) -> Stored | None:
        """Return the row that stands."""
        for row in _rows(table, self.of_key()):
            return Stored(self._row(row), row[names.BATCH])
        return None

    def _row(self, row: Entry) -> Row:
        cells = {name: row[name] for name in self.dimension.schema.names if name in row}
        return Row(cells, position_of(row))

    # The companion.

    def records(self) -> Sequence[tuple[int, Any]]:
        """Return the records of all batches."""
        table = self.catalog.load(self.dimension.name, companion.SUFFIX)
        if table is None:
            return []
        condition = And(_equal(companion.KIND, companion.BATCH), self.upto)
        found = table.scan(condition, selected_fields=(names.BATCH, companion.RECORD)).to_arrow().to_pylist()
        return [(row[names.BATCH], json.loads(row[companion.RECORD])) for row in found]

    def remembered(self) -> tuple[Sequence[Remembered], Base | None]:
        """Return the events of the key that are remembered or wait, and the row before them.

        Where events are folded, a key of which events are remembered and no row was absent before.
        """
        table = self.catalog.load(self.dimension.name, companion.SUFFIX)
        if table is None or self.dimension.key[0] not in table.schema().column_names:
            return [], None
        wanted: BooleanExpression = Or(self.of_key(), _equal(names.OPERATION, Operation.TRUNCATE.value))
        in_part = names.OLD in table.schema().column_names
        if in_part:
            wanted = Or(wanted, self.of_key(f"{names.OLD}."))
        rows = [row for row in _rows(table, And(wanted, self.of_epoch)) if row[companion.KIND] != companion.BATCH]
        events = list(self._events(rows))
        bases = sorted((row for row in rows if row[companion.KIND] == companion.BASE), key=_batch)
        if bases:
            return events, Base(self.key, self._row(bases[0]), _batch(bases[0]))
        was_absent = in_part and events and not isinstance(self.dimension.lateness, Ordered)
        return events, Base(self.key, None, 0) if was_absent else None

    def _events(self, rows: Sequence[Entry]) -> Iterator[Remembered]:
        released = {position_of(row): _batch(row) for row in rows if row[companion.KIND] == companion.RELEASED}
        waited = {position_of(row) for row in rows if row[companion.KIND] == companion.WAITING}
        for row in rows:
            place = position_of(row)
            if row[companion.KIND] == companion.WAITING:
                yield Remembered(event=self._event(row), batch=_batch(row), settled=released.get(place))
            elif row[companion.KIND] in (companion.CHANGE, companion.DELETE) and place not in waited:
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
        table = self.catalog.load(self.dimension.name, quarantine.SUFFIX)
        if table is None:
            return []
        settled = Or(*[_equal(quarantine.STATE, state) for state in quarantine.SETTLED])
        rows = _rows(table, And(Or(self.of_key(), settled), self.of_epoch))
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


def _equal(name: str, value: Any) -> BooleanExpression:
    return EqualTo(term=Reference(name), value=literal(value))


def _rows(table: Table, condition: BooleanExpression) -> Sequence[Entry]:
    """Return the rows that meet a condition, whole; files without one are not read beyond its columns."""
    tasks = list(table.scan(row_filter=condition).plan_files())
    narrow = ArrowScan(table.metadata, table.io, table.schema().select(names.ROW), condition)
    holding = [task for task in tasks if narrow.to_table([task]).num_rows]
    found = ArrowScan(table.metadata, table.io, table.schema(), condition).to_table(holding)
    columns = {name: _values(found[name]) for name in found.column_names}
    return [{name: values[place] for name, values in columns.items()} for place in range(found.num_rows)]


def _values(column: pa.ChunkedArray) -> Sequence[Any]:
    """Return a column's values; where one is a time of a year that Python has not, all are texts."""
    try:
        return list(column.to_pylist())
    except OverflowError:
        return list(column.cast(pa.string()).to_pylist())


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
