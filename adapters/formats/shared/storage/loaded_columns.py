"""A cache of columns of small data files, because each batch looks for its keys in the same files."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from lakeward.adapters.formats.shared.storage.file_cache import FileCache
from lakeward.adapters.formats.shared.storage.wanted_keys import WantedKeys
from lakeward.adapters.spark.sql.names import PREFIX

MOST_ROWS: Final = 250_000
MOST_STORED_BYTES: Final = 8 * 1024**2
"""The most rows of a cached file, and the most bytes of their columns in it. Larger files are read in pieces."""

_MOST_BYTES: Final = 32 * 1024**2
"""The most bytes of a cached file in memory, where texts may take more space than in the file."""

_COLUMNS: Final[FileCache[pa.Table]] = FileCache(2 * _MOST_BYTES)


@dataclass(frozen=True, slots=True)
class LoadedColumns:
    """Columns of all rows of a data file: its path as the table writes it, and a function for its deleted rows."""

    path: str
    deleted: Callable[[], BitMap64]
    rows: pa.Table


def are_cached(schema: pa.Schema, key: Sequence[str]) -> bool:
    """Return whether columns are cached: keys and system columns, which each batch reads."""
    return all(name in key or name.startswith(PREFIX) for name in schema.names)


def cached_columns(content: Hashable, schema: pa.Schema) -> pa.Table | None:
    """Return columns of a file, or None if they are not in the cache. `content` identifies what the file has."""
    return None if content is None else _COLUMNS.get(_key(content, schema))


def cache_columns(content: Hashable, rows: pa.Table) -> None:
    """Put columns of a file into the cache, unless they are too large."""
    if content is not None and rows.nbytes <= _MOST_BYTES:
        _COLUMNS.put(_key(content, rows.schema), rows, rows.nbytes)


def _key(content: Hashable, schema: pa.Schema) -> Hashable:
    return content, tuple((field.name, str(field.type)) for field in schema)


def rows_with_keys(files: Sequence[LoadedColumns], keys: WantedKeys, schema: pa.Schema) -> pa.Table:
    """Return the rows with wanted keys, without deleted rows.

    `schema` is that of the result: the columns, and the path and the position of each row.
    """
    if not files:
        return schema.empty_table()
    rows = pa.concat_tables([file.rows for file in files])
    indices = keys.matching_indices(rows)
    ends = np.cumsum([file.rows.num_rows for file in files])
    numbers = np.searchsorted(ends, indices, side="right")
    parts = [np.empty(0, np.int64)]
    bounds = np.searchsorted(numbers, np.arange(len(files) + 1))
    for number in np.unique(numbers):
        offset = int(ends[number]) - files[number].rows.num_rows
        positions = indices[bounds[number] : bounds[number + 1]] - offset
        parts.append(live_positions(positions, files[number].deleted()) + offset)
    live = np.concatenate(parts)
    numbers = np.searchsorted(ends, live, side="right")
    starts = ends - np.array([file.rows.num_rows for file in files])
    paths = pa.array([file.path for file in files], pa.string()).take(pa.array(numbers))
    live_rows = rows.take(pa.array(live))
    return pa.Table.from_arrays([*live_rows.columns, paths, pa.array(live - starts[numbers])], schema=schema)


def live_positions(positions: np.ndarray[Any, Any], deleted: BitMap64) -> np.ndarray[Any, Any]:
    """Return ascending positions without the deleted ones."""
    live = BitMap64(array("Q", positions.astype(np.uint64).tobytes())) - deleted
    return np.frombuffer(live.to_array(), np.uint64).astype(np.int64)
