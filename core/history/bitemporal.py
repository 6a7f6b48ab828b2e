"""Bitemporal histories: with the option `known`, a version that a batch corrects stays in the table.

A history says how rows were. A known version also says from which batch on, and up to which, the table showed it.
The history as known at a batch is the history as it was stored after that batch.
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
    """A version as a table shows it, with the batches between which it was believed.

    It was believed from batch `known_from` on, up to and without batch `known_to`, which corrected it (None: it
    still is). `position` is that of the last event folded into the version.
    """

    cells: Mapping[str, Cell]
    position: Position
    known_from: int
    known_to: int | None = None

    def was_believed_after(self, batch: int) -> bool:
        """Return True if the version was believed after a batch."""
        return self.known_from <= batch and (self.known_to is None or self.known_to > batch)

    def shows(self, other: Mapping[str, Cell]) -> bool:
        """Return True if a row shows the same cells. A column that one of the two lacks counts as NULL."""
        names = {**self.cells, **other}
        return all(canonical(self.cells.get(name)) == canonical(other.get(name)) for name in names)

    def row(self, history: History, names: Sequence[str]) -> Mapping[str, Cell]:
        """Return the version as a row of the table with these columns."""
        batches = dict(zip(history.known_columns, (self.known_from, self.known_to), strict=True))
        return {name: batches[name] if name in batches else self.cells.get(name) for name in names}


KnownVersions: TypeAlias = tuple[KnownVersion, ...]
"""All versions of one key that a table has, including corrected ones."""


def update_known_versions(
    dimension: Dimension,
    key: Key,
    known_versions: KnownVersions,
    versions: Versions,
    batch: int,
    numbers: Numbers = NO_NUMBERS,
) -> KnownVersions:
    """Return the known versions of a key after a batch that leaves these versions, with these surrogate numbers.

    A version that shows the same cells stays, even if its last event is another one. Every other believed version
    ends with the batch, and new ones begin with it.
    """
    history = dimension.history or History()
    begins = history.validity_columns.valid_from
    ended = [known for known in known_versions if known.known_to is not None]
    open_versions = {known.cells[begins]: known for known in known_versions if known.known_to is None}
    updated: list[KnownVersion] = []
    for version, cells in zip(versions, rows(dimension, key, versions, numbers), strict=True):
        stored = open_versions.get(cells[begins])
        if stored is not None and stored.shows(cells):
            del open_versions[cells[begins]]
            updated.append(replace(stored, cells=cells, position=version.position))
        else:
            updated.append(KnownVersion(cells, version.position, batch))
    return (*ended, *(replace(known, known_to=batch) for known in open_versions.values()), *updated)


def known_after(known_versions: Iterable[KnownVersion], batch: int) -> KnownVersions:
    """Return the versions that were believed after a batch."""
    return tuple(known for known in known_versions if known.was_believed_after(batch))
