"""Data files of Iceberg tables that this process reads and writes itself, for small batches."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyroaring import BitMap64

from lakeward.adapters.formats.iceberg.java import Jvm
from lakeward.adapters.formats.iceberg.metadata.columns import columns_in
from lakeward.adapters.formats.iceberg.writes.data_files import DataFile, DataFiles
from lakeward.adapters.formats.iceberg.writes.position_deletes import deleted_positions
from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.formats.shared.side_tables.side_table import with_schema
from lakeward.adapters.formats.shared.storage.parquet_files import (
    MOST_CACHED_FILES,
    StoredFile,
    read_live_rows,
    read_rows,
)

_FIELD_ID: Final = b"PARQUET:field_id"
_FORMS: Final = {
    "write.parquet.": ("compression-codec", "zstd"),
    "write.format.": ("default", "parquet"),
    "encryption.": ("key-id", ""),
}
"""The properties of file formats that this process can write, by prefixes: the only name and value allowed for
each."""


def find_rows(
    jvm: Jvm, table: Any, snapshot: Any, files: DataFiles, io: FileIO, keys: pa.Table, wanted: Sequence[str]
) -> pa.Table | None:
    """Return the wanted columns of a snapshot's rows with these keys, with file and row number.

    Returns None if only Spark can read them.
    """
    schema = _schema(jvm, table.schemas().get(snapshot.schemaId()))
    fields = {field.name: field for field in schema.fields if field.name in wanted}
    ids = {name: field.field_id for name, field in fields.items()}
    stored = _stored(str(table.name()), files.at_most(MOST_CACHED_FILES), io, ids)
    if stored is None or any(field.initial_default is not None for field in fields.values()):
        return None
    types = {column.name: arrow_type(column.type) for column in columns_in(schema, str(table.name()))}
    schema_of_rows = pa.schema([(name, types[name]) for name in wanted if name in fields])
    is_partitioned = any(spec.isPartitioned() for spec in jvm.items(table.specs().values()))
    return read_rows(stored, partial(_names, ids, is_partitioned), schema_of_rows, keys)


def read_files(jvm: Jvm, table: Any, files: Mapping[str, DataFile], io: FileIO) -> pa.Table | None:
    """Return the rows in some files, with the columns that the table has now; None if only Spark can read them.

    No file has a partition.
    """
    schema = _schema(jvm, table.schema())
    ids, name = {field.name: field.field_id for field in schema.fields}, str(table.name())
    stored = _stored(name, files, io, ids)
    if stored is None or any(field.initial_default is not None for field in schema.fields):
        return None
    types = pa.schema([(column.name, arrow_type(column.type)) for column in columns_in(schema, name)])
    return read_live_rows(stored, partial(_names, ids, False), types)


def _stored(
    table: str, files: Mapping[str, DataFile] | None, io: FileIO, ids: Mapping[str, int]
) -> Sequence[StoredFile] | None:
    """Return the files for this process to read; None if they are too many, or of a form that it cannot read.

    `ids` has the field ids of the columns to read, by name.
    """
    columns = tuple(ids.items())
    if files is None or not all(file.is_simple for file in files.values()):
        return None
    return [
        StoredFile(
            path, io.new_input(path).open, partial(_deleted, table, io, file, path), (path, file.size, columns)
        )
        for path, file in files.items()
    ]


def _deleted(table: str, io: FileIO, file: DataFile, path: str) -> BitMap64:
    return BitMap64.union(BitMap64(), *(deleted_positions(table, io, delete, path) for delete in file.deletes))


def _schema(jvm: Jvm, schema: Any) -> Schema:
    return Schema.model_validate_json(jvm.iceberg.SchemaParser.toJson(schema))


def _names(ids: Mapping[str, int], is_partitioned: bool, schema: pa.Schema) -> Mapping[str, str]:
    """Return the names of columns in a file, by its field ids.

    Raises ArrowInvalid if fields have no ids, or if a column that a file lacks may be a partition value.
    """
    named = {int(field.metadata[_FIELD_ID]): field.name for field in schema if _FIELD_ID in (field.metadata or {})}
    names = {name: named[id_] for name, id_ in ids.items() if id_ in named}
    if len(named) < len(schema.names) or (is_partitioned and len(names) < len(ids)):
        raise pa.ArrowInvalid("what a column is, or holds, is not said by the file")
    return names


def write_rows(jvm: Jvm, table: Any, io: FileIO, rows: pa.Table) -> Any | None:
    """Write rows as one data file that no snapshot has yet, with the bounds and counts that the table asks for.

    Returns None if only Iceberg's own writer can do it: with partitions, a sort order, or a form of its own.
    """
    if table.spec().isPartitioned() or table.sortOrder().isSorted() or _has_own_form(jvm, table.properties()):
        return None
    schema = schema_to_pyarrow(_schema(jvm, table.schema()))
    buffer = BytesIO()
    # Readers go by the schema of Parquet, not by that of Arrow with the large texts of PyIceberg.
    pq.write_table(
        with_schema(rows, schema), buffer, compression="zstd", store_decimal_as_integer=True, store_schema=False
    )
    location = str(table.locationProvider().newDataLocation(f"{uuid.uuid4()}.parquet"))
    with io.new_output(location).create() as stream:
        stream.write(buffer.getvalue())
    file = table.io().newInputFile(location)
    metrics = jvm.iceberg.parquet.ParquetUtil.fileMetrics(file, jvm.iceberg.MetricsConfig.forTable(table))
    builder = jvm.iceberg.DataFiles.builder(table.spec())
    return builder.withInputFile(file).withFormat("PARQUET").withMetrics(metrics).build()


def _has_own_form(jvm: Jvm, properties: Any) -> bool:
    """Return whether a table's properties ask for another form of files than Iceberg's default."""
    select = jvm.iceberg.util.PropertyUtil.propertiesWithPrefix
    for prefix, (name, usual) in _FORMS.items():
        form = select(properties, prefix)
        if form.size() != int(form.get(name) == usual):
            return True
    return False
