"""Cursors: the column by which changed rows are found, its values as whole numbers, and as texts in names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from lakeward.adapters.sources.jdbc.options import TableReads, micros
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Column, Type

TIMES: Final = ("date", "timestamp", "timestamp_ntz")
_EPOCH: Final = datetime(1970, 1, 1)  # of a time without a zone, too
_DEFAULT_TIME: Final = micros("10m")
_DEFAULT_NUMBER: Final = 1000
_NUMBER: Final = re.compile(r"-?\d+")
_FORM: Final = "%m%dT%H%M%S.%f"
_FIRST: Final = (datetime.min - _EPOCH) // timedelta(microseconds=1)


def is_time(type_: Type) -> bool:
    """Return whether a cursor is a time; its values are then microseconds since 1970."""
    return type_.name in TIMES


def is_number(type_: Type) -> bool:
    """Return whether a column has whole numbers."""
    return type_.name in ("int", "bigint") or (type_.name == "decimal" and not type_.scale)


def check_cursor(table: TableName, column: Column, reads: TableReads) -> int:
    """Return the overlap of a cursor, of a time in microseconds, else a number.

    Raises ConfigError where the column can be no cursor, or the overlap does not go with it.
    """
    type_, said = column.type, reads.overlap
    if not is_number(type_) and not is_time(type_):
        raise ConfigError(
            f"{table}: {column.name} cannot be its cursor",
            found=f"it is {type_.with_article}",
            todo="Name a time or a whole number that rises with each insert and update, or leave `cursor` out.",
        )
    if said is None:
        return _DEFAULT_TIME if is_time(type_) else _DEFAULT_NUMBER
    if said == "0":
        return 0
    if said.isdecimal() is is_time(type_):
        wanted = 'a duration such as "10m"' if is_time(type_) else "a whole number such as 1000"
        raise ConfigError(
            f"{table}: `overlap` does not go with the cursor {column.name}",
            found=f"it is {said}, and the cursor is {type_.with_article}",
            todo=f"Set it to {wanted}.",
        )
    return int(said) if said.isdecimal() else micros(said)


def number_of(value: Any) -> int | None:
    """Return a value of Arrow as a whole number, of a time in microseconds since 1970; None of NULL."""
    if value is None:
        return None
    if isinstance(value, int | Decimal):
        return int(value)
    if not isinstance(value, datetime):  # a date
        value = datetime(value.year, value.month, value.day)
    bare: datetime = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return (bare - _EPOCH) // timedelta(microseconds=1)


def value_of(number: int, type_: pa.DataType) -> pa.Scalar:
    """Return the value of Arrow that a number stands for."""
    if pa.types.is_date(type_):
        return pa.scalar(moment(number).date(), type_)
    if pa.types.is_timestamp(type_):
        return pa.scalar(number, pa.timestamp("us", type_.tz)).cast(type_)
    return pa.scalar(Decimal(number) if pa.types.is_decimal(type_) else number, type_)


def moment(number: int) -> datetime:
    """Return the time of so many microseconds since 1970, without a zone; the first there is for any before it."""
    return _EPOCH + timedelta(microseconds=max(number, _FIRST))


def iso(number: int) -> str:
    """Return that time as SQL has it.

    >>> iso(-30_610_224_000_000_001)
    '0999-12-31 23:59:59.999999'
    """
    return moment(number).isoformat(" ", "microseconds")


def encode(number: int, *, is_time: bool) -> str:
    """Return a cursor as it stands in a name.

    >>> encode(1_700_000_000_000_001, is_time=True), encode(-7, is_time=False)
    ('20231114T221320.000001', '-7')
    """
    return f"{moment(number).year:04}{moment(number):{_FORM}}" if is_time else str(number)


def decode(text: str) -> int:
    """Return the number of a cursor that stands in a name; raises ValueError for any other text.

    >>> decode("20231114T221320.000001"), decode("-7")
    (1700000000000001, -7)
    """
    if _NUMBER.fullmatch(text):
        return int(text)
    return (datetime.strptime(text, f"%Y{_FORM}") - _EPOCH) // timedelta(microseconds=1)
