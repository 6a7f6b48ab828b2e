"""Keys as people write them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.events import canonical
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.text.literals import read_key, same_key, text_of


def read(type_: str, text: str) -> object:
    schema = Schema((Column("k", parse_type(type_)),))
    return read_key(Dimension(name=TableName("shop", "item"), schema=schema, key=("k",)), [text])[0]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("int", "-2147483648", -(2**31)),
        ("bigint", "+7", 7),
        ("decimal(8,2)", "1.5", Decimal("1.50")),
        ("decimal(8,2)", "1e2", Decimal(100)),
        ("double", "1e300", 1e300),
        ("float", "NaN", "NaN"),
        ("double", "-0.0", 0.0),
        ("boolean", "True", True),
        ("string", " a ", " a "),
        ("binary", "0xCA", b"\xca"),
        ("binary", "Zoë", "Zoë".encode()),
        ("date", "2026-11-21", date(2026, 11, 21)),
        ("timestamp", "2026-11-21 10:00:00", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        ("timestamp", "2026-11-21T10:00:00.5+01:00", datetime(2026, 11, 21, 9, 0, 0, 500_000, UTC)),
        ("timestamp", "2026-11-21 10:00:00.1234560", datetime(2026, 11, 21, 10, 0, 0, 123_456, UTC)),
        ("timestamp_ntz", "2026-11-21 10:00:00", datetime(2026, 11, 21, 10)),  # it has no zone
    ],
)
def test_a_value_is_read_by_its_type(type_: str, text: str, value: object) -> None:
    assert read(type_, text) == value


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        *(("int", text) for text in ("2147483648", "1.0", "1_0")),
        ("bigint", ""),
        *(("decimal(8,2)", text) for text in ("1.005", "12345678", "NaN", "inf")),
        ("double", "one"),
        ("boolean", "yes"),
        ("binary", "0xc"),
        *(("date", text) for text in ("21.11.2026", "2026-W05")),
        *(("timestamp", text) for text in ("today", "2026-11-21 10:00:00.1234567", "20261121")),
        *(("timestamp_ntz", f"2026-11-21 10:00:00{rest}") for rest in ("+01:00", ".1234567")),
        ("list<int>", "1"),
    ],
)
def test_a_text_that_does_not_fit_its_type_is_an_error_that_names_it(type_: str, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(type_, text)
    assert repr(text) in raised.value.what
    assert raised.value.found == f"its type is {parse_type(type_)}"


@pytest.mark.parametrize(
    ("type_", "one", "other", "is_same"),
    [
        ("decimal(8,2)", "-2", "-2.00", True),
        ("decimal(8,2)", "-2", "2.00", False),
        ("double", "-0.0", "0", True),
        ("boolean", "TRUE", "true", True),
        ("timestamp", "2026-11-21 10:00:00", "2026-11-21T11:00:00+01:00", True),
        ("string", "2", "2.0", False),
        ("int", "2", "two", False),
        ("int", "two", "two", True),
    ],
)
def test_keys_are_compared_as_values_of_their_types(type_: str, one: str, other: str, is_same: bool) -> None:
    """A text that is no value of the type is compared as text: the column may have had another type."""
    schema = Schema((Column("k", parse_type(type_)),))
    dimension = Dimension(name=TableName("shop", "item"), schema=schema, key=("k",))
    assert same_key(dimension, [one], [other]) is is_same
    assert not same_key(dimension, [one], [one, one])


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("double", -0.0, "0.0"),
        ("decimal(8,2)", Decimal("1.5"), "1.50"),
        ("boolean", True, "true"),
        ("binary", b"\xca", "0xca"),
        ("binary", b"0x", "0x3078"),
        ("timestamp", datetime(2026, 11, 21, 10, tzinfo=UTC), "2026-11-21 10:00:00"),
        ("date", date(2026, 11, 21), "2026-11-21"),
        ("string", "a b", "a b"),
    ],
)
def test_a_key_is_written_as_it_is_read(type_: str, value: object, text: str) -> None:
    assert text_of(value, parse_type(type_)) == text
    assert read(type_, text) == canonical(value)
