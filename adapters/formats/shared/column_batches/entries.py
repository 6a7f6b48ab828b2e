"""The change log entries of a batch in Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.formats.shared.change_log.entries import BASE, CHANGE, DELETE, KIND, RECORD
from lakeward.adapters.formats.shared.small_batches.batch import columns_of
from lakeward.adapters.formats.shared.small_batches.keys import keys_in
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.events import Operation
from lakeward.core.plan import MergePlan
from lakeward.core.text.literals import key_text

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
    """Return the texts of keys, as `core.text.literals.key_text` writes them."""
    key_columns = [column for column in dimension.schema if column.name in dimension.key]
    if all(column.type.name in _PLAIN_TYPES for column in key_columns):
        parts = [rows[name].cast(pa.string()) for name in dimension.key]
        return pc.binary_join_element_wise('["', pc.binary_join_element_wise(*parts, '","'), '"]', "")
    keys = keys_in(columns_of(rows.select(list(dimension.key))), dimension.key)
    return pa.array([key_text(dimension, key) for key in keys if key is not None], pa.string())
