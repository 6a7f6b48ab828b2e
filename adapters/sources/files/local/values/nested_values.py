"""Lists, maps and structs from JSON values in plain Python, for the simplest of them.

Spark reads such a value from its text, by rules of its own (`adapters.sources.messages.json.wire_format`). If each
part is a JSON value of the kind of its type, the result is certain. Any other value is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from math import isfinite
from typing import Any, Final

from lakeward.adapters.sources.messages.json.variant_values import Number, by_utf_16
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.core.schema import Type

Part = Callable[[Any], Any]

_BOUNDS: Final = {"int": 2**31, "bigint": 2**63}
_MOST: Final = 10**38
_WIDE: Final = Context(prec=80)
_PLAIN: Final = ("int", "bigint", "double", "boolean", "string", "decimal")


def is_plain(type_: Type) -> bool:
    """Return whether plain values of a type can be read without Spark."""
    if type_.name == "map" and type_.parts[0].type.name != "string":
        return False
    return type_.name in _PLAIN or (type_.is_nested and all(is_plain(part.type) for part in type_.parts))


def nested_reader(type_: Type) -> Part:
    """Return a reader of values of a type that `is_plain`: a struct becomes a dict, a map a list of pairs."""
    read = _reader(type_)

    def of_column(value: Any) -> Any:
        typed_value = read(value)
        if typed_value is None:
            raise SparkNeeded(f"a value of a column of {type_.name}s has another form")
        return typed_value

    return of_column


def _reader(type_: Type) -> Part:
    """Return a reader of values of a type or NULL; the reader raises SparkNeeded for any other value."""
    match type_.name:
        case "struct":
            return _struct({part.name: _reader(part.type) for part in type_.parts})
        case "list":
            item = _reader(type_.parts[0].type)
            return _of(list, lambda value: [item(inner) for inner in value])
        case "map":
            item = _reader(type_.parts[1].type)
            return _of(dict, lambda value: [(name, item(value[name])) for name in sorted(value, key=by_utf_16)])
        case "int" | "bigint":
            return _whole_number(_BOUNDS[type_.name])
        case "decimal":
            return _decimal(type_)
        case "double":
            return _double
        case name:
            return _of(bool if name == "boolean" else str, lambda value: value)


def _of(kind: type, read: Part) -> Part:
    def of_kind(value: Any) -> Any:
        if value is None:
            return None
        if value.__class__ is not kind:
            raise SparkNeeded("a part of a value is of another kind than its type")
        return read(value)

    return of_kind


def _struct(parts: Mapping[str, Part]) -> Part:
    lower_names = {name.lower() for name in parts}

    def read_fields(value: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in value.keys() - parts.keys():
            if name.lower() in lower_names or not name.isascii():
                raise SparkNeeded("a field of a struct may be written in other letters")
        return {name: read(value.get(name)) for name, read in parts.items()}

    return _of(dict, read_fields)


def _whole_number(bound: int) -> Part:
    def read(value: int) -> int:
        if not -bound <= value < bound:
            raise SparkNeeded("a part of a value is too great a number")
        return value

    return _of(int, read)


def _decimal(type_: Type) -> Part:
    most, unit = 10 ** (type_.precision - type_.scale), Decimal((0, (1,), -type_.scale))

    def read(value: Any) -> Decimal | None:
        if value is None:
            return None
        if value.__class__ is not int and value.__class__ is not Number:
            raise SparkNeeded("a part of a value is no plain number")
        exact = Decimal(value)
        if abs(exact) >= most or -int(exact.as_tuple().exponent) > type_.scale:
            raise SparkNeeded("a part of a value has more digits than its type")
        return exact.quantize(unit, context=_WIDE)

    return read


def _double(value: Any) -> float | None:
    if value is None:
        return None
    if value.__class__ is int and -_MOST < value < _MOST:
        return float(value)
    if isinstance(value, Number) and isfinite(number := float(value)):
        return number
    raise SparkNeeded("a part of a value is no plain number")
