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
