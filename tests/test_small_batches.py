"""A batch of more rows than a small one is worked out by Spark, and `plan` says who works a batch out."""

from __future__ import annotations

import pytest
from project import ITEM, Project

pytestmark = pytest.mark.spark

ROWS = 3
TABLES = f"""
[spark]
small_batch = {ROWS}
{ITEM}
{ITEM.replace("item", "other")}
"""


@pytest.mark.parametrize("project", ["iceberg", pytest.param("delta", marks=pytest.mark.long)], indirect=True)
def test_spark_works_out_a_batch_of_one_row_too_many(project: Project) -> None:
    project.configure(TABLES)
    for table, count in (("item", ROWS), ("other", ROWS + 1)):
        rows = "".join(f"I,{number},a,1.00\n" for number in range(count))
        project.put("20261121-100000000.csv", f"Op,id,name,price\n{rows}", f"shop/{table}")
    planned = project.call("plan", "--json").document["tables"]
    assert {one["table"]: one["way"] for one in planned} == {
        "shop.item": "core",
        "shop.other": "Spark: more than 3 rows (`small_batch`)",
    }


def test_spark_writes_a_load_as_it_comes_and_takes_the_last_row_of_a_key_that_comes_twice(project: Project) -> None:
    project.configure(TABLES.replace(f"small_batch = {ROWS}", "small_batch = 0"))
    for table, rows in (("item", "1,a,1.00\n2,b,2.00\n"), ("other", "1,a,1.00\n2,b,2.00\n1,c,3.00\n")):
        project.put("LOAD00000001.csv", rows, f"shop/{table}")
    ran = project.run()
    counts = {name: (one["counts"]["applied"], one["counts"]["superseded"]) for name, one in ran.items()}
    assert counts == {"shop.item": (2, 0), "shop.other": (2, 1)}
    assert project.rows() == [(1, "a", 1), (2, "b", 2)]
    assert project.rows("other") == [(1, "c", 3), (2, "b", 2)]
