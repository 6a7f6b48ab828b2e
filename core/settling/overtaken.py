"""Changes that are newer by their time than what came of their keys, and lie below it in the log of the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lakeward.core.delivery import Delivery
from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.log_steps import LEAST_GAP
from lakeward.core.settling.sorting import Arrived
from lakeward.core.settling.standing import Before

_Dated: TypeAlias = tuple[Position, int | None]
"""A place, and a time at or before which what has it, or lies below, was committed (None: nobody knows)."""


def first_overtaken(before: Before, arrived: Arrived, delivery: Delivery) -> Mapping[int, int]:
    """Return, by object, the row of the first such change of each object that is `doubted`.

    Of one log, what is newer of a key lies higher. A change is compared with what came of its keys, and with
    truncates: in the delivery by their own times, else by the newest of the batch that they came with. Rows of
    snapshots are no such changes; times that are not believed do not count.
    """
    found: dict[int, int] = {}
    if not delivery.doubted:
        return found
    known = _Known(before, delivery)
    for event in sorted(arrived.fresh, key=lambda event: event.position[2:]):
        order, row = event.position[2:]
        is_change = bool(event.keys) and event.operation is not Operation.READ
        if is_change and order in delivery.doubted and order not in found and known.overtook(event):
            found[order] = row
        known.add(event)
    return found


@dataclass(slots=True)
class _Known:
    """What is known of keys before an event: what stood, and what came of the delivery."""

    before: Before
    delivery: Delivery
    of_batches: dict[int, int | None] = field(default_factory=dict)
    of_keys: dict[Key, _Dated] = field(default_factory=dict)
    truncates: list[_Dated] = field(default_factory=list)

    def __post_init__(self) -> None:
        for record in reversed(self.before.memory.records):  # what came again came with the first
            self.of_batches |= dict.fromkeys(record.objects, record.time)

    def add(self, event: ChangeEvent) -> None:
        place, time = event.position, self._time(event)
        if event.operation is Operation.TRUNCATE:
            self.truncates.append((place, time))
        for key in event.keys:
            highest, latest = self.of_keys.get(key, (place, time))
            times = [one for one in (latest, time) if one is not None]
            self.of_keys[key] = max(highest, place), max(times, default=None)

    def overtook(self, event: ChangeEvent) -> bool:
        """Whether something that is older lies above a change."""
        time = self._time(event)
        return time is not None and any(
            event.position < place and before is not None and time - before >= LEAST_GAP
            for place, before in self._of(event)
        )

    def _of(self, event: ChangeEvent) -> Iterator[_Dated]:
        """Yield what is known of the keys of a change."""
        yield from self.truncates
        yield from (self.of_keys[key] for key in event.keys if key in self.of_keys)
        stood = [(self.before.standing(key), self.before.newest.get(key)) for key in event.keys]
        places = [max(p for p in (row and row.position, newest) if p) for row, newest in stood if row or newest]
        truncate = self.before.newest_truncate
        for place in places if truncate is None else [*places, truncate]:
            yield place, self.of_batches.get(place.object)

    def _time(self, event: ChangeEvent) -> int | None:
        """Return the time of an event, None where it tells none or one that is not believed."""
        believed = self.delivery.believed
        is_ahead = event.time is not None and believed is not None and event.time > believed
        return None if is_ahead else event.time
