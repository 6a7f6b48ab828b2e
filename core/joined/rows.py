"""The rows of a joined table, from the rows of its sources at one moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lakeward.core.events import Cell, Key, key_of
from lakeward.core.joined.aggregates import Cells, aggregated
from lakeward.core.joined.declared import Way
from lakeward.core.joined.joining import Joining


@dataclass(frozen=True, slots=True)
class Known:
    """A row of a source: how it is now or, in a history, was in `[valid_from, valid_to)`.

    `instant` dates its last change, in the unit of the joined history (None: it has no time of its own).
    """

    cells: Cells
    instant: int | None = None
    valid_from: int | None = None
    valid_to: int | None = None

    def covers(self, instant: int) -> bool:
        """Whether it is what was valid at an instant; what has no validity always is."""
        is_begun = self.valid_from is None or self.valid_from <= instant
        return is_begun and (self.valid_to is None or instant < self.valid_to)


Table: TypeAlias = Mapping[Key, Sequence[Known]]
"""The rows of a source by key: one of each or, where all versions of it are read (`reads_versions`), those.

Cells of a source that is looked up are also those that its history adds.
"""

Tables: TypeAlias = Mapping[str, Table]
"""The rows of all sources, by their names."""


@dataclass(frozen=True, slots=True)
class Made:
    """A joined row, and of each source the greatest instant of its rows there (None: there is no row, or none)."""

    cells: Cells
    instants: Mapping[str, int | None] = field(default_factory=dict)
    is_unknown: bool = False


def rows(joining: Joining, tables: Tables) -> dict[Key, Made]:
    """Return the joined rows, by key; each key of a source has one row at most."""
    joined = joining.joined
    found = {name: _grouped(tables[name], joining.found_by(name)) for name in joined.sources}
    made: dict[Key, Made] = {}
    for key, first in found[joined.driving].items():
        matched: dict[str, Sequence[Known]] = {joined.driving: first}
        for name in joined.others:
            matched[name] = _matched(joining, name, matched[joined.beside(name)], found[name])
        if all(matched[name] or joined.sources[name].way is Way.LEFT for name in joined.others):
            made[key] = _made(joining, matched)
    if joining.unknown is not None:
        key, cells = joining.unknown
        made.setdefault(key, Made(cells, is_unknown=True))
    return made


def as_of(tables: Tables, instant: int) -> Tables:
    """Return the rows of all sources as they were at an instant."""
    return {
        name: {key: [known for known in found if known.covers(instant)] for key, found in table.items()}
        for name, table in tables.items()
    }


def _grouped(table: Table, columns: Sequence[str]) -> dict[Key, list[Known]]:
    """Return the rows that are equal in some columns together; NULL equals nothing."""
    found: dict[Key, list[Known]] = defaultdict(list)
    for known in (known for of_key in table.values() for known in of_key):
        link = key_of(known.cells, columns)
        if link is not None:
            found[link].append(known)
    return dict(found)


def _matched(
    joining: Joining, name: str, beside: Sequence[Known], found: Mapping[Key, Sequence[Known]]
) -> Sequence[Known]:
    """Return what rows of a source find of one that is joined to it, of the rows of that by their links."""
    link = key_of(beside[0].cells, joining.joined.sources[name].to) if beside else None
    there = [] if link is None else found.get(link, [])
    if not there or not joining.looks_up(name):
        return there
    at = joining.asked_at(name, beside[0].cells)
    return [] if at is None else [known for known in there if known.covers(at)]


def _made(joining: Joining, matched: Mapping[str, Sequence[Known]]) -> Made:
    cells: dict[str, Cell] = {}
    for name, source in joining.joined.sources.items():
        images = [known.cells for known in matched[name]]
        none = joining.otherwise(name)
        cells |= {own: images[0][column] if images else none.get(own) for own, column in source.columns.items()}
        key = joining.tables[name].key
        cells |= {own: aggregated(one, images, key) for own, one in source.aggregates.items()}
    return Made(cells, {name: greatest(known.instant for known in found) for name, found in matched.items()})


def greatest(instants: Iterable[int | None]) -> int | None:
    """Return the greatest of some instants, or None where there is none."""
    return max((instant for instant in instants if instant is not None), default=None)
