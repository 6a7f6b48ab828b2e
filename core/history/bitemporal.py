"""What was believed when: where a history has `known`, what a batch finds otherwise stays as it was told.

A history says how things were; a belief says since which batch it has said so, and until which. A late event
changes the first, and with `known` writes the second down: *the history as known at a batch is the history as it
stood after that batch*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from lakeward.core.dimension import Dimension
from lakeward.core.events import Cell, Key, Position, canonical
from lakeward.core.history.options import History
from lakeward.core.history.surrogate_numbers import NO_NUMBERS, Numbers
from lakeward.core.history.version_rows import rows
from lakeward.core.history.versions import Versions


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A version as a table shows it: since batch `known_from`, and until another found otherwise.

    `known_to` is that other one; None of what is believed still. `position` is that of the last event that was
    folded into the version.
    """

    cells: Mapping[str, Cell]
    position: Position
    known_from: int
    known_to: int | None = None

    def stood_after(self, batch: int) -> bool:
        """Whether it was believed after a batch."""
        return self.known_from <= batch and (self.known_to is None or self.known_to > batch)

    def says(self, other: Mapping[str, Cell]) -> bool:
        """Whether a row shows the same; of columns that one of both lacks it is NULL."""
        names = {**self.cells, **other}
        return all(canonical(self.cells.get(name)) == canonical(other.get(name)) for name in names)

    def row(self, history: History, names: Sequence[str]) -> Mapping[str, Cell]:
        """Return it as a row of the table, in these columns."""
        known = dict(zip(history.knowing, (self.known_from, self.known_to), strict=True))
        return {name: known[name] if name in known else self.cells.get(name) for name in names}


KnownVersions: TypeAlias = tuple[KnownVersion, ...]
"""What a table has of one key: all that was ever believed of its versions."""


def update_known_versions(
    dimension: Dimension,
    key: Key,
    beliefs: KnownVersions,
    versions: Versions,
    batch: int,
    numbers: Numbers = NO_NUMBERS,
) -> KnownVersions:
    """Return what a table has of a key after a batch that leaves these versions, with these surrogate numbers.

    What shows the same is believed on, also where another event is its last now. All else that stood is believed
    no more, and what is new is believed from the batch on.
    """
    history = dimension.history or History()
    begins = history.shown.valid_from
    ended = [belief for belief in beliefs if belief.known_to is not None]
    standing = {belief.cells[begins]: belief for belief in beliefs if belief.known_to is None}
    found: list[KnownVersion] = []
    for version, cells in zip(versions, rows(dimension, key, versions, numbers), strict=True):
        was = standing.get(cells[begins])
        if was is not None and was.says(cells):
            del standing[cells[begins]]
            found.append(replace(was, cells=cells, position=version.position))
        else:
            found.append(KnownVersion(cells, version.position, batch))
    return (*ended, *(replace(belief, known_to=batch) for belief in standing.values()), *found)


def known_after(beliefs: Iterable[KnownVersion], batch: int) -> KnownVersions:
    """Return what was believed after a batch."""
    return tuple(belief for belief in beliefs if belief.stood_after(batch))
