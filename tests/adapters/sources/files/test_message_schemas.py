"""What the schema beside a message says of writing counts, where the columns are declared, too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from both_readers import Feed, ask_both
from line_feeds import table_of
from plain_sources import entry_of
from pyspark.sql import SparkSession

from lakeward.adapters.sources.files.file_columns import File, with_schema
from lakeward.adapters.sources.files.json_lines.messages import fill_versions
from lakeward.adapters.sources.files.json_lines.quarantined_cells import cells_of_line, reading_of
from lakeward.adapters.sources.files.local.line_reader import LocalMessages, read_rows
from lakeward.adapters.sources.files.local.rows import Line, RowLists
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.debezium import Debezium
from lakeward.adapters.spark.frames.source_rows import MISFIT
from lakeward.core.ledger.objects import SourceObject

TYPES: Final = {
    "id": "int",
    "price": "decimal(14,4)",
    "at": "timestamp_ntz",
    "data": "binary",
    "note": "string",
    "day": "timestamp",
}
FORMATS: Final = {"at": "epoch-micros", "data": "hex", "day": "epoch-millis"}
BEFORE: Final = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp())


def decimal(scale: int) -> dict[str, Any]:
    name = "org.apache.kafka.connect.data.Decimal"
    return {"type": "bytes", "name": name, "parameters": {"scale": str(scale)}}


def time(name: str) -> dict[str, Any]:
    return {"type": "int64", "name": f"io.debezium.time.{name}"}


def message(number: int, cells: Mapping[str, Any], described: Mapping[str, Any] | None, form: str) -> str:
    """Return an insert; `described` is what the schema beside it says of its columns, None where it has none."""
    own = {"id": {"type": "int32"}, **(described or {})}
    fields = [{"field": column, **said} for column, said in own.items()]
    row = {"id": number, **cells}
    source = {"lsn": number, "ts_ms": 1, "schema": "shop", "table": "item"}
    flat = {**row, "__op": "c", "__lsn": number, "__schema": "shop", "__table": "item"}
    payload = flat if form == "flattened" else {"op": "c", "after": row, "source": source}
    schema = {"fields": fields if form == "flattened" else [{"field": "after", "fields": fields}]}
    body = payload if described is None else {"schema": schema, "payload": payload}
    return json.dumps({"key": None, "value": json.dumps(body) if number % 2 else body})


CASES: Final[tuple[tuple[str, object, Mapping[str, Any] | None, object], ...]] = (
    ("price", "BNI=", decimal(2), Decimal("12.3400")),
    ("price", "BNI=", decimal(4), Decimal("0.1234")),
    ("price", "BNI=", None, Decimal("0.1234")),
    ("price", "BNI=", decimal(6), None),  # 0.001234 has too many places
    ("price", 12.34, decimal(2), Decimal("12.3400")),
    ("price", "1234", {"type": "string"}, Decimal("1234.0000")),
    ("price", "12.34", {"type": "string"}, Decimal("12.3400")),
    ("price", "BNI=", {"type": "string"}, None),
    ("at", BEFORE * 10**3, time("Timestamp"), BEFORE * 10**6),
    ("at", BEFORE * 10**6, time("MicroTimestamp"), BEFORE * 10**6),
    ("at", BEFORE * 10**9, time("NanoTimestamp"), BEFORE * 10**6),
    ("at", BEFORE * 10**6, {"type": "int64"}, BEFORE * 10**6),
    ("at", BEFORE * 10**6, None, BEFORE * 10**6),
    ("at", 20000, {"type": "int32", "name": "io.debezium.time.Date"}, None),
    ("day", BEFORE * 10**6, time("MicroTimestamp"), BEFORE * 10**6),
    ("data", "abcd", {"type": "bytes"}, b"\x69\xb7\x1d"),
    ("data", "abcd", {"type": "string"}, b"\xab\xcd"),
    ("data", "abcd", None, b"\xab\xcd"),
    ("note", {"scale": 1, "value": "DA=="}, {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
     '{"scale":1,"value":"DA=="}'),
)  # fmt: skip


def feed_of(folder: Path, spark: SparkSession | None, **said: str) -> tuple[TableFiles, list[Line]]:
    lines = [
        message(n, {column: value}, None if described is None else {column: described}, said["form"])
        for n, (column, value, described, _) in enumerate(CASES, 1)
    ]
    place = folder / "shop" / "item"
    place.mkdir(parents=True)
    (place / "0.json").write_text("\n".join(lines) + "\n", "utf-8")
    settings = {"format": "debezium", "line": "record", **said}
    table = replace(table_of(folder, spark, "shop.item", TYPES, settings), patterns=FORMATS)  # type: ignore[arg-type]
    return table, [Line("shop/item/0.json", number, line) for number, line in enumerate(lines, 1)]


@pytest.mark.parametrize(
    ("name", "value", "micros"),
    [
        ("org.apache.kafka.connect.data.Time", 36_000_001, 36_000_001_000),
        ("io.debezium.time.Time", 36_000_001, 36_000_001_000),
        ("io.debezium.time.MicroTime", 36_000_000_001, 36_000_000_001),
        ("io.debezium.time.NanoTime", 36_000_000_001_000, 36_000_000_001),
        ("io.debezium.time.NanoTime", 36_000_000_000_001, None),
        ("io.debezium.time.MicroDuration", -5, -5),
        ("io.debezium.time.NanoDuration", -5_000, -5),
        ("io.debezium.time.MicroDuration", 2**63, None),
        ("io.debezium.time.Timestamp", 1_767_323_045_123, 1_767_323_045_123_000),
    ],
)
@pytest.mark.parametrize("types", ["schema", "declared"])
def test_times_of_day_and_durations_are_microseconds_where_types_are_from_schemas(
    tmp_path: Path, name: str, value: int, micros: int | None, types: str
) -> None:
    """Else another mode would put a second unit into the column. What is declared a number has what is written."""
    kind = "int32" if name in ("org.apache.kafka.connect.data.Time", "io.debezium.time.Time") else "int64"
    line = message(1, {"spent": value}, {"spent": {"type": kind, "name": name}}, "envelope")
    declared = {"id": "int", "spent": "bigint", "price": "decimal(9,2)"}  # for that one, schemas are looked for
    columns = {} if types == "schema" else declared
    said = {"format": "debezium", "line": "record", "types": types}
    (tmp_path / "shop" / "item").mkdir(parents=True)
    table = table_of(tmp_path, None, "shop.item", columns, said)
    if types == "declared":
        rows = read_rows(table, [Line("shop/item/0.json", 1, line)], {})
        assert rows["spent"] == [value if value < 2**63 else None]
        return
    assert rows_by_schemas(table, [Line("shop/item/0.json", 1, line)])["spent"] == [micros]


def rows_by_schemas(table: TableFiles, lines: Sequence[Line]) -> RowLists:
    """Return messages as rows whose types are from their schemas."""
    decoder = table.decoder
    assert isinstance(decoder, Debezium)
    messages = LocalMessages(table, lines, decoder)
    file = File(SourceObject("0.json", 1, 1, 0), "debezium")
    files = fill_versions(table, [file], messages.versions(table), None)
    versions = {version.digest: version for version in files[0].versions}
    return messages.rows(replace(table, dimension=with_schema(table, files)), versions)


@pytest.mark.parametrize("form", ["envelope", "flattened"])
def test_the_schema_of_a_message_decides_scale_and_unit(tmp_path: Path, form: str) -> None:
    table, lines = feed_of(tmp_path, None, form=form)
    rows = read_rows(table, lines, {})
    for place, (column, _, _, value) in enumerate(CASES):
        assert rows[column][place] == value, CASES[place]
        assert (rows[MISFIT][place] is None) == (value is not None), CASES[place]


def test_the_schema_decides_scale_and_unit_if_types_are_from_schemas(tmp_path: Path) -> None:
    rows = rows_by_schemas(*feed_of(tmp_path, None, form="envelope", types="schema"))
    for place, (column, _, described, value) in enumerate(CASES[:-1]):
        assert described is None or rows[column][place] == value, CASES[place]


def test_a_row_in_quarantine_is_read_as_its_schema_says(tmp_path: Path) -> None:
    table, _ = feed_of(tmp_path, None, form="envelope")
    line = message(1, {"price": "BNI="}, {"price": decimal(6)}, "envelope")
    entry = entry_of(line, "0.json", "insert")
    assert reading_of(table, entry).written["price"].scale == 6
    assert cells_of_line(table, entry).after["price"] == "BNI="


@pytest.mark.spark
def test_both_readers_read_schemas_equally(spark: SparkSession, tmp_path: Path) -> None:
    """Each way of writing takes a plan of its own in Spark: there are two."""
    table, _ = feed_of(tmp_path, spark, form="envelope")
    fields = {"price": decimal(2), "at": time("Timestamp"), "data": {"type": "bytes"}, "note": {"type": "string"}}
    row = {"price": "BNI=", "at": BEFORE * 10**3, "data": "abcd", "note": "a"}
    lines = [
        message(1, row, fields, "envelope"),
        message(2, row, {**fields, "more": {"type": "string"}}, "envelope"),
        message(3, {**row, "price": "BNI", "at": 10**17}, fields, "envelope"),
        message(4, row, None, "envelope"),
        message(5, {**row, "price": 12.34}, fields, "envelope"),
    ]
    (tmp_path / "shop" / "item" / "0.json").write_text("\n".join(lines), "utf-8")
    [answer] = ask_both(spark, [Feed(table, ["0.json"])])
    assert not answer.left
    assert not answer.differences()
    prices = [row["price"] for row in answer.spark.values()]
    assert sorted(price for price in prices if price is not None) == [Decimal("0.1234"), *[Decimal("12.34")] * 3]


def keyed(number: int, schema: Mapping[str, Any] | None, value: object, form: str, *, is_gone: bool = True) -> str:
    """Return a tombstone of the key `price`, `at`, or an insert of it; key and value have such a schema."""
    own = {"price": value, "at": BEFORE * 10**3}
    said = {"price": schema or {"type": "string"}, "at": time("Timestamp")}
    fields = [{"field": column, **described} for column, described in said.items()]
    key = own if schema is None else {"schema": {"type": "struct", "fields": fields}, "payload": own}
    body = None if is_gone else json.loads(json.loads(message(number, own, said, form))["value"])
    empty = {"schema": None, "payload": None} if number % 2 else None
    return json.dumps({"key": json.dumps(key) if number % 3 else key, "value": empty if is_gone else body})


GONE: Final = (
    (decimal(0), "AMg=", Decimal("200.0000")),
    (decimal(2), "BNI=", Decimal("12.3400")),
    ({"type": "string"}, "1234", Decimal("1234.0000")),
    (decimal(4), "BNI=", Decimal("0.1234")),
    (None, "BNI=", Decimal("0.1234")),
)


@pytest.mark.spark
@pytest.mark.parametrize("form", ["envelope", "flattened"])
def test_the_schema_of_a_key_decides_how_the_key_of_a_tombstone_is_read(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    """Rows went in by the schema of their values: by another scale or unit a tombstone would be of another row."""
    place = tmp_path / "shop" / "item"
    place.mkdir(parents=True)
    lines = [keyed(number, schema, value, form) for number, (schema, value, _) in enumerate(GONE, 1)]
    lines.append(keyed(7, decimal(0), "AMg=", form, is_gone=False))
    (place / "0.json").write_text("\n".join(lines) + "\n", "utf-8")
    settings = {"format": "debezium", "line": "record", "form": form, "tombstones": "delete", "places": "arrival"}
    table = replace(table_of(tmp_path, spark, "shop.item", TYPES, settings, key=("price", "at")), patterns=FORMATS)
    read = [Line("shop/item/0.json", number, line) for number, line in enumerate(lines, 1)]
    rows = read_rows(table, read, {})
    assert [*rows["price"]] == [*(value for *_, value in GONE), Decimal("200.0000")]
    assert [at == BEFORE * 10**6 for at in rows["at"]] == [*(schema is not None for schema, *_ in GONE), True]
    (answer,) = ask_both(spark, [Feed(table, ["0.json"])])
    assert (answer.differences(), *answer.left) == ([],)
    entry = entry_of(lines[0], "0.json", "delete")
    assert reading_of(table, entry).written["price"].scale == 0
    assert cells_of_line(table, entry).after["price"] == "AMg="
    told = {**json.loads(lines[0]), "value": {"op": "d", "before": {"price": "AMg=", "at": 1}}}
    assert reading_of(table, replace(entry, text=json.dumps(told))).written["price"].scale is None, "it has a value"
    skips = replace(table, options=table.options.model_copy(update={"tombstones": "skip"}))
    assert read_rows(skips, read[:1], {})["price"] == [None]
