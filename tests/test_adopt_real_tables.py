"""Adoption of real tables of other engines: golden tables of Delta, and Iceberg tables with equality deletes."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_lake import by_duckdb
from moved_tables import move_table
from outside import CASES, duck
from outside import metadata as metadata_of
from project import Project
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.options import IcebergOptions

pytestmark = [pytest.mark.spark, pytest.mark.skipif(not CASES.exists(), reason="the cases are not there")]

Row = Mapping[str, Any]

TABLE = '[tables."shop.item"]\nkey = [{key}]\nlateness = "24h"\ncolumns = {{ {columns} }}\n'


def configured(project: Project, columns: Mapping[str, str], *key: str) -> None:
    listed = ", ".join(f'{name} = "{type_}"' for name, type_ in columns.items())
    project.configure(tables=TABLE.format(key=", ".join(f'"{name}"' for name in key), columns=listed))


def adopted(project: Project, name: str, content: str | bytes) -> dict[str, Any]:
    """Adopt the table without applied files, and apply this one."""
    project.put(f"20261121-{name}", content)
    ended = project.call("adopt", "shop.item", "--none", "--json")
    assert ended.code == 0, ended.err
    project.run()
    return dict(ended.document)


@dataclass(frozen=True, kw_only=True)
class Golden:
    """A golden table with its declared columns, a new value of its last column, and the key of a new row."""

    columns: Mapping[str, str]
    key: str
    changed: Any = "changed"
    new: Any = 10_000

    def change(self, row: Row) -> Row:
        """Return a row with another value in its last column, unless that is its key."""
        last = [*self.columns][-1]
        return row if last == self.key else {**row, last: self.changed}


PARTED = Golden(columns={"part": "int", "col1": "int", "col2": "string"}, key="col1")
PLAIN = Golden(columns={"id": "int", "str": "string"}, key="id")
KEYS_ALONE = Golden(columns={"id": "bigint"}, key="id")

GOLDEN: Mapping[str, Golden] = {
    "delta-golden-tables/basic-with-inserts-merge": PLAIN,
    "delta-golden-tables-features/dv-with-columnmapping": PARTED,
    "delta-golden-tables-features/dv-partitioned-with-checkpoint": PARTED,
}

LONG: Mapping[str, Golden] = {
    "delta-golden-tables/basic-with-inserts-updates": PLAIN,
    "delta-golden-tables/basic-decimal-table": Golden(
        columns={
            "part": "decimal(12,5)",
            "col1": "decimal(5,2)",
            "col2": "decimal(10,5)",
            "col3": "decimal(20,10)",
        },
        key="part",
        changed=Decimal("7.5000000001"),
    ),
    "delta-golden-tables/data-reader-escaped-chars": Golden(
        columns={"_1": "string", "_2": "string"}, key="_1", changed="bar+%24 = /", new="foo9"
    ),
    "delta-golden-tables/data-reader-timestamp_ntz": Golden(
        columns={"id": "int", "tsNtz": "timestamp_ntz", "tsNtzPartition": "timestamp_ntz"},
        key="id",
        changed=datetime(2026, 11, 21, 10, 0, 0, 1),
    ),
    "delta-golden-tables/snapshot-data2-deleted": Golden(columns={"col1": "int", "col2": "string"}, key="col1"),
    "delta-golden-tables/time-travel-schema-changes-b": Golden(
        columns={"id": "bigint", "part": "bigint"}, key="id", changed=-1
    ),
    "delta-golden-tables-features/basic-with-inserts-deletes-checkpoint": KEYS_ALONE,
    "delta-golden-tables-features/log-replay-dv-key-cases": KEYS_ALONE,
    "delta-golden-tables-features/v2-checkpoint-parquet": KEYS_ALONE,
    "delta-golden-tables-features/data-reader-nested-struct": Golden(
        columns={"a": "struct<aa: string, ab: string, ac: struct<aca: int, acb: bigint>>", "b": "int"}, key="b"
    ),
}


def given(project: Project, table: Path) -> Path:
    """Put a table of Delta where lakeward would have made it."""
    target = project.folder / "lake/shop/item"
    target.parent.mkdir(parents=True)
    shutil.copytree(table, target)
    return target


def parquet(lines: Sequence[tuple[str, Row]], types: pa.Schema) -> bytes:
    """Return a file of changes in Parquet, because CSV has no structs."""
    file = pa.BufferOutputStream()
    rows = [{"Op": operation, **row} for operation, row in lines]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema([("Op", pa.string()), *types])), file)
    return bytes(file.getvalue())


@pytest.mark.parametrize(
    "name",
    [*GOLDEN, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)],
    ids=lambda name: name.rsplit("/", 1)[1],
)
def test_a_golden_delta_table_is_adopted_and_continued(project: Project, name: str) -> None:
    """A row is deleted, one is changed and one is added. All others are as published."""
    project.kind = "delta"
    golden, (case, table) = {**GOLDEN, **LONG}[name], name.split("/")
    columns, key = golden.columns, golden.key
    configured(project, columns, key)
    target = given(project, CASES / case / "input" / table)
    expected = pq.read_table(CASES / case / "expected" / table).select(list(columns))
    rows: dict[Any, Row] = {row[key]: row for row in expected.to_pylist()}
    gone, other = sorted(rows)[:2]
    changed = golden.change(rows[other])
    new = {**changed, key: golden.new}
    lines = [("D", rows.pop(gone)), ("U", changed), ("I", new)]
    output = adopted(project, "100000000.parquet", parquet(lines, expected.schema))
    assert output["rows"] == len(expected)
    wanted = [*(rows | {other: changed, golden.new: new}).values()]
    found = [{name: row[name] for name in columns} for row in by_duckdb(str(target)).to_pylist()]
    assert sorted(found, key=lambda row: row[key]) == sorted(wanted, key=lambda row: row[key])


@pytest.mark.parametrize(
    ("name", "key", "column"),
    [
        ("delta-golden-tables-features/input/parquet-all-types", "IntegerType", "ByteType"),
        pytest.param(
            *("delta-golden-tables/input/table-with-columnmapping-mode-name", "IntegerType", "ByteType"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("delta-golden-tables-features/input/data-reader-partition-values", "as_int", "as_byte"),
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_golden_table_with_unknown_types_is_refused(project: Project, name: str, key: str, column: str) -> None:
    project.kind = "delta"
    configured(project, {key: "int"}, key)
    given(project, CASES / name)
    ended = project.call("adopt", "shop.item", "--none")
    assert ended.code == 1
    assert f"the column {column} has a type that lakeward does not hold" in ended.err


FLINKS = "data/persistent/equality_deletes/warehouse/mydb"
"""The folder in which the tables with equality deletes were written."""


def registered(project: Project, case: str, was: str, *, is_mended: bool = False) -> Path:
    """Register an Iceberg table in the catalog of a project, and return the warehouse."""
    folder = project.folder / "lake"
    folder.mkdir()
    source = CASES / case / "input" / was.removeprefix("data/persistent/")
    metadata = move_table(source, folder / "shop/item", was, is_mended=is_mended)
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("shop")
    catalog.register_table(("shop", "item"), f"file://{metadata}")
    catalog.close()
    return folder


def by_duckdb_iceberg(folder: Path, columns: str) -> set[tuple[str, ...]]:
    """Read the table by Spark, because PyIceberg does not read equality deletes."""
    with duck() as connection:
        path = metadata_of(folder, "shop", "item")
        found = connection.execute(f"SELECT {columns} FROM iceberg_scan('{path}')").fetchall()
    rows = {tuple(map(str, row)) for row in found}
    assert len(rows) == len(found)
    return rows


def written_by(project: Project, write_mode: str) -> None:
    """Return the write mode of the table."""
    settings = project.folder / "lakeward.toml"
    settings.write_text(settings.read_text().replace("lateness", f'write_mode = "{write_mode}"\nlateness'))


@pytest.mark.parametrize(
    ("name", "write_mode"),
    [
        ("mytable", "merge-on-read"),
        ("mytable_partitioned", "copy-on-write"),
        pytest.param("mytable", "copy-on-write", marks=pytest.mark.long),
        pytest.param("mytable_partitioned", "merge-on-read", marks=pytest.mark.long),
    ],
)
def test_equality_deletes_stay_and_apply_to_no_later_row(project: Project, name: str, write_mode: str) -> None:
    """Rows 1 to 3 were deleted by equality, by key or by name, and are inserted again."""
    configured(project, {"id": "int", "name": "string", "bir": "date"}, "id")
    written_by(project, write_mode)
    folder = registered(project, "iceberg-equality-deletes", f"{FLINKS}/{name}")
    before = by_duckdb_iceberg(folder, "id, name, bir")
    lines = "I,1,a,2025-02-01\nI,2,b,2025-02-02\nU,5,changed,2025-01-05\nD,4,d,2025-01-04\n"
    assert adopted(project, "100000000.csv", lines)["rows"] == len(before)
    stays = {row for row in before if row[0] not in ("1", "2", "4", "5")}
    new = {("1", "a", "2025-02-01"), ("2", "b", "2025-02-02"), ("5", "changed", "2025-01-05")}
    assert by_duckdb_iceberg(folder, "id, name, bir") == stays | new
    ended = project.call("explain", "shop.item", "1")
    assert ended.code == 0 or "another writer left equality deletes" in ended.err


def by_iceberg(project: Project, spark: SparkSession, *columns: str) -> set[tuple[str, ...]]:
    """Read the table by Iceberg's Java classes: DuckDB applies an equality delete to all partitions."""
    session = spark.newSession()
    for name, value in IcebergCatalog(IcebergOptions(warehouse="lake"), project.folder).spark_settings.items():
        session.conf.set(name, value)
    return {tuple(map(str, row)) for row in session.table("lake.shop.item").select(*columns).collect()}


