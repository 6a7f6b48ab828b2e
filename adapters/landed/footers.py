"""Footers of Parquet files, which declare the types of columns and say how these are written."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.core.errors import SourceError
from lakeward.core.schema import Column, Schema, Type


def footer(file: Path | BinaryIO, table: str, name: str = "") -> Schema:
    """Return the columns that a file's footer declares, those that DMS added included.

    `name` is what the file is called in messages, where it has a path.

    Raises SourceError where the file is no Parquet file, has a type that the lake has not, or was written in a way
    that Spark does not read.
    """
    name = name or str(file.name)
    try:
        found = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{table}: {name} cannot be read as Parquet",
            found=str(error).splitlines()[0],
            todo="Nothing of the table was applied; other tables go on. Replace the file by a whole one.",
        ) from error
    schema = Schema(tuple(Column(f.name, _type(f.type, f.name, name, table)) for f in found.schema_arrow))
    _refuse_writing(found.metadata, table, name)
    return schema


_CODECS: Final = ("BROTLI", "LZO")
"""Compression that Parquet has and Spark cannot undo as it is delivered."""

_ENCODING: Final = "BYTE_STREAM_SPLIT"
"""The encoding of Parquet that Spark's reader does not have (`VectorizedColumnReader`)."""


def _refuse_writing(metadata: pq.FileMetaData, table: str, name: str) -> None:
    """Raise SourceError for the first column whose values Spark would fail to read, in the middle of a batch."""
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for place in range(metadata.num_columns):
            column = row_group.column(place)
            if column.compression in _CODECS:
                said, instead = f"compressed with {column.compression}", "with snappy, zstd or gzip"
            elif _ENCODING in column.encodings:
                said, instead = f"encoded as {_ENCODING}", "with PLAIN or dictionary encoding"
            else:
                continue
            raise SourceError(
                f"{table}: Spark does not read the column {column.path_in_schema} of {name}",
                found=f"its values are {said}; the file is whole",
                todo=f"Nothing of the table was applied; other tables go on. Let the file be written {instead}.",
            )


def _type(found: pa.DataType, name: str, file: str, table: str) -> Type:
    simple = _SIMPLE.get(str(found))
    if simple is not None:
        return Type(simple)
    if pa.types.is_uint64(found):
        return Type("decimal", 20, 0)
    if pa.types.is_decimal(found):
        return Type("decimal", found.precision, found.scale)
    if pa.types.is_timestamp(found) and found.unit in ("ms", "us"):
        return Type("timestamp" if found.tz else "timestamp_ntz")
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        return Type("list", parts=(Column("element", _type(found.value_type, name, file, table)),))
    if pa.types.is_map(found):
        key, item = (_type(part, name, file, table) for part in (found.key_type, found.item_type))
        return Type("map", parts=(Column("key", key), Column("value", item)))
    if pa.types.is_struct(found):
        return Type("struct", parts=tuple(Column(f.name, _type(f.type, name, file, table)) for f in found))
    raise SourceError(
        f"{table}: column {name} of {file} has a type that lakeward does not hold",
        found=f"found {found}",
        todo="Nothing of the table was applied. Let DMS write the column as a text "
        "(a transformation rule `change-data-type`), or leave it out.",
    )


_SIMPLE = {
    "bool": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "bigint",
    "uint8": "int",
    "uint16": "int",
    "uint32": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "binary": "binary",
    "large_binary": "binary",
    "date32[day]": "date",
}
