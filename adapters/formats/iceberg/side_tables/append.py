"""Append rows and compact files with PyIceberg, in commits whose cost depends on these rows only."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.table.metadata import TableMetadata


def append(table: Table, rows: pa.Table) -> None:
    """Append rows to a table in one commit; raises what `pyiceberg.table.Table.append` raises."""
    with _Transaction(table) as transaction:
        transaction.append(rows)


def compact(table: Table, tasks: Sequence[FileScanTask]) -> None:
    """Replace files by one with the same rows, in one commit; raises what `pyiceberg.table.Table.overwrite` raises.

    The tasks read the current snapshot, and no rows of their files are deleted.
    """
    rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(tasks)
    with _Transaction(table) as transaction, transaction.update_snapshot().overwrite() as update:
        for task in tasks:
            update.delete_data_file(task.file)
        for file in _dataframe_to_data_files(table.metadata, rows, table.io, update.commit_uuid):
            update.append_data_file(file)


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
