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
from lakeward.core.joined.dates import BEGINNING, change_instant, open_end_violation
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.plan import JoinPlan
from lakeward.core.joined.rows import JoinedRow, RowsBySource, as_of, greatest, rows
from lakeward.core.joined.touched import ChangeDates, SourceChanges, find_touched_keys, select_needed_rows
from lakeward.core.joined.undated import is_dated
from lakeward.core.merge.fold import columns_of

Place: TypeAlias = tuple[Key, int]
"""The place of a row in a joined table: its key, and the instant from which it is valid."""

StoredVersions: TypeAlias = Mapping[Key, Versions]
"""The stored versions of a joined table by key: one in a mirror, the requested ones in a history."""


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The effect of a batch on a joined table: the rows that it writes, and those that it removes.

    Touched keys that stay unchanged because their versions cannot be shown are in `left`, with the reason.
    """

    rows: Mapping[Place, Version] = field(default_factory=dict)
    removed: frozenset[Place] = frozenset()
    left: Mapping[Key, str] = field(default_factory=dict)


def join(plan: JoinPlan, tables: RowsBySource, changes: SourceChanges, standing: StoredVersions) -> JoinResult:
    """Return the rows that a batch writes and removes.

    `tables` are the rows of the sources at the commits of the plan, or those that `select_needed_rows` returns; in
    a joined history of histories they have all versions. `standing` are the stored rows of the touched keys: all
    versions in such a history, the last two in a history of mirrors, the row in a mirror.
    """
    joining = plan.joining
    reached = find_touched_keys(joining, changes, tables)
    found = tables if plan.whole else select_needed_rows(joining, tables, reached)
    if joining.over_time:
        keys = {*standing, *_keys(joining, found)} if plan.whole else set(reached)
        return _of_those_that_show(joining, standing, over_time(joining, found, keys, plan.batch))
    made = rows(joining, found)
    keys = {*standing, *made} if plan.whole else set(reached)
    if joining.joined.history is None:
        after = {key: _mirrored(made[key], plan.batch) for key in keys if key in made}
    else:
        after = {
            key: compare_row(plan, standing.get(key, ()), made.get(key), reached.get(key, ChangeDates()))
            for key in keys
        }
    return find_difference(standing, after, keys)


def over_time(joining: Joining, tables: RowsBySource, keys: Collection[Key], batch: int) -> Mapping[Key, Versions]:
    """Return the versions of joined rows from the versions of their sources alone.

    As of each instant the joined history is the join of its sources as of that instant.
    """
    columns = _columns(joining)
    versions: dict[Key, Versions] = dict.fromkeys(keys, ())
    for instant in _instants(joining, tables):
        made = rows(joining, as_of(tables, instant))
        if instant < BEGINNING:
            made = {key: one for key, one in made.items() if not one.is_unknown}
        step = Step(instant, _position(batch))
        for key in keys:
            versions[key] = _after(columns, versions[key], made.get(key), step)
    return versions


def _of_those_that_show(joining: Joining, standing: StoredVersions, after: StoredVersions) -> JoinResult:
    """Return what to write and remove, for keys whose versions can be shown; the others are left unchanged."""
    history = joining.joined.history or History()
    left = {
        key: why for key, versions in after.items() if (why := open_end_violation(history, versions)) is not None
    }
    return replace(find_difference(standing, after, after.keys() - left.keys()), left=left)


def compare_row(plan: JoinPlan, versions: Versions, made: JoinedRow | None, touch: ChangeDates) -> Versions:
    """Return the versions of a key of which only the last row is known. A change begins when its sources changed.

    That is the greatest instant of its source rows and of the changes that touched it, or the run, where these have
    no instant or do not date the whole change.
    """
    history, columns = plan.joining.joined.history or History(), _columns(plan.joining)
    known = greatest((touch.instant, *({} if made is None else made.instants).values()))
    stands_for_none = made is not None and made.is_unknown and not versions
    told = is_dated(plan, columns, versions[-1], made, touch) if versions else True
    dated = change_instant(known, history, plan.ran, is_first=plan.is_first, is_dated=told)
    at = BEGINNING if stands_for_none else dated
    return _after(columns, versions, made, Step(at, _position(plan.batch)))


def find_difference(standing: StoredVersions, after: StoredVersions, keys: Iterable[Key]) -> JoinResult:
    """Return what to write and remove so that the stored versions of some keys become the new ones."""
    written: dict[Place, Version] = {}
    removed: set[Place] = set()
    for key in keys:
        before = {version.valid_from: version for version in standing.get(key, ())}
        now = {version.valid_from: version for version in after.get(key, ())}
        removed |= {(key, start) for start in before.keys() - now.keys()}
        for start, version in now.items():
            if start not in before or not _shows_the_same(before[start], version):
                written[key, start] = version
    return JoinResult(written, frozenset(removed))


def _after(columns: Columns, versions: Versions, made: JoinedRow | None, step: Step) -> Versions:
    """Return the versions of a key after its joined row changed or disappeared."""
    return apply_delete(versions, step) if made is None else apply_row(columns, versions, made.cells, step)


def _shows_the_same(one: Version, other: Version) -> bool:
    return (
        one.valid_to == other.valid_to
        and same_cells(one.cells, other.cells)
        and same_cells(one.previous, other.previous)
    )


def _mirrored(made: JoinedRow, batch: int) -> Versions:
    return (Version(0, None, made.cells, _position(batch), 0),)


def _position(batch: int) -> Position:
    """Return the position of a batch. The order of a joined table is that of its batches."""
    return Position(1, 0, batch, 0)


def _columns(joining: Joining) -> Columns:
    return columns_of(joining.dimension) or Columns(())


def _keys(joining: Joining, tables: RowsBySource) -> set[Key]:
    """Return all keys that a joined table ever had, from all versions of its driving source."""
    driving = joining.joined.driving
    found = {
        key_of(known.cells, joining.found_by(driving)) for known in (k for v in tables[driving].values() for k in v)
    }
    unknown = set() if joining.unknown is None else {joining.unknown[0]}
    return {key for key in found if key is not None} | unknown


def _instants(joining: Joining, tables: RowsBySource) -> Sequence[int]:
    """Return all instants at which something may have changed, in order."""
    knowns = [known for table in tables.values() for of_key in table.values() for known in of_key]
    ends = {end for known in knowns for end in (known.valid_from, known.valid_to) if end is not None}
    return sorted(ends | (set() if joining.unknown is None else {BEGINNING}))
