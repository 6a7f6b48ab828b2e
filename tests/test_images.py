"""Image match through commands: tables without a key whose rows are found by their before images."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import Project

from lakeward.core.merge.image_match import NOT_THERE, NOT_WHOLE
from lakeward.entrypoints.views.quarantine_entries import COMPARE

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


def test_a_change_finds_one_row_by_its_before_image(project: Project) -> None:
    """The image of an update is the one that the task adds. That of a delete is the row itself."""
    project.configure(tables=ITEM, source=SOURCE)
    loaded = [f"I,{AT},1,a,1.00,,,"] * 3 + [f"I,{AT},2,NULL,NULL,,,"]
    project.put("20261121-100000000.csv", "\n".join(loaded) + "\n")
    assert "each update or delete removes one row" in " ".join(project.call("plan").out.split())
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
    assert [entry["text"] for entry in project.entries()] == changes[3:]
    assert {entry["advice"] for entry in project.entries()} == {COMPARE}
    assert "no_key (update): no row" in " ".join(project.call("quarantine", "show", "shop.item").out.split())


def _debezium(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    source = {"lsn": 7, "txId": 7, "ts_us": 7, "schema": "shop", "table": "item"}
    return json.dumps({"before": before, "after": after, "source": source, "op": op})


def test_a_message_that_finds_no_row_is_in_quarantine_with_its_image(project: Project) -> None:
    """An incomplete image is shown too."""
    project.configure(tables=ITEM)
    settings = project.folder / "lakeward.toml"
    source = 'kind = "files"\nformat = "debezium"\nbefore_images = "whole"'
    settings.write_text(settings.read_text("utf-8").replace('kind = "dms"', source), "utf-8")
    row, other = ({"id": key, "name": "a", "price": 1.25} for key in (1, 9))
    lines = [_debezium("c", None, row), _debezium("u", other, row), _debezium("d", {"id": 1}, None)]
    project.put("a.json", "".join(f"{line}\n" for line in lines))
    assert project.run()["shop.item"]["counts"]["quarantined"] == 2
    found = [(entry["detail"], entry["text"]) for entry in project.entries()]
    assert found == [(NOT_THERE, lines[1]), (NOT_WHOLE, lines[2])]


@pytest.mark.long
def test_a_row_of_parquet_that_finds_no_row_is_in_quarantine_with_its_image(project: Project) -> None:
    project.configure(tables=ITEM, source=SOURCE)
    types = {"id": pa.int32(), "name": pa.string(), "price": pa.decimal128(8, 2)}
    types |= {f"BI_{name}": type_ for name, type_ in types.items()}
    types = {"Op": pa.string(), "at": pa.string(), **types}
    rows = [("I", AT, 1, "a", Decimal(1), None, None, None), ("U", AT, 9, "y", Decimal(9), 9, "x", Decimal("8.5"))]
    listed = [dict(zip(types, row, strict=True)) for row in rows]
    file = project.put("20261121-100000000.parquet", b"")
    pq.write_table(pa.Table.from_pylist(listed, pa.schema(list(types.items()))), file)
    assert project.run()["shop.item"]["counts"]["quarantined"] == 1
    (entry,) = project.entries()
    image = json.loads(entry["text"], parse_float=str)
    assert [image[f"BI_{name}"] for name in ("id", "name", "price")] == [9, "x", "8.50"]
    assert entry["operation"] == "update"


@pytest.mark.long
def test_a_source_that_sends_no_images_is_refused(project: Project) -> None:
    project.configure(tables=ITEM, source='timestamp_column = "at"')
    project.put("20261121-100000000.csv", f"I,{AT},1,a,1.00\n")
    assert "`before_image_prefix` is not set" in project.fails()


@pytest.mark.long
def test_a_column_that_came_later_is_null_in_older_rows_and_their_images(project: Project) -> None:
    """An image is compared only in the columns of its file."""
    project.configure(tables=ITEM.replace(', price = "decimal(8,2)"', ""), source=SOURCE)
    project.put("20261121-100000000.csv", f"I,{AT},1,a,,\nI,{AT},1,a,,\n")
    project.run()
    project.configure(tables=ITEM, source=SOURCE)
    project.put("20261121-110000000.csv", f"U,{AT},1,a,1.00,1,a,NULL\nD,{AT},1,a,NULL,,,\n")
    project.run()
    assert [(key, name, str(price)) for key, name, price in project.rows()] == [(1, "a", "1.00")]
