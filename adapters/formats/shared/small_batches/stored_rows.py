"""The stored rows of the keys of a small batch, and their places in files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.rows.system_columns import position_of, row_columns
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.small_batches.batch import columns_of
from lakeward.adapters.formats.shared.small_batches.keys import key_rows, keys_in
from lakeward.adapters.formats.shared.small_batches.version_rows import VersionReader
from lakeward.adapters.spark.merge.image_match import values_in
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import DELETED, Dimension
from lakeward.core.events import Key
from lakeward.core.merge.fold import Row, row_of
from lakeward.core.plan import MergePlan

_VALUES: Final = "_lakeward_values"


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Stored rows in Arrow (`table`) and as values (`columns`), their `indices` by key, and the row of each key.

    A key has several stored rows in a history. In a mirror that is so only if others have altered the table; then
    the newest counts.
    """

    table: pa.Table = field(default_factory=lambda: pa.table({}))
    by_key: Mapping[Key, Row] = field(default_factory=dict)
    indices: Mapping[Key, Sequence[int]] = field(default_factory=dict)
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def of(self, key: Key) -> Sequence[Mapping[str, Any]]:
        """Return the stored rows of a key."""
        return [{name: self.columns[name][index] for name in self.columns} for index in self.indices.get(key, ())]


def find_rows(rows: Rows, keys: Collection[Key], *, with_cells: bool) -> StoredRows:
    """Find the rows of some keys, in this process or with one query. Cells are read only if the batch needs them.

    Raises OverflowError for a time outside the years 1 to 9999.
    """
    if not rows.are_there or not keys:
        return StoredRows()
    key_table = key_rows(keys, rows.plan.with_all_columns)
    rows_of_keys = _find_locally(rows, key_table, with_cells=with_cells)
    if rows_of_keys is None:
        wanted_keys = F.broadcast(from_arrow(rows.spark(), key_table))
        rows_of_keys = to_arrow(
            _places(rows, with_cells=with_cells).join(wanted_keys, key_table.column_names, "left_semi")
        )
    return _by_key(rows_of_keys, rows.plan, with_cells=with_cells)


def _find_locally(rows: Rows, keys: pa.Table, *, with_cells: bool) -> pa.Table | None:
    """Return the rows of some keys as read in this process, or None if Spark must read them."""
    plan, history = rows.plan, rows.plan.dimension.history
    if plan.changes or rows.table is None:
        return None
    rows_of_keys = rows.table.find(keys, _needed_columns(plan, with_cells=with_cells))
    if rows_of_keys is None or history is None or not history.is_bitemporal:
        return rows_of_keys
    return rows_of_keys.filter(pc.is_null(rows_of_keys[history.validity_columns.known_to]))


def find_images(rows: Rows, batch: pa.Table, most: int) -> StoredRows | None:
    """Find the rows that equal an image in a batch, with one query; return None if there are more than `most`.

    Each row has a key of its own, so that equal rows stay apart.
    """
    has_any = names.IMAGE in batch.column_names and pc.any(pc.is_valid(batch[names.IMAGE])).as_py()
    if not rows.are_there or not has_any:
        return StoredRows()
    images = batch.filter(pc.is_valid(batch[names.IMAGE])).select([names.IMAGE])
    wanted_images = from_arrow(rows.spark(), images).selectExpr(
        f"{values_in(rows.plan, f'{names.IMAGE}.')} AS {_VALUES}"
    )
    all_rows = rows.all_as_after()
    columns = [name for name in _needed_columns(rows.plan, with_cells=True) if name in all_rows.columns]
    all_rows = all_rows.selectExpr(*map(quoted, columns), FILE, POS, f"{values_in(rows.plan)} AS {_VALUES}")
    equal_rows = to_arrow(
        all_rows.join(F.broadcast(wanted_images), _VALUES, "left_semi").drop(_VALUES).limit(most + 1)
    )
    return None if equal_rows.num_rows > most else _by_place(equal_rows, rows.plan)


def find_all(rows: Rows, most: int) -> StoredRows | None:
    """Return all rows of a table, or None if there are more than `most`."""
    if not rows.are_there:
        return StoredRows()
    all_rows = to_arrow(_places(rows, with_cells=True).limit(most + 1))
    return None if all_rows.num_rows > most else _by_key(all_rows, rows.plan, with_cells=True)


def _places(rows: Rows, *, with_cells: bool) -> DataFrame:
    """Return the rows of the table with the needed columns, their positions, and their places in files."""
    all_rows = rows.all()
    columns = [name for name in _needed_columns(rows.plan, with_cells=with_cells) if name in all_rows.columns]
    return all_rows.selectExpr(*map(quoted, columns), FILE, POS)


def _needed_columns(plan: MergePlan, *, with_cells: bool) -> Sequence[str]:
    """Return the columns of stored rows that a batch needs."""
    columns = plan.stored.schema.names if with_cells else plan.dimension.key
    return list(dict.fromkeys((*columns, *_state_columns(plan.dimension))))


def _state_columns(dimension: Dimension) -> Sequence[str]:
    """Return the system columns that describe the state of a row."""
    return [name for name in (*row_columns(dimension), DELETED) if name != names.BATCH]


def _by_key(rows: pa.Table, plan: MergePlan, *, with_cells: bool) -> StoredRows:
    """Return stored rows by their keys."""
    columns, indices = columns_of(rows), dict[Key, list[int]]()
    for index, key in enumerate(keys_in(columns, plan.dimension.key)):
        if key is not None:
            indices.setdefault(key, []).append(index)
    stored = StoredRows(rows, {}, indices, columns)
    reader = VersionReader.of(plan.dimension, plan.folded)
    cell_columns = [name for name in plan.folded.names if name in columns] if with_cells else []
    by_key = {
        key: row_of(reader.versions(stored.of(key)))
        if reader is not None
        else _newest_row(stored.of(key), cell_columns)
        for key in indices
    }
    return StoredRows(rows, by_key, indices, columns)


def _by_place(rows: pa.Table, plan: MergePlan) -> StoredRows:
    """Return stored rows, each with a key of its own."""
    columns = columns_of(rows)
    cell_columns = [name for name in plan.folded.names if name in columns]
    stored = StoredRows(rows, {}, {(index,): [index] for index in range(rows.num_rows)}, columns)
    return replace(stored, by_key={key: _newest_row(stored.of(key), cell_columns) for key in stored.indices})


def _newest_row(stored: Sequence[Mapping[str, Any]], cell_columns: Sequence[str]) -> Row:
    row = max(stored, key=position_of) if len(stored) > 1 else stored[0]
    return Row({name: row[name] for name in cell_columns}, position_of(row), deleted=bool(row.get(DELETED)))
