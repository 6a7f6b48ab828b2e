"""What waits behind a row in quarantine: its keys, and the keys that waiting key changes hold as well."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lakeward.core.events import Position

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Waiter(Generic[K]):
    """An event that waits: its position, and its keys (two for a key change)."""

    position: Position
    keys: tuple[K, ...]


@dataclass(frozen=True, slots=True)
class Behind(Generic[K]):
    """What waits behind a row: the number of events, and the keys that it holds besides its own, in order."""

    waits: int
    also_holds: tuple[K, ...]


@dataclass(frozen=True, slots=True)
class Waiters(Generic[K]):
    """The waiting events by each of their keys."""

    by_key: Mapping[K, Sequence[Waiter[K]]] = field(default_factory=dict)

    @classmethod
    def of(cls, waiters: Iterable[Waiter[K]]) -> Waiters[K]:
        """Return the waiting events by key."""
        by_key: dict[K, list[Waiter[K]]] = defaultdict(list)
        for waiter in waiters:
            for key in waiter.keys:
                by_key[key].append(waiter)
        return cls(by_key)

    def moved(self, removed: Container[tuple[int, int]] = ()) -> set[K]:
        """Return the keys of waiting key changes, which hold them.

        Rows that are `removed`, given by object and row, do not count.
        """
        moves = [waiter for waiters in self.by_key.values() for waiter in waiters if len(waiter.keys) > 1]
        return {key for waiter in moves if waiter.position[2:] not in removed for key in waiter.keys}

    def behind(self, position: Position, keys: Sequence[K]) -> Behind[K]:
        """Return what waits behind a row of these keys; a waiting key change holds both of its keys."""
        barriers = dict.fromkeys(keys, position)
        positions: set[Position] = set()
        rest = list(keys)
        while rest:
            key = rest.pop()
            for waiter in self.by_key.get(key, ()):
                if waiter.position <= barriers[key]:
                    continue
                positions.add(waiter.position)
                for other in waiter.keys if len(waiter.keys) > 1 else ():
                    if other not in barriers or waiter.position < barriers[other]:
                        barriers[other] = waiter.position
                        rest.append(other)
        others = sorted((key for key in barriers if key not in keys), key=barriers.__getitem__)
        return Behind(len(positions), tuple(others))
