"""Footers of Parquet files, which declare the types of columns and say how these are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.core.errors import SourceError
from lakeward.core.schema import Column, Schema, Type

OF_FILES: Final = (
    "Let the writer of the file give the column a type of docs/reference/types.md, such as a text, or leave it out."
)
OF_DMS: Final = "Let DMS write the column as a text (a transformation rule `change-data-type`), or leave it out."
"""What can be done about a type that the lake has not, by who writes the files."""


_AS_NOW: Final[Mapping[str, str]] = MappingProxyType({})


class Form(Enum):
    """How a column is written whose type does not say so: what Spark must be told to read."""

    NANOS = "bigint"
    UUID = "binary"
    NOTHING = "void"


@dataclass(frozen=True, slots=True)
class Footer:
    """The columns of a file in order, those that DMS added included, and the forms of some of them by name.

    A column that is NULL throughout, and that has no type, is none of the schema's. `written` says what the file
    calls columns that have another name here.
    """

    schema: Schema
    forms: tuple[tuple[str, Form], ...] = ()
    written: tuple[tuple[str, str], ...] = ()

    def with_names(self, wanted: Iterable[str]) -> Footer:
        """Return the footer with the columns that are wanted named so, where the file has them in another case.

        A name that the file has as it is wanted, or in two cases, stays.
        """
        has = [*self.schema.names, *(name for name, _ in self.forms if self.schema.find(name) is None)]
        alike = Counter(map(str.lower, has))
        wanted = [*wanted]
        as_wanted = {name.lower() for name in wanted if name in has}
        unlike = [name for name in wanted if alike[name.lower()] == 1 and name.lower() not in as_wanted]
        called = {name.lower(): name for name in reversed(unlike)}
        now = {name: called.get(name.lower(), name) for name in has}
        return Footer(
            Schema(tuple(Column(now[c.name], c.type) for c in self.schema)),
            tuple((now[name], form) for name, form in self.forms),
            tuple((name, written) for written, name in now.items() if written != name),
        )

    def with_known(self, *known: Schema | None, renames: Mapping[str, str] = _AS_NOW) -> Footer:
        """Return the footer with the columns that are NULL throughout, in the types that they are known by.

        `renames` say what the file's columns are called now, where that is another name.
        """
        more = []
        for name in (name for name, form in self.forms if form is Form.NOTHING):
            called = (renames.get(name, name), name)
            columns = (schema.find(now) for schema in known if schema is not None for now in called)
            column = next((found for found in columns if found is not None), None)
            more += [] if column is None else [Column(name, column.type)]
        return replace(self, schema=Schema((*self.schema, *more)))


def refuse_unknown(found: Footer, table: str, name: str) -> None:
    """Raise SourceError for a column that is NULL throughout and that nothing says the type of.

    To leave it out would be to say that an update did not send it.
    """
    for column, form in found.forms:
        if form is Form.NOTHING and found.schema.find(column) is None:
            raise SourceError(
                f"{table}: column {column} of {name} has no type",
                found="it is NULL in every row",
                todo=f'Nothing of this batch was applied. Declare it under [tables."{table}".columns].',
            )


def footer(file: Path | BinaryIO, table: str, name: str = "", todo: str = OF_FILES) -> Footer:
    """Return what a file's footer declares.

    `name` is what the file is called in messages, where it has a path; `todo` says what can be done about a type
    that the lake has not.

    Raises SourceError where the file is no Parquet file, has such a type, or was written in a way that Spark does
    not read, or with times that it would cut.
    """
    name = name or str(file.name)
    try:
        found = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{table}: {name} cannot be read as Parquet",
            found=str(error).splitlines()[0],
            todo="Nothing of this batch was applied; other tables go on. Replace the file by a whole one.",
        ) from error
    old = [c.path for c in map(found.schema.column, range(len(found.schema))) if c.physical_type == "INT96"]
    columns, forms = [], []
    for field in found.schema_arrow:
        type_, form = (Type("timestamp"), None) if field.name in old else _meaning(field.type)
        if isinstance(type_, pa.DataType):
            raise SourceError(
                f"{table}: column {field.name} of {name} has a type that lakeward does not hold",
                found=f"found {field.type}" + ("" if type_ == field.type else f", with {type_} in it"),
                todo=f"Nothing of this batch was applied. {todo}",
            )
        columns += [] if type_ is None else [Column(field.name, type_)]
        forms += [] if form is None else [(field.name, form)]
    _refuse_writing(found.metadata, table, name)
    is_of_spark = _SPARK in (found.metadata.metadata or {})  # it has microseconds, and writes no finer times
    for column in () if is_of_spark else old:
        _refuse_finer(file, column, table, name, todo)
    return Footer(Schema(tuple(columns)), tuple(forms))


def null_columns(file: BinaryIO) -> Collection[str] | None:
    """Return the columns that are NULL in every row, by the statistics of a Parquet file; None where it has no row.

    A column without statistics, or with parts, is none of them.
    """
    found = pq.ParquetFile(file)
    metadata, without_type = found.metadata, {c.name for c in found.schema_arrow if pa.types.is_null(c.type)}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    groups = [group for group in groups if group.num_rows]
    nulls = [
        {
            column.path_in_schema
            for column in map(group.column, range(metadata.num_columns))
            if (told := column.statistics) is not None and told.has_null_count and told.null_count == group.num_rows
        }
        for group in groups
    ]
    return set.intersection(*nulls) | without_type if nulls else None


_SPARK: Final = b"org.apache.spark.version"
"""The key of a footer's metadata by which Spark says that it wrote the file."""

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
                todo=f"Nothing of this batch was applied; other tables go on. Let the file be written {instead}.",
            )


