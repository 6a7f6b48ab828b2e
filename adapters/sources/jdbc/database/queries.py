"""Queries of the source `jdbc`, and the port to a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lakeward.core.dimension import TableName
from lakeward.core.schema import Column
from lakeward.core.settings.source_catalogue import SourceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Rows of a table to read: these columns, in order and in these types.

    With a `cursor`: the rows in which it is not NULL and not below `since` (None: no bound), a whole number, for a
    time the microseconds since 1970. Without a cursor: all rows, in at most `partitions` ranges of `key` (None: as
    many as the database can read from one snapshot).
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
        """Return the description of a table, or None if the database has no such table.

        Raises StoreUnreachable where it does not answer, and SourceError where it refuses the login.
        """
        ...

    def write(self, query: Query, url: str) -> str | None:
        """Write rows as Parquet below an empty URL (`file://` or `s3://`); raises as `describe` does.

        Returns a position in the log before which no change is missing in the rows, or None if it is not known.
        """
        ...
