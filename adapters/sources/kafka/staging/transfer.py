"""Transfer of ranges from a broker into files, within the limits of a batch."""

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
from lakeward.adapters.sources.kafka.staging.message_files import Bounds, MessageStaging
from lakeward.adapters.sources.kafka.staging.message_lines import LineWriter, OpenWriter, ToLine, to_line
from lakeward.adapters.sources.kafka.staging.raw_messages import DamagedFile, RawWriter, is_raw, read_records
from lakeward.adapters.sources.kafka.topics import TopicPartition
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError

log = structlog.get_logger()

_LOG_INTERVAL: Final = 10.0
"""Seconds between two log entries about progress."""


@dataclass(slots=True)
class ProgressLog:
    """Logs at intervals how many messages of a range were read."""

    clock: Callable[[], float]
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin the first interval."""
        self._next = self.clock() + _LOG_INTERVAL

    def update(self, of: OffsetRange, messages: int) -> None:
        """Log the number of messages if the interval has ended."""
        now = self.clock()
        if now >= self._next:
            self._next = now + _LOG_INTERVAL
            place = TopicPartition.of(of.topic, of.partition)
            log.info("reads messages", **place._asdict(), messages=messages, of=of.end - of.start)


@dataclass(frozen=True, slots=True)
class TransferForm:
    """The form of written files: lines, or for more than `few` messages as they were sent.

    `size_factor` is how many bytes of a batch a byte then counts; None if all files are of lines.
    """

    to_line: ToLine = to_line
    size_factor: int | None = None
    few: int = 0

    def writer(self, most: int) -> OpenWriter:
        """Return the writer for at most so many messages."""
        if self.size_factor is not None and most > self.few:
            return partial(RawWriter, size_factor=self.size_factor)
        return partial(LineWriter, to_line=self.to_line)

    def make_lines(self, staging: MessageStaging, table: TableName, of: OffsetRange) -> bool:
        """Write the messages of a file anew as lines, if they are as they were sent; return whether they were.

        Raises SourceError for a damaged file, and as `AvroMessages.decode` does.
        """
        file = staging.folder(table) / of.name
        if not is_raw(file):
            return False
        writer = partial(LineWriter, to_line=self.to_line)
        try:
            staging.write(table, of, read_records(file), Bounds(), writer)
        except DamagedFile as error:
            raise SourceError(
                f"{table}: the staged file {of.name} is damaged",
                found=str(error),
                todo=f"Nothing of this batch was applied. Delete {file}: the next run reads its messages again.",
            ) from error
        return True


@dataclass(slots=True)
class Transfer:
    """Reads one batch from a broker into files, up to a number of messages, of bytes and of seconds.

    Partitions share the limits equally; the unused part of a share is passed on to the next partitions.
    """

    messages: int
    bytes: int
    seconds: float
    form: TransferForm = TransferForm()
    clock: Callable[[], float] = time.monotonic
    _deadline: float = field(default=0.0, init=False)

    def run(
        self, broker: Broker, staging: MessageStaging, table: TableName, wanted: Sequence[OffsetRange]
    ) -> list[OffsetRange]:
        """Read ranges into files, and return the ranges of the files; a range without messages has no file."""
        self._deadline, progress = self.clock() + self.seconds, ProgressLog(self.clock)
        messages, size = self.messages, self.bytes
        ranges: list[OffsetRange] = []
        for number, one in enumerate(wanted):
            if ranges and (messages <= 0 or size <= 0 or self.clock() >= self._deadline):
                break
            share = len(wanted) - number
            most = max(1, messages // share)
            bounds = Bounds(most, max(1, size // share), partial(self._is_late, progress, one))
            writer = self.form.writer(min(most, one.end - one.start))
            with closing(broker.read(one.topic, one.partition, one.start, one.end)) as records:
                written = staging.write(table, one, records, bounds, writer)
            if written is not None:
                if written.messages <= self.form.few:
                    self.form.make_lines(staging, table, written.range)
                messages, size = messages - written.messages, size - written.bytes
                ranges.append(written.range)
        return ranges

    def _is_late(self, progress: ProgressLog, of: OffsetRange, messages: int) -> bool:
        progress.update(of, messages)
        return self.clock() >= self._deadline
