"""The description of a Delta table for readers: its location and columns, from its log."""

from __future__ import annotations

import json
from typing import Any

from lakeward.adapters.formats.delta_rs.columns import column_of
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.shared.side_tables.side_table import QUARANTINE
from lakeward.core.dimension import TableName
from lakeward.core.ports import DescribedColumn, TableDescription


def description_of(places: Places, table: TableName, suffix: str = "") -> TableDescription | None:
    """Return the description of a table, or of its side table with a suffix; None if it does not exist.

    Raises TableError as `load` does.
    """
    loaded = places.load(table, suffix)
    if loaded is None:
        return None
    (namespace, name), metadata = places.name(table, suffix), loaded.metadata()
    fields = json.loads(loaded.schema().to_json())["fields"]
    return TableDescription(
        namespace=namespace,
        name=name,
        format="delta",
        location=places.of(table, suffix),
        columns=tuple(_column(field, f"{table}{suffix}") for field in fields),
        comment=metadata.description or None,
        partition_by=tuple(metadata.partition_columns),
        is_raw=suffix == QUARANTINE,
    )


def _column(field: dict[str, Any], table: str) -> DescribedColumn:
    column = column_of(field, table)
    return DescribedColumn(name=column.name, type=column.type, comment=field.get("metadata", {}).get("comment"))
