"""A catalogue in the settings: what a run makes of it, remembers, and says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Command

from lakeward.core.dimension import TableName
from lakeward.entrypoints.startup.context import open_settings

ORDERS = TableName("shop", "orders")
SQL = "CREATE TABLE shop.orders (id int PRIMARY KEY, state text);"
SETTINGS = """
[pipeline]
name = "shop"
[source]
kind = "shop"
[target]
kind = "memory"
[catalogue]
kind = "file"
path = "shop.sql"
database = "postgresql"
{more}
[tables."shop.orders"]
{table}
"""


def write(folder: Path, table: str = "", more: str = "", sql: str | None = SQL) -> None:
    (folder / "lakeward.toml").write_text(SETTINGS.format(table=table, more=more), "utf-8")
    if sql is not None:
        (folder / "shop.sql").write_text(sql, "utf-8")


def warnings(command: Command, *more: str) -> str:
    ended = command("plan", "--json", *more)
    (table,) = ended.document["tables"]
    return " | ".join([*ended.document["warnings"], *table["warnings"]])


def test_a_table_of_which_the_settings_say_nothing_runs(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path)
    ended = lakeward("run", "--json", "--log", "off")
    assert ended.code == 0, ended.err
    assert ended.document["tables"][0]["counts"]["applied"] == 4
    dimension = open_settings(tmp_path / "lakeward.toml").dimension(ORDERS)
    assert (dimension.key, dimension.schema.names) == (("id",), ("id", "state"))


def test_the_settings_win_and_a_contradiction_says_both(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, 'key = ["state"]\ncolumns = { id = "bigint" }')
    said = warnings(lakeward)
    assert "the key is state" in said
    assert "the primary key id" in said
    dimension = open_settings(tmp_path / "lakeward.toml", asks=True).dimension(ORDERS)
    assert dimension.key == ("state",)
    assert [(column.name, str(column.type)) for column in dimension.schema] == [
        ("id", "bigint"),
        ("state", "string"),
    ]
    write(tmp_path, "key = []")
    assert open_settings(tmp_path / "lakeward.toml", asks=True).dimension(ORDERS).key == ()


def test_plan_writes_nothing_down_and_a_run_tells_what_is_new_once(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path)
    assert "At the source" not in warnings(lakeward)
    assert not (tmp_path / "state" / "catalogue.json").exists()
    lakeward("run", "--log", "off")
    write(tmp_path, sql="CREATE TABLE shop.orders (id bigint PRIMARY KEY, state text, note text);")
    for _ in range(2):
        assert "column note (string) is new" in warnings(lakeward)
    ended = lakeward("run", "--log", "off")
    assert "column note (string) is new" in ended.out
    assert "column id was int and is bigint" in ended.out
    assert "At the source" not in warnings(lakeward)
    recorded = json.loads((tmp_path / "state" / "catalogue.json").read_text("utf-8"))
    assert len(recorded["tables"][0]["answers"]) == 2


def test_where_it_does_not_answer_what_it_said_last_counts(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, sql=None)
    assert lakeward("run", "--log", "off").code == 1, "it never answered"
    write(tmp_path)
    lakeward("run", "--log", "off")
    (tmp_path / "shop.sql").unlink()
    ended = lakeward("run", "--log", "off")
    assert (ended.code, "Its last answers are used" in ended.out, "shop.sql" in ended.out) == (0, True, True)
    status = lakeward("status")
    assert (status.code, "catalogue" in status.out) == (0, False), "it does not ask"
    write(tmp_path, more='unreachable = "stop"', sql=None)
    stopped = lakeward("run", "--log", "off")
    assert (stopped.code, "cannot be read" in stopped.err) == (1, True)


def test_a_table_that_it_lacks_is_said(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, 'key = ["id"]\ncolumns = { id = "int", state = "string" }', sql="")
    assert "The catalogue has no such table: only the settings are used." in warnings(lakeward)


def test_a_column_without_a_type_stops_its_table_alone(lakeward: Command, tmp_path: Path) -> None:
    more = '[tables."shop.lines"]\nkey = ["id"]\ncolumns = { id = "int", state = "string" }'
    write(tmp_path, f"\n{more}", sql="CREATE TABLE shop.orders (id int PRIMARY KEY, spot geometry);")
    for command in ("plan", "run"):
        ended = lakeward(command, "--json", "--log", "off")
        assert ended.code == 4
        (orders, lines) = sorted(ended.document["tables"], key=lambda table: table["table"], reverse=True)
        assert "spot" in orders["error"]["what"]
        assert "geometry" in orders["error"]["found"]
        assert "error" not in lines or lines["error"] is None


def test_names_may_be_folded_and_tables_and_columns_be_called_otherwise(lakeward: Command, tmp_path: Path) -> None:
    sql = 'CREATE TABLE "S"."T" ("ID" int PRIMARY KEY, "STATE" text, "PHOTO" bytea);'
    table = 'catalogue = { name = "S.T", left_out = ["photo"] }'
    write(tmp_path, table, 'names = "lower"', sql)
    dimension = open_settings(tmp_path / "lakeward.toml", asks=True).dimension(ORDERS)
    assert (dimension.key, dimension.schema.names) == (("id",), ("id", "state"))
    write(tmp_path, "catalogue = { ask = false }", sql=SQL)
    assert len(open_settings(tmp_path / "lakeward.toml", asks=True).dimension(ORDERS).schema) == 0


def test_the_key_passes_rules_and_must_be_named_where_they_blur_it(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, '[[tables."shop.orders".rules]]\nrule = "rename"\ncolumn = "id"\nto = "number"')
    dimension = open_settings(tmp_path / "lakeward.toml", asks=True).dimension(ORDERS)
    assert dimension.key == ("number",)
    assert dimension.schema.find("number") is not None
    write(tmp_path, '[[tables."shop.orders".rules]]\nrule = "drop"\ncolumns = ["id"]')
    ended = lakeward("run", "--json", "--log", "off")
    assert ended.code == 4
    assert "`key`" in ended.document["tables"][0]["error"]["todo"]


def test_what_is_remembered_and_broken_is_said_with_its_file(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path)
    lakeward("run", "--log", "off")
    (tmp_path / "state" / "catalogue.json").write_text("{", "utf-8")
    ended = lakeward("run", "--log", "off")
    assert ended.code == 1
    assert "catalogue.json" in ended.err


@pytest.mark.parametrize("line", ['unreachable = "never"', 'names = "title"', 'pathh = "x"'])
def test_a_wrong_key_is_a_mistake(lakeward: Command, tmp_path: Path, line: str) -> None:
    write(tmp_path, more=line)
    assert lakeward("plan").code == 1


def test_types_that_are_remembered_are_the_same_afterwards(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, sql="CREATE TABLE shop.orders (id int PRIMARY KEY, state text, n numeric(12,2), u geometry);")
    write(tmp_path, 'columns = { u = "string" }', sql=None)
    lakeward("run", "--log", "off")
    columns = open_settings(tmp_path / "lakeward.toml").dimension(ORDERS).schema.columns
    assert [str(column.type) for column in columns] == ["int", "string", "decimal(12,2)", "string"]
