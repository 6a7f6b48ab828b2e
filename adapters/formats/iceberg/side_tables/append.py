"""Rows that PyIceberg adds to a table, in a commit that costs what it brings."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata


def append(table: Table, rows: pa.Table) -> None:
    """Add rows to a table in one commit; raises what `pyiceberg.table.Table.append` does."""
    with _Transaction(table) as transaction:
        transaction.append(rows)


class _Transaction(Transaction):
    """One that works the metadata out once for each update that was added to it.

    PyIceberg 0.12 does so, with a deep copy of every snapshot, for each of some twenty looks at them in an append.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._known: tuple[int, TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The metadata of the table, with the updates until now."""
        if self._known is None or self._known[0] != len(self._updates):
            self._known = len(self._updates), super().table_metadata
        return self._known[1]
