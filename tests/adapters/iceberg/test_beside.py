"""Companion and quarantine are written in one way for few rows and in another for many."""

from __future__ import annotations

import pytest
from project import Project

from lakeward.adapters.iceberg import beside

pytestmark = pytest.mark.spark


def test_what_is_too_much_for_this_process_is_written_by_spark(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deletes are remembered, rows wait and are rejected as ever."""
    monkeypatch.setattr(beside, "MOST_IN_ARROW", 0)
    project.put("LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n3,c,3.00\n")
    project.put("20261121-100000000.csv", "D,1,a,1.00\nU,2,b,many\nU,2,bb,2.50\n")
    assert project.run(code=3)["shop.item"]["counts"]["waiting"] == 1
    assert project.rows() == [(2, "b", 2), (3, "c", 3)]
    assert [(entry["reason"], entry["waits"]) for entry in project.entries()] == [("cast", 1)]
    assert project.call("quarantine", "discard", "shop.item", "2").code == 0
    assert [name for _, name, _ in project.rows()] == ["bb", "c"]
