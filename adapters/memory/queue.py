"""A queue in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lakeward.core.ports import (
    Notice,
)


@dataclass(slots=True)
class MemoryQueue:
    """Notices in a list, until they are acknowledged."""

    notices: list[Notice] = field(default_factory=list)

    def receive(self) -> Sequence[Notice]:
        """Return the notices that wait."""
        return list(self.notices)

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Forget these notices."""
        self.notices = [notice for notice in self.notices if notice not in notices]
