"""What the columns of plain files say of operation, order and time, and how the cells of JSON are written."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.sources.files.named_fields import fields_of, find_field, root_of
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.messages.connect_schema import MOST_DIGITS, Described
from lakeward.adapters.sources.messages.json.wire_format import EPOCHS, UNITS, Wire, Writing
from lakeward.adapters.sources.messages.mongodb import DOCUMENT, ID
from lakeward.adapters.spark.frames.source_rows import OP_TEXT, SEQUENCE_TEXT, TIME_TEXT
from lakeward.adapters.spark.sql.casts import TextFormat
from lakeward.adapters.spark.sql.types import bound_of
from lakeward.core.dimension import Dimension, Match
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Column

_TIMES: Final = ("timestamp", "timestamp_ntz", "date")
_MANY_WAYS: Final = ("decimal", "binary", "timestamp", "timestamp_ntz")
"""Types whose values messages write in more than one way."""


def check_images(options: FilesOptions, dimension: Dimension) -> None:
    """Raise ConfigError where rows are to be found by images before a change that the files do not have."""
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
    """Raise ConfigError where a table of documents has another key than theirs, or columns that none fills."""
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
    """Raise ConfigError where a column that is named is not there, or has a type that orders or tells nothing."""
    for setting, name in fields_of(options).items():
        found = find_field(dimension.schema, name)
        if found is not None:
            _check_type(dimension, setting, found[1])
        elif setting != "operation":
            declared = f'[tables."{dimension.name}".columns]'
            path = f", {root_of(name)} as a struct" if "." in name else ""
            raise ConfigError(
                f"{dimension.name}: `{setting}` names {name!r}, and its files have no such column",
                found="its columns are " + ", ".join(dimension.schema.names),
                todo=f"Correct `{setting}`, or declare the column under {declared}{path}.",
            )


def _check_type(dimension: Dimension, setting: str, found: Column) -> None:
    is_time, name = found.type.name in _TIMES, found.name
    if setting == "operation":
        is_right = not found.type.is_nested and found.type.name != "binary"
        todo = f"Name the field in it that says what a row does by its path, as `{name}.op`, or another column."
    else:
        is_right = is_time or (setting == "order_by" and _is_whole(found))
        todo = "Declare it as a timestamp or a date" + ("." if setting == "time" else ", or as a whole number.")
    if not is_right:
        what = f"{dimension.name}: the column {name} is {found.type.with_article}, and cannot be `{setting}`"
        raise ConfigError(what, todo=todo)


def _is_whole(column: Column) -> bool:
    return column.type.name in ("int", "bigint") or (column.type.name == "decimal" and column.type.scale == 0)


def with_mapping(rows: DataFrame, options: FilesOptions, dimension: Dimension) -> DataFrame:
    """Return rows with operation, order and time from the columns that say so."""
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


_OF_TIMES: Final = {
    "connect": Wire.MILLIS,
    "microseconds": Wire.MICROS,
    "nanoseconds": Wire.NANOS,
}
_OF_BINARY: Final = {
    "bytes": Wire.BASE64,
    "base64": Wire.BASE64,
    "base64-url-safe": Wire.BASE64_URL,
    "hex": Wire.HEX,
}


_OF_DOCUMENTS: Final = {"decimals": "string", "times": "connect", "binary": "base64"}
"""How values of documents are written, in the terms of the connector's modes (`messages.json.extended_json`)."""


def writings(
    options: FilesOptions,
    dimension: Dimension,
    formats: Mapping[str, str],
    described: Mapping[str, Described] = MappingProxyType({}),
) -> Mapping[str, Writing]:
    """Return how cells of JSON are written, in rows and in messages.

    The format of their column says so, else the schema beside the message, else the connector's modes. The unit of
    a time, and whether bytes are base64, are what a schema says, whatever the format. Raises ConfigError where it
    says that bytes are a text, and nothing says in which form.
    """
    found = {}
    if options.documents is not None:
        options = options.model_copy(update=_OF_DOCUMENTS)
    for column in dimension.schema:
        own, told = formats.get(column.name), described.get(column.name)
        if own is None and told is not None and column.type.name == "binary":
            _check_form_of_bytes(options, dimension, told)
        is_told = told is not None and _counts(told, column, own) and _tells(options, told, column)
        found[column.name] = _told(options, column, told) if is_told and told else _writing(options, column, own)
    return found


