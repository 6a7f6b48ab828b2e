"""Files of Delta tables that this process writes itself for small batches: new rows and deletion vectors."""

from __future__ import annotations

import datetime as dt
import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.adapters.formats.delta.java import Jvm
from lakeward.adapters.formats.delta.metadata.column_mapping import ID, MODE, PHYSICAL_NAME
from lakeward.adapters.formats.delta.writes.deletion_vectors import Deletion, encode_vectors
from lakeward.adapters.formats.delta.writes.local_files import action_fields
from lakeward.adapters.formats.delta_rs.columns import column_of
from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.formats.shared.side_tables.side_table import with_schema

_WRITTEN: Final = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Table features with which this process can write, if no column or property uses those of rows."""

_OF_COLUMNS: Final = frozenset({ID, PHYSICAL_NAME, "comment", "delta.typeChanges"})
"""Metadata of columns that this process can handle; everything else (defaults, generated values) needs Delta's
writer."""

_OF_FILES: Final = ("delta.constraints.", "delta.parquet.", "delta.dataSkipping", "delta.randomize")
"""Prefixes of properties about the form of files or rows."""

_WITH_BOUNDS: Final = 32
_MOST_CHARACTERS: Final = 32
"""Delta writes bounds for this many columns, and of texts this many characters."""

_ANCIENT: Final = dt.date(1900, 1, 1).toordinal() - dt.date(1970, 1, 1).toordinal()
"""The day, since 1970, before which Spark 3 needs to know the calendar of times in files of other writers."""


def write_rows(jvm: Jvm, log: Any, transaction: Any, rows: pa.Table) -> Any | None:
    """Write rows as one data file that no version has yet; return its entry for the log.

    Returns None if only Delta's own writer can do it: with partitions, constraints or generated values.
    """
    metadata = action_fields(transaction.metadata())
    fields: Sequence[Mapping[str, Any]] = json.loads(metadata["schemaString"])["fields"]
    if not _is_written(metadata, action_fields(transaction.protocol()), fields):
        return None
    columns = pa.schema([_column(field, str(log.dataPath())) for field in fields])
    if any(pa.types.is_nested(field.type) for field in columns) or not {*rows.column_names} <= {*columns.names}:
        return None
    rows_of_table = with_schema(rows, columns)
    if any(_is_ancient(column) for column in rows_of_table.columns):
        return None
    stored = pa.Table.from_arrays(rows_of_table.columns, schema=pa.schema(map(_in_file, fields, columns)))
    buffer = BytesIO()
    pq.write_table(stored, buffer, compression="snappy", store_decimal_as_integer=True, store_schema=False)
    name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    _write_file(jvm, log, name, buffer.getvalue())
    add = {
        "path": name,
        "partitionValues": {},
        "size": len(buffer.getvalue()),
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": json.dumps(statistics(stored)),
    }
    return _added(jvm, add)


def write_deletions(jvm: Jvm, log: Any, deletions: Sequence[Deletion]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Write the deletion vectors of data files; return them, and the actions for the log.

    A file without any row left is removed as a whole and needs no vector.
    """
    in_part = [deletion for deletion in deletions if not deletion.is_whole]
    name, content, vectors = encode_vectors(in_part)
    if in_part:
        _write_file(jvm, log, name, content)
    marked = [
        _added(jvm, {**deletion.add, "deletionVector": vector}).deletionVector()
        for deletion, vector in zip(in_part, vectors, strict=True)
    ]
    pairs = [
        _added(jvm, deletion.add).removeRows(vector, True, True)
        for deletion, vector in zip(in_part, marked, strict=True)
    ]
    removed_files = [_added(jvm, deletion.add).remove() for deletion in deletions if deletion.is_whole]
    return marked, [action for pair in pairs for action in (pair._1(), pair._2())] + removed_files


def _added(jvm: Jvm, add: Mapping[str, Any]) -> Any:
    """Return the Delta action of a data file, given its entry in the log."""
    return jvm.single(jvm.delta.actions, "Action").fromJson(json.dumps({"add": add}))


def _write_file(jvm: Jvm, log: Any, name: str, content: bytes) -> None:
    """Write a file into the folder of a table."""
    path = jvm.root.org.apache.hadoop.fs.Path(log.dataPath(), name)
    stream = path.getFileSystem(log.newDeltaHadoopConf()).create(path, False)
    try:
        stream.write(content)
    finally:
        stream.close()


def _is_written(
    metadata: Mapping[str, Any], protocol: Mapping[str, Any], fields: Sequence[Mapping[str, Any]]
) -> bool:
    """Return whether a table asks nothing of its writer but files with its columns."""
    properties = metadata["configuration"]
    return (
        not metadata["partitionColumns"]
        and {*protocol.get("writerFeatures", ())} <= _WRITTEN
        and properties.get(MODE, "none") in ("none", "name")
        and not any(name.startswith(_OF_FILES) for name in properties)
        and all(field["nullable"] and {*field["metadata"]} <= _OF_COLUMNS for field in fields)
    )


def _column(field: Mapping[str, Any], table: str) -> pa.Field:
    column = column_of(field, table)
    return pa.field(column.name, arrow_type(column.type))


def _in_file(field: Mapping[str, Any], column: pa.Field) -> pa.Field:
    """Return a column as it is in files: with the name and id of the column mapping, if there is one."""
    id_ = field["metadata"].get(ID)
    metadata = None if id_ is None else {"PARQUET:field_id": str(id_)}
    return pa.field(field["metadata"].get(PHYSICAL_NAME, field["name"]), column.type, metadata=metadata)


def _is_ancient(column: pa.ChunkedArray) -> bool:
    if not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
        return False
    least = pc.min_max(column.cast(pa.date32()).cast(pa.int32()))["min"].as_py()
    return least is not None and least < _ANCIENT


def statistics(rows: pa.Table) -> Mapping[str, Any]:
    """Return the log's statistics of the rows of a file: counts, and bounds of values where they are exact.

    Format: github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics
    """
    columns = rows.select(rows.column_names[:_WITH_BOUNDS])
    counts = {name: columns[name].null_count for name in columns.column_names}
    bounds = {name: bound for name in columns.column_names if (bound := _bounds(columns[name])) is not None}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: least for name, (least, _) in bounds.items()},
        "maxValues": {name: greatest for name, (_, greatest) in bounds.items()},
        "nullCount": counts,
        "tightBounds": True,
    }


_BOUNDED: Final[Sequence[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]]]] = (
    (pa.types.is_integer, int),
    (pa.types.is_date, str),
    (pa.types.is_string, str),
)
"""The types that have bounds, and how the log writes them."""


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Return the least and the greatest value of a column; None if it has none, or they are not exact."""
    write = next((write for is_one, write in _BOUNDED if is_one(column.type)), None)
    if write is None or column.null_count == len(column):
        return None
    min_max = pc.min_max(column)
    least, greatest = write(min_max["min"].as_py()), write(min_max["max"].as_py())
    is_long = any(isinstance(value, str) and len(value) > _MOST_CHARACTERS for value in (least, greatest))
    return None if is_long else (least, greatest)