@dataclass(frozen=True, kw_only=True)
class HandMade:
    """A table with equality deletes made by hand, its changes, and the rows after them."""

    columns: Mapping[str, str]
    key: Sequence[str]
    lines: str
    wanted: set[tuple[str, ...]]

    @staticmethod
    def place(name: str) -> tuple[str, str]:
        """Return the case, and the folder of the table."""
        folder = f"equality_delete_{name}"
        return f"iceberg-{folder.replace('_', '-')}", f"data/persistent/{folder}/warehouse/ns/t"


HAND_MADE = {
    "cross_partition": HandMade(
        columns={"part": "bigint", "key": "bigint", "val": "string"},
        key=("part", "key"),
        lines="I,0,100,again\nU,1,100,changed\nD,1,888,p1-k888\n",
        wanted={("0", "100", "again"), ("0", "999", "p0-k999"), ("1", "100", "changed")},
    ),
    "extra_column": HandMade(
        columns={"id": "bigint", "val": "string"},
        key=("id",),
        lines="I,2,again\nU,1,changed\nD,3,c\n",
        wanted={("1", "changed"), ("2", "again")},
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", HAND_MADE)
@pytest.mark.parametrize("write_mode", ["merge-on-read", "copy-on-write"])
def test_an_equality_delete_applies_only_to_its_partition(
    project: Project, spark: SparkSession, name: str, write_mode: str
) -> None:
    """A row deleted by equality is inserted again. A row of the same key in another partition is updated."""
    made, (case, was) = HAND_MADE[name], HandMade.place(name)
    configured(project, made.columns, *made.key)
    written_by(project, write_mode)
    registered(project, case, was, is_mended=True)
    with (CASES / case / "expected/rows.csv").open(newline="") as file:
        _, *expected = csv.reader(file)
    assert by_iceberg(project, spark, *made.columns) == {*map(tuple, expected)}
    assert adopted(project, "100000000.csv", made.lines)["rows"] == len(expected)
    assert by_iceberg(project, spark, *made.columns) == made.wanted


@pytest.mark.parametrize("name", ["extra_column", pytest.param("cross_partition", marks=pytest.mark.long)])
def test_a_table_that_spark_cannot_read_is_refused(project: Project, name: str) -> None:
    """Its manifests were made by hand, with types that Iceberg's Java classes refuse."""
    made = HAND_MADE[name]
    configured(project, made.columns, *made.key)
    registered(project, *HandMade.place(name))
    ended = project.call("adopt", "shop.item", "--none")
    assert ended.code == 1
    assert "shop.item: the table cannot be read" in ended.err
