"""Schemas in messages: the types of columns, and how their values are written.

Kafka Connect's JSON converter writes the schema of a payload into each message. The types are those of
docs.confluent.io/platform/current/connect/concepts.html#connect-converters, and the names of Debezium's types those
of debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-data-types and the same chapter
for the other connectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeward.adapters.sources.messages.added_fields import is_added
from lakeward.adapters.sources.messages.json.wire_format import Wire
from lakeward.core.schema import Column, Type

MOST_DIGITS: Final = 38
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"

_PLAIN: Final[Mapping[str, str]] = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
}
"""Types of the lake by types of Connect."""

_NAMED: Final[Mapping[str, tuple[str, Wire]]] = {
    "org.apache.kafka.connect.data.Date": ("date", Wire.PLAIN),
    "org.apache.kafka.connect.data.Timestamp": ("timestamp_ntz", Wire.MILLIS),
    "io.debezium.time.Date": ("date", Wire.PLAIN),
    "io.debezium.time.Timestamp": ("timestamp_ntz", Wire.MILLIS),
    "io.debezium.time.MicroTimestamp": ("timestamp_ntz", Wire.MICROS),
    "io.debezium.time.NanoTimestamp": ("timestamp_ntz", Wire.NANOS),
    "io.debezium.time.IsoDate": ("date", Wire.PLAIN),
    "io.debezium.time.IsoTimestamp": ("timestamp_ntz", Wire.PLAIN),
    "io.debezium.time.ZonedTimestamp": ("timestamp", Wire.PLAIN),
}
"""Types of the lake and forms of values, by names of Connect and Debezium that are more specific than types."""

_COUNTS: Final[Mapping[str, tuple[str, Wire]]] = {
    "org.apache.kafka.connect.data.Time": ("bigint", Wire.MILLIS),
    "io.debezium.time.Time": ("bigint", Wire.MILLIS),
    "io.debezium.time.MicroTime": ("bigint", Wire.MICROS),
    "io.debezium.time.NanoTime": ("bigint", Wire.NANOS),
    "io.debezium.time.MicroDuration": ("bigint", Wire.MICROS),
    "io.debezium.time.NanoDuration": ("bigint", Wire.NANOS),
}
"""Times of day and durations, for which the lake has no type. They become whole numbers of microseconds, whatever
their unit in a message. Within other values, and as texts, they are not converted."""


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column as a schema describes it.

    `type` is None if no type of the lake can hold its values. `scale` is that of a decimal as it is in the schema,
    which may be invalid.
    """

    name: str
    type: Type | None
    wire: Wire = Wire.PLAIN
    scale: int | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """A schema of a table's messages: the digest of its text, and the columns that it describes."""

    digest: str
    columns: tuple[SchemaColumn, ...]


def columns_of(schema: str, *, is_flat: bool) -> tuple[SchemaColumn, ...] | None:
    """Return the columns that the schema of a message describes; None if it describes no row.

    >>> [(c.name, str(c.type)) for c in columns_of('{"fields": [{"type": "int32", "field": "id"}]}', is_flat=True)]
    [('id', 'int')]
    """
    fields = _fields(_parsed(schema))
    if not is_flat:
        images = {field.get("field"): field for field in fields}
        image = images.get("after") or images.get("before")
        fields = _fields(image)
    named_fields = [field for field in fields if isinstance(field.get("field"), str)]
    rows = tuple(_described(field) for field in named_fields if not (is_flat and is_added(field["field"])))
    return rows or None


def _parsed(schema: str) -> Any:
    try:
        return json.loads(schema)
    except ValueError:
        return None


