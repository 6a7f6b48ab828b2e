"""What a plan of a joined table means: `join` says which rows carrying it out must write and remove.

A row is told by its key and the instant from which it is valid; in a joined mirror that is 0 throughout. Columns
that show the current value on all versions (kind 6) are made of these rows, and written anew with all of a key's
where its last one has another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from lakeward.core.events import Key, Position, key_of, same
from lakeward.core.history.options import History
from lakeward.core.history.versions import Columns, Step, Version, Versions, apply_delete, apply_row
from lakeward.core.joined.dates import BEGINNING, beyond, of_change
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.plan import JoinPlan
from lakeward.core.joined.rows import Made, Tables, as_of, greatest, rows
from lakeward.core.joined.touched import Changes, Touch, needed, touched
from lakeward.core.joined.undated import is_dated
from lakeward.core.merge.fold import columns_of

Place: TypeAlias = tuple[Key, int]
"""Where a row of a joined table is: its key, and from when it is valid."""

TableState: TypeAlias = Mapping[Key, Versions]
"""What stands of a joined table, by key: of a mirror one version, of a history those that are asked for."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch does to a joined table: the rows that it writes, new or in place of others, and removes.

    Keys of which it does neither, though they were touched, are `left` as they stand, with why.
    """

    rows: Mapping[Place, Version] = field(default_factory=dict)
    removed: frozenset[Place] = frozenset()
    left: Mapping[Key, str] = field(default_factory=dict)


def join(plan: JoinPlan, tables: Tables, changes: Changes, standing: TableState) -> Written:
    """Return what a batch writes and removes.

    `tables` are the rows of the sources at the commits that the plan names, or as many as are `needed`, and in a
    joined history of histories all their versions. What stands of the keys that are touched is, in such a
    history, every version; in one that is compared the last two; in a mirror the row.
    """
    joining = plan.joining
    reached = touched(joining, changes, tables)
    found = tables if plan.whole else needed(joining, tables, reached)
    if joining.over_time:
        keys = {*standing, *_keys(joining, found)} if plan.whole else set(reached)
        return _of_those_that_show(joining, standing, over_time(joining, found, keys, plan.batch))
    made = rows(joining, found)
    keys = {*standing, *made} if plan.whole else set(reached)
    if joining.joined.history is None:
        after = {key: _mirrored(made[key], plan.batch) for key in keys if key in made}
    else:
        after = {
            key: compared(plan, standing.get(key, ()), made.get(key), reached.get(key, Touch())) for key in keys
        }
    return difference(standing, after, keys)


def over_time(joining: Joining, tables: Tables, keys: Collection[Key], batch: int) -> Mapping[Key, Versions]:
    """Return the versions of joined rows whose sources have versions, from these alone.

    As of each instant the joined history is what joins its sources as they were then.
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


def _of_those_that_show(joining: Joining, standing: TableState, after: TableState) -> Written:
    """Return what has to be written and removed, of keys whose versions can be shown; the others are left."""
    history = joining.joined.history or History()
    left = {key: why for key, versions in after.items() if (why := beyond(history, versions)) is not None}
    return replace(difference(standing, after, after.keys() - left.keys()), left=left)


def compared(plan: JoinPlan, versions: Versions, made: Made | None, touch: Touch) -> Versions:
    """Return the versions of a key of which only the last row is known: a change begins when its sources changed.

    That is the greatest instant of the rows that it is made of and of the changes that touched it, or the run,
    where these have none, or do not date all of it.
    """
    history, columns = plan.joining.joined.history or History(), _columns(plan.joining)
    known = greatest((touch.instant, *({} if made is None else made.instants).values()))
    stands_for_none = made is not None and made.is_unknown and not versions
    told = is_dated(plan, columns, versions[-1], made, touch) if versions else True
    dated = of_change(known, history, plan.ran, is_first=plan.is_first, is_dated=told)
    at = BEGINNING if stands_for_none else dated
    return _after(columns, versions, made, Step(at, _position(plan.batch)))


def difference(standing: TableState, after: TableState, keys: Iterable[Key]) -> Written:
    """Return what has to be written and removed, of some keys, so that what stands becomes something else."""
    written: dict[Place, Version] = {}
    removed: set[Place] = set()
    for key in keys:
        before = {version.valid_from: version for version in standing.get(key, ())}
        now = {version.valid_from: version for version in after.get(key, ())}
        removed |= {(key, start) for start in before.keys() - now.keys()}
        for start, version in now.items():
            if start not in before or not _shows_the_same(before[start], version):
                written[key, start] = version
    return Written(written, frozenset(removed))


def _after(columns: Columns, versions: Versions, made: Made | None, step: Step) -> Versions:
    """Return the versions of a key after its joined row became another, or went."""
    return apply_delete(versions, step) if made is None else apply_row(columns, versions, made.cells, step)


def _shows_the_same(one: Version, other: Version) -> bool:
    return one.valid_to == other.valid_to and same(one.cells, other.cells) and same(one.previous, other.previous)


def _mirrored(made: Made, batch: int) -> Versions:
    return (Version(0, None, made.cells, _position(batch), 0),)


def _position(batch: int) -> Position:
    """Return the place of a batch in the order of a joined table, which is that of its batches alone."""
    return Position(1, 0, batch, 0)


def _columns(joining: Joining) -> Columns:
    return columns_of(joining.dimension) or Columns(())


def _keys(joining: Joining, tables: Tables) -> set[Key]:
    """Return the keys that a joined table ever had, by all versions of its driving source."""
    driving = joining.joined.driving
    found = {
        key_of(known.cells, joining.found_by(driving)) for known in (k for v in tables[driving].values() for k in v)
    }
    unknown = set() if joining.unknown is None else {joining.unknown[0]}
    return {key for key in found if key is not None} | unknown


def _instants(joining: Joining, tables: Tables) -> Sequence[int]:
    """Return all instants at which something may have changed, in order."""
    knowns = [known for table in tables.values() for of_key in table.values() for known in of_key]
    ends = {end for known in knowns for end in (known.valid_from, known.valid_to) if end is not None}
    return sorted(ends | (set() if joining.unknown is None else {BEGINNING}))
