"""Staged files of an Iceberg table, which no snapshot has yet: those of a direct load."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from pyspark.sql import DataFrame

from lakeward.adapters.formats.iceberg.writes.change import Change


class IcebergFiles:
    """Files that a `change` commits. `drop` drops the table if it was created for them, None if it existed.

    `drop` returns whether it did so: not if another writer has written to the table meanwhile.
    """

    def __init__(self, change: Change, drop: Callable[[], bool] | None) -> None:
        self.change = change
        self.drop = drop
        self.open = ExitStack()

    def write(self, rows: DataFrame) -> None:
        """Write rows, with the columns of the table."""
        self.change.add(rows)

    def read(self) -> DataFrame:
        """Return the rows that were written; they can be read until the files are closed."""
        return self.open.enter_context(self.change.reading_added())

    def close(self) -> None:
        """Delete the files unless they were committed, and the table if it was created for them."""
        self.open.close()
        if not self.change.is_sent:
            self.change.discard()
            if self.drop is not None and self.drop():
                self.change.delete_metadata()
