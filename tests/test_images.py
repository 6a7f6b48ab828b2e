"""Tables without a key whose rows are found by the image before a change, as a user meets them."""

from __future__ import annotations

import pytest
from project import Project

pytestmark = pytest.mark.spark

SOURCE = 'timestamp_column = "at"\nbefore_image_prefix = "BI_"'
ITEM = """
[tables."shop.item"]
match = "image"
lateness = "ordered"
quarantine = { max_share = 1.0 }
columns = { id = "int", name = "string", price = "decimal(8,2)" }
"""
AT = "2026-11-21 10:00:00"


def test_a_change_finds_one_row_by_what_it_was_before(project: Project) -> None:
    """Of an update that is the image that the task adds; of a delete it is the row itself."""
    project.configure(tables=ITEM, source=SOURCE)
    loaded = [f"I,{AT},1,a,1.00,,,"] * 3 + [f"I,{AT},2,NULL,NULL,,,"]
    project.put("20261121-100000000.csv", "\n".join(loaded) + "\n")
    assert "each update or delete takes away one row" in " ".join(project.call("plan").out.split())
    project.run()
    changes = [
        f"D,{AT},1,a,1.00,,,",
        f"U,{AT},1,b,1.50,1,a,1.00",
        f"U,{AT},2,c,2.00,2,NULL,NULL",
        f"D,{AT},9,x,9.00,,,",
        f"U,{AT},9,y,9.00,9,x,9.00",
    ]
    project.put("20261121-110000000.csv", "\n".join(changes) + "\n")
    counts = project.run(code=0)["shop.item"]["counts"]
    assert (counts["applied"], counts["quarantined"]) == (3, 2)
    rows = [(key, name, None if price is None else str(price)) for key, name, price in project.rows()]
    assert rows == [(1, "a", "1.00"), (1, "b", "1.50"), (2, "c", "2.00")]
    assert {(e["reason"], e["row"], e["detail"]) for e in project.entries()} == {
        ("no_key", row, "no row of the table is equal to the row before the change") for row in (4, 5)
    }


@pytest.mark.long
def test_a_source_that_sends_no_images_is_refused(project: Project) -> None:
    project.configure(tables=ITEM, source='timestamp_column = "at"')
    project.put("20261121-100000000.csv", f"I,{AT},1,a,1.00\n")
    assert "`before_image_prefix` is not set" in project.fails()


@pytest.mark.long
def test_a_column_that_came_later_is_null_in_older_rows_and_their_images(project: Project) -> None:
    """An image is compared in the columns that its file has; what older files lack is not looked at."""
    project.configure(tables=ITEM.replace(', price = "decimal(8,2)"', ""), source=SOURCE)
    project.put("20261121-100000000.csv", f"I,{AT},1,a,,\nI,{AT},1,a,,\n")
    project.run()
    project.configure(tables=ITEM, source=SOURCE)
    project.put("20261121-110000000.csv", f"U,{AT},1,a,1.00,1,a,NULL\nD,{AT},1,a,NULL,,,\n")
    project.run()
    assert [(key, name, str(price)) for key, name, price in project.rows()] == [(1, "a", "1.00")]
