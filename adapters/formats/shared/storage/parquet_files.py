"""Rows of some keys, read from the Parquet files of a table by this process.

A query of Spark for a thousand keys takes half a second before it reads a row. What this reader does not know well
(nested columns, types that were changed in another way than by making them wider) is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lakeward.adapters.spark.merge.resolution import FILE, POS

MOST_FILES: Final = 200
"""A table with more data files is read by Spark."""

_MOST_BYTES: Final = 512 * 1024**2
"""So much is read at most, as it lies in the files."""

_ROWS_AT_A_TIME: Final = 131_072
_AT_ONCE: Final = 4
_KEY_TYPES: Final = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_boolean,
)
"""Types whose values are equal in Arrow where they are equal in Spark: floating numbers are not among them."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A data file: its path as the table spells it, what opens it, and what tells which of its rows are deleted."""

    path: str
    open: Callable[[], Any]
    deleted: Callable[[], BitMap64]


Names = Callable[[pa.Schema], Mapping[str, str]]
"""Returns what the columns of a table are called in a file with such a schema; those that it lacks are left out."""


def read_rows(files: Sequence[StoredFile], names: Names, wanted: pa.Schema, keys: pa.Table) -> pa.Table | None:
    """Return the `wanted` columns of the rows with these keys, with `FILE` and `POS`, each row that stands once.

    Returns None where only Spark can read them, or where they are so many bytes that it should.
    """
    if len(files) > MOST_FILES or any(not _is_simple(field.type) for field in wanted):
        return None
    if not all(any(is_one(wanted.field(name).type) for is_one in _KEY_TYPES) for name in keys.column_names):
        return None
    try:
        sought = keys.cast(pa.schema([wanted.field(name) for name in keys.column_names])).group_by(
            keys.column_names
        )
        with ExitStack() as opened_files, ThreadPoolExecutor(_AT_ONCE) as pool:
            reader = _Reader(names, wanted, sought.aggregate([]), opened_files)
            opened = list(pool.map(reader.open, files))
            if None in opened or sum(one.size for one in opened if one is not None) > _MOST_BYTES:
                return None
            return pa.concat_tables([reader.empty, *pool.map(reader.read, opened)])
    except (OSError, pa.ArrowException):  # Spark reads the files, or says what is wrong with them
        return None


def _is_simple(type_: pa.DataType) -> bool:
    return not pa.types.is_nested(type_)


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """A file that was opened: its `names` of wanted columns, and how many bytes these take in it."""

    stored: StoredFile
    parquet: pq.ParquetFile
    names: Mapping[str, str]
    size: int


