"""A lake as lakeward writes it, made by PyIceberg, for readers without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from projects import DMS
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from lakeward.adapters.formats.iceberg.metadata.progress import PROPERTY, TAG
from lakeward.adapters.formats.shared.rows.system_columns import SYSTEM_COLUMNS
from lakeward.core.progress import Progress
from lakeward.core.schema import Type

SETTINGS = DMS + '[tables."shop.orders"]\nkey = ["id"]\ncolumns = { id = "bigint" }\n'

_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}


def catalog(folder: Path) -> Catalog:
    lake = folder / "lake"
    lake.mkdir(exist_ok=True)
    made = load_catalog("lake", type="sql", uri=f"sqlite:///{lake / 'catalog.db'}", warehouse=f"file://{lake}")
    made.create_namespace_if_not_exists("shop")
    return made


def make(folder: Path, name: str = "orders", columns: Mapping[str, Type] = SYSTEM_COLUMNS) -> Table:
    """Make an empty table with these columns and `id`."""
    types = {"id": Type("bigint"), **columns}
    return catalog(folder).create_table(
        ("shop", name), pa.schema([(column, _TYPES[type_.name]) for column, type_ in types.items()])
    )


def commit(table: Table, progress: Progress | None, *, rows: int = 1) -> None:
    """Add rows in a commit with progress, or in one of another writer."""
    content: dict[str, Any] = {name: [1] * rows for name in table.schema().column_names}
    properties = {} if progress is None else {PROPERTY: progress.to_json()}
    table.append(pa.table(content, table.schema().as_arrow()), snapshot_properties=properties)
    if progress is not None:
        with table.manage_snapshots() as tags:
            tags.create_tag(table.current_snapshot().snapshot_id, TAG)  # type: ignore[union-attr]
