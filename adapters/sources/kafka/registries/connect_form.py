"""Avro schemas in Kafka Connect's form: the schema that its JSON converter writes, and conversion of values.

The rules are those of the Avro converter (github.com/confluentinc/schema-registry, `AvroData.toConnectSchema`; that
of Apicurio has the same) and of Kafka's `JsonConverter`. Bytes are in base64, no default replaces a NULL, and
schemas have no defaults and comments of columns, which nothing here reads.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_LOGICAL: Final[Mapping[tuple[str, str], str]] = {
    ("bytes", "decimal"): _DECIMAL,
    ("fixed", "decimal"): _DECIMAL,
    ("int", "date"): "org.apache.kafka.connect.data.Date",
    ("int", "time-millis"): "org.apache.kafka.connect.data.Time",
    ("long", "timestamp-millis"): "org.apache.kafka.connect.data.Timestamp",
}
"""Connect's names of Avro's logical types."""

_PRIMITIVES: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "enum": "string",
    "fixed": "bytes",
}
_ANY_PRECISION: Final = 64
"""The precision of a decimal for which Connect knows none."""

LOGICAL_TYPE: Final = "lakeward.logicalType"
"""The key that replaces `logicalType` in a schema, because Avro's own library converts values by that."""

ToJson = Callable[[Any], Any]


class ConnectForm(NamedTuple):
    """A Connect schema as JSON, and the function that makes JSON of its values.

    None where they are JSON already.
    """

    schema: Mapping[str, Any]
    to_json: ToJson | None = None


class UnusableSchema(ValueError):
    """A schema that the converters of Connect do not write; its text names the part."""


def connect_form(avro: Any, named: Mapping[str, Any], within: tuple[str, ...] = ()) -> ConnectForm:
    """Return the form of an Avro schema.

    `named` are the schemas that references name, by their full names. `within` are the records that contain this
    one. Raises UnusableSchema for a union of several types, a record that contains itself, and the type null.

    >>> connect_form(["null", "int"], {}).schema
    {'type': 'int32', 'optional': True}
    """
    if isinstance(avro, list):
        return _optional(avro, named, within)
    if isinstance(avro, str):
        return (
            _form({"type": avro}, named, within) if avro not in named else connect_form(named[avro], named, within)
        )
    if not isinstance(avro["type"], str) or avro["type"] in named:
        return connect_form(avro["type"], named, within)
    return _form(avro, named, within)


def _optional(union: Sequence[Any], named: Mapping[str, Any], within: tuple[str, ...]) -> ConnectForm:
    types = [one for one in union if one not in ("null", {"type": "null"})]
    if len(types) != 1:
        raise UnusableSchema(f"a union of {len(types)} types")
    schema, to_json = connect_form(types[0], named, within)
    optional_schema = {**schema, "optional": len(types) < len(union)}
    if to_json is None:
        return ConnectForm(optional_schema)
    return ConnectForm(optional_schema, lambda value: None if value is None else to_json(value))


def _form(avro: Mapping[str, Any], named: Mapping[str, Any], within: tuple[str, ...]) -> ConnectForm:
    match avro["type"]:
        case "record" | "error":
            return _struct(avro, named, within)
        case "array" if _is_map_entry(entry := _resolve(avro["items"], named)):
            return _map_of_entries(avro, entry, named, within)
        case "array":
            items, to_json = connect_form(avro["items"], named, within)
            convert = None if to_json is None else _convert_items(to_json)
            return ConnectForm(_schema("array", avro, items=items), convert)
        case "map":
            values, to_json = connect_form(avro["values"], named, within)
            schema = _schema("map", avro, keys={"type": "string", "optional": False}, values=values)
            return ConnectForm(schema, None if to_json is None else _convert_values(to_json))
        case kind if kind in _PRIMITIVES:
            schema = _schema(avro.get("connect.type", _PRIMITIVES[kind]), avro)
            return ConnectForm(schema, _DECIMALS if schema.get("name") == _DECIMAL else _PLAIN.get(kind))
        case kind:
            raise UnusableSchema(f"the type {kind}")


