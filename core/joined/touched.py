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
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.rows import RowsBySource, SourceRow, SourceRows, greatest


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What is known of a changed key of a source, deletes included, besides its present rows.

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


def find_touched_keys(joining: Joining, changes: SourceChanges, tables: RowsBySource) -> TouchedKeys:
    """Return the keys of the joined table that changes of its sources may have changed.

    A source is processed after those that are joined to it, so that their changes reach its present rows. Its
    earlier rows count only where they changed themselves.
    """
    joined = joining.joined
    found: dict[str, dict[Key, ChangeDates]] = {}
    for name in reversed(tuple(joined.sources)):
        links = list(_changed(joining, name, changes.get(name, {}), tables[name]))
        for other in joined.beneath(name):
            to, reached = joined.sources[other].to, found[other]
            for known in _each(tables[name]):
                there = key_of(known.cells, to)
                links += [(key_of(known.cells, joining.found_by(name)), reached[there])] if there in reached else []
        found[name] = _together(links)
    return found[joined.driving]


def select_needed_rows(joining: Joining, tables: RowsBySource, keys: Collection[Key]) -> RowsBySource:
    """Return the rows of the sources that the joined rows with these keys are made of."""
    joined = joining.joined
    part = {joined.driving: _found(tables[joined.driving], joining.found_by(joined.driving), keys)}
    for name in joined.others:
        source = joined.sources[name]
        links = {key_of(known.cells, source.to) for known in _each(part[joined.beside(name)])}
        part[name] = _found(tables[name], source.on, {link for link in links if link is not None})
    return part


def _changed(
    joining: Joining, name: str, changes: Mapping[Key, SourceChange], table: SourceRows
) -> Iterable[tuple[Key | None, ChangeDates]]:
    """Yield the values by which changed rows of a source are found, now and before.

    Where its key suffices, no row is read.
    """
    key, columns = joining.tables[name].key, joining.found_by(name)
    for place, change in changes.items():
        touch = ChangeDates(change.instant, frozenset([name] if change.instant is None else []))
        if not joining.needs_before(name):
            parts = dict(zip(key, place, strict=True))
            yield tuple(parts[column] for column in columns), touch
            continue
        for cells in (*change.before, *(known.cells for known in table.get(place, ()))):
            yield key_of(cells, columns), touch


def _found(table: SourceRows, columns: Sequence[str], links: Collection[Key]) -> SourceRows:
    found = {key: [one for one in known if key_of(one.cells, columns) in links] for key, known in table.items()}
    return {key: known for key, known in found.items() if known}


def _each(table: SourceRows) -> Iterable[SourceRow]:
    return (known for of_key in table.values() for known in of_key)


def _together(links: Iterable[tuple[Key | None, ChangeDates]]) -> dict[Key, ChangeDates]:
    found: dict[Key, ChangeDates] = {}
    for link, touch in links:
        if link is not None:
            other = found.get(link, ChangeDates())
            instant = greatest((touch.instant, other.instant))
            found[link] = ChangeDates(instant, touch.undated | other.undated)
    return found
