"""The meaning of the plan of a joined table: `join` returns the rows that carrying it out must write and remove.

A row is identified by its key and the instant from which it is valid, which is 0 in a joined mirror. Columns that
show the current value on all versions (kind 6) are computed from these rows. All versions of a key are written
again where its last one changes such a value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from lakeward.core.events import Key, Position, key_of, same_cells
from lakeward.core.history.options import History
from lakeward.core.history.versions import Columns, Step, Version, Versions, apply_delete, apply_row
from lakeward.core.joined.dates import BEGINNING, change_instant, is_dated, open_end_violation
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.plan import JoinPlan
from lakeward.core.joined.rows import JoinedRow, RowsBySource, as_of, greatest, join_rows
from lakeward.core.joined.touched_keys import ChangeDates, SourceChanges, find_touched_keys, select_needed_rows
from lakeward.core.merge.fold import columns_of

Place: TypeAlias = tuple[Key, int]
"""The place of a row in a joined table: its key, and the instant from which it is valid."""

StoredVersions: TypeAlias = Mapping[Key, Versions]
"""The stored versions of a joined table by key: one in a mirror, the requested ones in a history."""


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The effect of a batch on a joined table: the rows that it writes, and those that it removes.

    `skipped` has the touched keys that stay unchanged because their versions cannot be shown, with the reason.
    """

    rows: Mapping[Place, Version] = field(default_factory=dict)
    removed: frozenset[Place] = frozenset()
    skipped: Mapping[Key, str] = field(default_factory=dict)


def join(plan: JoinPlan, tables: RowsBySource, changes: SourceChanges, stored: StoredVersions) -> JoinResult:
    """Return the rows that a batch writes and removes.

    `tables` are the rows of the sources at the commits of the plan, or those that `select_needed_rows` returns; in
    a joined history of histories they have all versions. `stored` are the stored rows of the touched keys: all
    versions in such a history, the last two in a history of mirrors, the row in a mirror.
    """
    joining = plan.joining
    touched = find_touched_keys(joining, changes, tables)
    needed = tables if plan.reasons else select_needed_rows(joining, tables, touched)
    if joining.over_time:
        keys = {*stored, *_all_keys(joining, needed)} if plan.reasons else set(touched)
        return _skip_violations(joining, stored, versions_over_time(joining, needed, keys, plan.batch))
    rows = join_rows(joining, needed)
    keys = {*stored, *rows} if plan.reasons else set(touched)
    if joining.joined.history is None:
        after = {key: _mirror_version(rows[key], plan.batch) for key in keys if key in rows}
    else:
        after = {
            key: compare_row(plan, stored.get(key, ()), rows.get(key), touched.get(key, ChangeDates()))
            for key in keys
        }
    return find_difference(stored, after, keys)


def versions_over_time(
    joining: JoinDefinition, tables: RowsBySource, keys: Collection[Key], batch: int
) -> Mapping[Key, Versions]:
    """Return the versions of joined rows from the versions of their sources alone.

    As of each instant the joined history is the join of its sources as of that instant.
    """
    columns = _columns(joining)
    versions: dict[Key, Versions] = dict.fromkeys(keys, ())
    for instant in _instants(joining, tables):
        rows = join_rows(joining, as_of(tables, instant))
        if instant < BEGINNING:
            rows = {key: row for key, row in rows.items() if not row.is_unknown}
        step = Step(instant, _position(batch))
        for key in keys:
            versions[key] = _apply(columns, versions[key], rows.get(key), step)
    return versions


def _skip_violations(joining: JoinDefinition, stored: StoredVersions, after: StoredVersions) -> JoinResult:
    """Return what to write and remove, for keys whose versions can be shown; the others are left unchanged."""
    history = joining.joined.history or History()
    reasons = {key: open_end_violation(history, versions) for key, versions in after.items()}
    skipped = {key: reason for key, reason in reasons.items() if reason is not None}
    return replace(find_difference(stored, after, after.keys() - skipped.keys()), skipped=skipped)


def compare_row(plan: JoinPlan, versions: Versions, row: JoinedRow | None, dates: ChangeDates) -> Versions:
    """Return the versions of a key of which only the last row is known. A change begins when its sources changed.

    That is the greatest instant of its source rows and of the changes that touched it, or the run, where these have
    no instant or do not date the whole change.
    """
    history, columns = plan.joining.joined.history or History(), _columns(plan.joining)
    instant = greatest((dates.instant, *({} if row is None else row.instants).values()))
    dated = is_dated(plan, columns, versions[-1], row, dates) if versions else True
    begins = change_instant(instant, history, plan.ran, is_first=plan.is_first, is_dated=dated)
    if row is not None and row.is_unknown and not versions:
        begins = BEGINNING
    return _apply(columns, versions, row, Step(begins, _position(plan.batch)))


def find_difference(stored: StoredVersions, after: StoredVersions, keys: Iterable[Key]) -> JoinResult:
    """Return what to write and remove so that the stored versions of some keys become the new ones."""
    written: dict[Place, Version] = {}
    removed: set[Place] = set()
    for key in keys:
        before = {version.valid_from: version for version in stored.get(key, ())}
        now = {version.valid_from: version for version in after.get(key, ())}
        removed |= {(key, start) for start in before.keys() - now.keys()}
        for start, version in now.items():
            if start not in before or not _is_same_version(before[start], version):
                written[key, start] = version
    return JoinResult(written, frozenset(removed))


def _apply(columns: Columns, versions: Versions, row: JoinedRow | None, step: Step) -> Versions:
    """Return the versions of a key after its joined row changed or disappeared."""
    return apply_delete(versions, step) if row is None else apply_row(columns, versions, row.cells, step)


def _is_same_version(one: Version, other: Version) -> bool:
    return (
        one.valid_to == other.valid_to
        and same_cells(one.cells, other.cells)
        and same_cells(one.previous, other.previous)
    )


def _mirror_version(row: JoinedRow, batch: int) -> Versions:
    return (Version(0, None, row.cells, _position(batch), 0),)


def _position(batch: int) -> Position:
    """Return the position of a batch. The order of a joined table is that of its batches."""
    return Position(1, 0, batch, 0)


def _columns(joining: JoinDefinition) -> Columns:
    return columns_of(joining.dimension) or Columns(())


def _all_keys(joining: JoinDefinition, tables: RowsBySource) -> set[Key]:
    """Return all keys that a joined table ever had, from all versions of its driving source."""
    driving = joining.joined.driving
    links = (key_of(row.cells, joining.link_columns(driving)) for rows in tables[driving].values() for row in rows)
    unknown = set() if joining.unknown is None else {joining.unknown[0]}
    return {key for key in links if key is not None} | unknown


def _instants(joining: JoinDefinition, tables: RowsBySource) -> Sequence[int]:
    """Return all instants at which something may have changed, in order."""
    source_rows = [row for table in tables.values() for rows in table.values() for row in rows]
    ends = {end for row in source_rows for end in (row.valid_from, row.valid_to) if end is not None}
    return sorted(ends | (set() if joining.unknown is None else {BEGINNING}))
