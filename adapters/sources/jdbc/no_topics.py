"""Tables that a database alone is read for: there is nothing beside it to look at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lakeward.core.dimension import TableName
from lakeward.core.ledger.objects import SourceObject


@dataclass(frozen=True, slots=True)
class NoTopics:
    """What a source says of its tables without reading them, where it says nothing."""

    def tables(self) -> Sequence[TableName]:
        """Return nothing."""
        return ()

    def warnings(self, tables: Collection[TableName]) -> Sequence[str]:
        """Return nothing."""
        return ()

    def match_objects(self, tables: Collection[TableName]) -> Callable[[str], Collection[TableName]]:
        """Return what tells of none: no bucket has what there is."""
        return lambda _url: ()

    def cautions(self, table: TableName) -> Sequence[str]:
        """Return nothing."""
        return ()

    def waiting(self, table: TableName, applied: Collection[str]) -> int | None:
        """Return that it cannot be told."""
        return None

    def consistent_as_of(self, applied: Sequence[tuple[TableName, Collection[SourceObject]]]) -> int | None:
        """Return that it cannot be told."""
        return None
