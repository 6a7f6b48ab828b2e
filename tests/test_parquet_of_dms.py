"""Parquet files of DMS with untyped columns, or names in another case, through commands."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import Project

pytestmark = pytest.mark.spark

TABLES = """
[tables."shop.nulls"]
key = ["id"]

[tables."shop.capitals"]
key = ["id"]
columns = { id = "int", name = "string" }

[tables."shop.bare"]
key = ["id"]
"""
LOAD, FIRST, SECOND = "LOAD00000001.parquet", "20261121-100000000.parquet", "20261121-110000000.parquet"


def put(project: Project, table: str, name: str, /, **columns: Any) -> None:
    file = io.BytesIO()
    ids = [column for column in columns if column.lower() == "id"]
    columns |= {column: pa.array(columns[column], pa.int32()) for column in ids}
    pq.write_table(pa.table(columns), file)
    project.put(name, file.getvalue(), f"shop/{table}")


def test_columns_without_a_type_and_names_in_another_case(project: Project) -> None:
    """Files of one batch may write a name in several cases. Without declared columns the key decides."""
    project.configure(TABLES, 'timestamp_column = "ts"')
    times = [f"2026-11-21 08:00:0{n}.000000" for n in range(4)]
    put(project, "nulls", LOAD, id=[1], v=pa.nulls(1), ts=[times[0]])
    put(project, "nulls", FIRST, Op=["U"], ts=[times[1]], id=[1], v=pa.array([5], pa.int32()))
    put(project, "nulls", SECOND, Op=["I"], ts=[times[2]], id=[2], v=pa.nulls(1))
    for table in ("capitals", "bare"):
        put(project, table, LOAD, ID=[1, 2], NAME=["Ada", "Bob"], TS=[times[0]] * 2)
    put(project, "capitals", FIRST, OP=["U", "D"], TS=times[1:3], ID=[1, 2], Name=["Eve", None])
    put(project, "capitals", SECOND, Op=["I"], ts=[times[3]], id=[3], name=pa.nulls(1))
    project.run()
    assert project.rows("nulls", columns=("id", "v")) == [(1, 5), (2, None)]
    assert project.rows("capitals", columns=("id", "name")) == [(1, "Eve"), (3, None)]
    assert project.rows("bare", columns=("id", "NAME")) == [(1, "Ada"), (2, "Bob")]
