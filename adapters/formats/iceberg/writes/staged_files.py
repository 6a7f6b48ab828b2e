"""Files of an Iceberg table that no snapshot has yet: a full load that is written as it is read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from pyspark.sql import DataFrame

from lakeward.adapters.formats.iceberg.writes.change import Change


class IcebergFiles:
    """Files that a `change` commits; `drop` drops the table that was made for them, None where it was there.

    It returns whether it did: not where another writer has written to the table meanwhile.
    """

    def __init__(self, change: Change, drop: Callable[[], bool] | None) -> None:
        self.change = change
        self.drop = drop
        self.open = ExitStack()

    def write(self, rows: DataFrame) -> None:
        """Write rows, as the table has them."""
        self.change.add(rows)

    def read(self) -> DataFrame:
        """Return the rows that were written; they can be read until the files are closed."""
        return self.open.enter_context(self.change.reading_added())

    def close(self) -> None:
        """Delete them, unless they were committed, and a table that was made for them."""
        self.open.close()
        if not self.change.is_sent:
            self.change.take_back()
            if self.drop is not None and self.drop():
                self.change.delete_metadata()
