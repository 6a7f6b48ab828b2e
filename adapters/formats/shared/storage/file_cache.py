"""A cache of values read from files that never change. A value that is not in it is read again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class FileCache(Generic[V]):
    """Values by keys that name a file and what was read from it, for all tables of this process.

    It holds values of at most `most_bytes` together. The least recently used ones are removed first.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.size = 0
        self._lock = Lock()
        self._values: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key, or None if it is not in the cache."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        """Store a value of `size` bytes, which must not be changed any more."""
        with self._lock:
            _, replaced_size = self._values.pop(key, (None, 0))
            self._values[key] = value, size
            self.size += size - replaced_size
            while self.size > self.most_bytes:
                _, (_, oldest_size) = self._values.popitem(last=False)
                self.size -= oldest_size
