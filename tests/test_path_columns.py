"""Columns in the path of plain files, through commands."""

from __future__ import annotations

import io
import json
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import Project, iceberg_and_delta

pytestmark = pytest.mark.spark

TABLE = """
[tables."shop.{name}"]
key = ["id", "dt"]
columns = {{ dt = "date", id = "int", name = "string", city = "string" }}
source = {{ {source} }}
"""

FROM_PATH = 'path_columns = ["dt", "city"], order_by = "dt"'
KOELN, NONE = "city=K%C3%B6ln%2F%5B1%5D", "city=__HIVE_DEFAULT_PARTITION__"
COLUMNS = ("id", "dt", "name", "city")


def configure(project: Project, **sources: str) -> None:
    tables = [TABLE.format(name=name, source=source) for name, source in sources.items()]
    project.configure("".join(tables), source_kind="files")


def parquet(*rows: tuple[int, str]) -> bytes:
    file = io.BytesIO()
    columns = {"id": pa.array([row[0] for row in rows], pa.int32()), "name": [row[1] for row in rows]}
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def lines(*rows: tuple[int, str]) -> bytes:
    return "".join(json.dumps({"id": id_, "name": name}) + "\n" for id_, name in rows).encode()


def csv(*rows: tuple[int, str]) -> bytes:
    return ("name,id\n" + "".join(f"{name},{id_}\n" for id_, name in rows)).encode()


@iceberg_and_delta
def test_columns_of_the_path_are_values_like_others(project: Project) -> None:
    """They have the declared type, also in the key and in the order. One that does not fit is in quarantine."""
    kinds = {"csv": csv, "json": lines, "parquet": parquet}
    configure(project, **dict.fromkeys(kinds, FROM_PATH), hidden="", bare=FROM_PATH, both=FROM_PATH)
    for kind, write in kinds.items():
        at = f"shop/{kind}"
        project.put(f"part-0.{kind}", write((1, "Ada"), (2, "Bob")), f"{at}/dt=2026-01-01/{KOELN}")
        project.put(f"part-0.{kind}", write((1, "Eve")), f"{at}/DT=2026-01-02/{NONE}")
        project.put(f"part-0.{kind}", write((3, "Cy")), f"{at}/dt=2026-13-45/{NONE}")
    project.put("part-0.parquet", parquet((1, "Ada")), "shop/hidden/dt=2026-01-01")
    project.put("part-0.csv", csv((1, "Ada")), "shop/bare/dt=2026-01-01")
    project.put("part-0.json", '{"id": 1, "DT": "2026-01-01"}\n', f"shop/both/dt=2026-01-01/{KOELN}")
    found = project.run(code=4)
    assert "has the column DT, which `path_columns` names" in str(found["shop.both"]["error"]["what"])
    assert 'Set `path_columns = ["dt"]`' in str(found["shop.hidden"]["error"]["todo"])
    assert "its path has no folder `city=…`" in str(found["shop.bare"]["error"]["found"])
    city = "Köln/[1]"
    for kind in kinds:
        first, second = date(2026, 1, 1), date(2026, 1, 2)
        wanted = [(1, first, "Ada", city), (1, second, "Eve", None), (2, first, "Bob", city)]
        assert project.rows(kind, columns=COLUMNS) == wanted, kind
    entries = project.entries()
    assert {(e["table"], e["object"].partition("/")[0]) for e in entries} == {
        (f"shop.{kind}", "dt=2026-13-45") for kind in kinds
    }
    assert all('"2026-13-45" is not a date (column dt)' in e["detail"] for e in entries)
