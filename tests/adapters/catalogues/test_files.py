"""The catalogue `file`, held to the kit: which files are read, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.adapters.catalogues import build_file
from lakeward.core.dimension import TableName
from lakeward.core.errors import CatalogueUnreachable, ConfigError
from lakeward.core.ports import SourceCatalogue
from lakeward.core.schema import parse_type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.plugins import Runtime
from lakeward.plugins.testing import CatalogueUnderTest, catalogue_contract

ORDERS = TableName("shop", "orders")


def catalogue(folder: Path, **options: str) -> SourceCatalogue:
    return build_file({"path": ".", "database": "postgresql", **options}, Runtime(lambda: None, folder))


def column(name: str, words: str, type_: str | None = None, comment: str | None = None) -> SourceColumn:
    return SourceColumn(name=name, written=words, type=parse_type(type_ or words), comment=comment)


def in_sql(tmp_path: Path) -> CatalogueUnderTest:
    (tmp_path / "a.sql").write_text(
        """
        CREATE TABLE shop.orders (b int, id bigint, feel shop.mood, net numeric(12,2), PRIMARY KEY (id, b));
        CREATE TABLE "Shop"."Lines" ("N" text);
        CREATE TABLE shop.twin (a int PRIMARY KEY); CREATE TABLE shop."TWIN" (b int);
        COMMENT ON TABLE shop.orders IS 'what was bought'; COMMENT ON COLUMN shop.orders.net IS 'without tax'""",
        "utf-8",
    )
    columns = (
        column("b", "int"),
        column("id", "bigint"),
        SourceColumn(name="feel", written="shop.mood", type=None),
        column("net", "numeric(12, 2)", "decimal(12,2)", "without tax"),
    )
    tables = [
        SourceTable(name=ORDERS, columns=columns, key=("id", "b"), comment="what was bought"),
        SourceTable(name=TableName("Shop", "Lines"), columns=(column("N", "text", "string"),)),
        SourceTable(name=TableName("shop", "twin"), columns=(column("a", "int"),), key=("a",)),
        SourceTable(name=TableName("shop", "TWIN"), columns=(column("b", "int"),)),
    ]
    return CatalogueUnderTest(
        catalogue=catalogue(tmp_path), tables=tables, gone=catalogue(tmp_path, path="gone.sql")
    )


def in_json(tmp_path: Path) -> CatalogueUnderTest:
    columns = [{"name": "b", "type": "int"}, {"name": "id", "type": "bigint", "comment": "a number"}]
    lines = {
        "schema": "shop",
        "table": "lines",
        "columns": [{"name": "at", "type": "time"}],
        "comment": "of orders",
    }
    orders = {"schema": "shop", "table": "orders", "columns": columns, "key": ["id", "b"]}
    for name, described in (("a.json", [orders]), ("b.json", [lines])):
        (tmp_path / name).write_text(json.dumps({"tables": described}), "utf-8")
    of_lines = SourceColumn(name="at", written="time", type=None)
    tables = [
        SourceTable(
            name=ORDERS, columns=(column("b", "int"), column("id", "bigint", comment="a number")), key=("id", "b")
        ),
        SourceTable(name=TableName("shop", "lines"), columns=(of_lines,), comment="of orders"),
    ]
    made = build_file({"path": "."}, Runtime(lambda: None, tmp_path))
    return CatalogueUnderTest(catalogue=made, tables=tables, gone=catalogue(tmp_path / "gone"))


TestSql = catalogue_contract(in_sql)
TestJson = catalogue_contract(in_json)


def test_files_of_both_forms_are_read_together_and_others_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE TABLE shop.orders (id int PRIMARY KEY)", "utf-8")
    described = {"tables": [{"schema": "shop", "table": "lines", "columns": [{"name": "n", "type": "int4"}]}]}
    (tmp_path / "b.json").write_text(json.dumps(described), "utf-8")
    (tmp_path / "notes.txt").write_text("nothing", "utf-8")
    lines = TableName("shop", "lines")
    assert set(catalogue(tmp_path).describe([ORDERS, lines])) == {ORDERS, lines}


def test_a_table_that_two_files_have_is_an_error(tmp_path: Path) -> None:
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).write_text("CREATE TABLE shop.orders (id int)", "utf-8")
    with pytest.raises(ConfigError, match="twice"):
        catalogue(tmp_path).describe([ORDERS])


def test_a_folder_without_a_file_does_not_answer(tmp_path: Path) -> None:
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
