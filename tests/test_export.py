"""Tables exported as plain Parquet by Spark, and read by DuckDB."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from project import Project, any_kind

from lakeward.adapters.formats.shared.operations import table_reader

pytestmark = pytest.mark.spark

TABLE = """
[tables."shop.item"]
key = ["id"]
columns = { id = "int", name = "string", price = "decimal(8,2)", seen = "timestamp", day = "date", size = "double" }
"""
TYPES = ["INTEGER", "VARCHAR", "DECIMAL(8,2)", "TIMESTAMP WITH TIME ZONE", "DATE", "DOUBLE"]


def read(project: Project) -> tuple[dict[str, str], list[Any]]:
    """Return the columns, types and rows of the exported folder."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.sql(f"SELECT * FROM '{project.folder}/out/*.parquet' ORDER BY id")
        types = dict(zip(found.columns, map(str, found.types), strict=True))
        return types, [tuple(row.values()) for row in found.to_arrow_table().to_pylist()]


def export(project: Project, *more: str) -> Any:
    ended = project.call("export", "shop.item", "--to", "out", "--json", *more)
    assert ended.code == 0, ended.out + ended.err
    return ended.document


@any_kind
def test_an_export_has_the_rows_of_the_table_and_a_later_one_replaces_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.configure(TABLE)
    project.put(
        "LOAD00000001.csv",
        "1,a,1.00,2026-11-01 10:00:00.000001,2026-11-01,0.5\n2,NULL,NULL,1066-10-14 09:00:00,1066-10-14,NULL\n",
    )
    project.run()
    assert export(project)["rows"] == 2
    types, rows = read(project)
    assert types == dict(zip(("id", "name", "price", "seen", "day", "size"), TYPES, strict=True))
    assert rows == [
        (1, "a", Decimal("1.00"), datetime(2026, 11, 1, 10, 0, 0, 1, UTC), date(2026, 11, 1), 0.5),
        (2, None, None, datetime(1066, 10, 14, 9, tzinfo=UTC), date(1066, 10, 14), None),
    ]
    project.put("20261121-100000000.csv", "".join(f"D,{key}{5 * ',NULL'}\n" for key in (1, 2)))
    project.run()
    assert export(project, "--columns", "all")["rows"] == 0
    types, rows = read(project)
    assert ("_lakeward_batch" in types, "_lakeward_standing_file" in types, rows) == (True, False, [])
    others = [one.name for one in (project.folder / ".out.lakeward").iterdir() if one.name != "lock"]
    assert others == [(project.folder / "out").readlink().name]
    monkeypatch.setattr(table_reader.pq, "read_metadata", lambda _: SimpleNamespace(num_rows=3))
    ended = project.call("export", "shop.item", "--to", "out")
    assert (ended.code, "there are 3 of 0 rows in " in ended.err) == (1, True)
    assert read(project) == (types, rows)
