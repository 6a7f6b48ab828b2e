"""A queue in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

from lakeward.core.ports import Notice


@dataclass(slots=True)
class MemoryQueue:
    """Notices in a list, until they are acknowledged; the threads of a run share it."""

    notices: list[Notice] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def receive(self) -> Sequence[Notice]:
        """Return the waiting notices."""
        return list(self.notices)

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Remove these notices. A notice that arrived since has another receipt and is kept."""
        with self._lock:
            for notice in notices:
                while notice in self.notices:
                    self.notices.remove(notice)

    def give_back(self, notices: Sequence[Notice]) -> None:
        """Do nothing: no notice is hidden."""

    def extend(self, notices: Sequence[Notice]) -> None:
        """Do nothing: no notice is hidden."""
