"""The rows of a table in plain Python, compared with those of its source."""

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
    """Compare the rows that stand with the cells of the events of a frame, which have the names of the source."""
    given = [(column.name, column.source.name) for column in columns.columns]
    there = [
        ({name: event.cells[own] for name, own in given}, 0) for event in source if isinstance(event, ChangeEvent)
    ]
    digests = (list(_digests(table, rows, columns)) for rows in (there, _rows_that_stand(table)))
    return compare_rows(*digests, among=among)


def _rows_that_stand(table: MemoryTable) -> Iterator[tuple[Mapping[str, Cell], int]]:
    """Return the cells of the rows that stand, and the sequence of the last change of each."""
    for row in table.rows.values():
        if not row.deleted and (not row.versions or row.versions[-1].valid_to is None):
            yield row.versions[-1].cells if row.versions else row.cells, row.position.sequence


def _digests(
    table: MemoryTable, rows: Iterable[tuple[Mapping[str, Cell], int]], columns: ComparedColumns
) -> Iterator[RowDigest]:
    names = [column.name for column in columns.columns]
    for row, stamp in rows:
        key = tuple(canonical(row[name]) for name in columns.key)
        told = repr([canonical(row.get(name)) for name in names])
        hash_ = int.from_bytes(hashlib.blake2b(told.encode(), digest_size=8).digest(), "big", signed=True)
        yield RowDigest(key, key_text(table.dimension, key), hash_, stamp)
