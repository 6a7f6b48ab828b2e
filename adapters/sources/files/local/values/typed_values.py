"""Typed values from JSON values in plain Python, equal to `wire_format.value_of` and `casts.to_type` in SQL.

A typed value is what `pyarrow.array` takes for the column's type: dates are days since 1970, times microseconds
since 1970, decimals have the scale of their type. None means that a value does not fit.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from math import isfinite
from struct import pack, unpack
from typing import Any, Final, TypeAlias

from lakeward.adapters.sources.files.local.values.documents import Double, refuse_rounded, text_of
from lakeward.adapters.sources.files.local.values.nested_values import is_plain, nested_reader
from lakeward.adapters.sources.files.local.values.texts import plain_text, refuse_control
from lakeward.adapters.sources.files.local.values.times import date_reader, micros_reader, moment_reader
from lakeward.adapters.sources.messages.json.variant_values import Number
from lakeward.adapters.sources.messages.json.wire_format import UNITS, Wire, Writing
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.sql.casts import NESTED
from lakeward.core.schema import Type

Read: TypeAlias = Callable[[Any], Any]
"""Returns the typed value of a JSON value that is not NULL; None if it does not fit its type."""

_BOUNDS: Final = {"int": (-(2**31), 2**31 - 1), "bigint": (-(2**63), 2**63 - 1)}
_WIDE: Final = Context(prec=80)
_MOST: Final = 10**38

_WHOLE: Final = re.compile(r" *([+-]?[0-9]+) *")
_DOUBLE: Final = re.compile(r"-?[0-9]{1,19}[.][0-9]{1,15}(E[0-9]{1,2})?")
_NO_DIGITS: Final = re.compile(r"^[-0.]+|[0.]*(E[0-9]+)?$|[.]")
_DECIMAL: Final = re.compile(r" *([+-]?(?:[0-9]+(?:\.([0-9]*))?|\.([0-9]+))) *")
_FLOAT: Final = re.compile(r" *([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?) *")
_SPECIAL: Final = re.compile(r" *([+-]?(?:inf|infinity)|nan) *", re.IGNORECASE | re.ASCII)
_TRUE: Final = frozenset({"true", "t", "yes", "y", "1"})
_FALSE: Final = frozenset({"false", "f", "no", "n", "0"})
_HEX: Final = re.compile(r"(?:0[xX]|\\x)?((?:[0-9A-Fa-f]{2})*)")
_BASE64: Final = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_URL_SAFE: Final = str.maketrans("-_", "+/")


def why_not_read(type_: Type, written: Writing) -> str | None:
    """Return in words why Spark must read values of a type; None if plain Python can."""
    if type_.name in NESTED and not is_plain(type_):
        return f"a column is {type_.with_article}"
    is_time = type_.name in ("date", "timestamp", "timestamp_ntz")
    return "a date or a time has a pattern" if is_time and written.text.pattern is not None else None


def reader_of(type_: Type, written: Writing) -> Read:
    """Return the reader of a column's values."""
    if type_.name in NESTED:
        return nested_reader(type_)
    match type_.name:
        case "bigint" if written.wire in UNITS:
            return micros_reader(UNITS[written.wire])
        case "int" | "bigint":
            return _whole_reader(*_BOUNDS[type_.name])
        case "decimal" if written.wire is Wire.UNSCALED:
            return _unscaled_reader(type_, type_.scale if written.scale is None else written.scale)
        case "decimal":
            return _decimal_reader(type_)
        case "float" | "double":
            return _float if type_.name == "float" else _double
        case "boolean":
            return _boolean
        case "date" | "timestamp" | "timestamp_ntz":
            is_date = type_.name == "date"
            return date_reader(has_days=written.wire is Wire.DAYS) if is_date else moment_reader(type_, written)
        case "binary":
            return _binary_reader(written)
        case _:
            return _digits if written.wire is Wire.UNSCALED else text_of


# Numbers.


def _whole_reader(lowest: int, highest: int) -> Read:
    def read(value: Any) -> int | None:
        refuse_rounded(value)
        number = value if value.__class__ is int else _whole_number(plain_text(value))
        return number if number is not None and lowest <= number <= highest else None

    return read


def _whole_number(text: str) -> int | None:
    if match := _WHOLE.fullmatch(text):
        return int(match[1])
    if _DOUBLE.fullmatch(text) and len(_NO_DIGITS.sub("", text)) <= 15:
        value = Decimal(text)
        return int(value) if abs(value) < 10**23 and value == value.to_integral_value() else None
    return None


def _decimal_reader(type_: Type) -> Read:
    places, unit, most = type_.scale, Decimal((0, (1,), -type_.scale)), 10 ** (type_.precision - type_.scale)

    def read(value: Any) -> Decimal | None:
        refuse_rounded(value)
        text = text_of(value) or ""
        match = _DECIMAL.fullmatch(text)
        if match is None:
            refuse_control(text)
            return None
        if len((match[2] or match[3] or "").rstrip("0")) > places:
            return None
        exact = Decimal(match[1])
        return exact.quantize(unit, context=_WIDE) if -most < exact < most else None

    return read


