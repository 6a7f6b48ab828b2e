"""Events of the files that the next batch of a table will take, read while the last one is resolved and committed.

Reading a batch of messages takes most of its CPU time and uses all cores. The steps after it use one core.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias

import pyarrow as pa

from lakeward.adapters.sources.files.local.message_columns.reader import MessageBatch
from lakeward.core.dimension import TableName

FindNext: TypeAlias = Callable[[], MessageBatch | None]
"""Returns the batch after the one that is read; None if there will be none, or it is not to be read ahead."""


@dataclass(slots=True)
class AheadReader:
    """Reads the events of batches, and those of the next batch of one table ahead.

    Memory holds the events of at most one batch that was read ahead, until its table asks for its next batch. Other
    tables read nothing ahead meanwhile, because several tables at work already use all cores.
    """

    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "read-ahead"))
    ahead: _AheadBatch | None = None
    lock: Lock = field(default_factory=Lock)

    def read(self, batch: MessageBatch, find_next: FindNext | None) -> pa.Table:
        """Return the events of a batch, and begin to read those of the next one, if there will be one.

        `find_next` is called in another thread, and may wait. Raises SparkNeeded if Spark must read the batch.
        """
        ahead = self._take(batch)
        # A batch that failed is read again: a file may have been written to at that moment.
        events = batch.read() if ahead is None or ahead.exception() is not None else ahead.result()
        with self.lock:
            if find_next is not None and (self.ahead is None or self.ahead.is_empty):
                request = self.pool.submit(find_next)
                self.ahead = _AheadBatch(batch.table.dimension.name, request, self.pool.submit(_read, request))
        return events

    def _take(self, batch: MessageBatch) -> Future[pa.Table] | None:
        """Return the events of a batch that are read ahead, and forget others of its table."""
        with self.lock:
            if self.ahead is None or self.ahead.table != batch.table.dimension.name:
                return None
            ahead, self.ahead = self.ahead, None
        return ahead.events if ahead.request.exception() is None and ahead.request.result() == batch else None


@dataclass(frozen=True, slots=True)
class _AheadBatch:
    """A batch of a table that is read ahead, and its events."""

    table: TableName
    request: Future[MessageBatch | None]
    events: Future[pa.Table]

    @property
    def is_empty(self) -> bool:
        """Whether it is known that there is no batch to read ahead."""
        return self.request.done() and (self.request.exception() is not None or self.request.result() is None)


def _read(request: Future[MessageBatch | None]) -> pa.Table | None:
    batch = request.result()
    return None if batch is None else batch.read()
