"""A table is dropped with its side tables, as docs/how-to/reload.md says, and the next run creates it again."""

from __future__ import annotations

from decimal import Decimal

import pytest
from dropping import drop
from project import ITEM, Project

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", ["iceberg", "delta", pytest.param("hudi", marks=pytest.mark.hudi)])
def test_a_dropped_table_is_created_again(project: Project, kind: str) -> None:
    project.kind = kind
    project.configure()
    project.put("20261121-100000000.csv", "I,1,a,1.00\nI,2,b,not a price\n")
    first = project.run(3)["shop.item"]
    drop(project)
    project.configure(ITEM.replace('"decimal(8,2)"', '"decimal(9,3)"'))
    again = project.run(3)["shop.item"]
    assert (again["progress"]["batch"], again["counts"]) == (1, first["counts"])
    assert project.rows() == [(1, "a", Decimal("1.000"))]
    assert [entry["row"] for entry in project.entries()] == [2]
