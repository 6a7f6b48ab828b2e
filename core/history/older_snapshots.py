"""What a snapshot that comes behind newer ones makes of the versions of a key.

A snapshot says of every key how it stood at its instant, or that it was not there: it is a witness for all of
them. So where a history is made of snapshots alone, versions begin and end at their instants and nowhere else, and
one that is older than others is put in its place by the versions that stand and by these instants: nothing else has
to be remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lakeward.core.events import Cell, Position, canonical
from lakeward.core.history.versions import Columns, Version, Versions, order_versions


@dataclass(frozen=True, slots=True)
class SnapshotSpan:
    """For how long a snapshot counts: from its instant until that of the next one, in the unit of the history.

    `position` is where it stands in the order, before all of its rows and below the snapshots behind it.
    """

    begins: int
    ends: int
    position: Position


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """What a snapshot has of a key, and in which of its rows."""

    cells: Mapping[str, Cell]
    row: int = 0


def insert_snapshot(columns: Columns, versions: Versions, row: SnapshotRow | None, span: SnapshotSpan) -> Versions:
    """Return the versions of a key once a snapshot between others says how it stood; None: it was not there.

    Of untracked columns a version shows what the last snapshot says that fell into it. Where one is cut, the part
    before goes on showing that, for what was said earlier is not known any more. Versions that say the same already
    stay as they are. A span in which no instant lies changes nothing: the next snapshot counts from the same one.
    """
    if span.begins >= span.ends:
        return versions
    before = (_cut(version, span) for version in versions if version.valid_from < span.begins)
    behind = (
        replace(version, valid_from=max(version.valid_from, span.ends))
        for version in versions
        if version.valid_to is None or version.valid_to > span.ends
    )
    within = () if row is None else (_within(versions, row, span),)
    return order_versions(_joined(columns, (*before, *within, *behind)))


def _cut(version: Version, span: SnapshotSpan) -> Version:
    """Return what is left of a version before a snapshot."""
    if version.valid_to is not None and version.valid_to <= span.begins:
        return version
    return replace(version, valid_to=span.begins, reached=span.begins, position=span.position)


def _within(versions: Versions, row: SnapshotRow, span: SnapshotSpan) -> Version:
    """Return the version that a snapshot says; where one that stands says the very same, as a part of that.

    Along the versions of a key positions never fall: where one is cut, what is behind is of a later snapshot.
    """
    position = span.position._replace(row=row.row)
    for version in versions:
        is_same = all(canonical(version.cells.get(name)) == canonical(value) for name, value in row.cells.items())
        if is_same and version.covers(span.begins) and version.valid_to == span.ends:
            return replace(version, valid_from=span.begins, position=max(version.position, position))
    return Version(span.begins, span.ends, row.cells, position, span.ends)


def _joined(columns: Columns, versions: Iterable[Version]) -> Versions:
    """Return versions with those in one that follow each other at once and are equal."""
    found: list[Version] = []
    for version in versions:
        last = found[-1] if found else None
        if last is not None and last.valid_to == version.valid_from and columns.same(last.cells, version.cells):
            found[-1] = replace(version, valid_from=last.valid_from)
        else:
            found.append(version)
    return tuple(found)
