"""Compute the rows of a joined table from the rows of its sources at one moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lakeward.core.events import Cell, Key, key_of
from lakeward.core.joined.aggregates import Cells, aggregated
from lakeward.core.joined.declaration import JoinType
from lakeward.core.joined.join_definition import JoinDefinition


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


def join_rows(joining: JoinDefinition, tables: RowsBySource) -> dict[Key, JoinedRow]:
    """Return the joined rows by key. Each key of a source has at most one row."""
    joined = joining.joined
    groups = {name: _group_rows(tables[name], joining.link_columns(name)) for name in joined.sources}
    joined_rows: dict[Key, JoinedRow] = {}
    for key, driving_rows in groups[joined.driving].items():
        matches: dict[str, Sequence[SourceRow]] = {joined.driving: driving_rows}
        for name in joined.others:
            matches[name] = _matching_rows(joining, name, matches[joined.parent(name)], groups[name])
        if all(matches[name] or joined.sources[name].way is JoinType.LEFT for name in joined.others):
            joined_rows[key] = _joined_row(joining, matches)
    if joining.unknown is not None:
        key, cells = joining.unknown
        joined_rows.setdefault(key, JoinedRow(cells, is_unknown=True))
    return joined_rows


def as_of(tables: RowsBySource, instant: int) -> RowsBySource:
    """Return the rows of all sources that were valid at an instant."""
    return {
        name: {key: [row for row in rows if row.covers(instant)] for key, rows in table.items()}
        for name, table in tables.items()
    }


def _group_rows(table: SourceRows, columns: Sequence[str]) -> dict[Key, list[SourceRow]]:
    """Return the rows grouped by their values in some columns; NULL equals nothing."""
    groups: dict[Key, list[SourceRow]] = defaultdict(list)
    for row in (row for rows in table.values() for row in rows):
        link = key_of(row.cells, columns)
        if link is not None:
            groups[link].append(row)
    return dict(groups)


def _matching_rows(
    joining: JoinDefinition, name: str, parent: Sequence[SourceRow], groups: Mapping[Key, Sequence[SourceRow]]
) -> Sequence[SourceRow]:
    """Return the rows of a source that rows of the source `parent` find."""
    link = key_of(parent[0].cells, joining.joined.sources[name].to) if parent else None
    rows = [] if link is None else groups.get(link, [])
    if not rows or not joining.looks_up(name):
        return rows
    at = joining.lookup_instant(name, parent[0].cells)
    return [] if at is None else [row for row in rows if row.covers(at)]


def _joined_row(joining: JoinDefinition, matches: Mapping[str, Sequence[SourceRow]]) -> JoinedRow:
    cells: dict[str, Cell] = {}
    for name, source in joining.joined.sources.items():
        images = [row.cells for row in matches[name]]
        defaults, key = joining.otherwise(name), joining.tables[name].key
        cells |= {own: images[0][column] if images else defaults.get(own) for own, column in source.columns.items()}
        cells |= {own: aggregated(one, images, key) for own, one in source.aggregates.items()}
    return JoinedRow(cells, {name: greatest(row.instant for row in rows) for name, rows in matches.items()})


def greatest(instants: Iterable[int | None]) -> int | None:
    """Return the greatest of some instants, or None."""
    return max((instant for instant in instants if instant is not None), default=None)
