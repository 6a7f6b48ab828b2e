"""An index of events by the keys that they touch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from lakeward.core.events import ChangeEvent, Key, Position


@dataclass(frozen=True, slots=True)
class EventsByKey:
    """The events of each key, and the `truncates`, which touch all keys. Lists are in the order of the events."""

    events: Mapping[Key, Sequence[ChangeEvent]]
    truncates: Sequence[ChangeEvent]

    @classmethod
    def of(cls, events: Iterable[ChangeEvent]) -> Self:
        """Return the index of these events."""
        by_key: dict[Key, list[ChangeEvent]] = defaultdict(list)
        truncates: list[ChangeEvent] = []
        for event in events:
            keys = event.keys
            for key in keys:
                by_key[key].append(event)
            if not keys:
                truncates.append(event)
        return cls(dict(by_key), truncates)

    def of_keys(self, keys: Collection[Key]) -> list[ChangeEvent]:
        """Return the events of these keys and all truncates, each once, in any order."""
        if len(keys) == 1:
            return [*self.truncates, *(event for key in keys for event in self.events.get(key, ()))]
        by_identity = {id(event): event for key in keys for event in self.events.get(key, ())}  # some have two keys
        return [*self.truncates, *by_identity.values()]


def newest_by_key(positions: Iterable[tuple[Key, Position]]) -> Mapping[Key, Position]:
    """Return the greatest position of each key."""
    newest: dict[Key, Position] = {}
    for key, position in positions:
        if key not in newest or newest[key] < position:
            newest[key] = position
    return newest
