"""Changes that are newer by their time than what came of their keys, and lie below it in the log of the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lakeward.core.checks.log_steps import LEAST_GAP
from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.merge.change_log import times_of_objects
from lakeward.core.merge.delivery import Delivery
from lakeward.core.merge.settling.duplicates import without_copies
from lakeward.core.merge.settling.table_before import TableBefore
from lakeward.core.merge.truncates import remembered_truncates

_PlaceAndTime: TypeAlias = tuple[Position, int | None]
"""A place, and a time at or before which what has it, or lies below, was committed (None: nobody knows)."""


def find_regressions(before: TableBefore, delivery: Delivery) -> Mapping[int, int]:
    """Return, by object, the row of the first such change of each of the `suspect_objects`.

    Of one log, what is newer of a key lies higher. A change is compared with what came of its keys, and with
    truncates: in the delivery by their own times, else by the newest of all batches up to that which they came
    with. Times of one log may go back for a while (a change waits for a lock, a clock is set back), so what came in
    the delivery counts as new as all before it. Rows of snapshots are no such changes; whether one comes too late
    does not matter; and times that are not believed do not count.
    """
    found: dict[int, int] = {}
    if not delivery.suspect_objects:
        return found
    events, _, _ = without_copies(before, delivery)
    places = _PlacesOfKeys(before, delivery)
    for event in sorted(events, key=lambda event: event.position[2:]):
        order, row = event.position[2:]
        is_change = bool(event.keys) and event.operation is not Operation.READ
        is_of_epoch = event.position.epoch == before.epoch
        is_suspect = is_change and is_of_epoch and order in delivery.suspect_objects and order not in found
        if is_suspect and places.has_older_above(event):
            found[order] = row
        places.add(event)
    return found


@dataclass(slots=True)
class _PlacesOfKeys:
    """The places of keys and truncates before an event, with times: of what stood, and of the delivery."""

    before: TableBefore
    delivery: Delivery
    of_objects: Mapping[int, int] = field(init=False)
    newest: int | None = field(init=False)
    truncate: Position | None = field(init=False)
    of_keys: dict[Key, _PlaceAndTime] = field(default_factory=dict)
    truncates: list[_PlaceAndTime] = field(default_factory=list)

    def __post_init__(self) -> None:
        records = [record for record in self.before.memory.records if record.is_of(self.before.epoch)]
        self.of_objects = times_of_objects(records)
        self.newest = max(self.of_objects.values(), default=None)
        self.truncate = max(remembered_truncates(records), default=None)

    def add(self, event: ChangeEvent) -> None:
        """Note that an event came."""
        place, time = event.position, self._time(event)
        if event.operation is Operation.TRUNCATE and time is not None:
            self.truncates.append((place, self._latest(time)))
        for key in event.keys:
            highest, latest = self.of_keys.get(key, (place, time))
            self.of_keys[key] = max(highest, place), self._latest(latest, time)

    def has_older_above(self, event: ChangeEvent) -> bool:
        """Whether something that is older lies above a change."""
        time = self._time(event)
        return time is not None and any(
            event.position < place and before is not None and time - before >= LEAST_GAP
            for place, before in self._of_keys_of(event)
        )

    def _of_keys_of(self, event: ChangeEvent) -> Iterator[_PlaceAndTime]:
        """Yield what is known of the keys of a change."""
        yield from self.truncates
        yield from (self.of_keys[key] for key in event.keys if key in self.of_keys)
        stood = [row.position for row in self.before.standing_of(event)]
        remembered = [self.before.newest[key] for key in event.keys if key in self.before.newest]
        truncate = [] if self.truncate is None else [self.truncate]
        yield from ((place, self.of_objects.get(place.object)) for place in (*stood, *remembered, *truncate))

    def _latest(self, *times: int | None) -> int | None:
        """Return the latest of times of the delivery, or that of all batches before it; None without any."""
        told = [time for time in times if time is not None]
        return max([*told, *([] if self.newest is None else [self.newest])]) if told else None

    def _time(self, event: ChangeEvent) -> int | None:
        """Return the time of an event, None where it tells none or one that is not believed."""
        believed = self.delivery.believed
        is_ahead = event.time is not None and believed is not None and event.time > believed
        return None if is_ahead else event.time
