"""A source catalogue for files without headers, through the command line, on Spark and Iceberg."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from project import Project

pytestmark = pytest.mark.spark

CATALOGUE = """
[catalogue]
kind = "file"
path = "shop.sql"
database = "postgresql"

[tables."shop.item"]
"""

D = Decimal


def describe(*columns: str) -> None:
    Path("shop.sql").write_text(f"CREATE TABLE shop.item ({', '.join(columns)}, PRIMARY KEY (id));", "utf-8")


def warnings(project: Project) -> str:
    return " | ".join(project.call("plan", "--json").document["tables"][0]["warnings"])


def changes(project: Project) -> set[tuple[str, str]]:
    listed = project.call("status", "--schema", "--json").document["schema_changes"]
    return {(change["column"], change["kind"]) for change in listed}


def test_a_new_column_is_known_from_the_catalogue_and_files_are_read_by_their_width(project: Project) -> None:
    """If a width fits two sets of columns, the table stops, and no value is shifted."""
    project.configure(CATALOGUE)
    describe("id int", "name text", "price numeric(8,2)")
    project.put("LOAD00000001.csv", "1,a,1.00\n")
    project.run()
    assert project.rows() == [(1, "a", D("1.00"))]

    describe("id bigint", "name text", "note text", "price numeric(8,2)")
    said = warnings(project)
    assert "column note (string) is new" in said
    assert "column id was int and is bigint" in said
    project.put("20261121-100000000.csv", "U,1,b,2.00\n")
    project.run()
    assert ("note", "add") not in changes(project), "no file has the new column yet"
    project.put("20261121-110000000.csv", "I,3000000000,c,new,3.00\n")
    project.run()
    assert {("id", "widen"), ("note", "add")} <= changes(project)
    columns = ("id", "name", "note", "price")
    assert project.rows(columns=columns) == [(1, "b", None, D("2.00")), (3000000000, "c", "new", D("3.00"))]

    describe("id bigint", "name text", "note text", "mail text")
    project.put("20261121-120000000.csv", "U,1,b,x,b@example.org\n")
    assert "which columns 20261121-120000000.csv has cannot be told" in project.fails()
    project.put("20261121-120000000.csv", "Op,id,name,note,mail\nU,1,b,x,b@example.org\n")
    project.run()
    assert project.rows(columns=(*columns, "mail"))[0] == (1, "b", "x", D("2.00"), "b@example.org")
