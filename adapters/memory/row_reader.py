"""Read the rows of a table in plain Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.core.dimension import DELETED
from lakeward.core.events import Cell
from lakeward.core.history.bitemporal import known_after
from lakeward.core.history.instants import instant_of_value
from lakeward.core.history.options import History
from lakeward.core.history.version_rows import rows
from lakeward.core.ports import Sample, Selection

if TYPE_CHECKING:
    from lakeward.adapters.memory.table import MemoryTable


def first(table: MemoryTable, wanted: Selection, limit: int) -> Sample:
    """Return the first selected rows in key order, and the number of selected rows."""
    selected = list(_selected(table, wanted))
    columns = table.dimension.stored.schema.names
    return Sample(len(selected), columns, [{name: row.get(name) for name in columns} for row in selected[:limit]])


def write(table: MemoryTable, wanted: Selection, folder: str) -> int:
    """Write the selected rows to one Parquet file, and return their number."""
    selected = list(_selected(table, wanted))
    pq.write_table(pa.Table.from_pylist(selected), Path(folder) / "rows.parquet")
    return len(selected)


def _selected(table: MemoryTable, wanted: Selection) -> Iterator[Mapping[str, Cell]]:
    dimension, history = table.dimension, table.dimension.history
    for key in sorted(table.rows):
        row = table.rows[key]
        if history is None:
            yield {**row.cells, DELETED: row.deleted} if dimension.is_soft else row.cells
        elif history.is_bitemporal:
            names = dimension.stored.schema.names
            batch = table.progress.batch if wanted.known is None else wanted.known
            rows_known = (
                table.known_versions[key] if wanted.at is None else known_after(table.known_versions[key], batch)
            )
            yield from (b.row(history, names) for b in rows_known if _is_valid(history, b.cells, wanted.at))
        else:
            current_rows = rows(dimension, key, row.versions, table.numbers)
            yield from (cells for cells in current_rows if _is_valid(history, cells, wanted.at))


def _is_valid(history: History, cells: Mapping[str, Cell], at: int | None) -> bool:
    if at is None:
        return True
    form = history.validity_columns
    begins, ends = (instant_of_value(cells[name], history) for name in (form.valid_from, form.valid_to))
    return begins is not None and begins <= at and (ends is None or at < ends + form.closed)
