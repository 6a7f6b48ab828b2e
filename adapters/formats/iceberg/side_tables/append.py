"""Append rows with PyIceberg in a commit whose cost depends on the new rows only."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata


def append(table: Table, rows: pa.Table) -> None:
    """Append rows to a table in one commit; raises what `pyiceberg.table.Table.append` raises."""
    with _Transaction(table) as transaction:
        transaction.append(rows)


class _Transaction(Transaction):
    """A transaction that computes the table metadata once for each update.

    PyIceberg 0.12 computes it, with a deep copy of every snapshot, for each of about twenty reads in an append.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._metadata_so_far: tuple[int, TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The metadata of the table with the updates so far."""
        if self._metadata_so_far is None or self._metadata_so_far[0] != len(self._updates):
            self._metadata_so_far = len(self._updates), super().table_metadata
        return self._metadata_so_far[1]
