"""A Delta table as readers find it: its place and its columns, from its log."""

from __future__ import annotations

import json
from typing import Any

from lakeward.adapters.formats.delta_rs.columns import column_of
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.shared.side_tables.side_table import QUARANTINE
from lakeward.core.dimension import TableName
from lakeward.core.ports import DescribedColumn, TableDescription


def description_of(places: Places, table: TableName, suffix: str = "") -> TableDescription | None:
    """Return a table, or one that stands beside it; None where there is none. Raises TableError as `load` does."""
    found = places.load(table, suffix)
    if found is None:
        return None
    (namespace, name), metadata = places.name(table, suffix), found.metadata()
    fields = json.loads(found.schema().to_json())["fields"]
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
    found = column_of(field, table)
    return DescribedColumn(name=found.name, type=found.type, comment=field.get("metadata", {}).get("comment"))
