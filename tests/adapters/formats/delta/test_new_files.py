"""A data file that this process writes into a Delta table is to readers what Delta's own writer makes of it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from delta_lake import by_delta_rs, by_duckdb
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta.java import Jvm
from lakeward.adapters.formats.delta.writes.change import Change
from lakeward.adapters.formats.delta.writes.new_files import statistics
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow

pytestmark = pytest.mark.spark

UTC: Final = dt.UTC
_AT: Final = dt.datetime(2026, 1, 1, 10, 0, 0, 123456, UTC)
_COLUMNS: Final[Mapping[str, tuple[pa.DataType, str, Any]]] = {
    "id": (pa.int64(), "bigint", 2**62),
    "a number": (pa.int32(), "int", -7),
    "price": (pa.decimal128(12, 2), "decimal(12,2)", Decimal("-0.05")),
    "total": (pa.decimal128(30, 5), "decimal(30,5)", Decimal("1234567890123456789012345.00001")),
    "share": (pa.float64(), "double", 0.1),
    "part": (pa.float32(), "float", 0.5),
    "is_paid": (pa.bool_(), "boolean", True),
    "day": (pa.date32(), "date", dt.date(9999, 12, 31)),
    "at": (pa.timestamp("us", tz="UTC"), "timestamp", _AT),
    "local": (pa.timestamp("us"), "timestamp_ntz", dt.datetime(1970, 1, 1)),
    "name": (pa.string(), "string", 'ö"\\ 𝄞'),
    "note": (pa.string(), "string", "x" * 40),
    "raw": (pa.binary(), "binary", b"\x00\xff"),
}
_SCHEMA: Final = pa.schema([(name, type_) for name, (type_, _, _) in _COLUMNS.items()])
_TYPES: Final = ", ".join(f"`{name}` {type_}" for name, (_, type_, _) in _COLUMNS.items())
_FULL: Final = {name: value for name, (_, _, value) in _COLUMNS.items()}
_LESS: Final = {"id": -1, "day": dt.date(1900, 1, 1), "name": "", "note": "y"}
_ROWS: Final = pa.Table.from_pylist([_FULL, _LESS, {"id": 3}], _SCHEMA)


def _change(spark: SparkSession, folder: Path, columns: str, properties: str = "") -> Change:
    mapped = "'delta.columnMapping.mode' = 'name'"
    jvm = Jvm(spark)
    table = f"delta.`{folder}` ({columns}) USING delta {properties}"
    spark.sql(f"CREATE TABLE {table}" if properties else f"CREATE TABLE {table} TBLPROPERTIES ({mapped})")
    return Change(jvm, str(folder), jvm.snapshot(str(folder)))


def _commit(change: Change) -> None:
    operation = change.jvm.single(change.jvm.delta, "DeltaOperations$ManualUpdate")
    change.transaction.commit(change.jvm.seq(change.added), operation)


def _sorted(rows: pa.Table) -> list[Any]:
    return sorted(pa.table(rows).select(_SCHEMA.names).to_pylist(), key=lambda row: int(row["id"]))


def _said(add: Any) -> dict[str, Any]:
    return dict(json.loads(json.loads(add.json())["add"]["stats"]))


@pytest.mark.lines
def test_every_reader_finds_the_rows(active: SparkSession, tmp_path: Path) -> None:
    change = _change(active, tmp_path / "table", _TYPES)
    assert change.add_here(_ROWS.select(_SCHEMA.names[::-1]))
    _commit(change)
    expected = _sorted(_ROWS)
    assert _sorted(to_arrow(active.read.format("delta").load(change.path))) == expected
    assert _sorted(by_delta_rs(DeltaTable(change.path))) == expected
    assert _sorted(by_duckdb(change.path).cast(_SCHEMA)) == expected
    found = active.read.format("delta").load(change.path).where("name = '' AND day < '1950-01-01' AND id < 0")
    assert found.count() == 1


@pytest.mark.lines
def test_the_log_says_of_it_what_it_says_of_files_of_delta(active: SparkSession, tmp_path: Path) -> None:
    change = _change(active, tmp_path / "table", _TYPES)
    assert change.add_here(_ROWS)
    change.add(from_arrow(active, _ROWS).coalesce(1))
    own, other = map(_said, change.added)
    physical = {f["name"]: f["metadata"]["delta.columnMapping.physicalName"] for f in _fields(change)}
    assert (own["numRecords"], own["nullCount"], own["tightBounds"]) == (3, other["nullCount"], True)
    assert {*own["minValues"]} == {physical[name] for name in ("id", "a number", "day", "name")}
    for bounds in ("minValues", "maxValues"):
        assert own[bounds].items() <= other[bounds].items()


def _fields(change: Change) -> list[dict[str, Any]]:
    return list(json.loads(str(change.transaction.metadata().schemaString()))["fields"])


@pytest.mark.lines
def test_what_was_written_is_taken_back(active: SparkSession, tmp_path: Path) -> None:
    change = _change(active, tmp_path / "table", _TYPES)
    assert change.add_here(_ROWS)
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    change.discard()
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize(
    ("columns", "properties"),
    [
        ("id bigint, name string", "PARTITIONED BY (name)"),
        ("id bigint NOT NULL, name string", ""),
        ("id bigint, name string, twice bigint GENERATED ALWAYS AS (id * 2)", ""),
        ("id bigint, name string, inner struct<a: int>", ""),
        ("id bigint, name varchar(1)", ""),
        ("id bigint", ""),
        ("id bigint, name string", "CLUSTER BY (id)"),
        ("id bigint, name string", "TBLPROPERTIES ('delta.enableRowTracking' = 'true')"),
        ("id bigint, name string", "TBLPROPERTIES ('delta.constraints.few' = 'id < 9')"),
        ("id bigint, name string", "TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '1')"),
    ],
)
def test_other_files_are_left_to_delta(active: SparkSession, tmp_path: Path, columns: str, properties: str) -> None:
    rows = pa.table({"id": [1], "name": ["ab"]})
    change = _change(active, tmp_path / "table", columns, properties)
    assert not change.add_here(rows)
    assert not change.added


def test_times_of_an_older_calendar_are_left_to_delta(active: SparkSession, tmp_path: Path) -> None:
    change = _change(active, tmp_path / "table", "id bigint, day date")
    ancient = pa.table({"id": [1, 2], "day": pa.array([None, dt.date(1899, 12, 31)], pa.date32())})
    assert not change.add_here(ancient)
    assert change.add_here(ancient.slice(0, 1))


def test_a_column_behind_many_others_has_no_statistics() -> None:
    names = [f"c{number}" for number in range(34)]
    found = statistics(pa.table({name: [1] for name in names}))
    assert list(found["minValues"]) == list(found["nullCount"]) == names[:32]
