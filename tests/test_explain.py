"""`explain` shows the events of a key without Spark, for tables that Spark wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from project import Project

pytestmark = pytest.mark.spark

TABLES = """
[tables."shop.item"]
key = ["id"]
columns = { id = "int", name = "string", price = "decimal(8,2)" }
[tables."shop.inorder"]
key = ["id"]
lateness = "ordered"
columns = { id = "int", name = "string" }
[tables."shop.pair"]
key = ["day", "code"]
columns = { day = "date", code = "string" }
"""


def put(project: Project, table: str, file: str, *rows: str) -> None:
    project.put(f"{file}.csv", "".join(f"{row}\n" for row in rows), f"shop/{table}")


def explained(project: Project, *arguments: str, code: int = 0) -> Mapping[str, Any]:
    ended = project.call("explain", *arguments, "--json")
    assert ended.code == code, ended.out + ended.err
    document: Mapping[str, Any] = ended.document
    return document


def story(document: Mapping[str, Any], *parts: str) -> list[tuple[Any, ...]]:
    return [tuple(event[part] for part in parts) for event in document["events"]]


def test_each_event_of_a_key_says_where_it_is_from_and_what_it_did(project: Project) -> None:
    project.configure(tables=TABLES, source='timestamp_column = "at"')
    day = "2026-11-21"
    put(project, "item", "LOAD00000001", f"{day} 09:00:00,1,Bonn,1.00", f"{day} 09:00:00,2,Bonn,1.00")
    put(project, "item", "20261121-100000000", f"U,{day} 10:00:00.1,1,Köln,1.00", f"U,{day} 10:00:00.1,1,Kiel,1.00")
    put(project, "inorder", "LOAD00000001", f"{day} 09:00:00,1,Bonn", f"{day} 09:00:00,2,Bonn")
    put(project, "inorder", "20261121-100000000", f"U,{day} 10:00:00,1,Köln", f"D,{day} 10:00:00,2,Bonn")
    put(project, "pair", "LOAD00000001", f"{day} 09:00:00,{day},a b", f"{day} 09:00:00,{day},")
    project.run()
    put(project, "item", "20261121-095000000", f"U,{day} 09:50:00,1,Ulm,1.00")
    put(project, "item", "20261121-110000000", f"U,{day} 11:00:00,1,Trier,dear")
    put(project, "item", "20261121-120000000", f"U,{day} 12:00:00,1,Mainz,1.00", f"D,{day} 12:00:01,2,Bonn,1.00")
    put(project, "inorder", "20261121-110000000", f"U,{day} 11:00:00,1,Kiel", f"I,{day} 11:00:00,2,Ulm")
    project.run(code=3)

    held = explained(project, "shop.item", "1", code=3)
    assert story(held, "operation", "object", "row", "batch", "verdict", "by", "tie") == [
        ("update", "20261121-100000000.csv", 1, 1, "superseded", 2, None),
        ("update", "20261121-100000000.csv", 2, 1, "applied", None, 1),
        ("update", "20261121-095000000.csv", 1, 2, "stale", 2, None),
        ("update", "20261121-110000000.csv", 1, 2, "quarantined", None, None),
        ("update", "20261121-120000000.csv", 1, 2, "waiting", 4, None),
    ]
    assert held["events"][1]["changes"] == {"name": {"before": "Köln", "after": "Kiel"}}
    assert held["events"][3]["quarantine"]["reason"] == "cast"
    assert held["stored"]["cells"] == {"id": 1, "name": "Kiel", "price": "1.00"}
    assert held["visible"]["batch"] == 1
    shown = project.call("explain", "shop.item", "1")
    tie = r"2 +update +2026-11-21 10:00:00\.1 UTC .*applied, tie with 1: the later row wins: name Köln → Kiel"
    assert re.search(tie, shown.out)
    assert shown.out.endswith("Next: `lakeward quarantine show shop.item 1`\n")

    assert project.call("quarantine", "discard", "shop.item", "1").code == 0
    freed = explained(project, "shop.item", "1")
    assert story(freed, "object", "verdict", "batch", "settled")[-2:] == [
        ("20261121-110000000.csv", "quarantined", 2, None),
        ("20261121-120000000.csv", "applied", 2, 3),
    ]
    assert freed["events"][3]["quarantine"]["given_up"] == 3
    assert (freed["stored"]["cells"]["name"], freed["visible"]["batch"]) == ("Mainz", 3)
    assert freed["is_whole"]

    gone = explained(project, "shop.item", "2")
    assert story(gone, "operation", "verdict") == [("delete", "applied")]
    assert (gone["stored"], gone["visible"]["batch"]) == (None, 2)

    assert "All other events are folded into the row." in project.call("explain", "shop.inorder", "1").out
    assert story(explained(project, "shop.inorder", "2"), "operation", "object", "verdict") == [
        ("delete", "20261121-100000000.csv", "applied"),
        (None, "20261121-110000000.csv", "applied"),
    ]
    assert story(explained(project, "shop.pair", day, "a b"), "operation", "row") == [("read", 1)]
    assert story(explained(project, "shop.pair", day, ""), "operation", "row") == [("read", 2)]
