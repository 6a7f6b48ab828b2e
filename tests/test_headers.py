"""Headers of CSV files, of plain files and of DMS, through commands."""

from __future__ import annotations

import pytest
from project import Project, iceberg_and_delta

pytestmark = pytest.mark.spark

TABLE = """
[tables."shop.{name}"]
key = ["code"]
columns = {{ code = "string", name = "string" }}
schema = {{ add = "ignore" }}
"""


def configure(project: Project, source: str, *tables: str, header: str = "") -> None:
    project.configure("".join(TABLE.format(name=name) for name in tables), header, source_kind=source)


def rows(project: Project, table: str) -> list[tuple[str, str | None]]:
    return project.rows(table, columns=("code", "name"))


@iceberg_and_delta
def test_a_header_is_read_or_stops_its_table_and_no_value_gets_a_wrong_name(project: Project) -> None:
    configure(project, "files", "blanks", "renamed", "unknown", "none", "again", "moved")
    far = "".join(f"A{n},{n:100}\n" for n in range(1000))  # beyond what is looked at first
    project.put("a.csv", f"code,name\n{far}Code, name\nB2,Bob\n", "shop/again")
    project.put("a.csv", f"name,code\n{far}code,name\nB2,Bob\n", "shop/moved")
    for table in ("blanks", "renamed", "unknown"):
        project.put("a.csv", "code,name\nA1,Ada\n", f"shop/{table}")
    project.put("b.csv", '"name", code ,"land"\nBob,B2,de\n', "shop/blanks")
    project.put("b.csv", "full_name,code\nBob,B2\n", "shop/renamed")
    project.put("b.csv", "voller_name,kode\nBob,Bonn\n", "shop/unknown")
    project.put("a.csv", "alpha,beta\ngamma,delta\n", "shop/none")
    found = project.run(code=4)
    assert rows(project, "blanks") == [("A1", "Ada"), ("B2", "Bob")]
    assert rows(project, "none") == [("alpha", "beta"), ("gamma", "delta")]
    assert len(rows(project, "again")) == 1001
    assert found["shop.again"]["counts"]["quarantined"] == 1
    assert "a.csv has a second header" in str(found["shop.moved"]["error"])
    assert "row 1002 is code,name" in str(found["shop.moved"]["error"])
    for table, why in (("renamed", "full_name"), ("unknown", "other files of the table have a header")):
        error = str(found[f"shop.{table}"]["error"])
        assert "whether the first line of b.csv is a header cannot be told" in error
        assert why in error
    configure(project, "files", "renamed", header="header = true")
    project.run()
    assert rows(project, "renamed") == [("A1", "Ada"), ("B2", None)]


@pytest.mark.parametrize("source", ["files", "dms"])
def test_a_file_without_a_header_stops_if_headers_have_another_order(project: Project, source: str) -> None:
    """Also in a later run, because the order is stored with the table. Changed declarations end it."""
    configure(project, source, "item")
    project.put("LOAD00000001.csv", "name,code\nAda,1001\n")
    change = "I," if source == "dms" else ""
    project.run()
    project.put("20261121-100000000.csv", f"{change}Cyd,1003\n")
    found = project.run(code=4)
    error = found["shop.item"]["error"]
    assert "nothing tells the order of the columns in 20261121-100000000.csv" in error["what"]
    assert "has name, code; declared are code, name" in error["found"]
    assert rows(project, "item") == [("1001", "Ada")]
    columns = ('code = "string"', 'name = "string"')
    turned = TABLE.format(name="item").replace(", ".join(columns), ", ".join(reversed(columns)))
    project.configure(turned, source_kind=source)
    project.run()
    assert rows(project, "item") == [("1001", "Ada"), ("1003", "Cyd")]


@pytest.mark.parametrize("project", ["iceberg"], indirect=True)
def test_files_of_dms_follow_the_same_rules(project: Project) -> None:
    configure(project, "dms", "item", "other", "again", header='timestamp_column = "ts"')
    project.put("LOAD00000001.csv", "ts,code,name\n,A1,Ada\nts,code,name\n,B2,Bob\n", "shop/again")
    project.put("LOAD00000001.csv", "full_name,code\nBob,B2\n")
    project.put("LOAD00000001.csv", '"Op", "Name", code,ts\nI,Bob,B2,\nop,code,name,ts\nI,C3,Eve,\n', "shop/other")
    ran = project.run(code=4)
    assert rows(project, "again") == [("A1", "Ada"), ("B2", "Bob")]
    assert "row 3 is op,code,name,ts" in str(ran["shop.other"]["error"])
    found = ran["shop.item"]
    assert "whether the first line of LOAD00000001.csv is a header" in str(found["error"])
    configure(project, "dms", "item", header="header = false")
    project.run()
    assert rows(project, "item") == [("Bob", "B2"), ("full_name", "code")]
