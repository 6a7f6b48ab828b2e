"""The forms in which JSON messages write values, and their conversion to typed values as SQL.

The forms are those of Debezium's documentation
(debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-data-types) and of Kafka Connect's
JSON converter. A cell is the exact text of a JSON value. No number is converted to a double on its way to a
decimal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Final

from lakeward.adapters.spark.sql.casts import NESTED, TextFormat, to_type
from lakeward.adapters.spark.sql.limits import inside, is_outside, is_somewhere
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.schema import Type


class Wire(Enum):
    """The form of the text of a cell; `PLAIN` is the form that the rules of its type read."""

    PLAIN = "plain"
    UNSCALED = "unscaled"
    DAYS = "epoch-days"
    SECONDS = "epoch-seconds"
    MILLIS = "epoch-millis"
    MICROS = "epoch-micros"
    NANOS = "epoch-nanos"
    BASE64 = "base64"
    BASE64_URL = "base64-url-safe"
    HEX = "hex"


UNITS: Final = {Wire.SECONDS: 1, Wire.MILLIS: 10**3, Wire.MICROS: 10**6, Wire.NANOS: 10**9}
"""How many of a unit are a second."""

EPOCHS: Final = tuple(wire.value for wire in UNITS)
"""The formats of times as numbers, as they are written in settings."""

_WHOLE: Final = r"\A-?[0-9]{1,38}\z"
_BASE64: Final = r"\A([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z"


@dataclass(frozen=True, slots=True)
class Writing:
    """How the cells of one column are written; `scale` is the scale of an unscaled decimal, None if not known."""

    wire: Wire = Wire.PLAIN
    text: TextFormat = TextFormat()  # noqa: RUF009  # frozen, and the same for all
    scale: int | None = None


def value_of(cell: str, type_: Type, written: Writing) -> str:
    """Return the typed value of a cell as SQL; NULL if it is NULL or does not fit."""
    if type_.name in NESTED:
        return _nested(cell, type_, written.text.zone)
    if type_.name == "decimal" and written.wire is Wire.UNSCALED:
        return _decimal(cell, type_, type_.scale if written.scale is None else written.scale)
    if type_.name == "string" and written.wire is Wire.UNSCALED:
        return _digits(cell)
    if type_.name == "date" and written.text.pattern is None:
        return _date(cell, written)
    if type_.name in ("timestamp", "timestamp_ntz") and written.text.pattern is None:
        return _moment(cell, type_, written)
    if type_.name == "binary" and written.wire is not Wire.PLAIN and written.text.pattern is None:
        return _binary(cell, written.wire)
    if type_.name == "bigint" and written.wire in UNITS:
        return bound(number(cell), "n", _micros("n", UNITS[written.wire]))
    if type_.name in ("int", "bigint"):
        return _whole_number(cell, type_)
    return to_type(cell, type_, written.text)


def number(cell: str) -> str:
    """Return the whole number of up to 38 digits in a text, as SQL; NULL if it is none."""
    return f"CASE WHEN {cell} RLIKE {text(_WHOLE)} THEN try_cast({cell} AS decimal(38,0)) END"


# Whole numbers, and decimals.


def _whole_number(cell: str, type_: Type) -> str:
    """Return a whole number as SQL; it may have a fraction of zeros, or an exponent.

    The JSON parser reads a number with an exponent as a double, which keeps 15 digits exactly. One with more digits
    does not fit.
    """
    digits = f"length(regexp_replace({cell}, {text(NO_DIGITS)}, ''))"
    value = f"try_cast({cell} AS decimal(38,15))"
    is_whole = f"{cell} RLIKE {text(_DOUBLE)} AND {digits} <= 15 AND {value} % 1 = 0"
    plain, other = (f"try_cast({written} AS {ddl(type_)})" for written in (cell, value))
    return f"coalesce({plain}, CASE WHEN {is_whole} THEN {other} END)"


_DOUBLE: Final = r"\A-?[0-9]{1,19}[.][0-9]{1,15}(E[0-9]{1,2})?\z"
NO_DIGITS: Final = r"^[-0.]+|[0.]*(E[0-9]+)?$|[.]"
"""Patterns of a double as the JSON parser writes it, and of the characters that are not its significant digits."""


def bound(value: str, name: str, of: str) -> str:
    """Return the SQL expression `of` with the variable `name` bound to `value`, which is computed once."""
    return f"get(transform(array({value}), {name} -> {of}), 0)"


def _decimal(cell: str, type_: Type, scale: int) -> str:
    """Return a decimal of `org.apache.kafka.connect.data.Decimal`, or of `VariableScaleDecimal`, as SQL."""
    with_scale = f"named_struct('scale', {scale}, 'value', c)"
    parsed = f"CASE WHEN startswith(c, '{{') THEN from_json(c, 'scale int, value string') ELSE {with_scale} END"
    number_of = bound(_unscaled("v.value"), "u", _with_scale("u", "v.scale", type_))
    return bound(cell, "c", bound(parsed, "v", number_of))


def _digits(cell: str) -> str:
    """Return the digits of a `VariableScaleDecimal` as a text, as SQL: no type of a table has every scale."""
    parsed = f"from_json({cell}, 'scale int, value string')"
    padded = "lpad(string(abs(u)), greatest(v.scale + 1, length(string(abs(u)))), '0')"
    without_point = "concat(string(u), repeat('0', if(u = 0, 0, -v.scale)))"
    parts = bound(padded, "p", "concat(left(p, length(p) - v.scale), '.', right(p, v.scale))")
    number_text = f"CASE WHEN v.scale <= 0 THEN {without_point} ELSE concat(if(u < 0, '-', ''), {parts}) END"
    return bound(parsed, "v", bound(_unscaled("v.value"), "u", number_text))


def _unscaled(cell: str) -> str:
    """Return the whole number of a base64 text, big-endian in two's complement, as SQL; 16 bytes hold 38 digits."""
    digits = f"hex(CASE WHEN {cell} RLIKE {text(_BASE64)} THEN try_to_binary({cell}, 'base64') END)"
    is_below = "left(d, 1) IN ('8', '9', 'A', 'B', 'C', 'D', 'E', 'F')"
    padded = f"lpad(d, 32, CASE WHEN {is_below} THEN 'F' ELSE '0' END)"
    parts = [f"CAST(conv(substring(p, {at}, 8), 16, 10) AS decimal(38,0))" for at in (1, 9, 17, 25)]
    value = f"({parts[0]} - CASE WHEN left(p, 1) > '7' THEN 4294967296BD ELSE 0BD END)"
    for part in parts[1:]:
        value = f"try_add(CAST(try_multiply({value}, 4294967296BD) AS decimal(38,0)), {part})"
    made = bound(padded, "p", f"CAST({value} AS decimal(38,0))")
    return bound(digits, "d", f"CASE WHEN length(d) BETWEEN 2 AND 32 THEN {made} END")


