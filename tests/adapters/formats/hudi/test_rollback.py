"""Hudi tables that are rolled back, where Hudi has ways of its own: columns, compaction, cleaning."""

from __future__ import annotations

from decimal import Decimal

import pytest
from format_project import item, path_of, put, roll_back, versions
from hudi_lake import by_hudi_rs
from project import Project

pytestmark = [pytest.mark.spark, pytest.mark.hudi]

D = Decimal
LAYOUTS = ["", 'write_mode = "copy-on-write"\npartition_by = ["id"]']
NOW = 'id = "int", title = "string", n = "bigint", price = "decimal(8,2)"'


@pytest.fixture
def shop(project: Project) -> Project:
    project.kind = "hudi"
    return project


@pytest.mark.parametrize("layout", [pytest.param(LAYOUTS[0], marks=pytest.mark.long), *LAYOUTS[1:]])
def test_columns_that_were_renamed_widened_and_added_since_are_those_of_then(shop: Project, layout: str) -> None:
    shop.configure(item('id = "int", name = "string", n = "int"', layout), source="max_files = 1")
    put(shop, 10, "Op,id,name,n", "I,1,a,1", "I,2,b,2")
    put(shop, 11, "Op,id,name,n", "U,1,c,1", "D,2,b,2")
    shop.run()
    then = versions(shop)[1]
    more = layout + '\nschema.rename = { name = "title" }'
    shop.configure(item(NOW, more), source="max_files = 1")
    put(shop, 12, "Op,id,title,n,price", f"U,1,d,{2**40},1.50", "I,3,e,3,2.00")
    shop.run()
    columns = ("id", "title", "n", "price")
    after = shop.rows(columns=columns)
    roll_back(shop, then)
    read = by_hudi_rs(path_of(shop))
    assert [name for name in read.column_names if not name.startswith("_")] == ["id", "name", "n"]
    assert str(read.schema.field("n").type) == "int32"
    assert shop.rows(columns=("id", "name", "n")) == [(1, "a", 1), (2, "b", 2)]
    assert [batch["batch"] for batch in shop.run()["shop.item"]["batches"]] == [2, 3]
    assert shop.rows(columns=columns) == after == [(1, "d", 2**40, D("1.50")), (3, "e", 3, D(2))]
    assert [*versions(shop)] == [2, 1]


def test_a_compaction_is_gone_back_to_and_behind_and_cleaning_ends_the_way(shop: Project) -> None:
    policy = 'maintain = { snapshots = "1s" }\n'
    shop.configure(item('id = "int", name = "string"') + policy, source="max_files = 1")
    put(shop, 10, "I,1,a", "I,2,b", "I,3,c")
    put(shop, 11, "U,2,y", "D,3,c")
    shop.run()
    first = versions(shop)[1]
    assert shop.call("maintain", "--json").document["tables"][0]["files"] > 0
    put(shop, 12, "D,1,a")
    shop.run()
    assert [*versions(shop)] == [2, 1]
    roll_back(shop, first)
    assert [row[0] for row in shop.rows(columns=("id",))] == [1, 2, 3]
    shop.run()
    assert shop.rows(columns=("id", "name")) == [(2, "y")]
    assert shop.call("maintain", "--json").document["tables"][0]["snapshots"] > 0
    assert first not in versions(shop).values()
    assert "`hoodie.clean.commits.retained` under `properties`" in roll_back(shop, first, code=1).err
    assert shop.rows(columns=("id", "name")) == [(2, "y")]
    assert shop.run()["shop.item"]["batches"] == []