def _refuse_finer(file: Path | BinaryIO, column: str, table: str, name: str, todo: str) -> None:
    """Raise SourceError where times of the old form INT96 have nanoseconds, which Spark would cut in silence.

    The numbers of nanoseconds go round beyond 1677 and 2262, and so does the difference: it is right nevertheless.
    """
    ways = [pq.ParquetFile(file, coerce_int96_timestamp_unit=unit) for unit in ("ns", "us")]
    for fine, coarse in zip(*[way.iter_batches(columns=[column]) for way in ways], strict=True):
        nanos, micros = fine.column(0).cast(pa.int64()), coarse.column(0).cast(pa.int64())
        if pc.any(pc.not_equal(nanos, pc.multiply(micros, 1000))).as_py():
            raise SourceError(
                f"{table}: column {column} of {name} has times that lakeward does not hold",
                found="they are INT96, with nanoseconds that are not 0 behind the microseconds",
                todo=f"Nothing of this batch was applied. {todo}",
            )


_Meaning = tuple[Type | pa.DataType | None, Form | None]
"""A type and its form; what no table holds stands for itself, and None for what has no value, and so no type."""


def _meaning(found: pa.DataType) -> _Meaning:
    """Return what a column of a type of Arrow means, whatever Arrow calls it."""
    if isinstance(found, pa.UuidType):
        return Type("string"), Form.UUID
    if pa.types.is_null(found):
        return None, Form.NOTHING
    if pa.types.is_timestamp(found) and found.unit == "ns":
        return Type("timestamp" if found.tz else "timestamp_ntz"), Form.NANOS
    return _type(found), None


def _type(found: pa.DataType) -> Type | pa.DataType:
    """Return the type of a value, also of one within others; what no table holds, or not there, is returned."""
    is_ = pa.types
    simple = _SIMPLE.get(str(found))
    if simple is not None:
        return Type(simple)
    if is_.is_uint64(found):
        return Type("decimal", 20, 0)
    if isinstance(found, pa.UuidType):
        return found
    if isinstance(found, pa.BaseExtensionType):
        return _type(found.storage_type)
    if is_.is_dictionary(found):
        return _type(found.value_type)
    if is_.is_fixed_size_binary(found) and not is_.is_decimal(found):
        return Type("binary")
    if is_.is_decimal(found) and found.precision <= _MOST_DIGITS:
        return Type("decimal", found.precision, found.scale)
    if is_.is_timestamp(found) and found.unit in ("ms", "us"):
        return Type("timestamp" if found.tz else "timestamp_ntz")
    return _nested(found)


_MOST_DIGITS: Final = 38


def _nested(found: pa.DataType) -> Type | pa.DataType:
    is_ = pa.types
    if is_.is_map(found):
        name, parts = "map", [("key", found.key_type), ("value", found.item_type)]
    elif is_.is_struct(found):
        name, parts = "struct", [(field.name, field.type) for field in found]
    elif any(test(found) for test in (is_.is_list, is_.is_large_list, is_.is_fixed_size_list, is_.is_list_view)):
        name, parts = "list", [("element", found.value_type)]
    else:
        return found
    columns = []
    for part, type_ in parts:
        inner = _type(type_)
        if isinstance(inner, pa.DataType):
            return inner
        columns.append(Column(part, inner))
    return Type(name, parts=tuple(columns))


_SIMPLE: Final = {
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
    "string_view": "string",
    "binary": "binary",
    "large_binary": "binary",
    "binary_view": "binary",
    "date32[day]": "date",
}
