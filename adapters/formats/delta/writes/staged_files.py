"""Files of a Delta table that no version has yet: a full load that is written as it is read."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakeward.adapters.formats.delta.writes.change import Change


class DeltaFiles:
    """Files that a `change` commits; where the table `is_new`, it was made for them."""

    def __init__(self, change: Change, *, is_new: bool) -> None:
        self.change = change
        self.is_new = is_new

    def write(self, rows: DataFrame) -> None:
        """Write rows, as the table has them."""
        self.change.add(rows)

    def read(self) -> DataFrame:
        """Return the rows that were written."""
        return self.change.read_added()

    def close(self) -> None:
        """Delete them, unless they were committed, and a table that was made for them."""
        if not self.change.is_sent:
            self.change.take_back()
            if self.is_new:
                self.change.drop_table()
