"""The versions of one key, and the effect of one event on them.

Events are applied in position order. The next event needs only the last two versions (`last_versions`). So a fold
continues from the stored versions, and one that starts again in the middle keeps all earlier versions
(`splice_versions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from lakeward.core.events import Cell, Key, Position, canonical


@dataclass(frozen=True, slots=True)
class Version:
    """The state of a row in `[valid_from, valid_to)`; `valid_to` is None while it is current.

    `position` is that of the last event folded into it, including the one that closed it. `reached` is the instant
    of that event, which never runs back from event to event. `deleted` says that it ended because the row was
    deleted. `previous` has for each column of kind 3 the value before; `previous_key` is the key that the row had
    before the last key change folded into the version.
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
        """Return True if the version was valid at an instant."""
        return self.valid_from <= instant and (self.valid_to is None or instant < self.valid_to)


Versions: TypeAlias = tuple[Version, ...]
"""The versions of one key, in order. A version that ends where the next begins was replaced by it."""


@dataclass(frozen=True, slots=True)
class Step:
    """The time and the position of an event for the versions of a key.

    An event without an instant of its own (None) counts from the one that its key has reached.
    """

    instant: int | None
    position: Position
    old_key: Key | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of which a change opens a version, those that keep their first value, and those of kind 3."""

    tracked: tuple[str, ...]
    first_values: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()

    def same(self, cells: Mapping[str, Cell], other: Mapping[str, Cell]) -> bool:
        """Return True if two images belong to one version, because their tracked columns are equal."""
        return all(canonical(cells.get(name)) == canonical(other.get(name)) for name in self.tracked)


def apply_row(columns: Columns, versions: Versions, cells: Mapping[str, Cell], step: Step) -> Versions:
    """Return the versions of a key after its row became `cells`.

    A change of a tracked column ends the open version and opens another; any other change overwrites the open
    version. Of several states at one instant the last counts: an empty version is removed, and an equal one that
    ended at that instant continues.
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
    new = Version(at, None, _with_first_values(columns, before, cells), step.position, at, False, {}, old_key)
    new = replace(new, previous=_previous_values(columns, before, new.cells))
    if before is not None and before.valid_to in (None, at) and columns.same(before.cells, cells):
        continued = replace(new, valid_from=before.valid_from, previous_key=old_key or before.previous_key)
        return (*versions[:-1], continued)
    if before is not None and before.valid_to == at:
        versions = (*versions[:-1], replace(before, deleted=False))
    return (*versions, new)


def apply_delete(versions: Versions, step: Step) -> Versions:
    """Return the versions of a key after its row was deleted. If none is open, the last one records the delete."""
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
    """Return the versions that a fold needs to continue: the last two."""
    return versions[-2:]


def splice_versions(stored: Versions, base: Versions, versions: Versions) -> Versions:
    """Return the stored versions with those replaced that a fold from `base` on has made.

    Earlier versions stay. No event removes the first of two base versions. A single base version may be removed,
    and then the versions of the key begin again earlier: only those stay into which no later event was folded.
    """
    if not base:
        return versions
    first, has_two = base[0], len(base) > 1
    earlier = (version for version in stored if version.valid_from < first.valid_from)
    return (*(version for version in earlier if has_two or version.position <= first.position), *versions)


def order_versions(versions: Sequence[Version]) -> Versions:
    """Return the versions of a key in order. A version that ended without a successor was deleted."""
    ordered = sorted(versions, key=lambda version: version.valid_from)
    starts = {version.valid_from: following.valid_from for version, following in pairwise(ordered)}
    return tuple(
        replace(
            version, deleted=version.valid_to is not None and version.valid_to != starts.get(version.valid_from)
        )
        for version in ordered
    )


def _instant(versions: Versions, step: Step) -> int:
    """Return the instant of an event: its own, or the one that its key has reached where that is later."""
    reached = versions[-1].reached if versions else step.instant
    if reached is None:
        raise ValueError(f"the event at {tuple(step.position)} has no instant, and its key has reached none")
    return reached if step.instant is None else max(reached, step.instant)


def _with_first_values(columns: Columns, before: Version | None, cells: Mapping[str, Cell]) -> Mapping[str, Cell]:
    if before is None or not columns.first_values:
        return cells
    return {**cells, **{name: before.cells.get(name) for name in columns.first_values}}


def _previous_values(columns: Columns, before: Version | None, cells: Mapping[str, Cell]) -> Mapping[str, Cell]:
    """Return the values that columns of kind 3 had before their present ones."""
    if before is None:
        return dict.fromkeys(columns.previous)
    return {
        name: before.previous.get(name)
        if canonical(before.cells.get(name)) == canonical(cells.get(name))
        else before.cells.get(name)
        for name in columns.previous
    }