def _fields(schema: Any) -> Sequence[Mapping[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []


def _described(field: Mapping[str, Any]) -> SchemaColumn:
    name, type_name = str(field["field"]), str(field.get("name"))
    if type_name == _DECIMAL:
        return _decimal(name, field)
    if type_name == _VARIABLE:
        return SchemaColumn(name, Type("string"), Wire.UNSCALED)
    named = _NAMED.get(type_name) or _COUNTS.get(type_name)
    if named is not None:
        return SchemaColumn(name, Type(named[0]), named[1])
    type_ = _type(field)
    is_bytes = type_ is not None and type_.name == "binary"
    return SchemaColumn(name, type_, Wire.BASE64 if is_bytes else Wire.PLAIN)


def _decimal(name: str, field: Mapping[str, Any]) -> SchemaColumn:
    parameters_ = field.get("parameters")
    parameters = parameters_ if isinstance(parameters_, dict) else {}
    scale, precision = (_whole_number(parameters.get(key)) for key in ("scale", "connect.decimal.precision"))
    precision = MOST_DIGITS if precision is None else precision
    fits = scale is not None and 0 <= scale <= precision <= MOST_DIGITS and precision > 0
    return SchemaColumn(name, Type("decimal", precision, scale or 0) if fits else None, Wire.UNSCALED, scale)


def _whole_number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _type(field: Any) -> Type | None:
    """Return the type of a value with its parts; a text where those need more than Spark's rules."""
    kind = str(field.get("type")) if isinstance(field, dict) else ""
    if kind in _PLAIN:
        return Type(_PLAIN[kind])
    parts = _parts(kind, field) if isinstance(field, dict) else None
    if parts is None:
        return None
    types = [(name, _inner(part)) for name, part in parts]
    columns = tuple(Column(name, type_) for name, type_ in types if type_ is not None)
    if len(columns) < len(types) or (kind == "map" and columns[0].type.name != "string"):
        return Type("string")
    return Type(_NESTED[kind], parts=columns)


_TEXT: Final = {"type": "string"}
_NESTED: Final[Mapping[str, str]] = {"array": "list", "map": "map", "struct": "struct"}


def _parts(kind: str, field: Mapping[str, Any]) -> Sequence[tuple[str, Any]] | None:
    match kind:
        case "array":
            return [("element", field.get("items"))]
        case "map":
            return [("key", field.get("keys") or _TEXT), ("value", field.get("values") or _TEXT)]
        case "struct":
            return [(str(part.get("field")), part) for part in _fields(field)] or None
        case _:
            return None


def _inner(field: Any) -> Type | None:
    """Return the type of a part of a value; None if its name says that it is written in a special form."""
    type_name = str(field.get("name")) if isinstance(field, dict) else ""
    return None if type_name in (_DECIMAL, _VARIABLE, *_NAMED) else _type(field)


def merge_columns(
    versions: Iterable[Version], conflict: Callable[[str, Type, Type], Exception]
) -> tuple[Column, ...]:
    """Return the columns of several schemas, each in the wider type; raises `conflict` if there is no wider one."""
    types: dict[str, Type] = {}
    name_types = [(item.name, item.type) for version in versions for item in version.columns]
    for name, type_ in ((name, type_) for name, type_ in name_types if type_ is not None):
        before = types.get(name, type_)
        wider = wider_of(before, type_)
        if wider is None:
            raise conflict(name, before, type_)
        types[name] = wider
    return tuple(Column(name, type_) for name, type_ in types.items())


def wider_of(one: Type, other: Type) -> Type | None:
    """Return the type that can hold the values of both types; None if there is none.

    >>> str(wider_of(Type("int"), Type("bigint"))), str(wider_of(Type("decimal", 5, 2), Type("decimal", 4, 3)))
    ('bigint', 'decimal(6,3)')
    """
    if one == other:
        return one
    pair = {one.name, other.name}
    if pair == {"decimal"}:
        scale = max(one.scale, other.scale)
        precision = max(one.precision - one.scale, other.precision - other.scale) + scale
        return Type("decimal", precision, scale) if precision <= MOST_DIGITS else None
    for wide in (("int", "bigint"), ("float", "double")):
        if pair == set(wide):
            return Type(wide[1])
    return None
