"""Find the rows of a joined table that changes of its sources touch, and the source rows needed to compute them.

A change touches the rows found before it and those found after it: a row that is joined by a column other than its
key leaves one joined row and enters another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from lakeward.core.events import Key, key_of
from lakeward.core.joined.aggregates import Cells
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.rows import RowsBySource, SourceRow, SourceRows, greatest


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What is known of a changed key of a source, deletes included, apart from its present rows.

    `before` is its row (in a history: its versions) when the joined table last passed the source. It is known only
    where the source is found by a column that is not part of its key. `instant` dates its last change.
    """

    before: Sequence[Cells] = ()
    instant: int | None = None


SourceChanges: TypeAlias = Mapping[str, Mapping[Key, SourceChange]]
"""The keys of each source that changed since the joined table last passed it, by the names of the sources."""


class ChangeDates(NamedTuple):
    """The greatest instant of some changes (None: none has one), and the sources of changes that have none."""

    instant: int | None = None
    undated: frozenset[str] = frozenset()


TouchedKeys: TypeAlias = Mapping[Key, ChangeDates]
"""Keys of the joined table, with the dates of the changes that touched them."""


def find_touched_keys(joining: JoinDefinition, changes: SourceChanges, tables: RowsBySource) -> TouchedKeys:
    """Return the keys of the joined table that changes of its sources may have changed.

    A source is processed after those that are joined to it, so that their changes reach its present rows. Its
    earlier rows count only where they changed themselves.
    """
    joined = joining.joined
    touched: dict[str, dict[Key, ChangeDates]] = {}
    for name in reversed(tuple(joined.sources)):
        links = list(_changed_links(joining, name, changes.get(name, {}), tables[name]))
        for child in joined.children(name):
            for row in _all_rows(tables[name]):
                link = key_of(row.cells, joined.sources[child].to)
                if link is not None and link in touched[child]:
                    links.append((key_of(row.cells, joining.link_columns(name)), touched[child][link]))
        touched[name] = _merge_dates(links)
    return touched[joined.driving]


def select_needed_rows(joining: JoinDefinition, tables: RowsBySource, keys: Collection[Key]) -> RowsBySource:
    """Return the rows of the sources that the joined rows with these keys are made of."""
    joined = joining.joined
    selected = {joined.driving: _select_rows(tables[joined.driving], joining.link_columns(joined.driving), keys)}
    for name in joined.others:
        source = joined.sources[name]
        links = {key_of(row.cells, source.to) for row in _all_rows(selected[joined.parent(name)])}
        selected[name] = _select_rows(tables[name], source.on, {link for link in links if link is not None})
    return selected


def _changed_links(
    joining: JoinDefinition, name: str, changes: Mapping[Key, SourceChange], table: SourceRows
) -> Iterable[tuple[Key | None, ChangeDates]]:
    """Yield the values by which changed rows of a source are found, now and before.

    Where its key suffices, no row is read.
    """
    key, columns = joining.tables[name].key, joining.link_columns(name)
    for values, change in changes.items():
        dates = ChangeDates(change.instant, frozenset([name] if change.instant is None else []))
        if not joining.needs_earlier_rows(name):
            parts = dict(zip(key, values, strict=True))
            yield tuple(parts[column] for column in columns), dates
            continue
        for cells in (*change.before, *(row.cells for row in table.get(values, ()))):
            yield key_of(cells, columns), dates


def _select_rows(table: SourceRows, columns: Sequence[str], links: Collection[Key]) -> SourceRows:
    selected = {key: [row for row in rows if key_of(row.cells, columns) in links] for key, rows in table.items()}
    return {key: rows for key, rows in selected.items() if rows}


def _all_rows(table: SourceRows) -> Iterable[SourceRow]:
    return (row for rows in table.values() for row in rows)


def _merge_dates(links: Iterable[tuple[Key | None, ChangeDates]]) -> dict[Key, ChangeDates]:
    merged: dict[Key, ChangeDates] = {}
    for link, dates in links:
        if link is not None:
            other = merged.get(link, ChangeDates())
            merged[link] = ChangeDates(greatest((dates.instant, other.instant)), dates.undated | other.undated)
    return merged
