"""What the source `jdbc` asks of a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lakeward.core.dimension import TableName
from lakeward.core.schema import Column
from lakeward.core.settings.source_catalogue import SourceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Rows of a table to read: these columns, in order and in these types.

    With a `cursor` they are the rows in which it is not NULL and, unless `since` is None, not below that: a whole
    number, of a time the microseconds since 1970. Without a cursor they are all rows, which may be read in at most
    `partitions` ranges of `key` (None: as many as the database can read from one moment).
    """

    table: SourceTable
    columns: tuple[Column, ...]
    key: str | None = None
    partitions: int | None = None
    cursor: Column | None = None
    since: int | None = None


class Reader(Protocol):
    """A database whose tables are read."""

    def describe(self, table: TableName) -> SourceTable | None:
        """Return what the database says of a table, None where it has none of that name.

        Raises StoreUnreachable where it does not answer, and SourceError where it lets nobody in.
        """
        ...

    def write(self, query: Query, url: str) -> str | None:
        """Write rows as Parquet below a URL (`file://` or `s3://`) where nothing is yet; raises as `describe` does.

        Returns the place in the log of the database of which no change is missing in the rows, None where that
        cannot be told.
        """
        ...
