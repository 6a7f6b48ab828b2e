"""Mapping of columns to operation, order and time of rows, and the form in which JSON cells are written."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.sources.files.named_fields import fields_of, find_field, root_of
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.messages.connect_schema import MOST_DIGITS, SchemaColumn
from lakeward.adapters.sources.messages.json.wire_format import EPOCHS, UNITS, Wire, Writing
from lakeward.adapters.sources.messages.mongodb import DOCUMENT, ID
from lakeward.adapters.spark.frames.source_rows import OP_TEXT, SEQUENCE_TEXT, TIME_TEXT
from lakeward.adapters.spark.sql.casts import TextFormat
from lakeward.adapters.spark.sql.types import bound_of
from lakeward.core.dimension import Dimension, Match
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Column

_TIMES: Final = ("timestamp", "timestamp_ntz", "date")
_TYPES_OF_MANY_FORMS: Final = ("decimal", "binary", "timestamp", "timestamp_ntz")
"""Types whose values messages may write in several forms."""


def check_images(options: FilesOptions, dimension: Dimension) -> None:
    """Raise ConfigError for a table with image match whose files have no before images."""
    has = options.format == "dms-json" or (
        options.format == "debezium" and options.form == "envelope" and options.before_images == "whole"
    )
    if dimension.match is Match.IMAGE and not has:
        raise ConfigError(
            f'{dimension.name}: `match = "image"` needs the row as it was before a change',
            found="its files do not have it",
            todo="Messages have it: those of Debezium in their envelope, with REPLICA IDENTITY FULL and "
            '`before_images = "whole"`, and those of DMS (`format = "dms-json"`) with BeforeImageSettings.',
        )


def check_documents(options: FilesOptions, dimension: Dimension) -> None:
    """Raise ConfigError for a table of MongoDB documents with another key than `_id`, or with other columns."""
    if options.documents is None:
        return
    name, key = dimension.name, dimension.key
    if key and tuple(key) != (ID,):
        raise ConfigError(
            f"{name}: `documents` needs the key {ID}",
            found=f"its key is {', '.join(key)}",
            todo=f'Say `key = ["{ID}"]`: the connector for MongoDB tells nothing else of a document that is gone.',
        )
    others = [column.name for column in dimension.schema if column.name not in (ID, DOCUMENT)]
    of_text = dimension.schema.find(DOCUMENT)
    if options.documents == "document" and (others or of_text is None or of_text.type.name != "string"):
        raise ConfigError(
            f'{name}: `documents = "document"` fills the columns {ID} and {DOCUMENT} alone',
            found="its columns are " + ", ".join(f"{c.name} ({c.type.name})" for c in dimension.schema),
            todo=f'Declare {ID}, and `{DOCUMENT} = "string"`, and nothing else; or say `documents = "columns"`.',
        )


def check_mapping(options: FilesOptions, dimension: Dimension) -> None:
    """Raise ConfigError for a setting that names a missing column, or one whose type does not fit the setting."""
    for setting, name in fields_of(options).items():
        field = find_field(dimension.schema, name)
        if field is not None:
            _check_type(dimension, setting, field[1])
        elif setting != "operation":
            declared = f'[tables."{dimension.name}".columns]'
            path = f", {root_of(name)} as a struct" if "." in name else ""
            raise ConfigError(
                f"{dimension.name}: `{setting}` names {name!r}, and its files have no such column",
                found="its columns are " + ", ".join(dimension.schema.names),
                todo=f"Correct `{setting}`, or declare the column under {declared}{path}.",
            )


def _check_type(dimension: Dimension, setting: str, field: Column) -> None:
    is_time, name = field.type.name in _TIMES, field.name
    if setting == "operation":
        is_right = not field.type.is_nested and field.type.name != "binary"
        todo = f"Name the field in it that says what a row does by its path, as `{name}.op`, or another column."
    else:
        is_right = is_time or (setting == "order_by" and _is_whole(field))
        todo = "Declare it as a timestamp or a date" + ("." if setting == "time" else ", or as a whole number.")
    if not is_right:
        problem = f"{dimension.name}: the column {name} is {field.type.with_article}, and cannot be `{setting}`"
        raise ConfigError(problem, todo=todo)


def _is_whole(column: Column) -> bool:
    return column.type.name in ("int", "bigint") or (column.type.name == "decimal" and column.type.scale == 0)


def with_mapping(rows: DataFrame, options: FilesOptions, dimension: Dimension) -> DataFrame:
    """Return rows with operation, order and time filled from the columns that the settings name."""
    named = {setting: find_field(dimension.schema, name) for setting, name in fields_of(options).items()}
    operation, order = named.get("operation"), named.get("order_by")
    time = named.get("time") or order
    if operation is not None:
        rows = rows.withColumn(OP_TEXT, F.expr(f"string({operation[0]})"))
    if order is not None:
        rows = rows.withColumn(SEQUENCE_TEXT, F.expr(f"string({_number(*order)})"))
    if time is not None and time[1].type.name in _TIMES:
        rows = rows.withColumn(TIME_TEXT, F.expr(f"string(CAST({time[0]} AS timestamp))"))
    return rows


def _number(value: str, column: Column) -> str:
    if column.type.name == "date":
        return f"unix_micros(CAST({value} AS timestamp))"
    return bound_of(value, column.type) or value


_TIME_WIRES: Final = {
    "connect": Wire.MILLIS,
    "microseconds": Wire.MICROS,
    "nanoseconds": Wire.NANOS,
}
_BINARY_WIRES: Final = {
    "bytes": Wire.BASE64,
    "base64": Wire.BASE64,
    "base64-url-safe": Wire.BASE64_URL,
    "hex": Wire.HEX,
}


_DOCUMENT_MODES: Final = {"decimals": "string", "times": "connect", "binary": "base64"}
"""The connector's modes that describe the values of documents after `messages.json.extended_json` rewrote them."""


