"""The inventory and backlog of a source without a feed: a database alone tells nothing before it is read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lakeward.core.dimension import TableName
from lakeward.core.ledger.objects import SourceObject


@dataclass(frozen=True, slots=True)
class NoTopics:
    """An inventory and backlog without content."""

    def tables(self) -> Sequence[TableName]:
        """Return nothing."""
        return ()

    def warnings(self, tables: Collection[TableName]) -> Sequence[str]:
        """Return nothing."""
        return ()

    def match_objects(self, tables: Collection[TableName]) -> Callable[[str], Collection[TableName]]:
        """Return a function that returns no tables: rows of a database are no objects of a bucket."""
        return lambda _url: ()

    def cautions(self, table: TableName) -> Sequence[str]:
        """Return nothing."""
        return ()

    def count_waiting(self, table: TableName, applied: Collection[str]) -> int | None:
        """Return None: it is not known."""
        return None

    def consistent_as_of(self, applied: Sequence[tuple[TableName, Collection[SourceObject]]]) -> int | None:
        """Return None: it is not known."""
        return None
