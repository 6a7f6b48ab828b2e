"""Footers of Parquet files: the types of columns, and the forms in which their values are stored."""

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
"""What to do about a type that the lake does not have: for files of any writer, and for files of DMS."""


_AS_NOW: Final[Mapping[str, str]] = MappingProxyType({})


class PhysicalForm(Enum):
    """The stored form of a column, if Spark does not derive it from the type. Values are the types for Spark."""

    NANOS = "bigint"
    UUID = "binary"
    NOTHING = "void"


@dataclass(frozen=True, slots=True)
class Footer:
    """The columns of a file in order, those that DMS adds included, and the forms of some of them by name.

    `schema` lacks columns without a type, which are NULL in every row. `written` has the names in the file of
    columns that have another name here.
    """

    schema: Schema
    forms: tuple[tuple[str, PhysicalForm], ...] = ()
    written: tuple[tuple[str, str], ...] = ()

    def with_names(self, wanted: Iterable[str]) -> Footer:
        """Return the footer with columns renamed to the `wanted` names, if the file has them in another case.

        A name is kept if the file has the wanted name as well, or has the name in two cases.
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

    def with_types(self, *schemas: Schema | None, renames: Mapping[str, str] = _AS_NOW) -> Footer:
        """Return the footer with types for its columns without one, from the first of `schemas` that has them.

        `renames` are the present names of columns, by their names in the file.
        """
        more = []
        for name in (name for name, form in self.forms if form is PhysicalForm.NOTHING):
            called = (renames.get(name, name), name)
            columns = (schema.find(now) for schema in schemas if schema is not None for now in called)
            column = next((one for one in columns if one is not None), None)
            more += [] if column is None else [Column(name, column.type)]
        return replace(self, schema=Schema((*self.schema, *more)))


def refuse_unknown(footer_: Footer, table: str, name: str) -> None:
    """Raise SourceError for a column without a type, in the file or elsewhere.

    The column cannot be left out: that would mean that an update did not send it.
    """
    for column, form in footer_.forms:
        if form is PhysicalForm.NOTHING and footer_.schema.find(column) is None:
            raise SourceError(
                f"{table}: column {column} of {name} has no type",
                found="it is NULL in every row",
                todo=f'Nothing of this batch was applied. Declare it under [tables."{table}".columns].',
            )


def read_footer(file: Path | BinaryIO, table: str, name: str = "", todo: str = OF_FILES) -> Footer:
    """Read a file's footer.

    `name` is the name of the file in error messages; without it the path is named. `todo` says what to do about a
    type that the lake does not have.

    Raises SourceError if the file is no Parquet file, has such a type, was written in a way that Spark does not
    read, or has times that Spark would truncate.
    """
    name = name or str(file.name)
    try:
        parquet = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{table}: {name} cannot be read as Parquet",
            found=str(error).splitlines()[0],
            todo="Nothing of this batch was applied; other tables go on. Replace the file by a whole one.",
        ) from error
    old = [c.path for c in map(parquet.schema.column, range(len(parquet.schema))) if c.physical_type == "INT96"]
    columns, forms = [], []
    for field in parquet.schema_arrow:
        type_, form = (Type("timestamp"), None) if field.name in old else _meaning(field.type)
        if isinstance(type_, pa.DataType):
            raise SourceError(
                f"{table}: column {field.name} of {name} has a type that lakeward does not hold",
                found=f"found {field.type}" + ("" if type_ == field.type else f", with {type_} in it"),
                todo=f"Nothing of this batch was applied. {todo}",
            )
        columns += [] if type_ is None else [Column(field.name, type_)]
        forms += [] if form is None else [(field.name, form)]
    _refuse_writing(parquet.metadata, table, name)
    is_of_spark = _SPARK in (parquet.metadata.metadata or {})  # it has microseconds, and writes no finer times
    for column in () if is_of_spark else old:
        _refuse_finer(file, column, table, name, todo)
    return Footer(Schema(tuple(columns)), tuple(forms))


def null_columns(file: BinaryIO) -> Collection[str] | None:
    """Return the columns that are NULL in every row, by the statistics of a Parquet file; None if it has no row.

    Nested columns and columns without statistics are not returned.
    """
    parquet = pq.ParquetFile(file)
    metadata, without_type = parquet.metadata, {c.name for c in parquet.schema_arrow if pa.types.is_null(c.type)}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    groups = [group for group in groups if group.num_rows]
    nulls = [
        {
            column.path_in_schema
            for column in map(group.column, range(metadata.num_columns))
            if _null_count(column) == group.num_rows
        }
        for group in groups
    ]
    return set.intersection(*nulls) | without_type if nulls else None


def _null_count(column: pq.ColumnChunkMetaData) -> int | None:
    """Return how many values of a column are NULL, by its statistics; None if these do not tell."""
    statistics = column.statistics
    return None if statistics is None or not statistics.has_null_count else statistics.null_count


_SPARK: Final = b"org.apache.spark.version"
"""The key in a footer's metadata that files of Spark have."""

