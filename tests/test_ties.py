"""Ties through commands: they are held until an operator decides, or stop the table."""

from __future__ import annotations

from decimal import Decimal

import pytest
from project import ITEM, Project

pytestmark = [pytest.mark.spark, pytest.mark.long]

TIMES = 'timestamp_column = "at"'
FIX = "shop.item.fix.toml"
ONE, OTHER = "20261121-100000000.csv", "20261121-100100000.csv"
D = Decimal


def put(project: Project, file: str, *rows: tuple[str, int, str, str]) -> None:
    """Write a file of changes: operation, key, name, and second of the commit."""
    lines = [f"{op},2026-11-21 10:00:{second},{key},{name},1.00\n" for op, key, name, second in rows]
    project.put(file, "".join(lines))


@pytest.mark.parametrize(
    "settings", ["", 'lateness = "ordered"', 'mode = "history"'], ids=["late", "ordered", "history"]
)
def test_a_tie_is_replayed_or_discarded(project: Project, settings: str) -> None:
    """In one batch or in two. Key 1 is replayed, and key 2 is discarded."""
    project.configure(f'{ITEM}ties = "quarantine"\n{settings}\n', source=TIMES)
    put(project, ONE, ("I", 1, "a", "01"), ("I", 2, "a", "01"), ("I", 3, "a", "01"), ("U", 3, "a", "02"))
    project.run()
    put(project, OTHER, ("U", 1, "b", "01"), ("U", 2, "b", "01"), ("U", 2, "c", "03"), ("U", 3, "b", "03"))
    planned = project.call("plan", "shop.item")
    assert "into quarantine: 2 tie" in planned.out
    assert 'with `ties = "quarantine"` a row that one changes twice holds its key' in " ".join(planned.out.split())
    counts = project.run(3)["shop.item"]["counts"]
    assert (counts["quarantined"], counts["waiting"], counts["ties"]) == (2, 1, 0)
    assert [(entry["reason"], entry["key"]) for entry in project.entries()] == [("tie", ["1"]), ("tie", ["2"])]
    assert f"{ONE}:1, which says something else" in project.entries()[0]["detail"]
    explained = project.call("explain", "shop.item", "2")
    assert "tie: the source has one place for it and for" in " ".join(explained.out.split())

    assert project.call("quarantine", "fix", "shop.item", "1").code == 0
    selection = project.call("quarantine", "fix", "shop.item", "--from", FIX)
    assert selection.code == 0, selection.err
    assert project.call("quarantine", "replay", "shop.item", "1").code == 0
    assert project.call("quarantine", "discard", "shop.item", "2").code == 0
    current = project.read("item", "shop", ("id", "name", *(["is_current"] if "history" in settings else [])))
    assert {row[0]: row[1] for row in current if row[2:] != (False,)} == {1: "b", 2: "c", 3: "b"}
    assert not project.entries()


def test_a_table_that_fails_on_ties_names_both_rows_and_does_not_change(project: Project) -> None:
    project.configure(f'{ITEM}ties = "fail"\n', source=TIMES)
    put(project, ONE, ("I", 1, "a", "01"))
    project.run()
    put(project, OTHER, ("U", 1, "b", "01"))
    error = project.fails()
    assert f"{ONE}:1 and {OTHER}:1" in error
    assert project.rows() == [(1, "a", D("1.00"))]