def _struct(avro: Mapping[str, Any], named: Mapping[str, Any], within: tuple[str, ...]) -> ConnectForm:
    if avro["name"] in within:
        raise UnusableSchema(f"the record {avro['name']}, which contains itself")
    fields, conversions = [], []
    for field in avro["fields"]:
        schema, to_json = connect_form(field["type"], named, (*within, avro["name"]))
        fields.append({**schema, "field": field["name"]})
        if to_json is not None:
            conversions.append((field["name"], to_json))

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        for name, to_json in conversions:
            value[name] = to_json(value[name])
        return value

    return ConnectForm(_schema("struct", avro, fields=fields), convert if conversions else None)


# A map whose keys are not texts is an array of records with a key and a value.


def _resolve(avro: Any, named: Mapping[str, Any]) -> Any:
    return named.get(avro, avro) if isinstance(avro, str) else avro


def _is_map_entry(avro: Any) -> bool:
    if not isinstance(avro, dict) or avro.get("type") != "record":
        return False
    return avro.get("connect.internal.type") == "MapEntry" or avro["name"] == "io.confluent.connect.avro.MapEntry"


def _map_of_entries(
    avro: Mapping[str, Any], entry: Mapping[str, Any], named: Mapping[str, Any], within: tuple[str, ...]
) -> ConnectForm:
    types = {field["name"]: field["type"] for field in entry["fields"]}
    (keys, of_key), (values, of_value) = (connect_form(types[name], named, within) for name in ("key", "value"))
    of_key, of_value = of_key or _identity, of_value or _identity
    is_object = keys["type"] == "string"

    def convert(entries: Sequence[Mapping[str, Any]]) -> Any:
        pairs = [(of_key(one["key"]), of_value(one["value"])) for one in entries]
        return dict(pairs) if is_object else pairs

    return ConnectForm(_schema("map", avro, keys=keys, values=values), convert)


# Schemas of single values, and conversion of values.


def _schema(kind: str, avro: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    """Return a schema, with its fields in the order of the JSON converter."""
    logical = _LOGICAL.get((avro["type"], str(avro.get(LOGICAL_TYPE))))
    record_name = avro["name"] if avro["type"] in ("record", "enum") else None
    parameters = {
        **(_decimal_parameters(avro) if logical == _DECIMAL else {}),
        **avro.get("connect.parameters", {}),
    }
    attributes = {
        "name": avro.get("connect.name", logical or record_name),
        "version": avro.get("connect.version", None if logical is None else 1),
        "parameters": parameters or None,
    }
    return {
        "type": kind,
        **parts,
        "optional": False,
        **{key: value for key, value in attributes.items() if value is not None},
    }


def _decimal_parameters(avro: Mapping[str, Any]) -> Mapping[str, str]:
    precision = avro.get("precision", _ANY_PRECISION)
    parameters = {} if precision == _ANY_PRECISION else {"connect.decimal.precision": str(precision)}
    return {"scale": str(avro.get("scale", 0)), **parameters}


def _identity(value: Any) -> Any:
    return value


def _convert_items(to_json: ToJson) -> ToJson:
    return lambda values: [to_json(value) for value in values]


def _convert_values(to_json: ToJson) -> ToJson:
    return lambda values: {name: to_json(value) for name, value in values.items()}


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _decimal(value: bytes) -> str:
    """Return an unscaled decimal in base64, in as few bytes as Java's `BigInteger.toByteArray` uses."""
    number = int.from_bytes(value, signed=True)
    return _base64(number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, signed=True))


def _float(value: float) -> float | str:
    """Return the number with the fewest digits that identify it among floats of 32 bits."""
    return _double(float(str(np.float32(value))))


def _double(value: float) -> float | str:
    """Return a number; NaN and infinities become texts, as Jackson writes them."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_DECIMALS: Final[ToJson] = _decimal
_PLAIN: Final[Mapping[str, ToJson]] = {"bytes": _base64, "fixed": _base64, "float": _float, "double": _double}
