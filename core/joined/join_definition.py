"""A declaration of a joined table with its source tables, after the check that they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.events import Cell
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.text.values import from_text

BEGINNING: Final = 0
"""The instant from which the unknown row of a history is valid: 1970, or the number 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinDefinition:
    """A declaration, the tables of its sources by name, and the dimension of the joined table."""

    joined: JoinDeclaration
    tables: Mapping[str, Dimension]
    dimension: Dimension

    @property
    def over_time(self) -> bool:
        """Whether versions come from those of the sources; else they begin when a row was seen to change."""
        driving = self.joined.driving
        return self.joined.history is not None and self.keeps_versions(driving)

    def keeps_versions(self, name: str) -> bool:
        """Whether a source has versions that the joined table takes over."""
        return self.tables[name].history is not None and not self.joined.sources[name].as_now

    def reads_versions(self, name: str) -> bool:
        """Whether all versions of a source are read, not only its present rows: over time, or to look them up."""
        is_looked_up = self.joined.sources[name].at is not None
        return is_looked_up or (self.over_time and self.keeps_versions(name))

    def otherwise(self, name: str) -> Mapping[str, Cell]:
        """Return the values of the columns of a source where no row of it is found."""
        texts, own = self.joined.sources[name].otherwise, self.dimension.schema
        return {column.name: from_text(texts[column.name], column.type) for column in own if column.name in texts}

    def link_columns(self, name: str) -> Sequence[str]:
        """Return the columns by which rows of a source are found: those that it is joined on, else its key."""
        return link_columns(self.joined, name, self.tables[name])

    def needs_earlier_rows(self, name: str) -> bool:
        """Whether earlier rows of a source must be known, because a change may move one to another joined row."""
        return not set(self.link_columns(name)) <= set(self.tables[name].key)

    @property
    def unknown(self) -> Mapping[str, Cell] | None:
        """The row that stands for missing ones, or None."""
        texts = self.joined.unknown
        if texts is None:
            return None
        named = {**dict.fromkeys(self.dimension.key, "-1"), **texts}
        return {
            one.name: from_text(named[one.name], one.type) if one.name in named else None
            for one in self.dimension.schema
        }


def link_columns(joined: JoinDeclaration, name: str, table: Dimension) -> Sequence[str]:
    """Return the columns by which the rows of a source are found."""
    return joined.sources[name].on or table.key
