"""Which rows of a joined table are touched by changes of its sources, and what must be read to make them anew.

Touched is what was found before a change and what is found after it: a row that is joined by a column
that is not its key leaves one joined row and enters another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from lakeward.core.events import Key, key_of
from lakeward.core.joined.aggregates import Cells
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.rows import Known, Table, Tables, greatest


@dataclass(frozen=True, slots=True)
class Change:
    """What is known of a key of a source that was touched, its deletes included, beside the rows that it has now.

    `before` is how its row was (of a history: its versions were) when the joined table last passed; only where
    the source is found by a column that is not of its key. `instant` dates its last change.
    """

    before: Sequence[Cells] = ()
    instant: int | None = None


Changes: TypeAlias = Mapping[str, Mapping[Key, Change]]
"""The keys of each source that were touched since the joined table last passed it, by the names of the sources."""


class Touch(NamedTuple):
    """The greatest instant of some changes (None: none has one), and the sources of which some have none."""

    instant: int | None = None
    undated: frozenset[str] = frozenset()


Touched: TypeAlias = Mapping[Key, Touch]
"""Keys of the joined table, with what dates the changes that touched them."""


def touched(joining: Joining, changes: Changes, tables: Tables) -> Touched:
    """Return the keys of the joined table that changes of its sources may have changed.

    A source is looked at after those that are joined to it, so that what touched those reaches its rows as they
    are now; as they were, they count where they were touched themselves.
    """
    joined = joining.joined
    found: dict[str, dict[Key, Touch]] = {}
    for name in reversed(tuple(joined.sources)):
        links = list(_changed(joining, name, changes.get(name, {}), tables[name]))
        for other in joined.beneath(name):
            to, reached = joined.sources[other].to, found[other]
            for known in _each(tables[name]):
                there = key_of(known.cells, to)
                links += [(key_of(known.cells, joining.found_by(name)), reached[there])] if there in reached else []
        found[name] = _together(links)
    return found[joined.driving]


def needed(joining: Joining, tables: Tables, keys: Collection[Key]) -> Tables:
    """Return the rows of the sources that rows of the joined table with these keys are made of."""
    joined = joining.joined
    part = {joined.driving: _found(tables[joined.driving], joining.found_by(joined.driving), keys)}
    for name in joined.others:
        source = joined.sources[name]
        links = {key_of(known.cells, source.to) for known in _each(part[joined.beside(name)])}
        part[name] = _found(tables[name], source.on, {link for link in links if link is not None})
    return part


def _changed(
    joining: Joining, name: str, changes: Mapping[Key, Change], table: Table
) -> Iterable[tuple[Key | None, Touch]]:
    """Return by what the touched rows of a source are found, and were; where its key tells, nothing is read."""
    key, columns = joining.tables[name].key, joining.found_by(name)
    for place, change in changes.items():
        touch = Touch(change.instant, frozenset([name] if change.instant is None else []))
        if not joining.needs_before(name):
            parts = dict(zip(key, place, strict=True))
            yield tuple(parts[column] for column in columns), touch
            continue
        for cells in (*change.before, *(known.cells for known in table.get(place, ()))):
            yield key_of(cells, columns), touch


def _found(table: Table, columns: Sequence[str], links: Collection[Key]) -> Table:
    found = {key: [one for one in known if key_of(one.cells, columns) in links] for key, known in table.items()}
    return {key: known for key, known in found.items() if known}


def _each(table: Table) -> Iterable[Known]:
    return (known for of_key in table.values() for known in of_key)


def _together(links: Iterable[tuple[Key | None, Touch]]) -> dict[Key, Touch]:
    found: dict[Key, Touch] = {}
    for link, touch in links:
        if link is not None:
            other = found.get(link, Touch())
            instant = greatest((touch.instant, other.instant))
            found[link] = Touch(instant, touch.undated | other.undated)
    return found
