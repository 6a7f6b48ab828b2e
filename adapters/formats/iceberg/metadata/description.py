"""The description of an Iceberg table for readers: its location and columns, from its catalog."""

from __future__ import annotations

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.columns import columns_in
from lakeward.adapters.formats.shared.side_tables.side_table import QUARANTINE
from lakeward.core.dimension import TableName
from lakeward.core.ports import DescribedColumn, TableDescription


def description_of(catalog: IcebergCatalog, table: TableName, suffix: str = "") -> TableDescription | None:
    """Return the description of a table, or of its side table with a suffix; None if it does not exist.

    Raises TableError as `load` does.
    """
    loaded = catalog.load(table, suffix)
    if loaded is None:
        return None
    namespace, name = catalog.identifier(table, suffix)
    schema, comments = loaded.schema(), {field.name: field.doc for field in loaded.schema().fields}
    return TableDescription(
        namespace=namespace,
        name=name,
        format="iceberg",
        location=loaded.location(),
        columns=tuple(
            DescribedColumn(name=column.name, type=column.type, comment=comments[column.name] or None)
            for column in columns_in(schema, f"{table}{suffix}")
        ),
        comment=loaded.properties.get("comment"),
        is_raw=suffix == QUARANTINE,
    )
