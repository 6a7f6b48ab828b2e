"""Staged files of a Delta table, which no version has yet: those of a direct load."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakeward.adapters.formats.delta.writes.change import Change


class DeltaFiles:
    """Files that a `change` commits. If the table `is_new`, it was created for them."""

    def __init__(self, change: Change, *, is_new: bool) -> None:
        self.change = change
        self.is_new = is_new

    def write(self, rows: DataFrame) -> None:
        """Write rows, with the columns of the table."""
        self.change.add(rows)

    def read(self) -> DataFrame:
        """Return the rows that were written."""
        return self.change.read_added()

    def close(self) -> None:
        """Delete the files unless they were committed, and the table if it was created for them."""
        if not self.change.is_sent:
            self.change.discard()
            if self.is_new:
                self.change.drop_table()
