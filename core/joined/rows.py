"""Compute the rows of a joined table from the rows of its sources at one moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lakeward.core.events import Cell, Key, key_of
from lakeward.core.joined.aggregates import Cells, aggregated
from lakeward.core.joined.declared import JoinType
from lakeward.core.joined.joining import Joining


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row of a source: its present row or, of a history, a version valid in `[valid_from, valid_to)`.

    `instant` dates its last change, in the unit of the joined history (None: it has no time of its own).
    """

    cells: Cells
    instant: int | None = None
    valid_from: int | None = None
    valid_to: int | None = None

    def covers(self, instant: int) -> bool:
        """Return True if it was valid at an instant. A row without validity always is."""
        is_begun = self.valid_from is None or self.valid_from <= instant
        return is_begun and (self.valid_to is None or instant < self.valid_to)


SourceRows: TypeAlias = Mapping[Key, Sequence[SourceRow]]
"""The rows of a source by key: the present row or, where all versions are read (`reads_versions`), those.

Rows of a source that is looked up also have the cells that its history adds.
"""

RowsBySource: TypeAlias = Mapping[str, SourceRows]
"""The rows of all sources, by their names."""


@dataclass(frozen=True, slots=True)
class JoinedRow:
    """A joined row, with the greatest instant of its rows of each source (None: there is none)."""

    cells: Cells
    instants: Mapping[str, int | None] = field(default_factory=dict)
    is_unknown: bool = False


def rows(joining: Joining, tables: RowsBySource) -> dict[Key, JoinedRow]:
    """Return the joined rows by key. Each key of a source has at most one row."""
    joined = joining.joined
    found = {name: _grouped(tables[name], joining.found_by(name)) for name in joined.sources}
    made: dict[Key, JoinedRow] = {}
    for key, first in found[joined.driving].items():
        matched: dict[str, Sequence[SourceRow]] = {joined.driving: first}
        for name in joined.others:
            matched[name] = _matched(joining, name, matched[joined.beside(name)], found[name])
        if all(matched[name] or joined.sources[name].way is JoinType.LEFT for name in joined.others):
            made[key] = _made(joining, matched)
    if joining.unknown is not None:
        key, cells = joining.unknown
        made.setdefault(key, JoinedRow(cells, is_unknown=True))
    return made


def as_of(tables: RowsBySource, instant: int) -> RowsBySource:
    """Return the rows of all sources that were valid at an instant."""
    return {
        name: {key: [known for known in found if known.covers(instant)] for key, found in table.items()}
        for name, table in tables.items()
    }


def _grouped(table: SourceRows, columns: Sequence[str]) -> dict[Key, list[SourceRow]]:
    """Return the rows grouped by their values in some columns; NULL equals nothing."""
    found: dict[Key, list[SourceRow]] = defaultdict(list)
    for known in (known for of_key in table.values() for known in of_key):
        link = key_of(known.cells, columns)
        if link is not None:
            found[link].append(known)
    return dict(found)


def _matched(
    joining: Joining, name: str, beside: Sequence[SourceRow], found: Mapping[Key, Sequence[SourceRow]]
) -> Sequence[SourceRow]:
    """Return the rows of a source that rows of another one find."""
    link = key_of(beside[0].cells, joining.joined.sources[name].to) if beside else None
    there = [] if link is None else found.get(link, [])
    if not there or not joining.looks_up(name):
        return there
    at = joining.asked_at(name, beside[0].cells)
    return [] if at is None else [known for known in there if known.covers(at)]


def _made(joining: Joining, matched: Mapping[str, Sequence[SourceRow]]) -> JoinedRow:
    cells: dict[str, Cell] = {}
    for name, source in joining.joined.sources.items():
        images = [known.cells for known in matched[name]]
        none = joining.otherwise(name)
        cells |= {own: images[0][column] if images else none.get(own) for own, column in source.columns.items()}
        key = joining.tables[name].key
        cells |= {own: aggregated(one, images, key) for own, one in source.aggregates.items()}
    return JoinedRow(cells, {name: greatest(known.instant for known in found) for name, found in matched.items()})


def greatest(instants: Iterable[int | None]) -> int | None:
    """Return the greatest of some instants, or None."""
    return max((instant for instant in instants if instant is not None), default=None)
