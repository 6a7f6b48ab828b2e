"""A source log that starts over, through commands: the alarm, the decision, and feeds without a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from project import Project, iceberg_and_delta

pytestmark = pytest.mark.spark

TABLE = """
[tables."shop.{}"]
key = ["id"]
columns = {{ id = "int", v = "string" }}
lateness = "{}"
"""

RULE = """
[[tables."shop.failed_over".quality]]
rule = "in_set"
column = "v"
values = ["a", "b"]
"""
"""A rule about rows, which does not change the log of a table."""

HOUR: Final = 3_600_000
START: Final = 1_780_000_000_000
"""The time of the first change of each feed, in milliseconds since 1970."""

UNSENT: Final = "__debezium_unavailable_value"
"""The text that Debezium writes for a value that PostgreSQL did not log."""

Change = tuple[str, int, str | None, int, Mapping[str, Any]]
"""Operation, key, value or None, time in milliseconds since `START`, and log position."""


def postgres(lsn: int) -> dict[str, Any]:
    return {"connector": "postgresql", "lsn": lsn, "sequence": json.dumps([str(lsn - 1), str(lsn)])}


def alone(lsn: int) -> dict[str, Any]:
    """Return the position of a change without that of its commit, so that transactions overlap."""
    return {"connector": "postgresql", "lsn": lsn}


def untold(lsn: int, snapshot: str = "false") -> dict[str, Any]:
    """Return a position as PostgreSQL's connector writes it until it has seen a commit."""
    return {"connector": "postgresql", "lsn": lsn, "sequence": json.dumps([None, str(lsn)]), "snapshot": snapshot}


def mysql(file: str, pos: int, server: int = 1) -> dict[str, Any]:
    return {"connector": "mysql", "file": file, "pos": pos, "row": 0, "server_id": server}


