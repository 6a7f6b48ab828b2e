"""Read and write the texts of values in plain Python; `docs/reference/types.md` defines what each type accepts.

`adapters.spark.sql.casts` does the same in Spark SQL. Patterns of dates and times are those of Spark, so texts with
a pattern cannot be read here.
"""

from __future__ import annotations

import binascii
import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Final

from lakeward.core.schema import Type


class Misfit(Enum):
    """The type of `MISFIT`, which says that a text is no value of a type. It is not NULL."""

    MISFIT = "misfit"


MISFIT: Final = Misfit.MISFIT

_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_BITS: Final = {"int": 31, "bigint": 63}
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII)
_FLOAT: Final = re.compile(r"(?i)[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|[+-]?(inf|infinity)|nan", re.ASCII)
_DATE: Final = re.compile(r"(\d{4}-\d{2}-\d{2})([ T]00:00:00(\.0+)?)?", re.ASCII)
_TIME: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})([ T](\d{2}):(\d{2})(:(\d{2})(\.(\d{1,6})0*)?)?)?", re.ASCII)
_ZONE: Final = re.compile(r"\s*(Z|([+-])(\d{2})(:?(\d{2}))?)", re.ASCII)


def to_text(value: object, type_: Type) -> str:
    """Return a value as text, in the one form of its type; times are in UTC, years have four digits.

    >>> to_text(Decimal("1.5"), Type("decimal", 5, 2))
    '1.50'
    """
    match value:
        case bool():
            return str(value).lower()
        case Decimal():
            return f"{value:.{type_.scale}f}"
        case datetime():
            moment = value.astimezone(UTC) if value.tzinfo else value
            fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
            return f"{moment.year:04}-{moment:%m-%d %H:%M:%S}{fraction}"  # `%Y` leaves out zeros
        case _:
            return str(value)


def from_text(text: str, type_: Type, zone: str = "UTC") -> object:
    """Return the value of a text, or `MISFIT`; times without a zone are in `zone`."""
    if type_.name in ("string", "binary"):
        return text if type_.name == "string" else _binary(text)
    trimmed = text.strip(" \t\n\r\f\v")
    if type_.name in ("timestamp", "timestamp_ntz"):
        return _time(trimmed, type_, zone)
    return _READERS[type_.name](trimmed, type_)


def _boolean(text: str, _type: Type) -> object:
    lowered = text.lower()
    return lowered in _TRUE if lowered in (*_TRUE, *_FALSE) else MISFIT


def _integer(text: str, type_: Type) -> object:
    if not _INTEGER.fullmatch(text):
        return MISFIT
    value, bound = int(text), 2 ** _BITS[type_.name]
    return value if -bound <= value < bound else MISFIT


def _decimal(text: str, type_: Type) -> object:
    if not _DECIMAL.fullmatch(text):
        return MISFIT
    digits, _, fraction = text.lstrip("+-").partition(".")
    if len(fraction.rstrip("0")) > type_.scale or len(digits.lstrip("0")) > type_.precision - type_.scale:
        return MISFIT
    return Decimal(f"{'-' if text[0] == '-' else ''}{digits or 0}.{fraction.rstrip('0')[: type_.scale] or 0}")


def _single(value: float) -> float:
    """Return the nearest 32-bit number, or infinity."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.inf


def _floating(text: str, type_: Type) -> object:
    if not _FLOAT.fullmatch(text):
        return MISFIT
    value = float(text) if type_.name == "double" else _single(float(text))
    says_zero = not re.search("[1-9]", text.lower().partition("e")[0])
    if "n" in text.lower():
        return value
    return MISFIT if math.isinf(value) or (value == 0 and not says_zero) else value


def _date(text: str, _type: Type) -> object:
    match = _DATE.fullmatch(text)
    try:
        return date.fromisoformat(match[1]) if match else MISFIT
    except ValueError:
        return MISFIT


def _time(text: str, type_: Type, zone: str) -> object:
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # it looks for the system's zones

    match = _TIME.match(text)
    rest = match and _ZONE.fullmatch(text, match.end())
    if match is None or (match.end() < len(text) and (not rest or not match[7] or type_.name == "timestamp_ntz")):
        return MISFIT
    year, month, day, hour, minute, second = (int(match[group] or 0) for group in (1, 2, 3, 5, 6, 8))
    try:
        local = datetime(year, month, day, hour, minute, second, int((match[10] or "0").ljust(6, "0")))
        if type_.name == "timestamp_ntz":
            return local
        if rest:
            return datetime.fromisoformat(f"{local.isoformat()}{_offset(rest)}").astimezone(UTC)
        return local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return MISFIT


def _offset(zone: re.Match[str]) -> str:
    return "+00:00" if zone[1] == "Z" else f"{zone[2]}{zone[3]}:{zone[5] or '00'}"


def _binary(text: str) -> object:
    try:
        return binascii.unhexlify(re.sub(r"^(0[xX]|\\x)", "", text))
    except (ValueError, binascii.Error):
        return MISFIT


_READERS: Final[Mapping[str, Callable[[str, Type], object]]] = {
    "boolean": _boolean,
    "int": _integer,
    "bigint": _integer,
    "decimal": _decimal,
    "float": _floating,
    "double": _floating,
    "date": _date,
}