def writings(
    options: FilesOptions,
    dimension: Dimension,
    formats: Mapping[str, str],
    described: Mapping[str, SchemaColumn] = MappingProxyType({}),
) -> Mapping[str, Writing]:
    """Return how the JSON cells of each column are written, in rows and in messages.

    The format of the column decides, else the schema in the message (`described`), else the connector's modes. The
    unit of a time, and whether bytes are base64, are taken from a schema even if the column has a format. Raises
    ConfigError if a schema says that bytes are a text, and no setting says in which form.
    """
    forms = {}
    if options.documents is not None:
        options = options.model_copy(update=_DOCUMENT_MODES)
    for column in dimension.schema:
        format_, field = formats.get(column.name), described.get(column.name)
        if format_ is None and field is not None and column.type.name == "binary":
            _check_form_of_bytes(options, dimension, field)
        if field is not None and _is_consulted(field, column, format_) and _decides(options, field, column):
            forms[column.name] = _writing_of_schema(options, column, field)
        else:
            forms[column.name] = _writing_of_settings(options, column, format_)
    return forms


def _check_form_of_bytes(options: FilesOptions, dimension: Dimension, field: SchemaColumn) -> None:
    """Raise ConfigError if a schema has bytes as a text and `binary` does not: a hex text may be base64 as well."""
    if options.binary == "bytes" and field.type is not None and field.type.name == "string":
        raise ConfigError(
            f"{dimension.name}: nothing says how the bytes of {field.name} are written",
            found='the schema in the messages calls them a text, and `binary = "bytes"` says otherwise',
            todo="Set `binary` to the connector's binary.handling.mode; or, where the source itself has a text in "
            f'this column, its `format` under [tables."{dimension.name}".columns].',
        )