def _with_scale(unscaled: str, scale: str, type_: Type) -> str:
    """Return an unscaled number with its scale applied, as SQL; NULL if the type cannot hold it exactly."""
    surplus = f"greatest({scale} - {type_.scale}, 0)"
    is_exact = f"endswith({unscaled}, repeat('0', {surplus})) OR {unscaled} = 0"
    return f"CASE WHEN {is_exact} THEN try_cast(concat({unscaled}, 'E', string(-({scale}))) AS {ddl(type_)}) END"


# Times.


def _date(cell: str, written: Writing) -> str:
    """Return a date as SQL, from ISO text, which may end in Z (`io.debezium.time.IsoDate`), or days since 1970."""
    as_text = to_type(_without_zone(cell), Type("date"), written.text)
    if written.wire is not Wire.DAYS:
        return as_text
    day = inside("date_from_unix_date(n)", Type("date"))
    days = f"CASE WHEN {cell} RLIKE '^-?[0-9]{{1,9}}$' THEN try_cast({cell} AS int) END"
    return f"coalesce({bound(days, 'n', day)}, {as_text})"


def _moment(cell: str, type_: Type, written: Writing) -> str:
    """Return a time as SQL, from a number of the column's unit or ISO text; it must be whole microseconds."""
    is_wall_clock = type_.name == "timestamp_ntz"
    as_text = to_type(_without_zone(cell) if is_wall_clock else cell, type_, written.text)
    if written.wire not in UNITS:
        return as_text
    micros = _micros("n", UNITS[written.wire])
    moment = bound(f"timestamp_micros({micros})", "t", inside("t", Type("timestamp")))
    value = f"CAST({moment} AS {ddl(type_)})"
    return bound(number(cell), "n", f"CASE WHEN n IS NULL THEN {as_text} ELSE {value} END")


def _micros(count: str, unit: int) -> str:
    """Return a count of a unit as microseconds, as SQL; NULL if it is not whole, or too great."""
    if unit <= 10**6:
        return f"try_cast(try_multiply({count}, {10**6 // unit}BD) AS bigint)"
    nanos = unit // 10**6
    return f"CASE WHEN {count} % {nanos} = 0 THEN try_cast({count} div {nanos} AS bigint) END"


def _without_zone(cell: str) -> str:
    return f"regexp_replace({cell}, 'Z$', '')"


# Bytes and nested values.


def _binary(cell: str, wire: Wire) -> str:
    if wire is Wire.HEX:
        return to_type(cell, Type("binary"), TextFormat("hex"))
    plain = f"translate({cell}, '-_', '+/')" if wire is Wire.BASE64_URL else cell
    if wire is Wire.BASE64_URL:  # its padding may be left out
        plain = f"rpad({plain}, int(ceil(length({plain}) / 4.0) * 4), '=')"
    return f"CASE WHEN {plain} RLIKE {text(_BASE64)} THEN try_to_binary({plain}, 'base64') END"


