"""Compare the rows of a table in plain Python with those of its source."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from lakeward.adapters.memory.source import Frame
from lakeward.core.events import Cell, ChangeEvent, canonical
from lakeward.core.text.literals import key_text
from lakeward.core.verification.compared_columns import ComparedColumns
from lakeward.core.verification.row_comparison import Comparison, RowDigest, compare_rows

if TYPE_CHECKING:
    from lakeward.adapters.memory.table import MemoryTable


def compare(
    table: MemoryTable, source: Frame, columns: ComparedColumns, among: Collection[str] | None
) -> Comparison:
    """Compare the stored rows with the events of a frame, whose cells have the column names of the source."""
    source_names = [(column.name, column.source.name) for column in columns.columns]
    source_rows = [
        ({name: event.cells[source_name] for name, source_name in source_names}, 0)
        for event in source
        if isinstance(event, ChangeEvent)
    ]
    digests = (list(_digests(table, rows, columns)) for rows in (source_rows, _current_rows(table)))
    return compare_rows(*digests, among=among)


def _current_rows(table: MemoryTable) -> Iterator[tuple[Mapping[str, Cell], int]]:
    """Yield the cells of the current rows, and the sequence of the last change of each."""
    for row in table.rows.values():
        if not row.deleted and (not row.versions or row.versions[-1].valid_to is None):
            yield row.versions[-1].cells if row.versions else row.cells, row.position.sequence


def _digests(
    table: MemoryTable, rows: Iterable[tuple[Mapping[str, Cell], int]], columns: ComparedColumns
) -> Iterator[RowDigest]:
    names = [column.name for column in columns.columns]
    for row, stamp in rows:
        key = tuple(canonical(row[name]) for name in columns.key)
        text = repr([canonical(row.get(name)) for name in names])
        hash_ = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
        yield RowDigest(key, key_text(table.dimension, key), hash_, stamp)
