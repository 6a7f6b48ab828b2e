"""Dates and times within lists, maps and structs of JSON: taken as they are in a column of their own."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.sources.files.local.values.times import micros_reader
from lakeward.adapters.sources.messages.json.wire_format import UNITS, Wire, Writing, value_of
from lakeward.adapters.spark.sql.casts import TextFormat
from lakeward.core.schema import parse_type

pytestmark = pytest.mark.spark

TYPE: Final = parse_type(
    "struct<d: date, n: timestamp_ntz, t: list<timestamp>, m: map<string, date>, f: decimal(5,2), s: string>"
)
ACCEPTED: Final[dict[str, Any]] = {
    '{"d":"2026-02-28"}': {"d": date(2026, 2, 28)},
    '{"n":"2026-07-01T12:00:00.5"}': {"n": datetime(2026, 7, 1, 12, 0, 0, 500000)},
    '{"t":["2026-07-01 12:00:00", "2026-07-01T12:00:00+05:30", null]}': {
        "t": [datetime(2026, 7, 1, 10, tzinfo=UTC), datetime(2026, 7, 1, 6, 30, tzinfo=UTC), None]
    },
    '{"m":{"a":"0001-01-01"},"f":1.5,"s":"x"}': {"m": {"a": date(1, 1, 1)}, "f": 1.5, "s": "x"},
    "{}": {},
}
REFUSED: Final = [
    '{"d":"2026-01-01 garbage"}',
    '{"d":"2026-01-01T23:00:00Z"}',
    '{"d":"2026"}',
    '{"d":20000}',
    '{"n":"12:00"}',
    '{"n":"2026-01-01 00:00:00.1234567"}',
    '{"t":["2026-01-01T00:00:00Z","2026-1-1"]}',
    '{"t":["T12:00:00"]}',
    '{"t":[1700000000]}',
    '{"m":{"a":"0000-01-01"}}',
]


COUNTS: Final = {
    "36000001": (36_000_001_000, 36_000_001, None),
    "36000001000": (36_000_001_000_000, 36_000_001_000, 36_000_001),
    "-5000": (-5_000_000, -5_000, -5),
    "9223372036854775807": (None, 9_223_372_036_854_775_807, None),
    "9223372036854775808": (None, None, None),
    "9223372036854775807000": (None, None, 9_223_372_036_854_775_807),
    "1.5": (None, None, None),
    "x": (None, None, None),
}
"""Whole numbers of milliseconds, microseconds and nanoseconds, and what they are as microseconds."""


def test_times_of_day_become_microseconds_in_spark_and_here(spark: SparkSession) -> None:
    units = (Wire.MILLIS, Wire.MICROS, Wire.NANOS)
    frame = spark.createDataFrame([(cell,) for cell in COUNTS], "cell string").coalesce(1)
    values = [value_of("cell", parse_type("bigint"), Writing(unit)) for unit in units]
    found = frame.selectExpr("cell", *values).collect()
    assert {row[0]: tuple(row)[1:] for row in found} == COUNTS
    for cell, wanted in COUNTS.items():
        for unit, value in zip(units, wanted, strict=True):
            if unit is not Wire.NANOS or len(cell) < 20:  # Spark tells those
                assert micros_reader(UNITS[unit])(cell) == value, (cell, unit)


ONCE: Final = parse_type("struct<a: int, m: map<string, int>, l: list<map<string, int>>, s: struct<b: int>>")
IN_TEXTS: Final[dict[str, Any]] = {
    '{"a":1}': {"a": 1},
    ' {"a":1,"m":{"x":1,"y":2}} ': {"a": 1, "m": {"x": 1, "y": 2}},
    **dict.fromkeys(
        (
            '{"a":1}} x',
            '{"a":1}] x',
            '{"a":1}, "value":{"a":2}',
            '{"a":1},{"a":2}',
            '{"a":1} x',
            "{'a':1}",
            '{"a":1,"a":2}',
            '{"s":{"b":1,"b":2}}',
            '{"m":{"x":1,"x":2}}',
            '{"l":[{"x":1},{"x":1,"x":2}]}',
            '{"m":{"x":1},"l":[{"y":1}],"m":{}}',
        )
    ),
}
"""Texts, and what is read of them: nothing where they are no single value, or a name stands twice."""


def test_a_text_is_one_value_that_names_each_part_once(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(cell,) for cell in IN_TEXTS], "cell string").coalesce(1)
    found = frame.selectExpr("cell", f"to_json({value_of('cell', ONCE, Writing())}) AS value").collect()
    assert {row.cell: row.value and json.loads(row.value) for row in found} == IN_TEXTS


def test_nested_times_are_read_exactly_or_not_at_all(spark: SparkSession) -> None:
    """Spark alone would make today of an hour, and cut digits of a second off."""
    frame = spark.createDataFrame([(cell,) for cell in [*ACCEPTED, *REFUSED]], "cell string").coalesce(1)
    writing = Writing(text=TextFormat(None, "Europe/Berlin"))
    found = frame.selectExpr("cell", f"to_json({value_of('cell', TYPE, writing)}) AS value").collect()
    read = {row.cell: None if row.value is None else _typed(json.loads(row.value)) for row in found}
    assert read == {**ACCEPTED, **dict.fromkeys(REFUSED)}


def _typed(value: dict[str, Any]) -> dict[str, Any]:
    """Return what Spark shows of a value as JSON, in UTC, as values."""
    read = {
        "d": date.fromisoformat,
        "n": datetime.fromisoformat,
        "t": lambda times: [time and datetime.fromisoformat(time) for time in times],
        "m": lambda days: {name: date.fromisoformat(day) for name, day in days.items()},
    }
    return {name: read[name](own) if name in read else own for name, own in value.items()}
