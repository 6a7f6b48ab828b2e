"""The versions of one key, and what one event more makes of them.

Versions are taken on event by event, in position order. All that is needed for the next event
is in the last two versions (`last_versions`): so a fold goes on from what a table has, and one that
begins anew somewhere in the middle keeps all versions before that as they are (`splice_versions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from lakeward.core.events import Cell, Key, Position, canonical


@dataclass(frozen=True, slots=True)
class Version:
    """How a row was in `[valid_from, valid_to)`; `valid_to` is None while it is current.

    `position` is that of the last event folded into it, that which closed it included, and `reached`
    the instant of that event, which never runs back from event to event. With `deleted` it ended
    because the row went. `previous` has for each column of kind 3 the value before; `previous_key` is
    the key that the row had before the last key change folded into the version.
    """

    valid_from: int
    valid_to: int | None
    cells: Mapping[str, Cell]
    position: Position
    reached: int
    deleted: bool = False
    previous: Mapping[str, Cell] = field(default_factory=dict)
    previous_key: Key | None = None

    @property
    def is_current(self) -> bool:
        """Whether it has not ended."""
        return self.valid_to is None

    def covers(self, instant: int) -> bool:
        """Whether it is what was valid at an instant."""
        return self.valid_from <= instant and (self.valid_to is None or instant < self.valid_to)


Versions: TypeAlias = tuple[Version, ...]
"""The versions of one key, in order; one that ends where the next begins was followed by it at once."""


@dataclass(frozen=True, slots=True)
class Step:
    """What an event does to the versions of a key: from when, and where it stands in the order.

    An event that has no instant of its own (None) counts from the one that its key has reached.
    """

    instant: int | None
    position: Position
    old_key: Key | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of which a change opens a version, those that keep their first value, and those of kind 3."""

    tracked: tuple[str, ...]
    kept: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()

    def same(self, one: Mapping[str, Cell], other: Mapping[str, Cell]) -> bool:
        """Tell whether two images are one version."""
        return all(canonical(one.get(name)) == canonical(other.get(name)) for name in self.tracked)


def apply_row(columns: Columns, versions: Versions, cells: Mapping[str, Cell], step: Step) -> Versions:
    """Return the versions of a key after its row became `cells`.

    A change of a tracked column ends the open version and opens another; any other overwrites it. Of
    several states at one instant the last counts: what would be empty goes, and what ended at that
    instant and is equal goes on.
    """
    at = _instant(versions, step)
    old_key = step.old_key
    if versions and versions[-1].is_current and not columns.same(versions[-1].cells, cells):
        last = versions[-1]
        if last.valid_from == at:
            versions, old_key = versions[:-1], old_key or last.previous_key
        else:
            versions = (*versions[:-1], replace(last, valid_to=at, reached=at, position=step.position))
    before = versions[-1] if versions else None
    new = Version(at, None, _kept(columns, before, cells), step.position, at, False, {}, old_key)
    new = replace(new, previous=_previous(columns, before, new.cells))
    if before is not None and before.valid_to in (None, at) and columns.same(before.cells, cells):
        going_on = replace(new, valid_from=before.valid_from, previous_key=old_key or before.previous_key)
        return (*versions[:-1], going_on)
    if before is not None and before.valid_to == at:
        versions = (*versions[:-1], replace(before, deleted=False))
    return (*versions, new)


def apply_delete(versions: Versions, step: Step) -> Versions:
    """Return the versions of a key after its row went; where none is open, the last tells how far they are."""
    if not versions:
        return ()
    at, last = _instant(versions, step), versions[-1]
    if last.is_current and last.valid_from == at:
        versions = versions[:-1]
    elif last.is_current:
        versions = (*versions[:-1], replace(last, valid_to=at))
    if not versions:
        return ()
    return (*versions[:-1], replace(versions[-1], deleted=True, position=step.position, reached=at))


def last_versions(versions: Versions) -> Versions:
    """Return what is needed of the versions of a key to go on from them."""
    return versions[-2:]


def splice_versions(stored: Versions, base: Versions, versions: Versions) -> Versions:
    """Return the stored versions with those in place that a fold from `base` on has made.

    Those before it stay: they begin earlier. Of a base of two versions no event takes away the first; one alone may
    go, and the versions of the key begin anew earlier, so no event behind it was folded into those that stay.
    """
    if not base:
        return versions
    first, is_kept = base[0], len(base) > 1
    earlier = (one for one in stored if one.valid_from < first.valid_from)
    return (*(one for one in earlier if is_kept or one.position <= first.position), *versions)


def order_versions(versions: Sequence[Version]) -> Versions:
    """Return the versions of a key as a table has them, in order; what ended without a follower was deleted."""
    ordered = sorted(versions, key=lambda version: version.valid_from)
    starts = {one.valid_from: following.valid_from for one, following in pairwise(ordered)}
    return tuple(
        replace(one, deleted=one.valid_to is not None and one.valid_to != starts.get(one.valid_from))
        for one in ordered
    )


def _instant(versions: Versions, step: Step) -> int:
    """Return the instant of an event: its own, or the one reached where that would run back."""
    reached = versions[-1].reached if versions else step.instant
    if reached is None:
        raise ValueError(f"the event at {tuple(step.position)} has no instant, and its key has reached none")
    return reached if step.instant is None else max(reached, step.instant)


def _kept(columns: Columns, before: Version | None, cells: Mapping[str, Cell]) -> Mapping[str, Cell]:
    if before is None or not columns.kept:
        return cells
    return {**cells, **{name: before.cells.get(name) for name in columns.kept}}


def _previous(columns: Columns, before: Version | None, cells: Mapping[str, Cell]) -> Mapping[str, Cell]:
    """Return the values that columns of kind 3 had before they got those that they have."""
    if before is None:
        return dict.fromkeys(columns.previous)
    return {
        name: before.previous.get(name)
        if canonical(before.cells.get(name)) == canonical(cells.get(name))
        else before.cells.get(name)
        for name in columns.previous
    }
