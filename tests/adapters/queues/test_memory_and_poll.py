"""The laws of the queues in memory and without a service."""

from __future__ import annotations

from itertools import count

from hiding_queue import hiding_bell

from lakeward.adapters.memory import MemoryQueue
from lakeward.adapters.queues import poll
from lakeward.core.ports import Notice
from lakeward.plugins import Runtime
from lakeward.plugins.testing import QueueUnderTest, queue_contract
from lakeward.plugins.testing.laws import queues


def in_memory() -> QueueUnderTest:
    queue, receipts = MemoryQueue(), count()
    return QueueUnderTest(
        open=lambda: queue, ring=lambda table: queue.notices.append(Notice(table, str(next(receipts))))
    )


def polling() -> QueueUnderTest:
    return QueueUnderTest(open=lambda: poll.build({"tables": queues.TABLES}, Runtime(lambda: None)))


TestHiding = queue_contract(hiding_bell)
TestMemory = queue_contract(in_memory)
TestPoll = queue_contract(polling)
