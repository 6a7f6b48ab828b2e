"""Messages of other tables in the files of a table, through commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from project import Project, iceberg_and_delta

pytestmark = pytest.mark.spark

TABLE = """
[tables."shop.{name}"]
key = ["id"]
{columns}
source = {{ {source} }}
"""

COLUMNS = 'columns = { id = "int", note = "string" }'

TABLES = {
    "item": 'folder = "item"',
    "flat": 'folder = "flat", form = "flattened"',
    "dms": 'folder = "dms", format = "dms-json"',
    "three": 'folder = "topic"',
    "typed": 'folder = "topic", types = "schema"',
}


def envelope(key: int, table: str) -> Mapping[str, Any]:
    source = {"schema": "shop", "table": table, "lsn": key}
    return {"op": "c", "before": None, "after": {"id": key, "note": "a"}, "source": source}


def flat(key: int, schema: str, table: str) -> Mapping[str, Any]:
    return {"id": key, "note": "a", "__op": "c", "__lsn": key, "__db": schema, "__table": table}


def of_dms(key: int, table: str, kind: str = "data") -> Mapping[str, Any]:
    said = {"record-type": kind, "operation": "insert", "schema-name": "shop", "table-name": table}
    return {"data": {"id": key, "note": "a"}, "metadata": {"timestamp": "2026-11-21T10:00:00Z", **said}}


@iceberg_and_delta
def test_messages_of_other_tables_are_counted_and_never_applied(project: Project) -> None:
    """In its own folder, a file with nothing else stops the table. In a shared folder the table reports it."""
    tables = [
        TABLE.format(name=name, source=source, columns="" if name == "typed" else COLUMNS)
        for name, source in TABLES.items()
    ]
    project.configure("".join(tables), 'format = "debezium"', source_kind="files")
    heartbeat = {"ts_ms": 5}
    files = {
        "item": [envelope(1, "item"), envelope(2, "other"), envelope(3, "other"), envelope(4, "thing"), heartbeat],
        "flat": [flat(1, "ORCL", "STOCK_FLAT"), flat(2, "ORCL", "STOCK_FLAT")],
        "dms": [of_dms(1, "dms"), of_dms(2, "other"), of_dms(3, "other", "control")],
        "topic": [envelope(1, "thing"), envelope(2, "order"), envelope(3, "order")],
    }
    for folder, lines in files.items():
        project.put("a.json", "".join(f"{json.dumps(line)}\n" for line in lines), folder)
    planned = project.call("plan", "shop.item", "shop.typed", "--json").document
    ended = {name.removeprefix("shop."): table for name, table in project.run(code=4).items()}
    counts = {name: (table["counts"]["read"], table["counts"]["skipped"]) for name, table in ended.items()}
    assert counts == {"item": (5, 4), "flat": (0, 0), "dms": (3, 2), "three": (3, 3), "typed": (0, 0)}
    assert "found rows of ORCL.STOCK_FLAT (2), and none of shop.flat" in ended["flat"]["error"]["found"]
    assert project.rows(columns=("id", "note")) == [(1, "a")]
    lacks = "Its files have no message of shop.{0}. They have messages of {1}: is `shop.{0}` misspelt?"
    words = {
        "item": "3 messages of other tables were skipped: shop.other (2), shop.thing (1)",
        "dms": "1 message of another table was skipped: shop.other (1)",
        "three": lacks.format("three", "shop.order (2), shop.thing (1)"),
        "typed": lacks.format("typed", "shop.order (2), shop.thing (1)"),
    }
    assert {name: _reported(table) for name, table in ended.items()} == {name: words.get(name) for name in TABLES}
    for table in planned["tables"]:
        assert _reported(table) == words[table["table"].removeprefix("shop.")]
    stands = project.call("status", "--json").document["tables"]
    del words["typed"]  # nothing of it is committed
    assert {t["table"].removeprefix("shop."): _reported(t) for t in stands if _reported(t)} == words
    (item,) = (table for table in stands if table["table"] == "shop.item")
    assert item["other_tables"] == {"messages": 3, "names": {"shop.other": 2, "shop.thing": 1}}


def _reported(table: Mapping[str, Any]) -> str | None:
    """Return the messages of other tables in a JSON document."""
    said = ("message of another table", "messages of other tables", "misspelt?")
    return next((text for text in table["warnings"] if any(words in text for words in said)), None)
