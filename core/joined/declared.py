"""How a joined table is declared: what it is made of, how that is joined, and what is taken of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import Enum

from lakeward.core.dimension import TableName
from lakeward.core.history.options import History


class Way(Enum):
    """What becomes of a row that finds none of a source: it stays, with NULL, or it goes."""

    LEFT = "left"
    INNER = "inner"


class Function(Enum):
    """What is made of several rows of a source."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A value made of the rows of a source that belong together.

    `count` counts rows, or with a `column` its values that are not NULL. `latest` is the value of the
    column in the row with the greatest `by`, NULL being the least; of several, in that with the greatest key.
    """

    function: Function
    column: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table that a joined table is made of, and what is taken of it.

    `columns` and `aggregates` are by the names that the joined table gives them. The columns `on` equal the
    columns `to` of the source `beside` (None: the driving one), in that order; NULL equals nothing. With
    aggregates, all rows that are equal `on` these columns count as one. In a history, `validity` names the
    column that dates a row of a mirror (None: its source time); of a source `as_now` all versions of the joined
    table show what is there now.

    A source that is a history is looked up `at` what a column of the source `beside` says, in a joined mirror:
    the version is taken that was valid then, and its columns may be those that the history adds. What finds none
    has NULL in the columns of a source, or by their names what these texts of `otherwise` write.
    """

    table: TableName
    columns: Mapping[str, str] = field(default_factory=dict)
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    on: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    beside: str | None = None
    way: Way = Way.LEFT
    validity: str | None = None
    as_now: bool = False
    at: str | None = None
    otherwise: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A joined table: its sources by their names, the driving one first; the others are joined in this order.

    It has a row for each key of the driving source or, where that names columns `on`, for each group of its
    rows that are equal there. With a `history` it keeps every version, else the last alone. `unknown` are
    the texts of the row that stands for whatever has none, by column (empty: -1 in its key, NULL elsewhere).
    """

    name: TableName
    sources: Mapping[str, Source]
    history: History | None = None
    unknown: Mapping[str, str] | None = None

    @property
    def driving(self) -> str:
        """The name of the source of whose keys or groups there is a row each."""
        return next(iter(self.sources))

    @property
    def others(self) -> Sequence[str]:
        """The names of the sources that are joined to it, each behind that which it is joined to."""
        return tuple(self.sources)[1:]

    def beside(self, name: str) -> str:
        """Return the name of the source that another is joined to."""
        return self.sources[name].beside or self.driving

    def beneath(self, name: str) -> Sequence[str]:
        """Return the names of the sources that are joined to a source."""
        return [other for other in self.others if self.beside(other) == name]

    @property
    def digest(self) -> str:
        """A name for exactly this declaration: a table made by another one is made anew."""
        return hashlib.sha256(json.dumps(_told(self)).encode()).hexdigest()[:16]


def _told(value: object) -> object:
    """Return a value as JSON has it, the same in each process: sets in order, options that were said, with names.

    What is as if nobody had said it is left out, so that a later version may know more options.
    """
    match value:
        case Enum():
            return value.value
        case Mapping():
            return [[name, _told(item)] for name, item in value.items()]
        case frozenset():
            return sorted(value)
        case tuple():
            return [_told(item) for item in value]
        case _ if is_dataclass(value):
            said = {one.name: getattr(value, one.name) for one in fields(value)}
            return [
                type(value).__name__,
                *([o.name, _told(said[o.name])] for o in fields(value) if _is_said(o, said)),
            ]
        case _:
            return value


def _is_said(option: Field[object], said: Mapping[str, object]) -> bool:
    unsaid = option.default if option.default_factory is MISSING else option.default_factory()
    return said[option.name] != unsaid
