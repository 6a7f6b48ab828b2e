"""A queue in plain Python that hides received notices, with a clock of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from lakeward.adapters.memory import MemoryQueue
from lakeward.core.ports import Notice
from lakeward.plugins.testing import QueueUnderTest


@dataclass(slots=True)
class HidingQueue(MemoryQueue):
    """Hides each notice for one unit of time after it is received."""

    now: float = 0.0
    hidden: dict[Notice, float] = field(default_factory=dict)

    def receive(self) -> Sequence[Notice]:
        """Return the notices that wait and are not hidden, and hide them."""
        visible = [notice for notice in self.notices if self.hidden.get(notice, 0.0) <= self.now]
        self.hidden.update(dict.fromkeys(visible, self.now + 1.0))
        return visible

    def give_back(self, notices: Sequence[Notice]) -> None:
        """Show them again."""
        for notice in notices:
            self.hidden.pop(notice, None)

    def extend(self, notices: Sequence[Notice]) -> None:
        """Hide them for another unit of time from now on."""
        self.hidden.update(dict.fromkeys(notices, self.now + 1.0))

    def pass_time(self, part: float) -> None:
        self.now += part


def hiding_bell(kind: type[HidingQueue] = HidingQueue) -> QueueUnderTest:
    """Return a queue that all processes share."""
    queue, receipts = kind(), count()
    return QueueUnderTest(
        open=lambda: queue,
        ring=lambda table: queue.notices.append(Notice(table, str(next(receipts)))),
        pass_time=queue.pass_time,
    )
