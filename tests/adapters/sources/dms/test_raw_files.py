"""The folders of DMS's files as tables of a catalog: their columns are those of the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sparkless import no_spark

from lakeward.adapters.sources.dms.options import DmsOptions, place
from lakeward.adapters.sources.dms.source import DmsSource
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Places
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SourceError
from lakeward.core.ports import CsvForm, TableDescription
from lakeward.core.schema import Column, Schema, parse_type

TABLE = TableName("shop", "orders")
SCHEMA = Schema((Column("id", parse_type("int")), Column("name", parse_type("string"))))
LOAD, CHANGES = "LOAD00000001.csv", "20261122-100000000.csv"


def source_of(folder: Path, **options: Any) -> DmsSource:
    settings = DmsOptions(path="landing", **options)
    return DmsSource(settings, Folder(folder, Places(place(settings))), no_spark)


def described(folder: Path, schema: Schema = SCHEMA, **options: Any) -> list[TableDescription]:
    dimension = Dimension(name=TABLE, schema=schema, key=("id",))
    return [*source_of(folder, **options).describe_raw(dimension, "shop_raw")]


def put(folder: Path, name: str, content: str, below: str = "shop/orders") -> None:
    (folder / below).mkdir(parents=True, exist_ok=True)
    (folder / below / name).write_text(content, "utf-8")


def columns(table: TableDescription) -> list[tuple[str, str]]:
    return [(column.name, str(column.type)) for column in table.columns]


def test_csv_has_texts_by_their_places(tmp_path: Path) -> None:
    put(tmp_path, LOAD, "I,2026-11-22 09:00:00.000000,1,a\n")
    put(tmp_path, CHANGES, "U,2026-11-22 10:00:00.000000,1,b\n")
    (table,) = described(tmp_path, timestamp_column="committed_at", delimiter=",")
    assert columns(table) == [(name, "string") for name in ("Op", "committed_at", "id", "name")]
    assert (table.identifier, table.format, table.is_raw) == (("shop_raw", "orders"), "csv", True)
    assert table.location == f"{tmp_path}/shop/orders"
    assert table.csv == CsvForm(delimiter=",", quote='"', null_text="NULL", has_header=False)


def test_a_header_names_them_in_its_order(tmp_path: Path) -> None:
    put(tmp_path, CHANGES, "Op,name,id\nU,b,1\n")
    (table,) = described(tmp_path)
    assert [name for name, _ in columns(table)] == ["Op", "name", "id"]
    assert table.csv is not None
    assert table.csv.has_header


def test_a_key_before_its_change_keeps_its_name(tmp_path: Path) -> None:
    put(tmp_path, CHANGES, "U,1,b,2\n")
    (table,) = described(tmp_path, before_image_prefix="BI_")
    assert [name for name, _ in columns(table)] == ["Op", "id", "name", "BI_id"]


@pytest.mark.parametrize("changes", ["U,1,b\n", "Op,id,name\nI,1,a\n"])
def test_files_with_other_columns_are_no_table_together(tmp_path: Path, changes: str) -> None:
    put(tmp_path, LOAD, "1,a\n" if changes.startswith("U") else "I,1,a\n")
    put(tmp_path, CHANGES, changes)
    with pytest.raises(SourceError) as raised:
        described(tmp_path)
    assert f"{LOAD} and {CHANGES}" in str(raised.value)


def test_files_of_two_formats_are_none_either(tmp_path: Path) -> None:
    put(tmp_path, CHANGES, "U,1,b\n")
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), tmp_path / "shop/orders/LOAD00000001.parquet")
    with pytest.raises(SourceError, match="cannot be one table"):
        described(tmp_path)


def test_a_full_load_that_lies_apart_is_a_table_of_its_own(tmp_path: Path) -> None:
    apart = {"load": "full/{schema}/{table}", "changes": "cdc/{schema}/{table}"}
    put(tmp_path, LOAD, "1,a\n", "full/shop/orders")
    put(tmp_path, CHANGES, "U,1,b\n", "cdc/shop/orders")
    load, changes = described(tmp_path, **apart)
    assert (load.identifier, [name for name, _ in columns(load)]) == (("shop_raw", "orders__load"), ["id", "name"])
    assert (changes.identifier, len(changes.columns)) == (("shop_raw", "orders"), 3)
    assert changes.location == f"{tmp_path}/cdc/shop/orders"
    identified = source_of(tmp_path, **apart).identify_raw(TABLE, "shop_raw")
    assert {*identified} == {load.identifier, changes.identifier}
    assert source_of(tmp_path).identify_raw(TABLE, "shop_raw") == [("shop_raw", "orders")]


def test_parquet_has_the_types_of_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "shop/orders"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "name": ["a"]}), folder / "LOAD00000001.parquet")
    changed = {"Op": ["U"], "id": pa.array([1], pa.int32()), "name": ["b"], "more": pa.array([1], pa.int64())}
    pq.write_table(pa.table(changed), folder / "20261122-100000000.parquet")
    (table,) = described(tmp_path, Schema(()))
    assert {*columns(table)} == {("Op", "string"), ("id", "int"), ("name", "string"), ("more", "bigint")}
    assert (table.format, table.csv) == ("parquet", None)


def test_a_column_of_two_types_is_in_no_table(tmp_path: Path) -> None:
    folder = tmp_path / "shop/orders"
    folder.mkdir(parents=True)
    for name, type_ in ((LOAD, pa.int32()), (CHANGES, pa.int64())):
        table = pa.table({"id": pa.array([1], type_), "name": ["a"]})
        pq.write_table(table, (folder / name).with_suffix(".parquet"))
    with pytest.raises(SourceError, match="cannot be one table") as raised:
        described(tmp_path, Schema(()))
    assert raised.value.found == ("id is int in LOAD00000001.parquet and bigint in 20261122-100000000.parquet")


def test_a_folder_without_files_is_no_table(tmp_path: Path) -> None:
    assert described(tmp_path) == []
    (tmp_path / "shop/orders").mkdir(parents=True)
    assert described(tmp_path) == []


def test_files_of_transactions_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, "CDC_TXN-20261122100000000.csv", "1,I,shop,orders,1,a\n", "cdc")
    put(tmp_path, LOAD, "1,a\n")
    (table,) = described(tmp_path, cdc_path="cdc")
    assert [name for name, _ in columns(table)] == ["id", "name"]
