"""Columns and conditions in the forms of Delta, of its log, and of DataFusion; no Spark."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import QueryBuilder
from hypothesis import given
from types_of_columns import TYPES, columns

from lakeward.adapters.formats.delta.writes.schema_evolution import properties_for, with_changes
from lakeward.adapters.formats.delta_rs.columns import columns_in, columns_of, to_delta
from lakeward.adapters.formats.delta_rs.row_search import _sql
from lakeward.adapters.formats.delta_rs.side_table import _exact
from lakeward.adapters.formats.shared.rows.conditions import All, AtLeast, AtMost, Condition, Is, OneOf
from lakeward.core.errors import TableError
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import Kind, SchemaChange, compare


@given(TYPES)
def test_a_column_of_delta_has_the_type_that_it_was_made_of(type_: Type) -> None:
    schema = Schema((Column("a", type_),))
    assert columns_in(to_delta({"a": type_}), "shop.item") == schema


@pytest.mark.parametrize("type_", ["byte", "short", "variant"])
def test_a_type_of_another_writer_is_named_with_its_column(type_: str) -> None:
    field = {"name": "trace", "type": type_, "nullable": True, "metadata": {}}
    found = deltalake.Schema.from_json(json.dumps({"type": "struct", "fields": [field]}))
    with pytest.raises(TableError, match=r"shop\.item: the column trace has a type"):
        columns_in(found, "shop.item")


def test_a_table_that_lakeward_did_not_make_is_refused() -> None:
    with pytest.raises(TableError, match="lakeward did not make it"):
        columns_of(to_delta({"id": Type("int")}), "shop.item")


BEFORE = columns(id="int", name="string", at="struct<a: int, b: list<struct<c: float>>>", m="map<string, int>")
AFTER = columns(
    id="bigint",
    name="string",
    at="struct<a: int, b: list<struct<c: double, d: string>>, e: date>",
    m="map<string, bigint>",
    new="decimal(8,2)",
)


def test_a_schema_changes_as_the_plan_says() -> None:
    was = json.loads(to_delta({c.name: c.type for c in BEFORE}).to_json())
    was["fields"][0]["metadata"] = {"delta.columnMapping.id": 1}
    now = with_changes(json.dumps(was), compare(BEFORE, AFTER))
    assert columns_in(deltalake.Schema.from_json(now), "shop.item") == AFTER
    assert json.loads(now)["fields"][0]["metadata"] == {"delta.columnMapping.id": 1}


def test_a_new_name_goes_first_and_keeps_its_column() -> None:
    rename = SchemaChange(Kind.RENAME, "id", None, None, to="no")
    widen = SchemaChange(Kind.WIDEN, "no", Type("int"), Type("bigint"))
    now = with_changes(to_delta({"id": Type("int"), "name": Type("string")}).to_json(), [widen, rename])
    found = columns_in(deltalake.Schema.from_json(now), "shop.item")
    assert found == columns(no="bigint", name="string")
    assert set(properties_for([widen, rename])) == {"delta.enableTypeWidening", "delta.columnMapping.mode"}
    assert properties_for([]) == {}


WIDE = 12_345_678_901_234_567_890_123
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int64(), [1, 2**62, -(2**63)]),
    "wide": (pa.decimal128(38, 0), [Decimal(WIDE), Decimal(WIDE + 1), Decimal(-WIDE)]),
    "price": (pa.decimal128(8, 2), [Decimal("1.50"), Decimal("1.51"), Decimal("-0.01")]),
    "text": (pa.string(), ["it's", 'a "b"', ""]),
    "is": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [date(1, 1, 1), date(2026, 11, 22), date(9999, 12, 31)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, 2, 3, 456_789, UTC), None],
    ),
    "local": (pa.timestamp("us"), [datetime(1969, 1, 1, 1, 2, 3, 1), datetime(2026, 1, 1), None]),
    "raw": (pa.binary(), [b"\x00'", b"", b"\xff"]),
    "y": (pa.float32(), [0.10000000149011612, float("nan"), None]),
    "x": (pa.float64(), [0.1, float("nan"), -1e300]),
    "Odd name": (pa.string(), ["a", "b", "c"]),
}


@pytest.fixture
def table(tmp_path: Path) -> deltalake.DeltaTable:
    found = {name: pa.array(values, type_) for name, (type_, values) in VALUES.items()}
    found["old"] = pa.array([{"k": 1}, {"k": 2}, None], pa.struct([("k", pa.int64())]))
    # Without statistics, as tables beside are: delta-rs writes wrong ones of long decimals.
    deltalake.write_deltalake(
        tmp_path / "t", pa.table(found), configuration={"delta.dataSkippingNumIndexedCols": "0"}
    )
    return deltalake.DeltaTable(tmp_path / "t")


def places(table: deltalake.DeltaTable, where: Condition) -> list[int]:
    schema = pa.schema(table.schema().to_arrow())
    query = f"SELECT * FROM t WHERE {_sql(where, schema)}"
    found = pa.table(QueryBuilder().register("t", table).execute(query).read_all())
    return sorted(VALUES["whole"][1].index(value) for value in found["whole"].to_pylist())


@pytest.mark.parametrize("name", VALUES)
def test_every_value_finds_its_own_row(table: deltalake.DeltaTable, name: str) -> None:
    for place, value in enumerate(VALUES[name][1]):
        if value is not None:
            wanted = "NaN" if value != value else value  # noqa: PLR0124  # NaN alone is not equal to itself
            assert places(table, Is((name,), wanted)) == [place]


def test_conditions_are_joined(table: deltalake.DeltaTable) -> None:
    assert places(table, Is(("old", "k"), 2)) == [1]
    assert places(table, All([AtLeast("whole", 1), AtMost("whole", 1)])) == [0]
    assert places(table, OneOf([Is(("text",), "it's"), Is(("text",), "")])) == [0, 2]
    assert places(table, All([OneOf([Is(("text",), ""), AtLeast("whole", 1)]), AtMost("whole", 5)])) == [0, 2]


def test_long_numbers_of_conditions_are_exact(table: deltalake.DeltaTable) -> None:
    query = f"SELECT count(*) AS n FROM t WHERE {_exact(f'wide < {WIDE + 1} and whole <= 5')}"
    assert pa.table(QueryBuilder().register("t", table).execute(query).read_all())["n"].to_pylist() == [2]
    assert _exact("a = '12345678901234567890'") == "a = '12345678901234567890'"
