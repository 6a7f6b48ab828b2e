"""Changes that are newer by their time than what came before, and lower in the log, than some of their key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.core.delivery import Delivery
from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.log_steps import LEAST_GAP, Doubt
from lakeward.core.settling.judging import is_below
from lakeward.core.settling.sorting import Arrived
from lakeward.core.settling.standing import Before


def first_overtaken(before: Before, arrived: Arrived, delivery: Delivery) -> Mapping[int, int]:
    """Return, by object, the row of the first such change of each object that is `doubted`.

    It is lower than what came before it of its partition, and than what came of its keys, earlier in the delivery
    or before; and newer than its partition was before the delivery, and than what came of its keys in it. Rows of
    snapshots are none; times that are not believed do not count.
    """
    found: dict[int, int] = {}
    came = _Came(delivery)
    for event in sorted(arrived.fresh, key=lambda event: event.position[2:]) if delivery.doubted else ():
        order, row = event.position[2:]
        doubt = None if order in found else delivery.doubted.get(order)
        is_doubtful = doubt is not None and came.is_doubtful(event, doubt)
        if is_doubtful and (came.overtook(event) or is_below(before, event)):
            found[order] = row
        came.add(event)
    return found


@dataclass(slots=True)
class _Came:
    """What came of a delivery: the highest place of each object, highest place and latest time of each key.

    And its truncates, with their times; whether a change is newer than one without a time nobody knows.
    """

    delivery: Delivery
    places: dict[int, int] = field(default_factory=dict)
    highest: dict[Key, Position] = field(default_factory=dict)
    latest: dict[Key, int] = field(default_factory=dict)
    truncates: list[tuple[Position, int]] = field(default_factory=list)

    def add(self, event: ChangeEvent) -> None:
        order, time = event.position.object, self._time(event)
        if event.operation is Operation.TRUNCATE and time is not None:
            self.truncates.append((event.position, time))
        if event.operation is not Operation.READ:
            self.places[order] = max(event.position.sequence, self.places.get(order, 0))
        for key in event.keys:
            self.highest[key] = max(event.position, self.highest.get(key, event.position))
            if time is not None:
                self.latest[key] = max(time, self.latest.get(key, time))

    def is_doubtful(self, event: ChangeEvent, doubt: Doubt) -> bool:
        """Whether an event is a change of keys that is newer than what came before, and lower."""
        is_change = bool(event.keys) and event.operation is not Operation.READ
        time, highest = self._time(event), max(doubt.highest or 0, self.places.get(event.position.object, 0))
        times = [doubt.time, *(self.latest.get(key) for key in event.keys)]
        newest = max((one for one in times if one is not None), default=None)
        is_newer = time is not None and newest is not None and time - newest >= LEAST_GAP
        return is_change and is_newer and event.position.sequence < highest

    def overtook(self, event: ChangeEvent) -> bool:
        """Whether what came of its keys lies above an event, or a truncate that is older."""
        if any(key in self.highest and event.position < self.highest[key] for key in event.keys):
            return True
        time = self._time(event)
        return any(
            event.position < place and time is not None and time - before >= LEAST_GAP
            for place, before in self.truncates
        )

    def _time(self, event: ChangeEvent) -> int | None:
        """Return the time of an event, None where it tells none or one that is not believed."""
        believed = self.delivery.believed
        is_ahead = event.time is not None and believed is not None and event.time > believed
        return None if is_ahead else event.time
