"""A table, its change log and its quarantine as runs write them, made by PyIceberg, for `explain`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import small_lake
from pyiceberg.schema import Schema as IcebergSchema

from lakeward.adapters.formats.iceberg.metadata.columns import to_iceberg
from lakeward.adapters.formats.iceberg.metadata.progress import PROPERTY
from lakeward.adapters.formats.shared.change_log import entries
from lakeward.adapters.formats.shared.rows.system_columns import SYSTEM_COLUMNS
from lakeward.adapters.formats.shared.side_tables import quarantine
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES, QUARANTINE
from lakeward.adapters.spark.sql import names
from lakeward.core.events import Position, Sequences
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type, parse_type

COLUMNS = {"id": "bigint", "city": "string"}
SETTINGS = """
    [pipeline]
    name = "shop"
    [source]
    kind = "dms"
    path = "landing/"
    timestamp_column = "at"
    [target]
    kind = "iceberg"
    warehouse = "lake/"
    [tables."shop.orders"]
"""
Row = Mapping[str, Any]


@dataclass
class ExplainedLake:
    """The table `shop.orders`. Each list of rows becomes a file with its columns."""

    folder: Path
    columns: Mapping[str, str] = field(default_factory=lambda: COLUMNS)

    @property
    def _own(self) -> dict[str, Type]:
        return {name: parse_type(text) for name, text in self.columns.items()}

    def table(self, rows: Sequence[Row], progress: Progress) -> None:
        """Make the table: rows with their positions, in a commit with its progress."""
        self._write("", {**self._own, **SYSTEM_COLUMNS}, rows, {PROPERTY: progress.to_json()})

    def change_log(self, rows: Sequence[Row], more: Mapping[str, Type] | None = None) -> None:
        """Make the change log, with columns that only a later version has."""
        self._write(CHANGES, {**entries.columns_of(Sequences.TIMES), **self._own, **(more or {})}, rows)

    def quarantine(self, rows: Sequence[Row]) -> None:
        """Make the quarantine."""
        self._write(QUARANTINE, {**quarantine._columns(Sequences.TIMES), **self._own}, rows)

    def _write(
        self,
        suffix: str,
        types: Mapping[str, Type],
        rows: Sequence[Row],
        properties: Mapping[str, str] | None = None,
    ) -> None:
        schema: IcebergSchema = to_iceberg(Schema(tuple(Column(name, type_) for name, type_ in types.items())))
        made = small_lake.catalog(self.folder).create_table(("shop", f"orders{suffix}"), schema)
        content = pa.Table.from_pylist([{name: row.get(name) for name in types} for row in rows], schema.as_arrow())
        made.append(content, snapshot_properties=dict(properties or {}))


def place(position: Position, batch: int) -> Row:
    """Return the columns of a position."""
    return {**dict(zip(names.POSITION, position, strict=True)), names.BATCH: batch}


def record(batch: int, objects: Mapping[int, str], at: int = 0) -> Row:
    """Return a batch record."""
    text = json.dumps({"objects": [[name, order, 1, 0, 1] for order, name in objects.items()], "at": at})
    return {entries.KIND: entries.BATCH, names.BATCH: batch, entries.RECORD: text}


def event(kind: str, operation: str, position: Position, batch: int, **cells: Any) -> Row:
    """Return an entry of the change log."""
    time = {names.OPERATION: operation, names.TIME: position.sequence}
    return {entries.KIND: kind, **time, **place(position, batch), **cells}
