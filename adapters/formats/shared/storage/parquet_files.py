"""Read the rows of some keys from the Parquet files of a table, in this process.

A Spark query for a thousand keys takes half a second before it reads a row. Nested columns, and columns whose type
was changed other than by widening, are left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lakeward.adapters.formats.shared.storage.loaded_columns import (
    MOST_ROWS,
    MOST_STORED_BYTES,
    LoadedColumns,
    are_cached,
    cache_columns,
    cached_columns,
    live_positions,
    rows_with_keys,
)
from lakeward.adapters.formats.shared.storage.wanted_keys import WantedKeys
from lakeward.adapters.spark.frames.local_casts import are_whole
from lakeward.adapters.spark.merge.resolution import FILE, POS

MOST_FILES: Final = 200
"""A table with more data files that this process has to open is read by Spark."""

MOST_CACHED_FILES: Final = 1_000
"""A table with more data files is read by Spark, even if this process has opened them before."""

_MOST_BYTES: Final = 512 * 1024**2
"""The most bytes to read, as stored in the files."""

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
"""Types whose values are equal in Arrow exactly if they are equal in Spark. Most floating numbers are not."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A data file: its path as the table writes it, and functions that open it and return its deleted rows.

    `content` identifies the file and its columns in the cache. With None the file is read each time.
    """

    path: str
    open: Callable[[], Any]
    deleted: Callable[[], BitMap64]
    content: Hashable = None


Names = Callable[[pa.Schema], Mapping[str, str]]
"""Returns the names of a table's columns in a file with a given schema; missing columns are left out."""


def read_rows(
    files: Sequence[StoredFile], names: Names, wanted_schema: pa.Schema, keys: pa.Table
) -> pa.Table | None:
    """Return the `wanted_schema` columns of the rows with these keys, with `FILE` and `POS`, without deleted rows.

    Returns None if only Spark can read them, or if they are too large.
    """
    if len(files) > MOST_CACHED_FILES or any(not _is_simple(field.type) for field in wanted_schema):
        return None
    if not all(_is_comparable(wanted_schema.field(name).type, keys[name]) for name in keys.column_names):
        return None
    cached_by_path = {file.path: cached_columns(file.content, wanted_schema) for file in files}
    other_files = [file for file in files if cached_by_path[file.path] is None]
    if len(other_files) > MOST_FILES:
        return None
    try:
        distinct_keys = keys.cast(pa.schema([wanted_schema.field(name) for name in keys.column_names])).group_by(
            keys.column_names
        )
        with ExitStack() as exit_stack, ThreadPoolExecutor(_AT_ONCE) as pool:
            reader = _Reader(names, wanted_schema, WantedKeys(distinct_keys.aggregate([])), exit_stack)
            open_files = list(pool.map(reader.open, other_files))
            if None in open_files or sum(file.size for file in open_files if file is not None) > _MOST_BYTES:
                return None
            parts = [*pool.map(reader.read, open_files)]
        loaded_files = [
            LoadedColumns(file.path, file.deleted, rows)
            for file in files
            if (rows := cached_by_path[file.path]) is not None
        ]
        return pa.concat_tables([*parts, rows_with_keys(loaded_files, reader.keys, reader.schema)])
    except (OSError, pa.ArrowException):  # Spark reads the files, or reports what is wrong with them
        return None


def read_live_rows(files: Sequence[StoredFile], names: Names, wanted_schema: pa.Schema) -> pa.Table | None:
    """Return the `wanted_schema` columns of all rows that are not deleted; None if only Spark can read them."""
    if any(not _is_simple(field.type) for field in wanted_schema):
        return None
    try:
        with ExitStack() as exit_stack, ThreadPoolExecutor(_AT_ONCE) as pool:
            reader = _Reader(names, wanted_schema, WantedKeys(pa.table({})), exit_stack)
            open_files = list(pool.map(reader.open, files))
            return None if None in open_files else pa.concat_tables([*pool.map(reader.live_rows, open_files)])
    except (OSError, pa.ArrowException):  # Spark reads the files, or reports what is wrong with them
        return None


def _is_comparable(type_: pa.DataType, keys: pa.ChunkedArray) -> bool:
    return any(is_one(type_) for is_one in _KEY_TYPES) or (type_ == keys.type == pa.float64() and are_whole(keys))


def _is_simple(type_: pa.DataType) -> bool:
    return not pa.types.is_nested(type_)


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """An open file: the `names` of the wanted columns in it, and the bytes that these columns take."""

    stored_file: StoredFile
    parquet: pq.ParquetFile
    names: Mapping[str, str]
    size: int


