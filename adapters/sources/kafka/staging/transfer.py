"""Reading ranges from a broker into files, within the bounds of a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from lakeward.adapters.sources.kafka.broker import Broker
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange
from lakeward.adapters.sources.kafka.staging.message_files import Staging
from lakeward.adapters.sources.kafka.staging.message_lines import ToLine, to_line
from lakeward.core.dimension import TableName

log = structlog.get_logger()

_TELL_EVERY: Final = 10.0
"""Seconds between two words of how far it is."""


@dataclass(slots=True)
class Transfer:
    """One batch from a broker into files: at most so many messages and bytes, and no new ones after some seconds.

    Partitions share them alike; what one does not need is left to those behind it.
    """

    messages: int
    bytes: int
    seconds: float
    to_line: ToLine = to_line
    clock: Callable[[], float] = time.monotonic
    _until: float = field(default=0.0, init=False)
    _tell: float = field(default=0.0, init=False)

    def run(
        self, broker: Broker, staging: Staging, table: TableName, wanted: Sequence[OffsetRange]
    ) -> list[OffsetRange]:
        """Read ranges, and return those of the files; a range without messages makes none."""
        began = self.clock()
        self._until, self._tell = began + self.seconds, began + _TELL_EVERY
        messages, size = self.messages, self.bytes
        found: list[OffsetRange] = []
        for number, one in enumerate(wanted):
            if found and (messages <= 0 or size <= 0 or self.clock() >= self._until):
                break
            share = len(wanted) - number
            is_full = partial(self._is_full, one, max(1, messages // share), max(1, size // share))
            with closing(broker.read(one.topic, one.partition, one.start, one.end)) as records:
                written = staging.write(table, one, records, is_full, self.to_line)
            if written is not None:
                messages, size = messages - written.messages, size - written.bytes
                found.append(written.range)
        return found

    def _is_full(self, one: OffsetRange, most: int, most_bytes: int, messages: int, size: int) -> bool:
        now = self.clock()
        if now >= self._tell:
            self._tell = now + _TELL_EVERY
            waiting = one.end - one.start
            log.info("reads messages", topic=one.topic, partition=one.partition, messages=messages, of=waiting)
        return messages >= most or size >= most_bytes or now >= self._until
