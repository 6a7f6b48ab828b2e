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

    def update(self, offset_range: OffsetRange, messages: int) -> None:
        """Log the number of messages if the interval has ended."""
        now = self.clock()
        if now >= self._next:
            self._next = now + _LOG_INTERVAL
            place = TopicPartition.of(offset_range.topic, offset_range.partition)
            log.info(
                "reads messages", **place._asdict(), messages=messages, of=offset_range.end - offset_range.start
            )


@dataclass(frozen=True, slots=True)
class TransferForm:
    """The form of written files: lines, or the messages as they were sent.

    Files of more than `small_batch` messages have them as they were sent if there is a `size_factor`: the bytes of
    a batch that a byte of them counts.
    """

    to_line: ToLine = to_line
    size_factor: int | None = None
    small_batch: int = 0

    def writer(self, most: int) -> OpenWriter:
        """Return the writer for at most so many messages."""
        if self.size_factor is not None and most > self.small_batch:
            return partial(RawWriter, size_factor=self.size_factor)
        return partial(LineWriter, to_line=self.to_line)

    def make_lines(self, staging: MessageStaging, table: TableName, offset_range: OffsetRange) -> bool:
        """Rewrite a file of messages as they were sent as lines; return False if its messages are lines already.

        Raises SourceError for a damaged file, and as `AvroMessages.decode` does.
        """
        file = staging.folder(table) / offset_range.name
        if not is_raw(file):
            return False
        writer = partial(LineWriter, to_line=self.to_line)
        try:
            staging.write(table, offset_range, read_records(file), Bounds(), writer)
        except DamagedFile as error:
            raise SourceError(
                f"{table}: the staged file {offset_range.name} is damaged",
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
        self, broker: Broker, staging: MessageStaging, table: TableName, ranges: Sequence[OffsetRange]
    ) -> list[OffsetRange]:
        """Read ranges into files, and return the ranges of the files; a range without messages has no file."""
        self._deadline, progress = self.clock() + self.seconds, ProgressLog(self.clock)
        messages, size = self.messages, self.bytes
        written_ranges: list[OffsetRange] = []
        for number, one in enumerate(ranges):
            if written_ranges and (messages <= 0 or size <= 0 or self.clock() >= self._deadline):
                break
            share = len(ranges) - number
            most = max(1, messages // share)
            bounds = Bounds(most, max(1, size // share), partial(self._is_late, progress, one))
            writer = self.form.writer(min(most, one.end - one.start))
            with closing(broker.read(one.topic, one.partition, one.start, one.end)) as records:
                written = staging.write(table, one, records, bounds, writer)
            if written is not None:
                if written.messages <= self.form.small_batch:
                    self.form.make_lines(staging, table, written.range)
                messages, size = messages - written.messages, size - written.bytes
                written_ranges.append(written.range)
        return written_ranges

    def _is_late(self, progress: ProgressLog, offset_range: OffsetRange, messages: int) -> bool:
        progress.update(offset_range, messages)
        return self.clock() >= self._deadline
