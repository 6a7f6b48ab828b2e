"""Iceberg as a lake under test: written through Spark, read by PyIceberg."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type

from lakeward.adapters.formats.iceberg.lake import IcebergLake
from lakeward.adapters.formats.iceberg.options import IcebergOptions, TableOptions
from lakeward.adapters.formats.shared.rows.system_columns import position_of
from lakeward.adapters.spark.session.compatibility import from_arrow
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.types import to_spark
from lakeward.core.dimension import Dimension, Match
from lakeward.core.events import UNSET, ChangeEvent
from lakeward.core.ports import Opened
from lakeward.plugins import Runtime
from lakeward.plugins.registry import SMALL_BATCH
from lakeward.plugins.testing.scripts import Item, Rows

_numbers = itertools.count(1)


@dataclass
class LakeOfSpark:
    small_batch: ClassVar[int] = SMALL_BATCH

    spark: SparkSession
    folder: Path
    options: Any
    make: Callable[..., Any]

    def _session(self) -> SparkSession:
        for name, value in self.runtime.settings.items():
            if self.can_set(name):
                self.spark.conf.set(name, value)
        return self.spark

    def can_set(self, name: str) -> bool:
        return self.spark.conf.isModifiable(name)

    def lake_options(self) -> object:
        raise NotImplementedError

    def open(self, dimension: Dimension) -> Opened[Any]:
        self.runtime = Runtime(self._session, self.folder, small_batch=self.small_batch)
        self.lake = self.make(self.lake_options(), {dimension.name: self.options}, self.runtime)
        opened: Opened[Any] = self.lake.open(dimension)
        return opened

    def frame(self, dimension: Dimension, items: Sequence[Item], *, in_part: bool = False) -> DataFrame:
        """Return items as a frame of events, in the form that sources give."""
        return from_arrow(self.spark, event_table(dimension, items, in_part=in_part))


@dataclass
class LakeOfIceberg(LakeOfSpark):
    """A warehouse of Iceberg tables. Its catalog has a unique name, because a session caches catalogs by name."""

    options: TableOptions = field(default_factory=TableOptions)
    make: Callable[..., IcebergLake] = IcebergLake

    def __post_init__(self) -> None:
        self.catalog_name = f"lake{next(_numbers)}"

    def can_set(self, name: str) -> bool:
        return True

    def lake_options(self) -> IcebergOptions:
        return IcebergOptions(warehouse=str(self.folder), catalog_name=self.catalog_name)

    def rows(self, dimension: Dimension) -> Rows:
        self.open(dimension)
        table = self.lake.catalog.load(dimension.name)
        if table is None:
            return {}
        return stored_rows(dimension, table.scan().to_arrow())

    def commit_as_another_writer(self, dimension: Dimension) -> None:
        """Commit a snapshot that changes no row and has no progress, if the table exists."""
        table = self.lake.catalog.load(dimension.name)
        if table is not None:
            table.append(table.schema().as_arrow().empty_table())


def stored_rows(dimension: Dimension, table: pa.Table) -> Rows:
    """Return the rows of a table with their positions, by key. Raises AssertionError for a duplicate key."""
    rows: dict[Any, Any] = {}
    for row in table.to_pylist():
        cells = {name: row[name] for name in dimension.stored.schema.names}
        position = position_of(row)
        key = tuple(cells[name] for name in dimension.stored.key) or tuple(position)
        assert key not in rows, f"key {key} is stored twice"
        rows[key] = (cells, position)
    return rows


def event_table(dimension: Dimension, items: Sequence[Item], *, in_part: bool = False) -> pa.Table:
    """Return items as an Arrow table.

    With `in_part` it has unsent cells, old keys, and transactions.
    """
    items = sorted(items, key=lambda item: item.position[2:])
    columns: dict[str, pa.Array] = {}
    types = {column.name: to_arrow_type(to_spark(column.type)) for column in dimension.schema}
    for name, type_ in types.items():
        columns[name] = pa.array([_cell(dimension, item, name) for item in items], type_)
    is_event = [isinstance(item, ChangeEvent) for item in items]
    columns[names.OPERATION] = pa.array(
        [item.operation.value if isinstance(item, ChangeEvent) else None for item in items], pa.string()
    )
    for part, name in enumerate((names.SEQUENCE, names.OBJECT, names.ROW), 1):
        is_wide = name == names.SEQUENCE and dimension.sequences.are_wide
        places = [Decimal(item.position[part]) if is_wide else item.position[part] for item in items]
        columns[name] = pa.array(places, pa.decimal128(38, 0) if is_wide else pa.int64())
    columns[names.ARRIVAL] = pa.array(range(len(items)), pa.int64())
    columns[names.TIME] = pa.array([item.time for item in items], pa.int64())
    columns[names.REASON] = pa.array(
        [None if isinstance(item, ChangeEvent) else item.reason.value for item in items], pa.string()
    )
    for name in (names.DETAIL, names.TEXT):
        columns[name] = pa.array([None if event else "spoilt" for event in is_event], pa.string())
    if dimension.match is Match.IMAGE:
        columns[names.IMAGE] = pa.array([_image(item) for item in items], pa.struct(list(types.items())))
    if in_part:
        columns[names.UNSET] = pa.array([_unset(item) for item in items], pa.list_(pa.string()))
        old = pa.struct([(name, types[name]) for name in dimension.key])
        columns[names.OLD] = pa.array([_old(dimension, item) for item in items], old)
        transactions = [item.transaction for item in items]
        columns[names.TRANSACTION] = pa.array([None if t is None else repr(t) for t in transactions], pa.string())
    return pa.table(columns)


def _unset(item: Item) -> list[str] | None:
    cells = item.cells if isinstance(item, ChangeEvent) else {}
    return [name for name, cell in cells.items() if cell is UNSET] or None


def _image(item: Item) -> dict[str, object] | None:
    image = item.before if isinstance(item, ChangeEvent) else None
    return None if image is None or UNSET in image.values() else dict(image)


def _old(dimension: Dimension, item: Item) -> dict[str, object] | None:
    return dict(zip(dimension.key, item.keys[0], strict=True)) if len(item.keys) > 1 else None


def _cell(dimension: Dimension, item: Item, name: str) -> object:
    if isinstance(item, ChangeEvent):
        cell = item.cells.get(name)
        return None if cell is UNSET else cell
    keys = item.keys
    return keys[-1][dimension.key.index(name)] if keys and name in dimension.key else None
