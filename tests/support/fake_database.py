"""A database in this process for the source `jdbc`, and a table that applies its batches."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from lakeward.adapters.sources.jdbc import read_options
from lakeward.adapters.sources.jdbc.database.queries import Query
from lakeward.adapters.sources.jdbc.source import JdbcSource, make_source
from lakeward.core.dimension import Dimension, Snapshots, TableName
from lakeward.core.errors import StoreUnreachable
from lakeward.core.ledger.full_loads import Load
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.plugins import Runtime

ITEM = TableName("shop", "item")
ODD = TableName("SALES", "ORDER#1 [{old?*}]")
"""A table whose name is no part of a URL."""

SECOND = 1_000_000
START = 1_796_083_200_000_000
"""The time at the beginning, 2026-12-01."""

_ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
Row = dict[str, Any]


def at(seconds: float) -> datetime:
    """Return the time so many seconds after the beginning."""
    return datetime(2026, 12, 1, tzinfo=UTC) + timedelta(seconds=seconds)


@dataclass
class FakeDatabase:
    """A table of a database. Rows that are `hidden` belong to uncommitted transactions."""

    columns: dict[str, str] = field(
        default_factory=lambda: {"id": "int", "name": "string", "updated_at": "timestamp"}
    )
    rows: list[Row] = field(default_factory=list)
    hidden: list[Row] = field(default_factory=list)
    position: str | None = "0/16B3748"
    cut_off: bool = False
    rows_in_a_file: int = 2
    others: tuple[str, ...] = ()
    """Further files in the folder of a read, as from failed attempts."""
    bucket: pafs.FileSystem | None = None
    """The folder for rows that are staged in S3."""
    queries: list[Query] = field(default_factory=list)

    def describe(self, table: TableName) -> SourceTable | None:
        columns = [SourceColumn(name=n, written=t, type=parse_type(t)) for n, t in self.columns.items()]
        return SourceTable(name=ITEM, columns=tuple(columns), key=("id",)) if table in (ITEM, ODD) else None

    def write(self, query: Query, url: str) -> str | None:
        """Write a file for so many rows. A lost connection ends after the first file."""
        self.queries.append(query)
        scheme, _, folder = url.partition("://")
        filesystem = pafs.LocalFileSystem() if scheme == "file" else self.bucket
        if scheme == "file":
            Path(folder).mkdir()
        rows = [row for row in self.rows if _is_in(row, query)]
        schema = pa.schema([(column.name, _ARROW[column.type.name]) for column in query.columns])
        for start in range(0, max(len(rows), 1), self.rows_in_a_file):
            if self.cut_off and start:
                raise StoreUnreachable("the database does not answer", todo="Run again.")
            some = rows[start : start + self.rows_in_a_file]
            named = [{column.name: row.get(column.name) for column in query.columns} for row in some]
            for name in (f"part-{start:05}.parquet", *self.others):
                if scheme == "file":
                    Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.Table.from_pylist(named, schema), f"{folder}/{name}", filesystem=filesystem)
        return self.position

    def put(self, key: int, name: str, seconds: float, *, is_hidden: bool = False) -> None:
        """Insert or update a row. A hidden one waits for `commit`."""
        row = {"id": key, "name": name, "updated_at": at(seconds)}
        if is_hidden:
            self.hidden.append(row)
        else:
            self.rows = [*(one for one in self.rows if one["id"] != key), row]

    def commit(self) -> None:
        rows, self.hidden = self.hidden, []
        for row in rows:
            self.rows = [*(one for one in self.rows if one["id"] != row["id"]), row]

    def delete(self, key: int) -> None:
        self.rows = [row for row in self.rows if row["id"] != key]


def _is_in(row: Row, query: Query) -> bool:
    if query.cursor is None:
        return True
    value = row.get(query.cursor.name)
    if value is None or query.since is None:
        return value is not None
    number = value if isinstance(value, int) else (value - at(0)) // timedelta(microseconds=1) + START
    return number >= query.since


@dataclass
class Play:
    """A pipeline of one table in plain Python: a full load replaces all rows, others upsert."""

    folder: Path
    database: FakeDatabase = field(default_factory=FakeDatabase)
    settings: dict[str, Any] = field(default_factory=dict)
    snapshots: bool = True
    now: int = START
    rows: dict[int, Row] = field(default_factory=dict)
    seen: dict[str, SourceObject] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    epoch: int = 1
    batches: int = 0
    asked: int | None = None
    table: TableName = ITEM

    @property
    def dimension(self) -> Dimension:
        schema = Schema((Column("id", parse_type("int")),))
        return Dimension(
            name=self.table,
            schema=schema,
            key=("id",),
            snapshots=Snapshots(settles=3600 * SECOND) if self.snapshots else None,
        )

    def open(self) -> JdbcSource:
        formats: dict[TableName, Any] = {self.table: {}}
        options = {"url": "jdbc:postgresql://db/shop", "path": "staged", "formats": formats, **self.settings}

        def no_spark() -> None:
            raise AssertionError("Spark is not needed")

        runtime = Runtime(no_spark, base=self.folder, now=lambda: self.now)
        settings, tables = read_options(options, runtime)
        return make_source(settings, tables, self.database, options, runtime)

    @property
    def object_history(self) -> ObjectHistory:
        epoch = self.epoch + 1 if self.batches else self.epoch
        load = Load(epoch=epoch, settles=3600 * SECOND) if self.snapshots else None
        if self.asked is not None:
            load = Load(epoch=epoch, since=self.asked, cut=max((o.order for o in self.seen.values()), default=0))
        return ObjectHistory(
            applied=dict(self.seen),
            earlier_versions=frozenset(self.left),
            load=load,
            has_no_batch=not self.batches,
            now=self.now,
        )

    def take(self) -> ObjectSelection:
        return self.open().select_objects(self.dimension, self.object_history)

    def staged(self) -> list[str]:
        home = self.folder / "staged" / self.table.schema / self.table.table
        return (
            sorted(file.name for file in home.iterdir() if not file.name.startswith(".")) if home.exists() else []
        )

    def lose_staged(self) -> None:
        shutil.rmtree(self.folder / "staged", ignore_errors=True)

    def run(self, at_most: int = 5) -> int:
        """Apply everything, and return the number of batches."""
        for batches in range(at_most):
            if not self.step():
                return batches
        raise AssertionError(f"something is new after {at_most} batches, though nothing changed")

    def step(self, *, dies: bool = False) -> bool:
        source = self.open()
        selection = source.select_objects(self.dimension, self.object_history)
        if not selection.objects or dies:
            return bool(selection.objects)
        self._apply(selection)
        source.archive(self.dimension, selection.objects)
        return True

    def rows_of(self, item: SourceObject) -> list[Row]:
        home = self.folder / "staged" / self.table.schema / self.table.table
        rows: list[Row] = pq.ParquetFile(home / item.name).read().to_pylist()
        return rows

    def _apply(self, selection: ObjectSelection) -> None:
        rows = [row for item in selection.objects for row in self.rows_of(item)]
        if selection.load_epoch is not None:
            if selection.load_epoch > self.epoch:
                self.left |= {item.version for item in self.seen.values()}
                self.seen, self.epoch = {}, selection.load_epoch
            self.rows, self.asked = {row["id"]: row for row in rows}, None
        for row in rows if selection.load_epoch is None else ():
            stands = self.rows.get(row["id"])
            if stands is None or row["updated_at"] >= stands["updated_at"]:
                self.rows[row["id"]] = row
        self.seen |= {item.name: item for item in selection.objects}
        self.batches += 1

    @property
    def names(self) -> dict[int, str]:
        return {key: row["name"] for key, row in sorted(self.rows.items())}

    @property
    def expected(self) -> dict[int, str]:
        return {row["id"]: row["name"] for row in sorted(self.database.rows, key=lambda row: row["id"])}

    def pass_by(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


def by_cursor(folder: Path, *, snapshots: bool = False, **settings: Any) -> Play:
    """Return a pipeline of a table with the cursor `updated_at`."""
    return Play(folder, settings={"cursor": "updated_at", **settings}, snapshots=snapshots)


def of_rows(play: Play, *keys: int) -> Play:
    """Return a pipeline whose database has these rows, each a second after the one before."""
    for seconds, key in enumerate(keys):
        play.database.put(key, f"name {key}", seconds)
    return play


def with_settings(play: Play, **settings: Any) -> Play:
    """Return the same pipeline with other settings."""
    return replace(play, settings={**play.settings, **settings})