_CODECS: Final = ("BROTLI", "LZO")
"""Codecs of Parquet that Spark cannot read without additional libraries."""

_ENCODING: Final = "BYTE_STREAM_SPLIT"
"""The encoding of Parquet that Spark's reader does not support (`VectorizedColumnReader`)."""


def _refuse_writing(metadata: pq.FileMetaData, table: str, name: str) -> None:
    """Raise SourceError for the first column with a codec or an encoding that Spark does not read."""
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for place in range(metadata.num_columns):
            column = row_group.column(place)
            if column.compression in _CODECS:
                problem, instead = f"compressed with {column.compression}", "with snappy, zstd or gzip"
            elif _ENCODING in column.encodings:
                problem, instead = f"encoded as {_ENCODING}", "with PLAIN or dictionary encoding"
            else:
                continue
            raise SourceError(
                f"{table}: Spark does not read the column {column.path_in_schema} of {name}",
                found=f"its values are {problem}; the file is whole",
                todo=f"Nothing of this batch was applied; other tables go on. Let the file be written {instead}.",
            )


def _refuse_finer(file: Path | BinaryIO, column: str, table: str, name: str, todo: str) -> None:
    """Raise SourceError if times of the type INT96 have nanoseconds, which Spark would truncate silently.

    Counts of nanoseconds overflow before 1677 and after 2262. The product overflows alike, so they can be compared.
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


_Meaning = tuple[Type | pa.DataType | None, PhysicalForm | None]
"""A type and its form. The type is Arrow's if no table can hold it, and None for a column without a type."""


def _meaning(arrow_type: pa.DataType) -> _Meaning:
    """Return the type of the lake and the form of a column, by its type in Arrow."""
    if isinstance(arrow_type, pa.UuidType):
        return Type("string"), PhysicalForm.UUID
    if pa.types.is_null(arrow_type):
        return None, PhysicalForm.NOTHING
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns":
        return Type("timestamp" if arrow_type.tz else "timestamp_ntz"), PhysicalForm.NANOS
    return _type(arrow_type), None


def _type(arrow_type: pa.DataType) -> Type | pa.DataType:
    """Return the type of the lake for a type of Arrow; the part of it that no table can hold, if there is one."""
    is_ = pa.types
    simple = _SIMPLE.get(str(arrow_type))
    if simple is not None:
        return Type(simple)
    if is_.is_uint64(arrow_type):
        return Type("decimal", 20, 0)
    if isinstance(arrow_type, pa.UuidType):
        return arrow_type
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _type(arrow_type.storage_type)
    if is_.is_dictionary(arrow_type):
        return _type(arrow_type.value_type)
    if is_.is_fixed_size_binary(arrow_type) and not is_.is_decimal(arrow_type):
        return Type("binary")
    if is_.is_decimal(arrow_type) and arrow_type.precision <= _MOST_DIGITS:
        return Type("decimal", arrow_type.precision, arrow_type.scale)
    if is_.is_timestamp(arrow_type) and arrow_type.unit in ("ms", "us"):
        return Type("timestamp" if arrow_type.tz else "timestamp_ntz")
    return _nested(arrow_type)


_MOST_DIGITS: Final = 38


def _nested(kind: pa.DataType) -> Type | pa.DataType:
    is_ = pa.types
    if is_.is_map(kind):
        name, parts = "map", [("key", kind.key_type), ("value", kind.item_type)]
    elif is_.is_struct(kind):
        name, parts = "struct", [(field.name, field.type) for field in kind]
    elif any(test(kind) for test in (is_.is_list, is_.is_large_list, is_.is_fixed_size_list, is_.is_list_view)):
        name, parts = "list", [("element", kind.value_type)]
    else:
        return kind
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
