"""`docs/reference/types.md`: each type, and each text it says is accepted or not, as Spark reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pages import codes, sections, tables
from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta_rs.columns import type_json
from lakeward.adapters.formats.hudi.metadata.columns import schema_of
from lakeward.adapters.formats.iceberg.metadata.columns import to_iceberg
from lakeward.adapters.sources.rows.parquet_footers import OF_DMS, OF_FILES, read_footer
from lakeward.adapters.spark.sql.casts import TextFormat, to_type
from lakeward.adapters.spark.sql.names import text
from lakeward.core.errors import SourceError
from lakeward.core.schema import SCALARS, Column, Schema, parse_type

PAGE = "docs/reference/types.md"
(FROM_TEXT,) = tables(sections(PAGE)["From text"])
(FROM_PARQUET,) = tables(sections(PAGE)["From Parquet"])
(IN_TABLES,) = tables(sections(PAGE)["In the tables"])
SCALARS_IN_TABLES = [row for row in IN_TABLES if "<" not in row["lakeward"]]
NESTED_IN_TABLES = [row for row in IN_TABLES if "<" in row["lakeward"]]
FOOTERS = {
    "bool": pa.bool_(),
    **{f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal128(p, s)": pa.decimal128(9, 2),
    **{kind: getattr(pa, kind)() for kind in ("string", "large_string", "string_view", "uuid")},
    **{kind: getattr(pa, kind)() for kind in ("binary", "large_binary", "binary_view")},
    "json": pa.json_(),
    "fixed_size_binary": pa.binary(4),
    "date32[day]": pa.date32(),
    "date64[ms]": pa.date64(),
    **{f"timestamp[{unit}, tz=UTC]": pa.timestamp(unit, "UTC") for unit in ("ns", "us", "ms")},
    **{f"timestamp[{unit}]": pa.timestamp(unit) for unit in ("ns", "us", "ms")},
    "INT96": pa.timestamp("ns"),
}


def test_every_type_is_on_the_page() -> None:
    assert {codes(row["type"])[0].split("(")[0] for row in FROM_TEXT} == set(SCALARS)
    assert {parse_type(codes(row["lakeward"])[0]).name for row in SCALARS_IN_TABLES} == set(SCALARS)
    assert [codes(row["lakeward"])[0] for row in NESTED_IN_TABLES] == ["list<…>", "map<…, …>", "struct<…>"]


@pytest.mark.parametrize("row", SCALARS_IN_TABLES, ids=lambda row: row["lakeward"])
def test_a_type_is_in_tables_what_the_page_says(row: Mapping[str, str]) -> None:
    (name,) = codes(row["lakeward"])
    (field,) = to_iceberg(Schema((Column("a", parse_type(name)),))).fields
    assert codes(row["Iceberg"]) == [str(field.field_type)]
    assert codes(row["Delta Lake"]) == [type_json(parse_type(name))]
    avro, *logical = codes(row["Hudi (Avro)"])
    avro_type = {"type": avro, "logicalType": logical[0], "precision": 12, "scale": 2} if logical else avro
    (actual,) = schema_of(json.dumps({"fields": [{"name": "a", "type": ["null", avro_type]}]}), "shop.item")
    assert actual == Column("a", parse_type(name))


@pytest.mark.spark
def test_texts_are_accepted_as_the_page_says(spark: SparkSession) -> None:
    cases = {}
    for row in FROM_TEXT:
        (name,) = codes(row["type"])
        cases |= {(name, written): True for written in codes(row["accepted"])}
        cases |= {(name, written): False for written in codes(row["refused"])}
    values = [to_type(text(written), parse_type(name), TextFormat()) for name, written in cases]
    actual = spark.range(1).selectExpr(*[f"{value} IS NOT NULL AS c{n}" for n, value in enumerate(values)]).first()
    assert dict(zip(cases, actual or (), strict=True)) == cases


@pytest.mark.spark
@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-10-25 02:30", "2026-10-25 00:30"),  # the clock shows it twice: the first
        ("2026-03-29 02:30", "2026-03-29 01:30"),  # skipped: moved on, to 03:30
        ("2026-03-29 02:30:00Z", "2026-03-29 02:30"),
        ("2026-03-29 02:30:00+05:00", "2026-03-28 21:30"),
    ],
)
def test_a_time_without_a_zone_is_in_the_zone_of_the_source(spark: SparkSession, written: str, moment: str) -> None:
    value = to_type(text(written), parse_type("timestamp"), TextFormat(None, "Europe/Berlin"))
    row = spark.range(1).selectExpr(f"date_format({value}, 'yyyy-MM-dd HH:mm') AS found").first()
    assert row is not None
    assert row.found == moment


def test_footers_are_read_as_the_page_says(tmp_path: Path) -> None:
    seen = set()
    for row in FROM_PARQUET:
        (expected_type,) = codes(row["type"])[:1] or [None]
        for name in codes(row["in the footer"]):
            seen.add(name)
            content = pa.schema([("c", FOOTERS[name])]).empty_table()
            pq.write_table(content, tmp_path / "a.parquet", use_deprecated_int96_timestamps=name == "INT96")
            (column,) = read_footer(tmp_path / "a.parquet", "shop.orders").schema
            special = {None: name, "decimal(p,s)": "decimal(9,2)"}
            assert str(column.type) == special.get(expected_type, expected_type)
    assert seen == set(FOOTERS)


DEEP = [pa.struct([("a", type_)]) for type_ in (pa.timestamp("ns"), pa.uuid(), pa.time32("ms"))]


@pytest.mark.parametrize(
    "type_", [pa.time32("ms"), pa.time64("us"), pa.float16(), pa.decimal256(39, 2), *DEEP], ids=str
)
def test_footers_with_anything_else_are_refused(tmp_path: Path, type_: pa.DataType) -> None:
    """The error says what the writer of the files should do, for each type."""
    pq.ParquetWriter(tmp_path / "a.parquet", pa.schema([("c", type_)])).close()
    for todo, has_dms in ((OF_FILES, False), (OF_DMS, True)):
        with pytest.raises(SourceError, match="has a type that lakeward does not hold") as caught:
            read_footer(tmp_path / "a.parquet", "shop.orders", todo=todo)
        assert ("DMS" in caught.value.todo) is has_dms
