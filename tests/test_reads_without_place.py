"""Flattened messages without a log position, or without its time: it is reported.

No snapshot row without a position replaces an earlier change.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from project import Project

pytestmark = pytest.mark.spark

TABLE = """
[tables."shop.{}"]
key = ["id"]
columns = {{ id = "int", name = "string" }}
lateness = "{}"
"""


def lines(*changes: tuple[str, int, str], **place: Any) -> str:
    """Return messages of one second each: a letter, a key and a value."""
    rows = [
        {"id": key, "name": name, "__op": letter, "__source_ts_ms": 1_795_000_000_000}
        for letter, key, name in changes
    ]
    return "".join(json.dumps({**row, "__deleted": "false", **place}) + "\n" for row in rows)


@pytest.mark.parametrize(("project", "lateness"), [("iceberg", "ordered"), ("delta", "24h")], indirect=["project"])
def test_a_snapshot_row_never_replaces_a_change_that_arrived_before_it(project: Project, lateness: str) -> None:
    """After the change in its file or in a later one. For keys without changes the last snapshot row wins."""
    tables = TABLE.format("item", lateness) + TABLE.format("untimed", lateness)
    project.configure(tables, 'format = "debezium"\nform = "flattened"', source_kind="files")
    project.put("1.json", lines(("c", 1, "new"), ("d", 2, ""), ("r", 3, "one"), ("u", 5, "new"), ("r", 5, "old")))
    change = {"id": 1, "name": "a", "__op": "u", "__deleted": "false", "__lsn": 5}
    untimed = [{**change, "__source_ts_ms": time} for time in (None, 0, 1)]
    read = {"id": 2, "name": "b", "__op": "r", "__lsn": 4}
    changes = "".join(json.dumps({**row, "__ts_ms": 1_795_000_000_000}) + "\n" for row in (*untimed, read))
    project.put("1.json", changes, "shop/untimed")
    found = project.run()
    first = found["shop.item"]
    (no_time,) = found["shop.untimed"]["warnings"]
    assert ("no time of the source" in no_time, no_time.endswith("Rows: 2.")) == (True, True)
    (said,) = first["warnings"]
    assert ("without a position in the log" in said, said.endswith("Rows: 5.")) == (True, True)
    project.put("2.json", lines(("r", 1, "old"), ("r", 2, "old"), ("r", 3, "two"), ("r", 4, "one")))
    project.put("3.json", lines(("u", 4, "new"), __lsn=5))
    second = project.run()["shop.item"]
    assert [words.rpartition(". ")[2] for words in second["warnings"]] == ["Rows: 4."]
    assert (second["counts"]["stale"], second["counts"]["ties"]) == (2, 0)
    assert project.rows(columns=("id", "name")) == [(1, "new"), (3, "two"), (4, "new"), (5, "new")]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_recreated_topic_stops_the_table(project: Project, is_late: bool) -> None:
    """Its offsets begin again, and with them its file names. Named for another partition, they come later."""
    project.configure(TABLE.format("item", "24h"), 'format = "debezium"\nplaces = "arrival"', source_kind="files")

    def message(op: str, key: int, name: str, hour: int) -> str:
        image = {"before" if op == "d" else "after": {"id": key, "name": name}}
        source = {"ts_ms": 1_795_000_000_000 + hour * 3_600_000}
        return json.dumps({"op": op, **image, "source": source}) + "\n"

    old = project.put("item+0+0000000500.json", message("c", 1, "a", 0) + message("c", 2, "a", 0))
    os.utime(old, (1_795_000_010, 1_795_000_010))
    if is_late:
        project.run()
    new = project.put("item+0+0000000000.json", message("u", 1, "NEW", 1) + message("d", 2, "a", 1))
    os.utime(new, (1_795_003_610, 1_795_003_610))
    error = project.run(4)["shop.item"]["error"]
    assert (error["code"], "item+0+0000000000.json comes before" in error["found"]) == ("SEQUENCE-003", True)
    assert project.run(4)["shop.item"]["error"] == error
    new.rename(new.with_name("item+100+0000000000.json"))
    assert project.call("ack", "shop.item", "LEDGER-003").code == 0  # the file by its old name
    project.run()
    assert project.rows(columns=("id", "name")) == [(1, "NEW")]
