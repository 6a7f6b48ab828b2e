"""The effect of a snapshot that arrives after newer ones on the versions of a key.

A snapshot says of every key how its row was at its instant, or that there was none: it is a witness for all keys.
In a history of snapshots alone, versions begin and end only at their instants. So an older snapshot is inserted
from the stored versions and these instants, and nothing else has to be remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lakeward.core.events import Cell, Position, canonical
from lakeward.core.history.versions import Columns, Version, Versions, order_versions


@dataclass(frozen=True, slots=True)
class SnapshotSpan:
    """The time for which a snapshot counts: from its instant to that of the next, in the unit of the history.

    `position` is its place in the order: before all of its rows, and below the snapshots after it.
    """

    begins: int
    ends: int
    position: Position


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """The row that a snapshot has of a key, and the number of that row."""

    cells: Mapping[str, Cell]
    row: int = 0


def insert_snapshot(columns: Columns, versions: Versions, row: SnapshotRow | None, span: SnapshotSpan) -> Versions:
    """Return the versions of a key after an older snapshot is inserted.

    `row` is None where the snapshot lacks the key.

    In untracked columns a version shows the last snapshot within it. Where a version is cut, the part before keeps
    these values, because the earlier ones are no longer known. Versions that already show the same are unchanged. A
    span without an instant changes nothing: the next snapshot counts from the same one.
    """
    if span.begins >= span.ends:
        return versions
    before = (_cut(version, span) for version in versions if version.valid_from < span.begins)
    after = (
        replace(version, valid_from=max(version.valid_from, span.ends))
        for version in versions
        if version.valid_to is None or version.valid_to > span.ends
    )
    within = () if row is None else (_within(versions, row, span),)
    return order_versions(_joined(columns, (*before, *within, *after)))


def _cut(version: Version, span: SnapshotSpan) -> Version:
    """Return the part of a version before a snapshot."""
    if version.valid_to is not None and version.valid_to <= span.begins:
        return version
    return replace(version, valid_to=span.begins, reached=span.begins, position=span.position)


def _within(versions: Versions, row: SnapshotRow, span: SnapshotSpan) -> Version:
    """Return the version that a snapshot adds. Where a stored version shows the same, it is a part of that one.

    Positions never fall along the versions of a key: where a version is cut, the part after it belongs to a later
    snapshot.
    """
    position = span.position._replace(row=row.row)
    for version in versions:
        is_same = all(canonical(version.cells.get(name)) == canonical(value) for name, value in row.cells.items())
        if is_same and version.covers(span.begins) and version.valid_to == span.ends:
            return replace(version, valid_from=span.begins, position=max(version.position, position))
    return Version(span.begins, span.ends, row.cells, position, span.ends)


def _joined(columns: Columns, versions: Iterable[Version]) -> Versions:
    """Return the versions with adjacent equal ones joined."""
    joined: list[Version] = []
    for version in versions:
        previous = joined[-1] if joined else None
        if (
            previous is not None
            and previous.valid_to == version.valid_from
            and columns.same(previous.cells, version.cells)
        ):
            joined[-1] = replace(version, valid_from=previous.valid_from)
        else:
            joined.append(version)
    return tuple(joined)
