"""Batches of a table that land while the batches before them are applied."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, TypeAlias

import structlog

from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange, next_offsets
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError

log = structlog.get_logger()

Land: TypeAlias = Callable[[Mapping[int, int]], Sequence[OffsetRange]]
"""Lands the batch at an offset of each partition, and returns the ranges of its files."""

_BATCHES: Final = 2
"""The number of batches that land ahead: one is read while its predecessor is applied, the other lands."""


@dataclass(frozen=True, slots=True)
class _Landing:
    """The files of a batch, and for each partition the offset after it."""

    ranges: Sequence[OffsetRange]
    positions: Mapping[int, int]


@dataclass(slots=True)
class AheadLanding:
    """Lands the next batches of one table at a time.

    Other tables land nothing ahead meanwhile, because several tables at work already use all cores. Files that no
    batch takes stay staged, as after a run that ended, and later batches take them.
    """

    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "landing"))
    table: TableName | None = None
    landings: deque[Future[_Landing]] = field(default_factory=deque)
    lock: Lock = field(default_factory=Lock)

    def begin(self, table: TableName, positions: Mapping[int, int], land: Land) -> None:
        """Begin to land the batches after `positions`, or after those that land already."""
        with self.lock:
            if self.landings and self.table != table:
                return
            self.table = table
            while len(self.landings) < _BATCHES:
                before = self.landings[-1] if self.landings else None
                self.landings.append(self.pool.submit(_land, land, positions, before))

    def take(self, table: TableName) -> Sequence[OffsetRange]:
        """Wait until the next batch has landed, and return the ranges of its files.

        Empty if there are no further messages, or if landing failed: the caller lands again and gets the error.
        """
        with self.lock:
            if self.table != table or not self.landings:
                return ()
            landing = self.landings.popleft()
        ranges = _ranges_of(landing)
        if not ranges:
            self.discard(table)
        return ranges

    def discard(self, table: TableName) -> None:
        """Cancel the landing of batches of a table, and wait until the running one has ended."""
        with self.lock:
            if self.table != table:
                return
            running = [landing for landing in self.landings if not landing.cancel()]
            self.landings.clear()
        wait(running)

    def peek(self, table: TableName) -> Sequence[OffsetRange]:
        """Wait until the next batch has landed, and return its ranges without taking it; empty if there is none."""
        with self.lock:
            landing = self.landings[0] if self.table == table and self.landings else None
        return () if landing is None else _ranges_of(landing)


def _land(land: Land, positions: Mapping[int, int], before: Future[_Landing] | None) -> _Landing:
    if before is not None:
        positions = before.result().positions
    ranges = land(positions)
    return _Landing(ranges, {**positions, **next_offsets(ranges)})


def _ranges_of(landing: Future[_Landing]) -> Sequence[OffsetRange]:
    try:
        return landing.result().ranges
    except LakewardError as error:
        log.debug("messages did not land ahead", error=str(error))
        return ()
