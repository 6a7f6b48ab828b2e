"""`lakeward verify --against source`: tables with rows changed by another writer, and running databases."""

from __future__ import annotations

import json
from typing import Any

import pytest
import servers
from altering import Row, alter
from project import NOW, Project
from pyspark.sql import SparkSession

from lakeward.entrypoints import container
from lakeward.entrypoints.commands import verify

pytestmark = pytest.mark.spark

CATALOGUE = """
[catalogue]
kind = "jdbc"
url = "{url}"
user = "{user}"
password = {{ env = "DB_PASSWORD" }}
"""
ORDER = """
[tables."shop.item"]
columns = { extra = "string" }
catalogue = { left_out = ["secret"] }
write_mode = "copy-on-write"
"""
FEED = 'format = "debezium"\ndecimals = "string"'
AGAINST = ("verify", "shop.item", "--against", "source", "--json")
FAR = 2**60
"""An LSN after everything that a test writes."""


def spoil(rows: list[Row]) -> None:
    """Alter a row, remove one, and add one."""
    rows[1].update(name="altered")
    del rows[2]
    rows.append({**rows[0], "id": type(rows[0]["id"])(9)})


def message(key: int, name: str | None, lsn: int, **rest: Any) -> str:
    after = {"id": key, "name": name, "code": "ab", "price": "1.5", "at": "2026-03-29T01:30:00.123456Z", **rest}
    return json.dumps({"after": after, "op": "c", "source": {"lsn": lsn}}) + "\n"


def verified(project: Project, code: int, *arguments: str) -> Any:
    """Compare the table, and return its verification."""
    ended = project.call(*AGAINST, *arguments)
    assert ended.code == code, ended.out + ended.err
    (found,) = ended.document["tables"]
    return found


def kinds(found: Any) -> list[tuple[str, str]]:
    return [(one["key"][0], one["kind"]) for one in found["differences"]]


SPOILED = [("2", "changed"), ("3", "missing"), ("9", "extra")]


def test_a_table_of_debezium_is_compared_with_postgresql(
    project: Project, postgresql: servers.Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql.tell("""
        CREATE SCHEMA shop;
        CREATE TABLE shop.item (id bigint PRIMARY KEY, name text, code char(5), price numeric(8,2),
            at timestamptz, secret text);
        INSERT INTO shop.item SELECT n, CASE WHEN n < 5 THEN 'name ' || n END, 'ab', 1.50,
            '2026-03-29 01:30:00.123456+00', 's' FROM generate_series(1, 5) n""")
    monkeypatch.setenv("DB_PASSWORD", postgresql.password)
    tables = CATALOGUE.format(url=postgresql.url, user=postgresql.user) + ORDER
    project.configure(tables, FEED, source_kind="files")
    project.put("1.json", "".join(message(n, f"name {n}" if n < 5 else None, 1) for n in range(1, 6)))
    project.run()
    equal = verified(project, 0)
    assert (equal["outcome"], equal["ranges"], equal["equal_ranges"]) == ("equal", 5, 5)
    assert (equal["source_rows"], equal["table_rows"], equal["comparisons"]) == (5, 5, 1)
    assert equal["verified_through"]["log"].startswith("0/")
    assert equal["not_compared"] == {"extra": "the source does not have it", "secret": "the table does not have it"}
    alter(project, spark, spoil)
    found = verified(project, 75)
    assert (kinds(found), [one["proof"] for one in found["differences"]]) == (SPOILED, [None] * 3)
    postgresql.tell("UPDATE shop.item SET price = 2 WHERE id = 5; INSERT INTO shop.item VALUES (6, 'on its way')")
    project.put("2.json", message(5, None, FAR, price="2.00"))
    project.run()
    found = verified(project, 3)
    assert kinds(found) == [*SPOILED[:2], ("6", "missing"), SPOILED[2]]
    assert [one["proof"] for one in found["differences"]] == ["passed", "passed", None, "passed"]
    assert "4 keys differed from its source" in project.call("status").out
    away = CATALOGUE.format(url=f"jdbc:postgresql://127.0.0.1:{servers.free_port()}/shop", user="shop") + ORDER
    project.configure(away, FEED, source_kind="files")
    lost = project.call(*AGAINST)
    assert (lost.code, "does not answer" in lost.out) == (75, True)
    assert postgresql.password not in lost.out + lost.err


@pytest.mark.parametrize("project", [pytest.param("hudi", marks=pytest.mark.hudi)], indirect=True)
def test_a_table_of_hudi_is_compared_with_postgresql(
    project: Project, postgresql: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the source was changed without an event."""
    postgresql.tell("""
        DROP SCHEMA IF EXISTS shop CASCADE;
        CREATE SCHEMA shop;
        CREATE TABLE shop.item (id bigint PRIMARY KEY, name text, code char(5), price numeric(8,2), at timestamptz);
        INSERT INTO shop.item
            SELECT n, 'name ' || n, 'ab', 1.50, '2026-03-29 01:30:00.123456+00' FROM generate_series(1, 4) n""")
    monkeypatch.setenv("DB_PASSWORD", postgresql.password)
    tables = CATALOGUE.format(url=postgresql.url, user=postgresql.user) + '[tables."shop.item"]\n'
    project.configure(tables, FEED, source_kind="files")
    project.put("1.json", "".join(message(n, f"name {n}", 1) for n in range(1, 5)))
    project.run()
    equal = verified(project, 0)
    assert (equal["outcome"], equal["source_rows"], equal["table_rows"]) == ("equal", 4, 4)
    postgresql.tell("""
        UPDATE shop.item SET name = 'altered' WHERE id = 2;
        DELETE FROM shop.item WHERE id = 3;
        INSERT INTO shop.item VALUES (9, 'new')""")
    found = verified(project, 75)
    assert kinds(found) == [("2", "changed"), ("3", "extra"), ("9", "missing")]


@pytest.mark.parametrize("project", ["delta"], indirect=True)
def test_a_table_from_mariadb_is_compared_with_it(
    project: Project, mariadb: servers.Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    mariadb.tell("""
        CREATE DATABASE shop;
        CREATE TABLE shop.item (id bigint unsigned PRIMARY KEY, name varchar(20), code char(5), d double,
            f float, at timestamp(6) NULL, local datetime(6), small tinyint(1), raw varbinary(8));
        INSERT INTO shop.item SELECT seq, NULLIF(CONCAT('name ', seq), 'name 4'), 'ab', -0.0, 0.1,
            '2026-03-29 12:30:00.123456', '2026-03-29 02:30:00.123456', 7, x'00ff' FROM shop.seq_1_to_4""")
    monkeypatch.setenv("DB_PASSWORD", mariadb.password)
    source = f'url = "{mariadb.url}"\nuser = "{mariadb.user}"\npassword = {{ env = "DB_PASSWORD" }}'
    project.configure('[tables."shop.item"]\nkey = ["id"]\nfull_loads = "snapshot"\n', source, source_kind="jdbc")
    file = project.folder / "lakeward.toml"
    file.write_text(file.read_text("utf-8").replace('path = "landing"\n', ""), "utf-8")
    project.run()
    equal = verified(project, 0)
    assert (equal["source_rows"], equal["table_rows"], equal["not_compared"]) == (4, 4, {})
    alter(project, spark, spoil)
    slept: list[float] = []
    monkeypatch.setattr(verify, "sleep", slept.append)
    monkeypatch.setattr(container, "clock", lambda: NOW + int(sum(slept) * 1_000_000))
    found = verified(project, 3, "--wait", "5m", "--keys")
    assert (kinds(found), found["comparisons"]) == (SPOILED, 2)