def ways_of_writing(
    options: FilesOptions, dimension: Dimension, formats: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the written form of columns whose type has several forms in messages, if no format decides it."""
    if not options.is_messages:
        return {}
    columns = [c for c in dimension.schema if c.type.name in _TYPES_OF_MANY_FORMS and c.name not in formats]
    written = writings(options, dimension, formats)
    return {column.name: written[column.name].wire.value for column in columns}


def needs_schemas(options: FilesOptions, dimension: Dimension) -> bool:
    """Return whether the schemas in messages may change how a column is read."""
    if options.format != "debezium" or options.documents is not None:
        return False
    return any(column.type.name in _TYPES_OF_MANY_FORMS for column in dimension.schema)


def _is_consulted(field: SchemaColumn, column: Column, format_: str | None) -> bool:
    """Return whether the field of a schema is consulted for a column that may have a format in the settings."""
    if format_ is None:
        return True
    if format_ in EPOCHS:
        return column.type.name in _TIMES and field.type is not None and field.type.name in _TIMES
    return column.type.name == "binary" and format_ in ("hex", "base64") and field.wire is Wire.BASE64


def _decides(options: FilesOptions, field: SchemaColumn, column: Column) -> bool:
    """Return whether the field of a schema decides how a column is written.

    It does if it has a form of its own or the declared type. A decimal that the schema calls a text is plain: its
    digits might be read as base64 otherwise. A column that is declared as a text takes the written value.
    """
    if column.type.name == "string" and options.types == "declared":
        return False
    if field.type is not None and field.type.name == "bigint" and field.wire in UNITS:  # time of day, or duration
        return column.type.name == "bigint" and options.types == "schema"
    if field.wire is not Wire.PLAIN or field.type is None:
        return True
    if column.type.name in _TIMES and field.type.name in _TIMES:
        return True
    return field.type.name == column.type.name or (column.type.name == "decimal" and field.type.name == "string")


def _writing_of_schema(options: FilesOptions, column: Column, field: SchemaColumn) -> Writing:
    """Return how a column is written by its schema; a scale that no decimal type can have is ignored."""
    plain = TextFormat(None, options.source_zone)
    match column.type.name:
        case "binary" if field.wire is Wire.PLAIN:  # a text in the form of `binary`
            return Writing(_BINARY_WIRES[options.binary], plain)
        case "date":  # schemas do not distinguish numbers of days from texts
            return Writing(Wire.DAYS, plain)
        case "decimal" if options.decimals == "numeric":
            return Writing(Wire.PLAIN, plain)
        case "string" if field.type is None or field.type.name != "string":  # declared as a text: as written
            return Writing(Wire.PLAIN, plain)
        case "decimal":
            scale = field.scale
            is_other = scale is not None and 0 <= scale <= MOST_DIGITS and scale != column.type.scale
            return Writing(field.wire, plain, scale if is_other else None)
        case "bigint" if field.type is None or field.type.name != "bigint":  # declared as a number: as written
            return Writing(Wire.PLAIN, plain)
        case "string" | "binary" | "timestamp" | "timestamp_ntz" | "bigint":
            return Writing(field.wire, plain)
        case _:
            return Writing(Wire.PLAIN, plain)


def _writing_of_settings(options: FilesOptions, column: Column, format_: str | None) -> Writing:
    """Return how a column is written by its format, else by the connector's modes."""
    text = TextFormat(format_, options.source_zone)
    plain = TextFormat(None, options.source_zone)
    if format_ in EPOCHS:
        return Writing(Wire(format_), plain)
    if column.type.name == "binary" and format_ in ("hex", "base64"):
        return Writing(Wire(format_), plain)
    if options.format != "debezium" or format_ is not None:
        return Writing(Wire.PLAIN, text)
    if column.type.name == "binary":
        return Writing(_BINARY_WIRES[options.binary], text)
    if column.type.name == "date":
        return Writing(Wire.DAYS, text)
    if column.type.name == "decimal" and options.decimals == "precise":
        return Writing(Wire.UNSCALED, text)
    if column.type.name in ("timestamp", "timestamp_ntz"):
        return Writing(_TIME_WIRES.get(options.times, Wire.PLAIN), text)
    return Writing(Wire.PLAIN, text)
