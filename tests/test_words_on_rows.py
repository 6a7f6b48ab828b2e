"""Messages about odd rows and files, and what is skipped, through commands."""

from __future__ import annotations

import gzip
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import Project

pytestmark = pytest.mark.spark

TABLE = """
[tables."shop.{name}"]
key = ["id"]
columns = {{ id = "int", at = "timestamp" }}
source = {{ {source} }}
"""


def test_odd_rows_are_skipped_or_shown_unchanged(project: Project) -> None:
    operation = 'operation = { column = "op", delete = ["D"] }'
    number = operation.replace("D", "1")
    names = {"lines": "", "ordered": 'order_by = "at"', "packed": "", "near": operation}
    names |= {"floats": number, "decimals": number}
    tables = [TABLE.format(name=name, source=source) for name, source in names.items()]
    tables.append(TABLE.format(name="renamed", source="") + 'schema.rename = { was = "at" }\n')
    project.configure("".join(tables), source_kind="files")
    project.put("a.json", '{"id": 1, "was": null, "at": null}\n{"id": 2, "was": null}\n', "shop/renamed")
    project.put("a.json", '{"id": 1}\r\n\r\n \t\r\n{"id": 2}\r\n', "shop/lines")
    project.put("a.csv", "id,at\n1,2026-11-01\n2,1-Nov-26\n3,\n", "shop/ordered")
    project.put("a.json", gzip.compress(b'{"id": 1}\n' * 100), "shop/packed")
    project.put("a.csv", "id,op\n1,I\n2,d\n3,D \n4,Delete\n5,D\n6,D\r\n", "shop/near")
    for name, type_ in {"floats": pa.float64(), "decimals": pa.decimal128(5, 2)}.items():
        rows = pa.table({"id": pa.array([1, 2], pa.int32()), "op": pa.array([Decimal(1), Decimal(0)]).cast(type_)})
        folder = project.folder / "landing" / "shop" / name
        folder.mkdir(parents=True)
        pq.write_table(rows, folder / "a.parquet")
    plan = {table["table"]: table for table in project.call("plan", "--json").document["tables"]}
    (said,) = [words for words in plan["shop.near"]["warnings"] if "in case or blanks alone" in words]
    assert said.endswith("Rows: 3.")
    for name in ("floats", "decimals"):
        (said,) = [words for words in plan[f"shop.{name}"]["warnings"] if "zeros behind the point" in words]
        assert said.endswith("Rows: 1.")
    found = project.run(code=4)
    assert "packed by gzip" in str(found["shop.packed"]["error"])
    assert "Call it a.json.gz" in str(found["shop.packed"]["error"])
    assert project.rows("lines", columns=("id",)) == [(1,), (2,)]
    assert project.rows("near", columns=("id",)) == [(1,), (2,), (3,), (4,), (6,)]
    assert [(entry["row"], entry["detail"]) for entry in project.entries()] == [
        (3, '"1-Nov-26" is not a timestamp (column at), so that nothing says its place in the order'),
        (4, "NULL says nothing of the order (at)"),
        (1, "the object has both names of a column that is renamed: at, was"),
    ]
    assert project.rows("renamed", columns=("id",)) == [(2,)]
