"""An Iceberg table as readers find it: its place and its columns, from its catalog."""

from __future__ import annotations

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.columns import columns_in
from lakeward.adapters.formats.shared.side_tables.side_table import QUARANTINE
from lakeward.core.dimension import TableName
from lakeward.core.ports import DescribedColumn, TableDescription


def description_of(catalog: IcebergCatalog, table: TableName, suffix: str = "") -> TableDescription | None:
    """Return a table, or one that stands beside it; None where there is none. Raises TableError as `load` does."""
    found = catalog.load(table, suffix)
    if found is None:
        return None
    namespace, name = catalog.identifier(table, suffix)
    schema, comments = found.schema(), {field.name: field.doc for field in found.schema().fields}
    return TableDescription(
        namespace=namespace,
        name=name,
        format="iceberg",
        location=found.location(),
        columns=tuple(
            DescribedColumn(name=column.name, type=column.type, comment=comments[column.name] or None)
            for column in columns_in(schema, f"{table}{suffix}")
        ),
        comment=found.properties.get("comment"),
        is_raw=suffix == QUARANTINE,
    )
