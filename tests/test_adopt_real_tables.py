"""Tables of other engines are taken over as they are: golden tables of Delta, Iceberg with equality deletes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from delta_lake import by_duckdb
from moved_tables import moved
from outside import CASES, duck
from outside import metadata as metadata_of
from project import Project
from pyiceberg.catalog import load_catalog

pytestmark = [pytest.mark.spark, pytest.mark.skipif(not CASES.exists(), reason="the cases are not there")]

TABLE = '[tables."shop.item"]\nkey = [{key}]\nlateness = "24h"\ncolumns = {{ {columns} }}\n'


def configured(project: Project, columns: Mapping[str, str], *key: str) -> None:
    listed = ", ".join(f'{name} = "{type_}"' for name, type_ in columns.items())
    project.configure(tables=TABLE.format(key=", ".join(f'"{name}"' for name in key), columns=listed))


def adopted(project: Project, *lines: str) -> dict[str, Any]:
    """Take the table over where no file was applied, and apply these lines."""
    project.put("20261121-100000000.csv", "".join(f"{line}\n" for line in lines))
    ended = project.call("adopt", "shop.item", "--none", "--json")
    assert ended.code == 0, ended.err
    project.run()
    return dict(ended.document)


GOLDEN = {
    "delta-golden-tables/{}/basic-with-inserts-merge": ({"id": "int", "str": "string"}, "id"),
    "delta-golden-tables/{}/basic-with-inserts-updates": ({"id": "int", "str": "string"}, "id"),
    "delta-golden-tables-features/{}/dv-with-columnmapping": (
        {"part": "int", "col1": "int", "col2": "string"},
        "col1",
    ),
    "delta-golden-tables-features/{}/dv-partitioned-with-checkpoint": (
        {"part": "int", "col1": "int", "col2": "string"},
        "col1",
    ),
}


@pytest.mark.parametrize("name", GOLDEN, ids=lambda name: name.rsplit("/", 1)[1])
def test_a_golden_table_of_delta_is_gone_on_with(project: Project, name: str) -> None:
    """A row is deleted, one is changed and one is new; all others are those that its origin states."""
    project.kind = "delta"
    columns, key = GOLDEN[name]
    configured(project, columns, key)
    target = project.folder / "lake/shop/item"
    target.parent.mkdir(parents=True)
    shutil.copytree(CASES / name.format("input"), target)
    expected = pq.read_table(CASES / name.format("expected")).select(list(columns)).to_pylist()
    rows = {row[key]: row for row in expected}
    gone, other = sorted(rows)[:2]
    changed = {**rows[other], [*columns][-1]: "changed"}
    new = {**changed, key: 10_000}
    lines = [("D", rows.pop(gone)), ("U", changed), ("I", new)]
    told = adopted(project, *[",".join(map(str, (operation, *row.values()))) for operation, row in lines])
    assert told["rows"] == len(expected)
    wanted = [*(rows | {other: changed, 10_000: new}).values()]
    found = [{name: row[name] for name in columns} for row in by_duckdb(str(target)).to_pylist()]
    assert sorted(found, key=lambda row: row[key]) == sorted(wanted, key=lambda row: row[key])


def test_a_golden_table_with_types_that_lakeward_has_not_is_refused(project: Project) -> None:
    project.kind = "delta"
    configured(project, {"IntegerType": "int"}, "IntegerType")
    target = project.folder / "lake/shop/item"
    target.parent.mkdir(parents=True)
    shutil.copytree(CASES / "delta-golden-tables-features/input/parquet-all-types", target)
    ended = project.call("adopt", "shop.item", "--none")
    assert ended.code == 1
    assert "the column ByteType has a type that lakeward does not hold" in ended.err


FLINKS = "data/persistent/equality_deletes/warehouse/mydb"
"""Where the tables with equality deletes lay when they were written."""


def registered(project: Project, case: str, was: str) -> Path:
    """Bring a table of Iceberg into the catalog of a project; return the warehouse."""
    folder = project.folder / "lake"
    folder.mkdir()
    metadata = moved(CASES / case / "input" / was.removeprefix("data/persistent/"), folder / "shop/item", was)
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("shop")
    catalog.register_table(("shop", "item"), f"file://{metadata}")
    catalog.close()
    return folder


def by_duckdb_iceberg(folder: Path, columns: str) -> set[tuple[str, ...]]:
    """Read the table; PyIceberg reads no equality deletes."""
    with duck() as connection:
        path = metadata_of(folder, "shop", "item")
        found = connection.execute(f"SELECT {columns} FROM iceberg_scan('{path}')").fetchall()
    rows = {tuple(map(str, row)) for row in found}
    assert len(rows) == len(found)
    return rows


@pytest.mark.parametrize("name", ["mytable", "mytable_partitioned"])
@pytest.mark.parametrize("write_mode", ["merge-on-read", "copy-on-write"])
def test_equality_deletes_stay_in_force_and_reach_no_row_that_comes_behind(
    project: Project, name: str, write_mode: str
) -> None:
    """Rows 1 to 3 were deleted so, by their key or their name, and come again."""
    configured(project, {"id": "int", "name": "string", "bir": "date"}, "id")
    settings = project.folder / "lakeward.toml"
    settings.write_text(settings.read_text().replace("lateness", f'write_mode = "{write_mode}"\nlateness'))
    folder = registered(project, "iceberg-equality-deletes", f"{FLINKS}/{name}")
    before = by_duckdb_iceberg(folder, "id, name, bir")
    lines = ["I,1,a,2025-02-01", "I,2,b,2025-02-02", "U,5,changed,2025-01-05", "D,4,d,2025-01-04"]
    assert adopted(project, *lines)["rows"] == len(before)
    stays = {row for row in before if row[0] not in ("1", "2", "4", "5")}
    new = {("1", "a", "2025-02-01"), ("2", "b", "2025-02-02"), ("5", "changed", "2025-01-05")}
    assert by_duckdb_iceberg(folder, "id, name, bir") == stays | new
    ended = project.call("explain", "shop.item", "1")
    assert ended.code == 0 or "another writer left equality deletes" in ended.err


def test_a_table_that_spark_does_not_read_is_refused(project: Project) -> None:
    """Its manifests were made by hand, with types that Iceberg's own classes do not take."""
    configured(project, {"id": "bigint", "val": "string"}, "id")
    case, name = "iceberg-equality-delete-extra-column", "equality_delete_extra_column/warehouse/ns/t"
    registered(project, case, f"data/persistent/{name}")
    ended = project.call("adopt", "shop.item", "--none")
    assert ended.code == 1
    assert "shop.item: the table cannot be read" in ended.err