def _unscaled_reader(type_: Type, scale: int) -> Read:
    """Return a reader of `org.apache.kafka.connect.data.Decimal` and of `VariableScaleDecimal`."""
    most = 10**type_.precision

    def read(value: Any) -> Decimal | None:
        own_scale, data = (scale, text_of(value) or "") if value.__class__ is not dict else _parts(value)
        unscaled = _unscaled(data)
        if unscaled is None:
            return None
        shift = type_.scale - own_scale
        digits, rest = (unscaled * 10**shift, 0) if shift >= 0 else divmod(abs(unscaled), 10**-shift)
        digits = -digits if shift < 0 and unscaled < 0 else digits
        return Decimal(digits).scaleb(-type_.scale, _WIDE) if not rest and abs(digits) < most else None

    return read


def _parts(value: dict[str, Any]) -> tuple[int, str]:
    scale, data = value.get("scale"), value.get("value")
    if scale.__class__ is not int or data.__class__ is not str or len(value) != 2 or not -99 < scale < 99:
        raise SparkNeeded("a decimal is an object of another form")
    return scale, data


def _unscaled(data: str) -> int | None:
    """Return the whole number of a base64 text, big-endian in two's complement; 16 bytes hold 38 digits."""
    if not _BASE64.fullmatch(data):
        if data.startswith("{"):
            raise SparkNeeded("a decimal is an object in a text")
        refuse_control(data)
        return None
    decoded = a2b_base64(data)
    value = int.from_bytes(decoded, "big", signed=True)
    if abs(value) > _MOST - 2**33 and len(decoded) <= 16:
        raise SparkNeeded("a decimal has more than 38 digits, or almost as many")
    return value if 1 <= len(decoded) <= 16 else None


def _digits(value: Any) -> str | None:
    """Return the digits of a `VariableScaleDecimal` as a text, because no type of a table has every scale."""
    if value.__class__ is not dict:
        raise SparkNeeded("a number with a scale of its own is no object")
    scale, data = _parts(value)
    unscaled = _unscaled(data)
    if unscaled is None:
        return None
    if scale <= 0:
        return str(unscaled) + ("0" * -scale if unscaled else "")
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _double(value: Any) -> float | None:
    if value.__class__ is int and -_MOST < value < _MOST:
        return float(value)
    if isinstance(value, Number):
        return _double_of(value)
    text = plain_text(value)
    if _SPECIAL.fullmatch(text):
        return float(text)
    match = _FLOAT.fullmatch(text)
    if match is None:
        return None
    result = float(match[1])
    return result if abs(result) < float("inf") and (result != 0 or _is_zero(text)) else None


def _double_of(value: Number) -> float:
    """Return a JSON number as a double; raises SparkNeeded if it is too great for one, or becomes 0."""
    number = float(value)
    if not isfinite(number) or (number == 0 and not _is_zero(value)):
        raise SparkNeeded("a number is too great for a double, or too close to 0")
    return number


def _is_zero(text: str) -> bool:
    return not any(digit in "123456789" for digit in re.split("[eE]", text)[0])


def _float(value: Any) -> float | None:
    text = str(_double_of(value)) if isinstance(value, Double) else plain_text(value)
    wide = _double(text)
    if wide is None or wide == 0 or not isfinite(wide):
        return wide
    if abs(wide) < 2.0**-125:
        raise SparkNeeded("a float is close to zero")
    if unpack("<Q", pack("<d", wide))[0] & 0x1FFFFFFF == 0x10000000 and Fraction(text.strip()) != Fraction(wide):
        raise SparkNeeded("a float lies halfway between two")
    try:
        return float(unpack("<f", pack("<f", wide))[0])
    except OverflowError:
        return None


def _boolean(value: Any) -> bool | None:
    if value.__class__ is bool:
        return value
    text = plain_text(value).strip(" ")
    word = text.lower() if text.isascii() else text
    return True if word in _TRUE else False if word in _FALSE else None


# Bytes.


def _binary_reader(written: Writing) -> Read:
    if written.text.pattern == "utf-8":
        return lambda value: (text_of(value) or "").encode()
    match written.wire:
        case Wire.BASE64:
            return _base64
        case Wire.BASE64_URL:
            return _base64_url
        case _:
            return _hex


def _base64(value: Any) -> bytes | None:
    text = plain_text(value)
    return a2b_base64(text) if _BASE64.fullmatch(text) else None


def _base64_url(value: Any) -> bytes | None:
    """Return the bytes of a URL-safe base64 text, whose padding may be missing."""
    text = plain_text(value).translate(_URL_SAFE)
    text += "=" * (-len(text) % 4)
    return a2b_base64(text) if _BASE64.fullmatch(text) else None


def _hex(value: Any) -> bytes | None:
    match = _HEX.fullmatch(plain_text(value))
    return None if match is None else bytes.fromhex(match[1])
