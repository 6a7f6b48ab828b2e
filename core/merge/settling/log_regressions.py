"""Find changes that are newer by time than earlier events of their keys, and lower in the log of the source."""

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

_PositionAndTime: TypeAlias = tuple[Position, int | None]
"""A position, and a time at or before which it, or what lies below it, was committed (None: unknown)."""


def find_regressions(before: TableBefore, delivery: Delivery) -> Mapping[int, int]:
    """Return, by object, the row of the first such change of each of the `suspect_objects`.

    Within one log, newer events of a key lie higher. A change is compared with the earlier events of its keys and
    with truncates: those of the delivery count with their own times, others with the newest time of all batches up
    to theirs. Times of one log may go back for a while (a change waits for a lock, a clock is set back), so an
    event of the delivery counts as no older than everything before it. Snapshot rows are not compared. Late events
    are. Times that are not believed do not count.
    """
    regressions: dict[int, int] = {}
    if not delivery.suspect_objects:
        return regressions
    events, _, _ = without_copies(before, delivery)
    earlier = _EarlierEvents(before, delivery)
    for event in sorted(events, key=lambda event: event.position[2:]):
        order, row = event.position[2:]
        is_change = bool(event.keys) and event.operation is not Operation.READ
        is_of_epoch = event.position.epoch == before.epoch
        is_suspect = is_change and is_of_epoch and order in delivery.suspect_objects and order not in regressions
        if is_suspect and earlier.has_older_above(event):
            regressions[order] = row
        earlier.add(event)
    return regressions


@dataclass(slots=True)
class _EarlierEvents:
    """The positions and times of keys and truncates before an event: stored ones, and those of the delivery."""

    before: TableBefore
    delivery: Delivery
    of_objects: Mapping[int, int] = field(init=False)
    newest: int | None = field(init=False)
    truncate: Position | None = field(init=False)
    of_keys: dict[Key, _PositionAndTime] = field(default_factory=dict)
    truncates: list[_PositionAndTime] = field(default_factory=list)

    def __post_init__(self) -> None:
        records = [record for record in self.before.memory.records if record.is_of(self.before.epoch)]
        self.of_objects = times_of_objects(records)
        self.newest = max(self.of_objects.values(), default=None)
        self.truncate = max(remembered_truncates(records), default=None)

    def add(self, event: ChangeEvent) -> None:
        """Add an event of the delivery."""
        position, time = event.position, self._time(event)
        if event.operation is Operation.TRUNCATE and time is not None:
            self.truncates.append((position, self._latest(time)))
        for key in event.keys:
            highest, latest = self.of_keys.get(key, (position, time))
            self.of_keys[key] = max(highest, position), self._latest(latest, time)

    def has_older_above(self, event: ChangeEvent) -> bool:
        """Return True if something older lies above a change in the log."""
        time = self._time(event)
        return time is not None and any(
            event.position < position and earlier_time is not None and time - earlier_time >= LEAST_GAP
            for position, earlier_time in self._of_keys_of(event)
        )

    def _of_keys_of(self, event: ChangeEvent) -> Iterator[_PositionAndTime]:
        """Yield the positions and times known of the keys of a change."""
        yield from self.truncates
        yield from (self.of_keys[key] for key in event.keys if key in self.of_keys)
        stored = [row.position for row in self.before.current_rows(event)]
        remembered = [self.before.newest[key] for key in event.keys if key in self.before.newest]
        truncate = [] if self.truncate is None else [self.truncate]
        yield from (
            (position, self.of_objects.get(position.object)) for position in (*stored, *remembered, *truncate)
        )

    def _latest(self, *times: int | None) -> int | None:
        """Return the latest of these times and those of all earlier batches; None without any of these times."""
        known_times = [time for time in times if time is not None]
        return max([*known_times, *([] if self.newest is None else [self.newest])]) if known_times else None

    def _time(self, event: ChangeEvent) -> int | None:
        """Return the time of an event, or None where it has none or one that is not believed."""
        believed = self.delivery.believed
        is_ahead = event.time is not None and believed is not None and event.time > believed
        return None if is_ahead else event.time