class _Reader:
    def __init__(self, names: Names, wanted_schema: pa.Schema, keys: WantedKeys, exit_stack: ExitStack) -> None:
        self.names = names
        self.wanted_schema = wanted_schema
        self.keys = keys
        self.exit_stack = exit_stack
        self.schema = pa.schema([*wanted_schema, pa.field(FILE, pa.string()), pa.field(POS, pa.int64())])
        self.empty = self.schema.empty_table()

    def open(self, stored_file: StoredFile) -> _OpenFile | None:
        """Open a file; return None if a column has a type that only Spark can read."""
        parquet = pq.ParquetFile(self.exit_stack.enter_context(closing(stored_file.open())))
        schema, metadata = parquet.schema_arrow, parquet.metadata
        names = {
            name: file_column
            for name, file_column in self.names(schema).items()
            if name in self.wanted_schema.names
        }
        for name, file_column in names.items():
            if "." in file_column or not _is_widened(
                schema.field(file_column).type, self.wanted_schema.field(name).type
            ):
                return None
        places = [place for place in range(metadata.num_columns) if _root(metadata, place) in names.values()]
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        size = sum(group.column(place).total_compressed_size for group in groups for place in places)
        return _OpenFile(stored_file, parquet, names, size)

    def read(self, file: _OpenFile) -> pa.Table:
        """Return the rows of a file with wanted keys, without deleted rows."""
        if not set(self.keys.names) <= file.names.keys():  # the file has no key columns
            return self.empty
        if self._is_cached(file):
            rows = self._all_rows(file)
            cache_columns(file.stored_file.content, rows)
            return rows_with_keys(
                [LoadedColumns(file.stored_file.path, file.stored_file.deleted, rows)], self.keys, self.schema
            )
        parts, offset, deleted = [self.empty], 0, file.stored_file.deleted()
        for group in range(file.parquet.metadata.num_row_groups):
            count = file.parquet.metadata.row_group(group).num_rows
            if self._may_have(file, group):
                parts += self._read(file, group, offset, deleted)
            offset += count
        return pa.concat_tables(parts)

    def live_rows(self, file: _OpenFile) -> pa.Table:
        """Return all rows of a file, without deleted rows."""
        rows = file.parquet.read(list(file.names.values()), use_threads=False)
        live = BitMap64(range(rows.num_rows)) - file.stored_file.deleted()
        all_rows = pa.Table.from_arrays(self._columns(rows, file), schema=self.wanted_schema)
        return all_rows.take(pa.array(np.frombuffer(live.to_array(), np.uint64)))

    def _is_cached(self, file: _OpenFile) -> bool:
        """Return whether all wanted columns of a file are read at once and put into the cache."""
        is_whole = len(file.names) == len(self.wanted_schema)
        is_small = file.parquet.metadata.num_rows <= MOST_ROWS and file.size <= MOST_STORED_BYTES
        is_named = file.stored_file.content is not None
        return is_named and is_whole and is_small and are_cached(self.wanted_schema, self.keys.names)

    def _all_rows(self, file: _OpenFile) -> pa.Table:
        rows = file.parquet.read(list(file.names.values()), use_threads=False)
        columns = [self._column(rows, file.names, field.name).combine_chunks() for field in self.wanted_schema]
        return pa.Table.from_arrays(columns, schema=self.wanted_schema)

    def _read(self, file: _OpenFile, group: int, offset: int, deleted: BitMap64) -> Sequence[pa.Table]:
        parts, columns = [], list(file.names.values())
        rows_at_a_time = max(_ROWS_AT_A_TIME, self.keys.count)  # the keys may be hashed for each piece
        for batch in file.parquet.iter_batches(rows_at_a_time, row_groups=[group], columns=columns):
            rows = pa.Table.from_batches([batch])
            positions = live_positions(self._matching_indices(rows, file.names) + offset, deleted)
            if len(positions):
                parts.append(self._rows(rows.take(pa.array(positions - offset)), file, positions))
            offset += rows.num_rows
        return parts

    def _matching_indices(self, rows: pa.Table, names: Mapping[str, str]) -> np.ndarray[Any, Any]:
        """Return the indices of the rows with wanted keys."""
        columns = {name: self._column(rows, names, name) for name in self.keys.names}
        return self.keys.matching_indices(pa.table(columns))

    def _column(self, rows: pa.Table, names: Mapping[str, str], name: str) -> pa.ChunkedArray:
        return rows[names[name]].cast(self.wanted_schema.field(name).type)

    def _rows(self, rows: pa.Table, file: _OpenFile, positions: np.ndarray[Any, Any]) -> pa.Table:
        paths = pa.repeat(pa.scalar(file.stored_file.path, pa.string()), rows.num_rows)
        columns = [*self._columns(rows, file), paths, pa.array(positions)]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _columns(self, rows: pa.Table, file: _OpenFile) -> Sequence[pa.ChunkedArray]:
        """Return the wanted columns, NULL where the file lacks them."""
        return [
            self._column(rows, file.names, field.name)
            if field.name in file.names
            else pa.nulls(rows.num_rows, field.type)
            for field in self.wanted_schema
        ]

    def _may_have(self, file: _OpenFile, group: int) -> bool:
        """Return whether a row group may have rows with wanted keys, by its bounds of whole numbers."""
        metadata = file.parquet.metadata
        places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
        for name, (lowest, highest) in self.keys.ranges.items():
            statistics = metadata.row_group(group).column(places[file.names[name]]).statistics
            if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
                continue
            if statistics.max < lowest or statistics.min > highest:
                return False
        return True


def _root(metadata: pq.FileMetaData, place: int) -> str:
    return str(metadata.schema.column(place).path.split(".", 1)[0])


def _is_widened(type_: pa.DataType, wider: pa.DataType) -> bool:
    """Return whether a type is equal to, or can be widened to, another by `cast`."""
    if type_ == wider:
        return True
    if pa.types.is_decimal(type_) and pa.types.is_decimal(wider):
        return bool(type_.scale == wider.scale and type_.precision <= wider.precision)
    return any(type_ in narrow_types and wider == wide_type for narrow_types, wide_type in _WIDER)


_WIDER: Final[Sequence[tuple[Collection[pa.DataType], pa.DataType]]] = (
    ((pa.int8(), pa.int16(), pa.int32()), pa.int64()),
    ((pa.int8(), pa.int16()), pa.int32()),
    ((pa.float32(),), pa.float64()),
    ((pa.large_string(),), pa.string()),
    ((pa.large_binary(),), pa.binary()),
)
