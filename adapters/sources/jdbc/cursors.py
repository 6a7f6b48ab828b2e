"""Cursors: values of the column by which changed rows are found, as whole numbers and as texts in file names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from lakeward.adapters.sources.jdbc.options import TableReadOptions
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Column, Type
from lakeward.core.text.durations import micros_of

TIMES: Final = ("date", "timestamp", "timestamp_ntz")
_EPOCH: Final = datetime(1970, 1, 1)  # of a time without a zone, too
_DEFAULT_TIME: Final = micros_of("10m")
_DEFAULT_NUMBER: Final = 1000
_NUMBER: Final = re.compile(r"-?\d+")
_FORM: Final = "%m%dT%H%M%S.%f"
_FIRST: Final = (datetime.min - _EPOCH) // timedelta(microseconds=1)


def is_time(type_: Type) -> bool:
    """Return True if a cursor is a time; its values are then microseconds since 1970."""
    return type_.name in TIMES


def is_number(type_: Type) -> bool:
    """Return True if a column has whole numbers."""
    return type_.name in ("int", "bigint") or (type_.name == "decimal" and not type_.scale)


def check_cursor(table: TableName, column: Column, reads: TableReadOptions) -> int:
    """Return the overlap of a cursor: microseconds for a time, else a number.

    Raises ConfigError where the column cannot be a cursor, or the overlap is of another kind.
    """
    type_, overlap = column.type, reads.overlap
    if not is_number(type_) and not is_time(type_):
        raise ConfigError(
            f"{table}: {column.name} cannot be its cursor",
            found=f"it is {type_.with_article}",
            todo="Name a time or a whole number that rises with each insert and update, or leave `cursor` out.",
        )
    if overlap is None:
        return _DEFAULT_TIME if is_time(type_) else _DEFAULT_NUMBER
    if overlap == "0":
        return 0
    if overlap.isdecimal() is is_time(type_):
        wanted = 'a duration such as "10m"' if is_time(type_) else "a whole number such as 1000"
        raise ConfigError(
            f"{table}: `overlap` does not go with the cursor {column.name}",
            found=f"it is {overlap}, and the cursor is {type_.with_article}",
            todo=f"Set it to {wanted}.",
        )
    return int(overlap) if overlap.isdecimal() else micros_of(overlap)


def number_of(value: Any) -> int | None:
    """Return an Arrow value as a whole number, a time as microseconds since 1970, and NULL as None."""
    if value is None:
        return None
    if isinstance(value, int | Decimal):
        return int(value)
    if not isinstance(value, datetime):  # a date
        value = datetime(value.year, value.month, value.day)
    in_utc: datetime = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return (in_utc - _EPOCH) // timedelta(microseconds=1)


def value_of(number: int, type_: pa.DataType) -> pa.Scalar:
    """Return the Arrow value of a number; the inverse of `number_of`."""
    if pa.types.is_date(type_):
        return pa.scalar(moment(number).date(), type_)
    if pa.types.is_timestamp(type_):
        return pa.scalar(number, pa.timestamp("us", type_.tz)).cast(type_)
    return pa.scalar(Decimal(number) if pa.types.is_decimal(type_) else number, type_)


def moment(number: int) -> datetime:
    """Return the time of a number of microseconds since 1970, without a zone; not before the year 1."""
    return _EPOCH + timedelta(microseconds=max(number, _FIRST))


def iso(number: int) -> str:
    """Return a time in microseconds since 1970 as SQL writes it.

    >>> iso(-30_610_224_000_000_001)
    '0999-12-31 23:59:59.999999'
    """
    return moment(number).isoformat(" ", "microseconds")


def encode(number: int, *, is_time: bool) -> str:
    """Return a cursor as a text for a file name.

    >>> encode(1_700_000_000_000_001, is_time=True), encode(-7, is_time=False)
    ('20231114T221320.000001', '-7')
    """
    return f"{moment(number).year:04}{moment(number):{_FORM}}" if is_time else str(number)


def decode(text: str) -> int:
    """Return the number of a cursor from a file name; raises ValueError for any other text.

    >>> decode("20231114T221320.000001"), decode("-7")
    (1700000000000001, -7)
    """
    if _NUMBER.fullmatch(text):
        return int(text)
    return (datetime.strptime(text, f"%Y{_FORM}") - _EPOCH) // timedelta(microseconds=1)
