"""The catalogue `file`: which files are read, and which table is which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.adapters.catalogue import build_file
from lakeward.core.dimension import TableName
from lakeward.core.errors import CatalogueUnreachable, ConfigError
from lakeward.core.ports import SourceCatalogue
from lakeward.plugins import Runtime

ORDERS = TableName("shop", "orders")


def catalogue(folder: Path, **options: str) -> SourceCatalogue:
    return build_file({"path": ".", "database": "postgresql", **options}, Runtime(lambda: None, folder))


def test_all_files_of_a_folder_are_read_and_what_is_not_asked_for_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE TABLE shop.orders (id int PRIMARY KEY)", "utf-8")
    described = {"tables": [{"schema": "shop", "table": "lines", "columns": [{"name": "n", "type": "int4"}]}]}
    (tmp_path / "b.json").write_text(json.dumps(described), "utf-8")
    (tmp_path / "notes.txt").write_text("nothing", "utf-8")
    lines = TableName("shop", "lines")
    assert set(catalogue(tmp_path).describe([ORDERS, lines])) == {ORDERS, lines}
    assert set(catalogue(tmp_path).describe([lines, TableName("shop", "other")])) == {lines}


def test_names_are_compared_without_case_unless_one_is_exactly_that(tmp_path: Path) -> None:
    sql = 'CREATE TABLE "SHOP"."ORDERS" (a int); CREATE TABLE shop.orders (b int)'
    (tmp_path / "a.sql").write_text(sql, "utf-8")
    assert catalogue(tmp_path).describe([ORDERS])[ORDERS].names == ("b",)
    other = TableName("Shop", "Orders")
    with pytest.raises(ConfigError, match="which of these tables"):
        catalogue(tmp_path).describe([other])
    (tmp_path / "a.sql").write_text('CREATE TABLE "SHOP"."ORDERS" (a int)', "utf-8")
    assert catalogue(tmp_path).describe([other])[other].names == ("a",)


def test_a_table_that_two_files_have_is_an_error(tmp_path: Path) -> None:
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).write_text("CREATE TABLE shop.orders (id int)", "utf-8")
    with pytest.raises(ConfigError, match="twice"):
        catalogue(tmp_path).describe([ORDERS])


def test_a_file_or_folder_that_is_not_there_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(CatalogueUnreachable, match="cannot be read"):
        catalogue(tmp_path, path="gone.sql").describe([ORDERS])
    with pytest.raises(CatalogueUnreachable, match="has no file"):
        catalogue(tmp_path).describe([ORDERS])


def test_sql_without_a_database_and_json_that_is_not_right_are_errors(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE TABLE shop.orders (id int)", "utf-8")
    bare = build_file({"path": "a.sql"}, Runtime(lambda: None, tmp_path))
    with pytest.raises(ConfigError, match="does not say of which database"):
        bare.describe([ORDERS])
    (tmp_path / "b.json").write_text('{"tables": [{"table": "orders", "columns": []}]}', "utf-8")
    with pytest.raises(ConfigError) as raised:
        catalogue(tmp_path, path="b.json").describe([ORDERS])
    assert "tables.0.columns" in str(raised.value)
    (tmp_path / "b.json").write_text(
        '{"tables": [{"schema": "s", "table": "t", "key": ["x"], "columns": [{"name": "a", "type": "int"}]}]}',
        "utf-8",
    )
    with pytest.raises(ConfigError, match="the key of t names 'x'"):
        catalogue(tmp_path, path="b.json").describe([ORDERS])
