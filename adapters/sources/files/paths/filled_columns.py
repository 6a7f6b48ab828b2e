"""The columns of a file that have a value in at least one row.

If a folder of the path names a column that is NULL in all rows, its values are only in the path.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lakeward.adapters.sources.csv.layout import Layout
from lakeward.adapters.sources.csv.parser import records
from lakeward.adapters.sources.files.json_lines.quarantined_cells import row_of_message
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.json.variant_values import object_of
from lakeward.adapters.sources.rows.parquet_footers import null_columns
from lakeward.core.schema import Schema


def columns_with_values(
    table: TableFiles, name: str, schema: Schema | None, layout: Layout | None
) -> Collection[str] | None:
    """Return the columns with a value in a file, by their present names; None if no row is known.

    Parquet files have a `schema`, and their statistics are read. CSV files have a `layout`. The beginning of files
    other than Parquet is read.
    """
    if schema is not None:
        with table.folder.open(table.dimension.source, name) as file:
            nulls = null_columns(file)
        if nulls is None:
            return None
        of_case = {name.lower() for name in nulls}
        return _with_present_names(table, [own for own in schema.names if own.lower() not in of_case])
    head = table.head(name)
    if layout is not None:
        return _in_csv(table, head, layout)
    lines = [object_ for line in head.splitlines() if (object_ := object_of(line)) is not None]
    rows = [row_of_message(table, line) for line in lines] if table.options.is_messages else lines
    return _in_rows(table, [row for row in rows if row is not None])


def _in_rows(table: TableFiles, rows: Sequence[Mapping[str, Any]]) -> Collection[str] | None:
    named = [name for row in rows for name, value in row.items() if value is not None]
    return _with_present_names(table, named) if rows else None


def _in_csv(table: TableFiles, head: str, layout: Layout) -> Collection[str] | None:
    """Return the columns with a cell that is not empty; rows of another width than the layout do not count."""
    dialect = table.reading.dialect
    rows = [row.fields for row in records(head, dialect) if row.line >= layout.first_line and row.text.strip()]
    cells = [dict(zip(layout.columns, row, strict=True)) for row in rows if row and len(row) == len(layout.columns)]
    return {name for row in cells for name, cell in row.items() if cell} if rows else None


def _with_present_names(table: TableFiles, names: Sequence[str]) -> Collection[str]:
    renames = table.dimension.policies.renames
    return {renames.get(name, name) for name in names}
