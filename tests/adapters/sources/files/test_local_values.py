"""Values of JSON become values of their types in plain Python, or are left to Spark."""

from __future__ import annotations

from decimal import Decimal
from math import copysign

import pytest

from lakeward.adapters.sources.files.local.values.documents import Documents, Double
from lakeward.adapters.sources.files.local.values.typed_values import reader_of
from lakeward.adapters.sources.messages.json.wire_format import Writing
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.core.schema import Type


@pytest.mark.parametrize("type_", ["float", "double"])
@pytest.mark.parametrize("written", ["1e400", "-1e400", "1e-400", "9" * 310 + ".5"])
def test_a_number_that_no_double_has_is_left_to_spark(type_: str, written: str) -> None:
    with pytest.raises(SparkNeeded, match="too great for a double, or too close to 0"):
        reader_of(Type(type_), Writing())(Double(written))


@pytest.mark.parametrize("type_", ["float", "double"])
def test_zeros_and_words_are_numbers(type_: str) -> None:
    read = reader_of(Type(type_), Writing())
    assert (read(Double("0e-400")), read(Double("1.5e2")), read("-Infinity")) == (0.0, 150.0, float("-inf"))


@pytest.mark.parametrize("type_", ["float", "double"])
def test_a_zero_without_an_exponent_has_no_sign(type_: str) -> None:
    read = reader_of(Type(type_), Writing())
    for written, sign in (("-0.0", 1), ("-0", 1), ("-0.0e1", -1)):
        found, _ = Documents().parse(f'{{"a": {written}}}')
        zero = read((found or {}).get("a"))
        assert (zero, copysign(1, zero)) == (0.0, sign)


@pytest.mark.parametrize("scale", [0, 1, 10, 38])
def test_a_decimal_has_as_many_digits_as_its_type(scale: int) -> None:
    """The greatest values fit, although Python rounds to 28 digits by itself."""
    digits = "9" * 38
    text = f"{digits[scale:] or 0}.{digits[:scale]}"
    read = reader_of(Type("decimal", 38, scale), Writing())
    assert [read(text), read(f"-{text}")] == [Decimal(text), Decimal(f"-{text}")]
    assert read(f"1{'0' * (38 - scale)}") is None