def _nested(cell: str, type_: Type, zone: str) -> str:
    """Return a nested value as SQL, by Spark's reader of JSON; NULL if any part of it does not fit.

    Spark rounds decimals, so they are read with more digits and compared. It makes a number that is too great
    infinite, which is refused. It accepts an hour as a date, and truncates digits of a second, so dates and times
    are read as texts and then by our own rules, in the `zone` if they name none. It ignores a field whose name
    differs from that of the struct by case, which is refused.

    The text must be exactly one value: it is read as the value of an object, and must also be one element in a
    list, so that it cannot close the object or continue after it.
    """
    wide = _as_read(type_)
    schema = f"value {ddl(wide)}, broken string"
    whole_value = f"concat('{{\"value\":', {cell}, '}}')"
    options = "map('columnNameOfCorruptRecord', 'broken', 'allowSingleQuotes', 'false')"
    parsed = f"from_json({whole_value}, {text(schema)}, {options})"
    wrong = is_somewhere("v.value", type_, partial(_is_bent, zone))
    is_right = "v.broken IS NULL" + ("" if wrong is None else f" AND NOT {wrong}")
    is_right += f" AND json_array_length(concat('[', {cell}, ']')) = 1"
    repeated = _repeated("v.value", type_)
    conditions = [*_misnamed(cell, type_), *([] if repeated is None else [repeated])]
    is_right += "".join(f" AND NOT coalesce({wrong}, false)" for wrong in conditions)
    return bound(parsed, "v", f"CASE WHEN {is_right} THEN {_typed('v.value', type_, zone)} END")


def _misnamed(cell: str, type_: Type) -> list[str]:
    """Return for each struct outside of lists whether it has a repeated field, or one in another case, as SQL."""
    if type_.name != "struct":
        return []
    names = [part.name for part in type_.parts]
    own, alike = ", ".join(map(text, names)), ", ".join(text(name.lower()) for name in names)
    keys = f"json_object_keys({cell})"
    conditions = [
        f"exists({keys}, n -> n NOT IN ({own}) AND lower(n) IN ({alike}))",
        f"size(array_distinct({keys})) < size({keys})",
    ]
    for part in type_.parts:
        if _SIMPLE.fullmatch(part.name):
            conditions += _misnamed(f"get_json_object({cell}, '$.{part.name}')", part.type)
    return conditions


def _repeated(value: str, type_: Type, depth: int = 0) -> str | None:
    """Return whether a map anywhere in a value has a repeated key, as SQL; None for a type without maps."""
    item = f"map_{depth}"
    conditions: list[str | None]
    match type_.name:
        case "map":
            inner = _repeated(item, type_.parts[1].type, depth + 1)
            conditions = [f"size(array_distinct(map_keys({value}))) < size({value})"]
            conditions.append(inner and f"exists(map_values({value}), {item} -> {inner})")
        case "list":
            inner = _repeated(item, type_.parts[0].type, depth + 1)
            conditions = [inner and f"exists({value}, {item} -> {inner})"]
        case _:
            conditions = [_repeated(f"{value}.{quoted(part.name)}", part.type, depth) for part in type_.parts]
    return " OR ".join(f"coalesce({one}, false)" for one in conditions if one is not None) or None


_SIMPLE: Final = re.compile("[A-Za-z0-9_]+")
"""Matches a name that needs no quotes in a JSON path."""


_IN_TIME: Final = ("date", "timestamp", "timestamp_ntz")


def _as_read(type_: Type) -> Type:
    """Return the type with which Spark reads JSON: dates and times are texts.

    Decimals have the same number of digits before the point, and as many as possible after it.
    """
    if type_.name == "decimal":
        return Type("decimal", 38, 38 - type_.precision + type_.scale)
    if type_.name in _IN_TIME:
        return Type("string")
    return replace(type_, parts=tuple(replace(part, type=_as_read(part.type)) for part in type_.parts))


def _typed(value: str, type_: Type, zone: str, depth: int = 0) -> str:
    """Return a value that was read with the type `_as_read`, converted to its own type, as SQL."""
    if type_ == _as_read(type_):
        return value
    item = f"item_{depth}"
    inner = [_typed(item, part.type, zone, depth + 1) for part in type_.parts]
    match type_.name:
        case "list":
            return f"transform({value}, {item} -> {inner[0]})"
        case "map":
            return f"transform_values({value}, (key_{depth}, {item}) -> {inner[1]})"
        case "struct":
            parts = [(part.name, f"{value}.{quoted(part.name)}", part.type) for part in type_.parts]
            fields = ", ".join(f"{text(name)}, {_typed(own, of, zone, depth)}" for name, own, of in parts)
            return f"CASE WHEN {value} IS NOT NULL THEN named_struct({fields}) END"
        case "decimal":
            return f"CAST({value} AS {ddl(type_)})"
        case _:
            return to_type(value, type_, TextFormat(None, zone))


def _is_bent(zone: str, value: str, type_: Type) -> str | None:
    match type_.name:
        case "date" | "timestamp" | "timestamp_ntz":
            return f"{value} IS NOT NULL AND {to_type(value, type_, TextFormat(None, zone))} IS NULL"
        case "decimal":
            return f"NOT (try_cast({value} AS {ddl(type_)}) <=> {value})"
        case "float" | "double":
            return f"abs({value}) = double('Infinity')"
        case _:
            return is_outside(value, type_)
