"""Files without a readable row under wrong settings, and full loads with an empty Op, through commands."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import ITEM, Project, iceberg_and_delta

pytestmark = pytest.mark.spark

LOAD, CDC = "LOAD00000001.csv", "20261121-100000000.csv"
STRICT = "quarantine = { max_share = 0.05 }\n"
FULL = '[tables."shop.full"]\nkey = ["id"]\ncolumns = { id = "int", name = "string" }\n'
D = Decimal


@iceberg_and_delta
def test_a_wholly_refused_file_waits_for_settings_or_an_operator(project: Project) -> None:
    """An empty Op is a row in a full load, and no operation in a file of changes."""
    wrong = ITEM.replace('price = "decimal(8,2)"', 'price = "int"') + STRICT
    project.configure(wrong + FULL)
    project.put(LOAD, "1,a,1.00\n2,b,2.00\n")
    project.put(LOAD, "Op,id,name\nI,1,a\n,2,b\n", table="shop/full")
    project.put(CDC, "Op,id,name\nI,3,c\n,4,d\n", table="shop/full")
    tables = project.run(4)
    assert tables["shop.item"]["error"]["code"] == "QUARANTINE-001"
    assert tables["shop.item"]["error"]["what"] == (
        f"shop.item: all 2 rows of {LOAD} are refused for one reason: cast"
    )
    assert '"1.00" is not an int (column price)' in tables["shop.item"]["error"]["found"]
    assert project.rows("full", columns=("id", "name")) == [(1, "a"), (2, "b"), (3, "c")]
    assert [(entry["table"], entry["reason"]) for entry in project.entries()] == [("shop.full", "operation")]

    project.configure(ITEM + STRICT + FULL)
    project.run(3)
    assert project.rows() == [(1, "a", D("1.00")), (2, "b", D("2.00"))]
    project.put(CDC, "U,1,c,much\nU,2,d,many\nI,3,e,1234567.00\n")
    assert "all 3 rows" in project.fails()
    assert project.call("ack", "shop.item", "QUARANTINE-001", "--reason", "they are so").code == 0
    assert project.run(3)["shop.item"]["counts"]["quarantined"] == 3

    assert project.call("quarantine", "replay", "shop.item").code == 1, "none fits"
    wider = ITEM.replace("decimal(8,2)", "decimal(10,2)")
    project.configure(wider + STRICT + FULL, source='null_text = "many"')
    replayed = project.call("quarantine", "replay", "shop.item")
    assert (replayed.code, "under the current settings: 1 cast." in replayed.out) == (0, True), replayed.out
    assert project.rows() == [(1, "a", D("1.00")), (2, "d", None), (3, "e", D("1234567.00"))]
    assert {(entry["table"], entry["row"]) for entry in project.entries()} == {("shop.full", 3), ("shop.item", 1)}


def test_rows_of_a_parquet_load_whose_op_is_empty_are_read(project: Project) -> None:
    project.configure('[tables."shop.item"]\nkey = ["id"]\n')
    rows = {"Op": ["I", None, ""], "id": pa.array([1, 2, 3], pa.int32())}
    file = project.put("LOAD00000001.parquet", b"")
    pq.write_table(pa.table(rows), file)
    assert project.run()["shop.item"]["counts"]["applied"] == 3
    assert project.rows(columns=("id",)) == [(1,), (2,), (3,)]


ROWS = [("I", 1, "a"), ("I", 2, "b"), ("X", 1, "a"), ("U", 2, "B"), ("N", 3, "c")]


def test_unknown_operations_are_read_again_once_the_settings_know_them(project: Project) -> None:
    """In CSV, JSON and Parquet. Operations that are still unknown stay, and NULL keys get advice."""

    def configure(more: str) -> None:
        source = f'source = {{ operation = {{ column = "op", insert = ["I"]{more} }} }}\n'
        tables = (("item", ""), ("parquet", 'op = "string", '))
        project.configure(
            "".join(
                f'[tables."shop.{name}"]\nkey = ["id"]\n{source}'
                f'columns = {{ {has_op}id = "int", name = "string" }}\n'
                for name, has_op in tables
            ),
            source_kind="files",
        )

    configure("")
    csv = "".join(f"{op},{id_},{name}\n" for op, id_, name in ROWS)
    project.put("1.csv", f"op,id,name\n{csv}U,,z\n")
    lines = [f'{{"op": "{op}", "id": 1{id_}, "name": "{name}"}}' for op, id_, name in ROWS]
    project.put("2.jsonl", "\n".join(lines) + "\n")
    file = project.put("1.parquet", b"", table="shop/parquet")
    op, id_, name = zip(*ROWS, strict=True)
    pq.write_table(pa.table({"op": op, "id": pa.array(id_, pa.int32()), "name": name}), file)
    project.run(3)
    refused = project.call("quarantine", "replay", "shop.item", "--at", "1.csv:7")
    said = " ".join(refused.err.split())
    assert (refused.code, "where `key` names a wrong column, drop the table" in said) == (1, True)
    assert "`lakeward quarantine discard shop.item --at 1.csv:7`" in said

    configure(', update = ["U"], delete = ["X"]')
    for table, rows in (("item", [(2, "B"), (12, "B")]), ("parquet", [(2, "B")])):
        replayed = project.call("quarantine", "replay", f"shop.{table}")
        assert (replayed.code, project.rows(table, columns=("id", "name"))) == (0, rows), replayed.err
    left = [(entry["object"], entry["row"], entry["reason"]) for entry in project.entries()]
    assert sorted(left) == [
        ("1.csv", 6, "operation"),
        ("1.csv", 7, "null_key"),
        ("1.parquet", 5, "operation"),
        ("2.jsonl", 5, "operation"),
    ]


MESSAGES = 'format = "debezium"'
HELD = """
[tables."shop.item"]
key = ["{key}"]
lateness = "24h"
{more}
columns = {{ {key} = "int", {name} = "string", day = {day} }}
"""
AS_WRITTEN = '{ type = "date", format = "dd.MM.yyyy" }'


def message(op: str, key: int, name: str, day: str, at: int) -> str:
    source = {"lsn": at, "ts_ms": 1_767_225_600_000 + at, "schema": "shop", "table": "item"}
    after = {"id": key, "name": name, "day": day}
    return json.dumps({"op": op, "before": None, "after": after, "source": source}) + "\n"


def test_a_message_is_replayed_with_current_settings(project: Project) -> None:
    """Its columns have other names then. If settings split it differently, it is not lost by a replay."""
    project.configure(HELD.format(key="id", name="name", more="", day='"date"'), MESSAGES, source_kind="files")
    project.put("1.json", message("c", 1, "a", "2026-01-01", 1) + message("c", 7, "z", "2026-01-01", 2))
    project.put("2.json", message("u", 1, "x", "02.01.2026", 3) + message("u", 7, "y", "2026-01-02", 4))
    project.run(3)
    right = HELD.format(key="id", name="name", more="", day=AS_WRITTEN)
    project.configure(right, f'{MESSAGES}\nform = "flattened"', source_kind="files")
    refused = project.call("quarantine", "replay", "shop.item")
    assert (refused.code, "not readable under the current settings" in refused.err) == (1, True)
    renames = 'schema.rename = { id = "no", name = "title" }'
    renamed = HELD.format(key="no", name="title", more=renames, day=AS_WRITTEN)
    project.configure(renamed, MESSAGES, source_kind="files")
    assert project.call("quarantine", "replay", "shop.item").code == 0
    found = project.rows(columns=("no", "title", "day"))
    assert found == [(1, "x", date(2026, 1, 2)), (7, "y", date(2026, 1, 2))]


@pytest.mark.long
def test_a_row_that_became_partial_is_replayed_as_an_update(project: Project) -> None:
    """A missing cell was NULL under the old settings, and is not sent under the new ones."""
    lines = 'format = "json"'
    project.configure(HELD.format(key="id", name="name", more="", day='"date"'), lines, source_kind="files")
    project.put("1.json", '{"id": 1, "name": "a", "day": "2026-01-01"}\n{"id": 7, "name": "z"}\n')
    project.put("2.json", '{"id": 1, "day": "02.01.2026"}\n{"id": 7, "name": "y"}\n')
    project.run(3)
    right = HELD.format(key="id", name="name", more="", day=AS_WRITTEN)
    project.configure(right, f'{lines}\nabsent = "unset"', source_kind="files")
    assert project.call("quarantine", "replay", "shop.item").code == 0
    assert project.rows(columns=("id", "name", "day")) == [(1, "a", date(2026, 1, 2)), (7, "y", None)]