RESTARTS: Final[Mapping[str, tuple[str, list[Change], list[Change]]]] = {
    "failed_over": (
        "24h",
        [("c", 1, "a", 0, postgres(900_000)), ("c", 2, "a", 0, postgres(900_000))],
        [("u", 1, "b", HOUR, postgres(5000)), ("d", 2, None, HOUR, postgres(5001))],
    ),
    "new_slot": (
        "ordered",
        [("c", 1, "a", 0, postgres(900_000)), ("c", 2, "a", 0, postgres(900_001))],
        [("u", 1, "b", HOUR, postgres(5000)), ("d", 2, None, HOUR, postgres(5001))],
    ),
    "within_a_file": (
        "24h",
        [("c", 1, "a", 0, alone(900_000)), ("c", 2, "a", 0, alone(900_001))],
        [("u", 1, "a", 5000, alone(900_200)), ("u", 1, "b", HOUR, alone(5000)), ("d", 2, None, HOUR, alone(5001))],
    ),
    "climbs_past": (
        "24h",
        [("c", 1, "a", 0, mysql("bin.000400", 4)), ("c", 2, "a", 1000, mysql("bin.000400", 90))],
        [
            ("u", 1, "late", HOUR, mysql("bin.000399", 4, 2)),
            ("d", 2, None, HOUR + 1000, mysql("bin.000399", 90, 2)),
            ("u", 1, "b", HOUR + 5000, mysql("bin.000401", 4, 2)),
        ],
    ),
    "behind_an_old_change": (
        "ordered",
        [
            ("c", 1, "old", 0, postgres(899_000)),
            ("u", 1, "a", 1000, postgres(900_100)),
            ("c", 2, "a", 2000, postgres(900_200)),
        ],
        [
            ("c", 1, "old", 0, postgres(899_000)),
            ("u", 1, "b", HOUR, postgres(899_500)),
            ("d", 2, None, HOUR + 1000, postgres(899_600)),
        ],
    ),
    "no_place": (
        "24h",
        [("c", 1, "a", 0, postgres(900)), ("c", 2, "a", 0, postgres(901))],
        [
            ("u", 1, "late", HOUR, postgres(902)),
            ("u", 1, "b", HOUR + 500, {"connector": "postgresql"}),
            ("d", 2, None, HOUR + 500, {"connector": "postgresql"}),
        ],
    ),
    "other_log": (
        "24h",
        [("c", 1, "a", 0, mysql("bin.000400", 4)), ("c", 2, "a", 0, mysql("bin.000400", 90))],
        [("u", 1, "b", HOUR, mysql("other.000001", 4)), ("d", 2, None, HOUR, mysql("other.000001", 90))],
    ),
    "new_snapshot": (
        "24h",
        [
            ("c", 1, "old", 0, postgres(100)),
            ("c", 2, "a", 0, postgres(101)),
            ("u", 1, "a", 1000, postgres(900_000)),
        ],
        [("r", 1, "b", HOUR, {**postgres(5000), "snapshot": "last"}), ("d", 2, None, HOUR + 5000, postgres(5100))],
    ),
    "new_snapshot_of_binlog": (
        "ordered",
        [
            ("c", 1, "old", 0, mysql("bin.000001", 4)),
            ("c", 2, "a", 0, mysql("bin.000001", 90)),
            ("u", 1, "a", 1000, mysql("bin.000400", 4)),
        ],
        [
            ("r", 1, "b", HOUR, {**mysql("bin.000200", 4, 0), "snapshot": "true"}),
            ("d", 2, None, HOUR + 5000, mysql("bin.000200", 90)),
        ],
    ),
    "other_server": (
        "24h",
        [("c", 1, "a", 0, mysql("bin.000400", 4)), ("c", 2, "a", 0, mysql("bin.000400", 90))],
        [("u", 1, "b", HOUR, mysql("bin.000001", 4, 2)), ("d", 2, None, HOUR, mysql("bin.000001", 90, 2))],
    ),
    "open_at_the_snapshot": (
        "24h",
        [("r", 1, "a", 0, untold(200, "first")), ("r", 2, "a", HOUR, untold(200, "last"))],
        [("u", 1, "b", HOUR // 2, untold(150)), ("d", 2, None, HOUR // 2, untold(151))],
    ),
    "open_and_places_of_changes_alone": (
        "ordered",
        [("r", key, "a", 0, {**alone(200), "snapshot": "true"}) for key in (1, 2)],
        [("u", 1, "b", 0, alone(150)), ("u", 2, "c", 1000, alone(300)), ("d", 2, None, 2000, alone(301))],
    ),
}
"""Feeds of two files. The log starts over in the second, or its messages have no position there.

In each, key 1 becomes `b` and key 2 is deleted.
"""

NO_RESTARTS: Final[Mapping[str, tuple[str, list[Change], list[Change]]]] = {
    "long_numbers": (
        "ordered",
        [("c", 1, "a", 0, mysql("bin.999999", 900))],
        [("u", 1, "b", HOUR, mysql("bin.1000000", 4))],
    ),
    "read_again": (
        "24h",
        [("c", 1, "a", 0, postgres(900)), ("r", 2, "b", HOUR, {**postgres(800), "snapshot": "incremental"})],
        [("u", 1, "b", 2 * HOUR, postgres(950)), ("r", 3, "b", 3 * HOUR, {**postgres(700), "snapshot": "true"})],
    ),
    "incremental_between": (
        "24h",
        [("c", 1, "a", 0, postgres(100)), ("u", 1, "b", 1000, postgres(900))],
        [("r", 1, "late", HOUR, {**postgres(500), "snapshot": "incremental"})],
    ),
    "delivered_again": (
        "24h",
        [("c", 1, "a", 0, postgres(900)), ("u", 1, "b", HOUR, postgres(950))],
        [("c", 1, "a", 0, postgres(900)), ("u", 1, "b", HOUR, postgres(950))],
    ),
    "behind_a_snapshot": (
        "24h",
        [("r", 1, "a", 0, untold(200, "first")), ("r", 2, "b", HOUR, untold(200, "last"))],
        [("u", 1, "b", HOUR // 2, untold(210)), ("u", 2, "b", HOUR, postgres(290))],
    ),
    "behind": ("24h", [("u", 1, "b", HOUR, postgres(950))], [("c", 2, "b", 1000, postgres(800))]),
}
"""Feeds of two files in which the log continues. Each remaining row is `b`."""

FEEDS = {**RESTARTS, **NO_RESTARTS}


def line(table: str, change: Change) -> str:
    operation, key, value, time, place = change
    image = {"id": key, "v": value}
    source = {"db": "shop", "schema": "shop", "table": table, "ts_ms": START + time, **place}
    images = {"before": image, "after": None} if operation == "d" else {"before": None, "after": image}
    images = {"before": None, "after": None} if operation == "t" else images
    return json.dumps({"op": operation, **images, "source": source, "ts_ms": START + time}) + "\n"


def deliver(project: Project, part: int) -> None:
    for table, (_, *parts) in FEEDS.items():
        project.put(f"{part}.jsonl", "".join(line(table, change) for change in parts[part]), f"shop/{table}")


def codes(tables: Mapping[str, Any]) -> dict[str, str]:
    return {name.split(".")[1]: table["error"]["code"] for name, table in tables.items() if table["error"]}


@iceberg_and_delta
def test_a_restarted_log_stops_only_its_table_until_it_is_acknowledged(project: Project) -> None:
    tables = "".join(TABLE.format(name, lateness) for name, (lateness, *_) in FEEDS.items())
    project.configure(tables + RULE, 'format = "debezium"', source_kind="files")
    deliver(project, 0)
    project.run()
    deliver(project, 1)
    for _ in range(2):
        found = project.run(4)
        assert codes(found) == dict.fromkeys(RESTARTS, "SEQUENCE-002")
        assert not any(table["alarms"] for name, table in found.items() if name.split(".")[1] in NO_RESTARTS)
    for name in NO_RESTARTS:
        assert {v for _, v in project.rows(name, columns=("id", "v"))} == {"b"}, name
    for name in RESTARTS:
        assert project.rows(name, columns=("id", "v")) == [(1, "a"), (2, "a")], "nothing of the batch was applied"
        assert project.call("ack", f"shop.{name}", "SEQUENCE-002").code == 0
    project.run()
    for name in RESTARTS:
        assert project.rows(name, columns=("id", "v")) == [(1, "b")], name
    assert project.call("status").code == 0


HIDDEN: Final[Mapping[str, tuple[list[Change], list[Change]]]] = {
    "mirror": (
        [("c", 9, "b", 0, alone(100)), ("c", 1, "a", 1000, alone(899_000)), ("u", 1, "a", 2000, alone(900_000))],
        [
            ("c", 1, "a", 1000, alone(899_000)),
            ("c", 5, "b", 500, alone(899_100)),
            ("u", 1, "b", HOUR, alone(899_500)),
        ],
    ),
    "history": (
        [("c", 9, "b", 0, alone(100)), ("c", 1, "a", 1000, alone(899_000))],
        [("c", 5, "b", 500, alone(898_000)), ("u", 1, "b", HOUR, alone(898_500))],
    ),
    "in_part": (
        [("c", 9, "b", 0, alone(100)), ("c", 1, "a", 1000, alone(899_000)), ("u", 1, UNSENT, 2000, alone(900_000))],
        [("u", 1, "b", HOUR, alone(899_500))],
    ),
    "truncated": (
        [("c", 9, "a", 0, alone(100))],
        [("t", 0, None, 1000, alone(900)), ("c", 1, "b", HOUR, alone(500))],
    ),
    "one_batch": (
        [("c", 9, "b", 0, alone(100))],
        [("c", 1, "a", 1000, alone(900_100)), ("u", 1, "b", HOUR, alone(900_000))],
    ),
}
"""Feeds of two files with overlapping transactions. In the second the log starts over, within the old log.

Newer changes are not stale, or are together with old ones that are.
"""


@pytest.mark.long
@iceberg_and_delta
def test_a_restart_within_the_old_log_stops_tables_resolved_by_spark(project: Project) -> None:
    """`tests/core/checks/test_log_restart.py` shows it for the core, and a law of the kit for Spark in the gate."""
    tables = "".join(TABLE.format(name, "24h") for name in HIDDEN)
    tables = tables.replace('"shop.history"]', '"shop.history"]\nmode = "history"')
    project.configure(f"{tables}\n[spark]\nsmall_batch = 0", 'format = "debezium"', source_kind="files")
    for part in (0, 1):
        for table, parts in HIDDEN.items():
            project.put(f"{part}.jsonl", "".join(line(table, change) for change in parts[part]), f"shop/{table}")
        found = project.run(4 * part)
        assert codes(found) == (dict.fromkeys(HIDDEN, "SEQUENCE-002") if part else {})
    for name in HIDDEN:
        assert project.call("ack", f"shop.{name}", "SEQUENCE-002").code == 0
    project.run()
    assert project.rows("mirror", columns=("id", "v")) == [(1, "b"), (5, "b"), (9, "b")]
    for name in ("in_part", "one_batch"):
        assert project.rows(name, columns=("id", "v")) == [(1, "b"), (9, "b")], name
    assert project.rows("truncated", columns=("id", "v")) == [(1, "b")]
    assert project.rows("history", columns=("id", "v")) == [(1, "a"), (1, "b"), (5, "b"), (9, "b")]
