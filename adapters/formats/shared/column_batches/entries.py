"""The change log entries of a batch in Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.formats.shared.change_log.entries import BASE, CHANGE, DELETE, KIND, RECORD
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.events import Operation, canonical
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Type
from lakeward.core.text.literals import key_part_text

_PLAIN_TYPES: Final = ("int", "bigint")
_PLACE: Final = (names.SEQUENCE, names.OBJECT, names.ROW)


def entries_of_events(plan: MergePlan, events: pa.Table) -> pa.Table:
    """Return the entries of events; they are the entries of `change_log.writer.entries_of`."""
    is_delete = pc.equal(events[names.OPERATION], Operation.DELETE.value)
    more = (names.OPERATION, names.TIME, names.TRANSACTION)
    columns = [*_PLACE, *(name for name in more if name in events.column_names)]
    return _entries(plan, events, pc.if_else(is_delete, DELETE, CHANGE), columns)


def base_entries(plan: MergePlan, rows: pa.Table) -> pa.Table:
    """Return the entries of base rows, which are stored rows with all columns."""
    return _entries(plan, rows, pa.repeat(pa.scalar(BASE), rows.num_rows), _PLACE)


def _entries(plan: MergePlan, rows: pa.Table, kinds: Any, columns: Sequence[str]) -> pa.Table:
    count, dimension = rows.num_rows, plan.dimension
    cells = [column.name for column in dimension.schema if column.name in rows.column_names]
    return pa.table(
        {
            KIND: kinds,
            names.EPOCH: pa.repeat(pa.scalar(plan.epoch, pa.int32()), count),
            names.BATCH: pa.repeat(pa.scalar(plan.batch, pa.int64()), count),
            RECORD: _key_texts(dimension, rows),
            **{name: rows[name] for name in (*columns, *cells)},
        }
    )


def _key_texts(dimension: Dimension, rows: pa.Table) -> pa.Array:
    """Return the texts of keys, as `core.text.literals.key_text` writes them; equal parts are written once."""
    types = {column.name: column.type for column in dimension.schema}
    parts = [_part_texts(rows[name].combine_chunks(), types[name]) for name in dimension.key]
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*parts, ","), "]", "")


def _part_texts(values: pa.Array, type_: Type) -> pa.Array:
    if type_.name in _PLAIN_TYPES:
        return pc.binary_join_element_wise('"', values.cast(pa.string()), '"', "")
    distinct = values.dictionary_encode()
    texts = (key_part_text(canonical(value), type_) for value in distinct.dictionary.to_pylist())
    return pa.array(texts, pa.string()).take(distinct.indices)