class _Reader:
    def __init__(self, names: Names, wanted: pa.Schema, keys: pa.Table, opened: ExitStack) -> None:
        self.names = names
        self.wanted = wanted
        self.keys = keys
        self.opened = opened
        self.schema = pa.schema([*wanted, pa.field(FILE, pa.string()), pa.field(POS, pa.int64())])
        self.empty = self.schema.empty_table()
        self.ranges = {name: _range_of(keys[name]) for name in keys.column_names}

    def open(self, stored: StoredFile) -> _OpenFile | None:
        """Open a file; return None where a column of it has a type that only Spark knows to read."""
        parquet = pq.ParquetFile(self.opened.enter_context(closing(stored.open())))
        schema, metadata = parquet.schema_arrow, parquet.metadata
        names = {name: own for name, own in self.names(schema).items() if name in self.wanted.names}
        for name, own in names.items():
            if "." in own or not _is_widened(schema.field(own).type, self.wanted.field(name).type):
                return None
        places = [place for place in range(metadata.num_columns) if _root(metadata, place) in names.values()]
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        size = sum(group.column(place).total_compressed_size for group in groups for place in places)
        return _OpenFile(stored, parquet, names, size)

    def read(self, file: _OpenFile) -> pa.Table:
        """Return the rows of a file that are sought, and that were not deleted."""
        if not set(self.keys.column_names) <= file.names.keys():  # no row of it has a key
            return self.empty
        parts, first, deleted = [self.empty], 0, file.stored.deleted()
        for group in range(file.parquet.metadata.num_row_groups):
            count = file.parquet.metadata.row_group(group).num_rows
            if self._may_have(file, group):
                parts += self._read(file, group, first, deleted)
            first += count
        return pa.concat_tables(parts)

    def _read(self, file: _OpenFile, group: int, first: int, deleted: BitMap64) -> Sequence[pa.Table]:
        parts, columns = [], list(file.names.values())
        for batch in file.parquet.iter_batches(_ROWS_AT_A_TIME, row_groups=[group], columns=columns):
            rows = pa.Table.from_batches([batch])
            found = self._found(rows, file.names)
            positions = found + first
            first += rows.num_rows
            stand = np.fromiter((position not in deleted for position in positions), bool, len(positions))
            if stand.any():
                parts.append(self._rows(rows.take(pa.array(found[stand])), file, positions[stand]))
        return parts

    def _found(self, rows: pa.Table, names: Mapping[str, str]) -> np.ndarray[Any, Any]:
        """Return the indices of the rows that have a key that is sought."""
        masks = [pc.is_in(self._column(rows, names, name), self.keys[name]) for name in self.keys.column_names]
        mask = masks[0]
        for other in masks[1:]:
            mask = pc.and_(mask, other)
        found = np.asarray(pc.indices_nonzero(mask).to_numpy(), np.int64)
        if len(masks) == 1 or not len(found):
            return found
        own = [self._column(rows, names, name).take(pa.array(found)) for name in self.keys.column_names]
        table = pa.table([*own, pa.array(found)], [*self.keys.column_names, POS])
        kept = table.join(self.keys, self.keys.column_names, join_type="left semi")[POS]
        return np.asarray(np.sort(kept.to_numpy()))

    def _column(self, rows: pa.Table, names: Mapping[str, str], name: str) -> pa.ChunkedArray:
        return rows[names[name]].cast(self.wanted.field(name).type)

    def _rows(self, rows: pa.Table, file: _OpenFile, positions: np.ndarray[Any, Any]) -> pa.Table:
        columns = [
            self._column(rows, file.names, field.name)
            if field.name in file.names
            else pa.nulls(rows.num_rows, field.type)
            for field in self.wanted
        ]
        paths = pa.repeat(pa.scalar(file.stored.path, pa.string()), rows.num_rows)
        return pa.Table.from_arrays([*columns, paths, pa.array(positions)], schema=self.schema)

    def _may_have(self, file: _OpenFile, group: int) -> bool:
        """Return whether a row group may have rows of a key, by its own bounds of whole numbers."""
        metadata = file.parquet.metadata
        places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
        for name, bounds in self.ranges.items():
            found = metadata.row_group(group).column(places[file.names[name]]).statistics
            if bounds is None or found is None or not found.has_min_max or not isinstance(found.min, int):
                continue
            if found.max < bounds[0] or found.min > bounds[1]:
                return False
        return True


def _root(metadata: pq.FileMetaData, place: int) -> str:
    return str(metadata.schema.column(place).path.split(".", 1)[0])


def _range_of(keys: pa.ChunkedArray) -> tuple[int, int] | None:
    """Return the least and the greatest of keys that are whole numbers; None of others."""
    if not pa.types.is_integer(keys.type):
        return None
    found = pc.min_max(keys)
    return found["min"].as_py(), found["max"].as_py()


def _is_widened(type_: pa.DataType, wider: pa.DataType) -> bool:
    """Return whether each value of a type is one of another, and `cast` gives it."""
    if type_ == wider:
        return True
    if pa.types.is_decimal(type_) and pa.types.is_decimal(wider):
        return bool(type_.scale == wider.scale and type_.precision <= wider.precision)
    return any(type_ in narrow and wider == wide for narrow, wide in _WIDER)


_WIDER: Final[Sequence[tuple[Collection[pa.DataType], pa.DataType]]] = (
    ((pa.int8(), pa.int16(), pa.int32()), pa.int64()),
    ((pa.int8(), pa.int16()), pa.int32()),
    ((pa.float32(),), pa.float64()),
    ((pa.large_string(),), pa.string()),
    ((pa.large_binary(),), pa.binary()),
)
