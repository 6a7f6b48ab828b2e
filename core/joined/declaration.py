"""The declaration of a joined table: its sources, how they are joined, and which columns are selected.

The names of these dataclasses and of their fields are part of `Joined.digest`: where one is added or renamed, every
joined table is made anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from lakeward.core.dimension import TableName
from lakeward.core.history.options import History
from lakeward.core.history.stored_options import text_of_options


class JoinType(Enum):
    """What happens to a row that finds no row of a source: it stays, with NULL, or it is left out."""

    LEFT = "left"
    INNER = "inner"


class Function(Enum):
    """How several rows of a source are aggregated."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A value computed from the rows of a source that belong together.

    `count` counts rows, or with a `column` its values that are not NULL. `latest` is the value of the column in the
    row with the greatest `by`, where NULL is the least; of several such rows, in that with the greatest key.
    """

    function: Function
    column: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of a joined table, and the columns selected from it.

    `columns` and `aggregates` are by the names that the joined table gives them. The columns `on` must equal the
    columns `to` of the source `beside` (None: the driving one), in that order; NULL equals nothing. With
    aggregates, all rows that are equal in `on` count as one. In a history, `validity` names the column that dates a
    row of a mirror (None: its source time). Of a source that is `as_now`, all versions of the joined table show the
    present row.

    In a joined mirror, a source that is a history can be looked up `at` the value of a column of the source
    `beside`: the version that was valid then is selected, and its columns may be those that the history adds. Where
    no row is found, the columns of a source are NULL, or have the values of `otherwise`, which are texts by column.
    """

    table: TableName
    columns: Mapping[str, str] = field(default_factory=dict)
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    on: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    beside: str | None = None
    way: JoinType = JoinType.LEFT
    validity: str | None = None
    as_now: bool = False
    at: str | None = None
    otherwise: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinDeclaration:
    """A joined table: its sources by name, the driving one first. The others are joined in this order.

    It has a row for each key of the driving source or, where that names columns `on`, for each group of its rows
    that are equal there. With a `history` it keeps every version of a row, else the last alone. `unknown` has the
    texts of the row that stands for missing ones, by column (empty: -1 in its key, NULL elsewhere).
    """

    name: TableName
    sources: Mapping[str, Source]
    history: History | None = None
    unknown: Mapping[str, str] | None = None

    @property
    def driving(self) -> str:
        """The name of the driving source, which has the keys or groups of the joined rows."""
        return next(iter(self.sources))

    @property
    def others(self) -> Sequence[str]:
        """The names of all other sources, each after the one that it is joined to."""
        return tuple(self.sources)[1:]

    def parent(self, name: str) -> str:
        """Return the name of the source that another is joined to."""
        return self.sources[name].beside or self.driving

    def children(self, name: str) -> Sequence[str]:
        """Return the names of the sources that are joined to a source."""
        return [other for other in self.others if self.parent(other) == name]

    @property
    def digest(self) -> str:
        """A hash of this declaration, equal in each process. A table made by another declaration is made anew.

        So it is after an upgrade of lakeward that adds options to this module.
        """
        history = None if self.history is None else text_of_options(self.history, ())
        declared = repr((self.name, [*self.sources.items()], history, self.unknown))
        return hashlib.sha256(declared.encode()).hexdigest()[:16]
