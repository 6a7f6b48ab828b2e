"""Events of the files that the next batch of a table will take, read while the last one is resolved and committed.

Most of the CPU of a batch of messages is for reading them, on all cores; what follows needs one of them.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

import pyarrow as pa

from lakeward.adapters.sources.files.local.message_columns.reader import MessageBatch


@dataclass(slots=True)
class AheadReader:
    """Reads the events of batches, and those of the next batch of one table ahead.

    Memory holds the events of at most one batch that was read ahead, until its table asks for its next batch. Other
    tables read nothing ahead meanwhile: where several tables are at work, all cores are.
    """

    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "read-ahead"))
    ahead: tuple[MessageBatch, Future[pa.Table]] | None = None
    lock: Lock = field(default_factory=Lock)

    def read(self, batch: MessageBatch, following: MessageBatch | None) -> pa.Table:
        """Return the events of a batch, and begin to read those of the one `following`, if there will be one.

        Raises SparkNeeded if Spark must read the batch.
        """
        ahead = self._take(batch)
        # What failed is read again: the file may have been written to at that moment.
        events = batch.read() if ahead is None or ahead.exception() is not None else ahead.result()
        with self.lock:
            if following is not None and self.ahead is None:
                self.ahead = following, self.pool.submit(following.read)
        return events

    def _take(self, batch: MessageBatch) -> Future[pa.Table] | None:
        """Return the events of a batch that are read ahead, and forget others of its table."""
        with self.lock:
            if self.ahead is None or self.ahead[0].table.dimension.name != batch.table.dimension.name:
                return None
            (request, events), self.ahead = self.ahead, None
        return events if request == batch else None
