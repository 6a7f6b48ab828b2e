"""One law: whatever the way in, a value lies in its type's range in `docs/reference/types.md`, or does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.sources.messages.json.wire_format import UNITS, Wire, Writing, value_of
from lakeward.adapters.sources.rows.parquet_footers import read_footer
from lakeward.adapters.sources.rows.parquet_frames import read_parquet
from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.adapters.sources.rows.repair import events_of_json
from lakeward.adapters.spark.frames.source_rows import KEY_MISFIT, LINE, MISFIT
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import RepairError
from lakeward.core.ports import Entry
from lakeward.core.schema import Column, Schema, Type, parse_type

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("active")]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICRO: Final = timedelta(microseconds=1)
DAY: Final = 86_400_000_000
FIRST: Final = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // MICRO
LAST: Final = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - EPOCH) // MICRO
MOMENTS: Final = {
    "first": FIRST,
    "before": FIRST - DAY,
    "46 BC": -63_605_000_000_000_000 // DAY * DAY,
    "last day": LAST - DAY + 1,
    "after": LAST + 1,
    "nanos as micros": 1_767_225_600_000_000_000,
    "57970": 1_767_225_600 * 10**9 // DAY * DAY,
    "294247": 106_751_990 * DAY,
    "now": 1_767_225_600_000_000,
}
"""Microseconds since 1970; all are midnights."""


class Case(NamedTuple):
    """A cell of a message, its type and writing, and the value as it is kept: a number, or a text."""

    cell: str
    type: Type
    wire: Wire
    kept: int | str | None


def kept(micros: int) -> int | None:
    return micros if FIRST <= micros <= LAST else None


def epochs() -> Iterator[Case]:
    for micros in MOMENTS.values():
        yield Case(str(micros // DAY), Type("date"), Wire.DAYS, kept(micros))
        for name in ("timestamp", "timestamp_ntz"):
            for wire, unit in UNITS.items():
                yield Case(str(micros * unit // 10**6), Type(name), wire, kept(micros))


def nested() -> Iterator[Case]:
    for type_, accepted, refused in (
        ("date", ['"2026-01-01"', '"9999-12-31"'], ['"+57970-01-01"', '"-0045-01-01"']),
        ("timestamp_ntz", [], ['"+57970-01-01T00:00:00"']),
        ("timestamp", ['"2026-01-01T00:00:00Z"'], ["1767225600"]),
        ("decimal(5,2)", ["1.25", "1.2500"], ["1.239", "999.995", "1000"]),
        ("decimal(38,0)", ["9" * 38], []),
        ("int", [], ["2147483648"]),
        ("bigint", [], ["9223372036854775808"]),
        ("float", [], ["1e39"]),
        ("double", ["1e300"], ["1e999"]),
    ):
        for text in (*accepted, *refused):
            yield from nested_cases(type_, text, is_taken=text in accepted)


def nested_cases(type_: str, text: str, *, is_taken: bool) -> Iterator[Case]:
    for form, cell in (
        (f"struct<a: {type_}>", f'{{"a": {text}}}'),
        (f"list<{type_}>", f"[null, {text}]"),
        (f"map<string, {type_}>", f'{{"k": {text}}}'),
        (f"list<struct<a: list<{type_}>>>", f'[{{"a": [{text}]}}, null, {{"a": null}}]'),
    ):
        yield Case(cell, parse_type(form), Wire.PLAIN, "there" if is_taken else None)


def wholes() -> Iterator[Case]:
    """Whole numbers as the parser of JSON leaves them: 1790.0, 2.342361e+06, 1e7 and others."""
    numbers = {"1790": 1790, "1790.0": 1790, "-0.0": 0, "2342361.0": 2_342_361, "-1.0E7": -10_000_000}
    numbers["2.147483647E9"] = 2**31 - 1
    others = dict.fromkeys(("1790.5", "1.5E-1", "1.0E999", "1e3", ".0", "NaN"))
    for cell, value in {**numbers, **others}.items():
        yield from (Case(cell, Type(name), Wire.PLAIN, value) for name in ("int", "bigint"))
    yield Case("2.147483648E9", Type("int"), Wire.PLAIN, None)
    yield Case("1.23456789012345E18", Type("bigint"), Wire.PLAIN, 1_234_567_890_123_450_000)
    yield Case("1.234567890123456E18", Type("bigint"), Wire.PLAIN, None)
    yield Case("1.0E19", Type("bigint"), Wire.PLAIN, None)


AS_NUMBER: Final = {
    "int": "{0}",
    "bigint": "{0}",
    "date": f"unix_date({{0}}) * {DAY}L",
    "timestamp": "unix_micros({0})",
    "timestamp_ntz": "unix_micros(CAST({0} AS timestamp))",
}


def test_a_value_of_a_message_is_in_the_range_of_its_type(spark: SparkSession) -> None:
    cases = [*epochs(), *nested(), *wholes()]
    kinds = list(dict.fromkeys((case.type, case.wire) for case in cases))
    frame = inline(spark, {"n": "int", "cell": "string"}, [(n, case.cell) for n, case in enumerate(cases)])
    whens = []
    for type_, wire in kinds:
        value = value_of("cell", type_, Writing(wire))
        shown = f"string({AS_NUMBER[type_.name].format(value)})" if type_.name in AS_NUMBER else "'there'"
        places = [str(n) for n, case in enumerate(cases) if (case.type, case.wire) == (type_, wire)]
        whens.append(f"WHEN n IN ({', '.join(places)}) THEN CASE WHEN {value} IS NOT NULL THEN {shown} END")
    found = frame.selectExpr("n", f"CASE {' '.join(whens)} END AS value").orderBy("n").collect()
    expected = [(case, None if case.kept is None else str(case.kept)) for case in cases]
    assert [(case, row.value) for (case, _), row in zip(expected, found, strict=True)] == expected


FORMS: Final = {
    "date": pa.date32(),
    "date_64": pa.date64(),
    "at_ms": pa.timestamp("ms", "UTC"),
    "at_us": pa.timestamp("us", "UTC"),
    "local_ms": pa.timestamp("ms"),
    "local_us": pa.timestamp("us"),
}
COLUMNS: Final = {
    **{name: Type("date" if name.startswith("date") else "timestamp") for name in FORMS},
    **{name: Type("timestamp_ntz") for name in ("local_ms", "local_us")},
}


def number(micros: int, form: pa.DataType) -> int:
    if pa.types.is_date32(form):
        return micros // DAY
    return micros // 1000 if form == pa.date64() or form.unit == "ms" else micros


def test_a_value_of_a_parquet_file_is_in_the_range_of_its_type(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(name, micros) for name in FORMS for micros in MOMENTS.values()]
    data: dict[str, pa.Array] = {}
    for name, form in FORMS.items():
        whole = pa.int32() if form == pa.date32() else pa.int64()
        numbers = [number(micros, form) if own == name else None for own, micros in rows]
        data[name] = pa.array(numbers, whole).cast(form)
    data["id"] = pa.array([micros // DAY for _, micros in rows], pa.int32()).cast(pa.date32())
    lists = pa.array([[None, micros // DAY] for _, micros in rows], pa.list_(pa.int32()))
    data["deep"] = pa.StructArray.from_arrays([lists.cast(pa.list_(pa.date32()))], ["days"])
    pq.write_table(pa.table(data), tmp_path / "a.parquet")
    schema = Schema(
        (
            *[Column(name, type_) for name, type_ in COLUMNS.items()],
            Column("id", Type("date")),
            Column("deep", parse_type("struct<days: list<date>>")),
        )
    )
    dimension = Dimension(name=TableName("shop", "item"), key=("id",), schema=schema)
    reading = Reading(dimension=dimension, base=str(tmp_path))
    values = [
        f"(CASE WHEN {quoted(n)} IS NOT NULL THEN {AS_NUMBER[t.name].format(quoted(n))} END)"
        for n, t in COLUMNS.items()
    ]
    frame = read_parquet(
        spark,
        [str(tmp_path / "a.parquet")],
        reading,
        read_footer(tmp_path / "a.parquet", "shop.item"),
        has_op=False,
    )
    found = frame.orderBy(LINE).selectExpr(
        f"coalesce({', '.join(values)}) AS value", "id", "deep", f"{KEY_MISFIT} AS of_key", f"{MISFIT} AS other"
    )
    for (name, micros), row in zip(rows, found.collect(), strict=True):
        is_in_range = kept(micros) is not None
        assert row.value == kept(micros), (name, micros)
        assert (row.id is None, row.deep is None) == (not is_in_range, not is_in_range)
        assert (row.of_key is None, row.other is None) == (is_in_range, is_in_range)
        if not is_in_range:
            assert f"(column {name})" in row.other
            assert row.of_key.endswith(" is not a date (column id)")


def test_a_row_of_another_year_is_not_replayed_as_it_was_written(spark: SparkSession) -> None:
    schema = Schema((Column("id", Type("int")), Column("deep", parse_type("list<date>"))))
    reading = Reading(dimension=Dimension(name=TableName("shop", "item"), key=("id",), schema=schema))
    days = ["9999-12-31", "0001-01-01", "+10000-01-01", "-0045-03-15"]
    places = {"epoch": 1, "sequence": 1, "order": 1, "batch": 1, "since": 0}
    said: dict[str, Any] = {"key": None, "reason": "schema", "detail": "", "object": "a.parquet"}
    texts = [f'{{"id":{n},"deep":[null,"{day}"]}}' for n, day in enumerate(days)]
    entries = [Entry(row=n, text=text, operation="read", **places, **said) for n, text in enumerate(texts)]
    assert [row.id for row in events_of_json(spark, reading, entries[:2]).collect()] == [0, 1]
    with pytest.raises(RepairError, match=r"2 rows do not fit") as caught:
        events_of_json(spark, reading, entries)
    assert caught.value.found == "a.parquet, row 2; a.parquet, row 3"
