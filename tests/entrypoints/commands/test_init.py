"""`lakeward init` looks at a folder and writes settings that a person confirms."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import Command

from lakeward.entrypoints.settings.configuration import validate


def put(folder: Path, table: str, name: str, content: str) -> None:
    file = folder / "landing" / table / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, "utf-8")


def settings(folder: Path) -> Any:
    content = tomllib.loads((folder / "lakeward.toml").read_text("utf-8"))
    validate(content, folder / "lakeward.toml")
    return content


def todo(folder: Path) -> list[str]:
    lines = (folder / "lakeward.toml").read_text("utf-8").splitlines()
    return [line.partition("TODO: ")[2] for line in lines if "TODO: " in line]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    put(tmp_path, "shop/customer", "LOAD00000001.csv", "id,name,zip\n1,Ann,00100\n2,Bob,12345\n")
    put(tmp_path, "shop/customer", "20261120-100501000.csv", "Op,id,name,zip\nU,1,Anna,00100\n")
    return tmp_path


def test_headers_say_names_and_the_sample_types_and_key(lakeward: Command, shop: Path) -> None:
    ended = lakeward("init", "landing")
    assert ended.code == 0, ended.err
    assert "shop.customer" in ended.out
    table = settings(shop)["tables"]["shop.customer"]
    assert table == {"key": ["id"], "columns": {"id": "bigint", "name": "string", "zip": "string"}}
    assert any("the key id is proposed" in words for words in todo(shop))
    assert any("types are proposed" in words for words in todo(shop))


def test_without_headers_the_columns_are_numbered_and_no_key_is_guessed(lakeward: Command, tmp_path: Path) -> None:
    put(tmp_path, "shop/line", "20261120-100501000.csv", "I,1,2026-01-01\nD,2,2026-01-02\n")
    lakeward("init", "landing")
    table = settings(tmp_path)["tables"]["shop.line"]
    assert table == {"columns": {"column_1": "bigint", "column_2": "date"}}
    assert any("name the key" in words for words in todo(tmp_path))


def test_a_delimiter_and_the_commit_time_are_seen(lakeward: Command, tmp_path: Path) -> None:
    at = "2026-11-20 10:00:00.000001"
    put(tmp_path, "shop/line", "LOAD00000001.csv", f"{at};1;a,b\n{at};2;c\n")
    put(tmp_path, "shop/line", "20261120-100501000.csv", f"U;{at};1;c\n")
    lakeward("init", "landing")
    content, source = settings(tmp_path), {"kind": "dms", "path": "landing/"}
    assert content["source"] == {**source, "delimiter": ";", "timestamp_column": "commit_time"}
    assert [*content["tables"]["shop.line"]["columns"].values()] == ["bigint", "string"]


def test_parquet_files_have_types_of_their_own(lakeward: Command, tmp_path: Path) -> None:
    put(tmp_path, "shop/line", "LOAD00000001.csv", "")
    file = tmp_path / "landing/shop/line/LOAD00000001.parquet"
    pq.write_table(pa.table({"id": [1]}), file)
    file.with_suffix(".csv").unlink()
    lakeward("init", "landing")
    assert settings(tmp_path)["tables"]["shop.line"] == {}
    assert "with the types of the files: id" in (tmp_path / "lakeward.toml").read_text("utf-8")


def test_with_a_catalogue_nothing_is_guessed(lakeward: Command, shop: Path) -> None:
    sql = "CREATE TABLE shop.customer (id int PRIMARY KEY, name text, spot geometry);"
    (shop / "shop.sql").write_text(sql, "utf-8")
    ended = lakeward("init", "landing", "--catalogue", "shop.sql", "--database", "postgresql", "--json")
    assert ended.document["tables"][0]["catalogue"] is True
    content = settings(shop)
    assert content["catalogue"] == {"kind": "file", "path": "shop.sql", "database": "postgresql"}
    assert content["tables"]["shop.customer"] == {}
    assert todo(shop) == [
        "the files have a column zip, and the catalogue does not",
        "declare the type of spot (geometry): lakeward has no type for the catalogue's",
    ]


def test_nothing_is_overwritten(lakeward: Command, shop: Path) -> None:
    (shop / "lakeward.toml").write_text("mine", "utf-8")
    ended = lakeward("init", "landing")
    assert ended.code == 1
    assert "exists already" in ended.err
    assert (shop / "lakeward.toml").read_text("utf-8") == "mine"
    assert lakeward("init", "landing", "-c", "other.toml").code == 0


@pytest.mark.parametrize("folder", ["gone", "empty"])
def test_a_folder_without_files_of_a_source_is_a_mistake(lakeward: Command, tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    ended = lakeward("init", folder)
    assert ended.code == 1
    assert folder in ended.err
    assert not (tmp_path / "lakeward.toml").exists()


def test_names_of_any_kind_are_written_as_toml_has_them(lakeward: Command, tmp_path: Path) -> None:
    put(tmp_path, 'sh op/a".b', "LOAD00000001.csv", "id,full name\n1,x\n2,y\n")
    lakeward("init", "landing")
    (table,) = settings(tmp_path)["tables"].values()
    assert table["columns"] == {"id": "bigint", "full name": "string"}


def test_a_folder_too_high_is_doubted(lakeward: Command, shop: Path) -> None:
    (shop / "landing/shop/customer/20261120-100501000.csv").unlink()
    lakeward("init", ".")
    assert any("table of segments" in words for words in todo(shop))


def test_changes_without_an_operation_are_proposed_as_such(lakeward: Command, tmp_path: Path) -> None:
    put(tmp_path, "shop/line", "LOAD00000001.csv", "1,2.50\n")
    put(tmp_path, "shop/line", "20261120-100501000.csv", "1,3.50\n2,4.50\n")
    lakeward("init", "landing")
    assert settings(tmp_path)["source"]["operations"] == "inserts_and_updates"
    assert any("Deletes are lost" in words for words in todo(tmp_path))
    put(tmp_path, "shop/line", "20261120-110501000.csv", "I,3,4.50\n")
    lakeward("init", "landing", "-c", "other.toml")
    assert "operations" not in tomllib.loads((tmp_path / "other.toml").read_text("utf-8"))["source"]


# Full load and changes apart.


def test_folders_of_a_full_load_and_of_changes_are_found_and_proposed(lakeward: Command, tmp_path: Path) -> None:
    put(tmp_path, "full/shop/orders", "p2026/LOAD00000001.csv", "id,total\n1,2.50\n")
    put(tmp_path, "full/shop/lines", "LOAD00000001.csv", "id,n\n1,2\n")
    put(tmp_path, "cdc/shop/orders", "2026/11/21/20261121-100501000.csv", "Op,id,total\nU,1,3.50\n")
    ended = lakeward("init", "landing")
    assert ended.code == 0, ended.err
    content = settings(tmp_path)
    assert (content["source"]["load"], content["source"]["changes"]) == (
        "full/{schema}/{table}",
        "cdc/{schema}/{table}",
    )
    assert sorted(content["tables"]) == ["shop.lines", "shop.orders"]
    assert content["tables"]["shop.orders"]["columns"] == {"id": "bigint", "total": "decimal(38,2)"}
    assert "CSV, full load + changes, header" in ended.out


def test_tables_in_a_folder_of_the_bucket_are_found_by_their_changes(lakeward: Command, shop: Path) -> None:
    lakeward("init", ".", "-c", "other.toml")
    content = tomllib.loads((shop / "other.toml").read_text("utf-8"))
    assert content["source"]["load"] == content["source"]["changes"] == "landing/{schema}/{table}"
    assert [*content["tables"]] == ["shop.customer"]


# A catalogue that is a database.


def test_who_asks_is_of_no_use_without_a_database(lakeward: Command, shop: Path) -> None:
    for more in ([], ["--catalogue", "shop.sql"]):
        ended = lakeward("init", "landing", "--user", "me", *more)
        assert ended.code == 1
        assert "--catalogue names none" in ended.err


def test_a_password_is_named_and_never_taken(lakeward: Command, shop: Path) -> None:
    url = "jdbc:postgresql://127.0.0.1:1/shop"
    ended = lakeward("init", "landing", "--catalogue", url, "--user", "me", "--password", "hunter2")
    assert ended.code == 1
    assert "`env:NAME` or `file:PATH`" in ended.err
    assert "hunter2" not in ended.out + ended.err
    assert not (shop / "lakeward.toml").exists()


def test_files_of_many_tables_are_found_and_tables_that_they_alone_have(lakeward: Command, shop: Path) -> None:
    (shop / "landing" / "cdc").mkdir()
    rows = "U,customer,shop,1,Anna,00100\nI,line,shop,1,2.50\nI,line,shop,2,3.00\nof a broken row\n"
    (shop / "landing" / "cdc" / "CDC_TXN-20261120100501000.csv").write_text(rows, "utf-8")
    assert lakeward("init", "landing").code == 0
    found = settings(shop)
    assert found["source"]["cdc_path"] == "cdc"
    assert sorted(found["tables"]) == ["shop.customer", "shop.line"]
    assert found["tables"]["shop.line"] == {"columns": {"column_1": "bigint", "column_2": "decimal(38,2)"}}
    assert any("files of many tables lie there, as CDC_TXN-20261120100501000.csv" in words for words in todo(shop))


def test_plain_files_are_proposed_as_such(lakeward: Command, tmp_path: Path) -> None:
    rows = "id;st;at;name\n1;I;2026-11-21 10:00:00;Ann\n2;D;2026-11-21 10:00:01;\n"
    put(tmp_path, "crm/customer", "2026-11-21/part-1.csv", rows)
    lines = '{"id": 1, "total": 2.50, "zip": "00100", "paid": true, "to": {"city": "Ulm"}}\n{"id": 2}\n'
    put(tmp_path, "crm/order", "a.jsonl", lines)
    put(tmp_path, "crm/_tmp", "a.csv", "1\n")
    (tmp_path / "landing/crm/item").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "landing/crm/item/a.parquet")
    ended = lakeward("init", "landing")
    assert ended.code == 0, ended.err
    found = settings(tmp_path)
    assert found["source"] == {"kind": "files", "path": "landing/"}
    columns = {"id": "bigint", "st": "string", "at": "timestamp_ntz", "name": "string"}
    order = {"id": "bigint", "total": "decimal(38,2)", "zip": "string", "paid": "boolean", "to": "string"}
    assert found["tables"] == {
        "crm.customer": {"key": ["id"], "columns": columns, "source": {"delimiter": ";"}},
        "crm.item": {},
        "crm.order": {"key": ["id"], "columns": order},
    }
    assert any("st has words of operations" in words for words in todo(tmp_path))
    assert any("by `order_by`" in words and "(is it at?)" in words for words in todo(tmp_path))


def test_a_folder_of_tables_is_a_schema(lakeward: Command, tmp_path: Path) -> None:
    put(tmp_path, "customer", "dt=2026-11-21/a.csv", "1,Ann\n2,Bob\n")
    assert lakeward("init", "landing").code == 0
    table = {"columns": {"column_1": "bigint", "column_2": "string"}, "source": {"folder": "customer"}}
    assert settings(tmp_path)["tables"] == {"landing.customer": table}


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ('{"op": "c", "after": {"id": 1}}\n', 0, "messages of Debezium"),
        ('[{"id": 1},\n{"id": 2}]\n', 0, "not every line"),
        ("", 1, ""),
    ],
)
def test_files_that_are_no_rows_are_doubted(
    lakeward: Command, tmp_path: Path, content: str, code: int, said: str
) -> None:
    put(tmp_path, "crm/order", "a.json", content)
    assert lakeward("init", "landing").code == code
    assert code or any(said in words for words in todo(tmp_path))


def test_files_of_dms_that_cannot_be_read_are_doubted_and_stop_no_other(lakeward: Command, shop: Path) -> None:
    put(shop, "shop/torn", "LOAD00000001.csv.gz", "not packed")
    put(shop, "shop/torn", "20261121-090000000.csv", "I,1,2\n")
    put(shop, "shop/gone", "LOAD00000001.csv.gz", "not packed")
    put(shop, "cdc", "CDC_TXN-20261120100501000.csv", "I,line,shop,1,2.50\n")
    put(shop, "cdc", "CDC_TXN-20261120100502000.csv.gz", "not packed")
    ended = lakeward("init", "landing")
    assert ended.code == 0, ended.err
    tables = settings(shop)["tables"]
    assert tables["shop.torn"]["columns"] == {"column_1": "bigint", "column_2": "bigint"}
    assert "columns" not in tables["shop.gone"]
    assert (tables["shop.customer"]["key"], "shop.line" in tables) == (["id"], True)
    no_gzip, of_many = "cannot be read: Not a gzipped file (b'no')", "CDC_TXN-20261120100502000.csv.gz"
    assert sorted(words for words in todo(shop) if "cannot be read" in words) == [
        *[f"LOAD00000001.csv.gz {no_gzip}"] * 2,
        f"files of many tables lie there, as {of_many}; cdc/{of_many} {no_gzip}",
    ]


@pytest.mark.parametrize("name", ["LOAD00000001.csv", "a.csv", "a.jsonl"])
def test_a_file_that_is_no_utf_8_is_doubted_and_gives_no_columns(
    lakeward: Command, tmp_path: Path, name: str
) -> None:
    content = '{"id": 1}\n{"id": 2}\n' if name.endswith("l") else "id,name\n1,Ann\n2,Bob\n"
    put(tmp_path, "shop/customer", name, "")
    (tmp_path / "landing/shop/customer" / name).write_bytes(content.encode("utf-16"))
    assert lakeward("init", "landing").code == 0
    assert settings(tmp_path)["tables"] == {"shop.customer": {}}
    assert any("begins as text in UTF-16 or UTF-32 does" in words for words in todo(tmp_path))


def test_files_of_dms_are_not_taken_for_plain_ones(lakeward: Command, shop: Path) -> None:
    put(shop, "shop/a", "a.csv", "1\n")
    put(shop, "shop/b", "b.csv", "1\n")
    assert lakeward("init", "landing").code == 0
    assert settings(shop)["source"]["kind"] == "dms"
