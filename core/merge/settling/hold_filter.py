"""Filter events by the holds of their keys, including holds that waiting key changes add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakeward.core.events import ChangeEvent, Key, Position
from lakeward.core.merge.change_log import Hold
from lakeward.core.merge.settling.arrivals import Arrivals
from lakeward.core.merge.settling.table_before import TableBefore
from lakeward.core.merge.truncates import Truncates


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredEvents:
    """The events that `passed` the holds, in position order, and those that are `waiting` behind one.

    `waited` are those of both that waited before this delivery. `truncates` are the remembered and the passed ones.
    """

    passed: Sequence[ChangeEvent]
    waiting: Sequence[ChangeEvent]
    waited: Sequence[ChangeEvent]
    truncates: Truncates

    @property
    def keys(self) -> set[Key]:
        """The keys of the events that passed."""
        return {key for event in self.passed for key in event.keys}

    def overruled(self, holds: Mapping[Position, Hold]) -> list[Position]:
        """Return the positions of holds that end, because they lie below a truncate."""
        return [position for position, hold in holds.items() if self.truncates.overrules(position, hold.reason)]


def filter_by_holds(before: TableBefore, arrived: Arrivals) -> FilteredEvents:
    """Return which events may be folded and which wait behind a hold.

    A waiting key change holds both its keys. A truncate passes every hold, and supersedes what is held or waits
    below it.
    """
    waited = [e for e in before.waited if e.position.epoch == before.epoch and e.position not in arrived.closed]
    open_ = [e for e in [*arrived.fresh, *waited, *arrived.repaired] if e.position not in arrived.holds]
    candidates = sorted(open_, key=lambda event: event.position)
    remembered = frozenset(event.position for event in before.truncates)
    truncates = Truncates(remembered, tuple(event.position for event in candidates if not event.keys))
    newest = truncates.all[-1] if truncates.all else None
    barriers = barriers_of(arrived.holds.values(), truncates)
    passed: list[ChangeEvent] = []
    waiting: list[ChangeEvent] = []
    for event in candidates:
        if not any(key in barriers and barriers[key] < event.position for key in event.keys):
            passed.append(event)
            continue
        waiting.append(event)
        if event.old_key is not None and (newest is None or event.position >= newest):
            for key in event.keys:
                barriers[key] = min(event.position, barriers.get(key, event.position))
    return FilteredEvents(passed=passed, waiting=waiting, waited=waited, truncates=truncates)


def barriers_of(holds: Iterable[Hold], truncates: Truncates) -> dict[Key, Position]:
    """Return for each held key the first position that is held. Holds below a truncate do not count."""
    barriers: dict[Key, Position] = {}
    for hold in holds:
        if not truncates.overrules(hold.position, hold.reason):
            for key in hold.keys:
                barriers[key] = min(hold.position, barriers.get(key, hold.position))
    return barriers
