"""Projects with joined tables: what is delivered to them, and what a run says of the one joined table."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from project import Project

TIMED = 'timestamp_column = "at"'


def run_joined(project: Project, code: int = 0) -> dict[str, Any]:
    """Run once, and return what became of the one joined table."""
    ended = project.call("run", "--once", "--json")
    assert ended.code == code, ended.out + ended.err
    [found] = ended.document["joined"]
    return dict(found)


def put(project: Project, table: str, day: int, *rows: str) -> None:
    """Deliver a file of one day, with rows as DMS writes them, without their time."""
    lines = "".join(f"{row[0]},2026-11-{day:02} 10:00:00.000000{row[1:]}\n" for row in rows)
    project.put(f"202611{day:02}-100000000.csv", lines, f"shop/{table}")


def shown(value: Any) -> Any:
    """Return a value as tests write it: a time by its day, a number without its places."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d")
    return int(value) if isinstance(value, Decimal) else value