def _check_form_of_bytes(options: FilesOptions, dimension: Dimension, told: Described) -> None:
    """Raise ConfigError for bytes that come as a text, where `binary` says they do not: hex may be base64, too."""
    if options.binary == "bytes" and told.type is not None and told.type.name == "string":
        raise ConfigError(
            f"{dimension.name}: nothing says how the bytes of {told.name} are written",
            found='the schema beside the messages calls them a text, and `binary = "bytes"` says otherwise',
            todo="Set `binary` to the connector's binary.handling.mode; or, where the source itself has a text in "
            f'this column, its `format` under [tables."{dimension.name}".columns].',
        )


def ways_of_writing(
    options: FilesOptions, dimension: Dimension, formats: Mapping[str, str]
) -> Mapping[str, str]:
    """Return how messages write columns of types that they write in several ways, where no format says so."""
    if not options.is_messages:
        return {}
    columns = [c for c in dimension.schema if c.type.name in _MANY_WAYS and c.name not in formats]
    written = writings(options, dimension, formats)
    return {column.name: written[column.name].wire.value for column in columns}


def needs_schemas(options: FilesOptions, dimension: Dimension) -> bool:
    """Return whether any column may be written otherwise than its declared type, format and modes say."""
    if options.format != "debezium" or options.documents is not None:
        return False
    return any(column.type.name in _MANY_WAYS for column in dimension.schema)


def _counts(told: Described, column: Column, own: str | None) -> bool:
    """Whether a schema counts beside the format of a column."""
    if own is None:
        return True
    if own in EPOCHS:
        return column.type.name in _TIMES and told.type is not None and told.type.name in _TIMES
    return column.type.name == "binary" and own in ("hex", "base64") and told.wire is Wire.BASE64


def _tells(options: FilesOptions, told: Described, column: Column) -> bool:
    """Whether a schema tells how a column is written: not where it says nothing of a type that is declared.

    A decimal that it calls a text is no base64: digits may be both. What is declared as a text has what is written.
    """
    if column.type.name == "string" and options.types == "declared":
        return False
    if told.type is not None and told.type.name == "bigint" and told.wire in UNITS:  # a time of day, or a duration
        return column.type.name == "bigint" and options.types == "schema"
    if told.wire is not Wire.PLAIN or told.type is None:
        return True
    if column.type.name in _TIMES and told.type.name in _TIMES:
        return True
    return told.type.name == column.type.name or (column.type.name == "decimal" and told.type.name == "string")


def _told(options: FilesOptions, column: Column, told: Described) -> Writing:
    """Return what a schema says of writing; a scale that no decimal has says nothing."""
    plain = TextFormat(None, options.source_zone)
    match column.type.name:
        case "binary" if told.wire is Wire.PLAIN:  # a text, as `binary` says
            return Writing(_OF_BINARY[options.binary], plain)
        case "date":  # schemas do not tell days from texts
            return Writing(Wire.DAYS, plain)
        case "decimal" if options.decimals == "numeric":
            return Writing(Wire.PLAIN, plain)
        case "string" if told.type is None or told.type.name != "string":  # declared so: what was written stands
            return Writing(Wire.PLAIN, plain)
        case "decimal":
            is_other = told.scale is not None and 0 <= told.scale <= MOST_DIGITS and told.scale != column.type.scale
            return Writing(told.wire, plain, told.scale if is_other else None)
        case "bigint" if told.type is None or told.type.name != "bigint":  # declared so: what was written stands
            return Writing(Wire.PLAIN, plain)
        case "string" | "binary" | "timestamp" | "timestamp_ntz" | "bigint":
            return Writing(told.wire, plain)
        case _:
            return Writing(Wire.PLAIN, plain)


def _writing(options: FilesOptions, column: Column, own: str | None) -> Writing:
    text = TextFormat(own, options.source_zone)
    plain = TextFormat(None, options.source_zone)
    if own in EPOCHS:
        return Writing(Wire(own), plain)
    if column.type.name == "binary" and own in ("hex", "base64"):
        return Writing(Wire(own), plain)
    if options.format != "debezium" or own is not None:
        return Writing(Wire.PLAIN, text)
    if column.type.name == "binary":
        return Writing(_OF_BINARY[options.binary], text)
    if column.type.name == "date":
        return Writing(Wire.DAYS, text)
    if column.type.name == "decimal" and options.decimals == "precise":
        return Writing(Wire.UNSCALED, text)
    if column.type.name in ("timestamp", "timestamp_ntz"):
        return Writing(_OF_TIMES.get(options.times, Wire.PLAIN), text)
    return Writing(Wire.PLAIN, text)
