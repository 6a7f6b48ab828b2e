"""Reader of files of Debezium messages in this process, for batches of more rows than plain Python reads.

Arrow decodes the messages and converts their cells, in parts of a file and on all cores. The events are those of a
small batch. A batch that has a message of another form, or a row for quarantine, is left to Spark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.json_lines.envelope_rows import EnvelopeRows
from lakeward.adapters.sources.files.local.message_columns.events import MessageEvents, why_not_events
from lakeward.adapters.sources.files.local.message_columns.line_parts import line_parts
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.envelopes import IS_DECODED, Envelopes
from lakeward.adapters.sources.rows.local_files import is_packed_otherwise
from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_source_rows import FilePlace
from lakeward.core.text.numbers import format_count

MOST_BYTES: Final = 1024**3
"""The most bytes of the files of a batch, unpacked. Memory holds some parts, and all events: a third of that.

A batch has more than the default `max_bytes` (256 MiB) if one file has.
"""

MOST_BYTES_AHEAD: Final = 384 * 1024**2
"""The most bytes of the files of a batch that is read ahead, whose events are in memory with those of another."""

_PARTS_A_CORE: Final = 2


class Part(Protocol):
    """A part of a file of messages."""

    @property
    def size(self) -> int:
        """The number of bytes of `MOST_BYTES` that it counts."""
        ...

    def decoded(self, envelopes: Envelopes) -> Sequence[pa.RecordBatch]:
        """Return its messages as `Envelopes.decode` does; raises SparkNeeded if Spark must decode them."""
        ...


PartsOf: TypeAlias = Callable[[TableFiles, File], Iterator[Part]]
"""Returns the parts of a file; raises SparkNeeded if it cannot be read to its end."""


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """The files of a batch of messages, and how they are read. Equal values have the same events."""

    table: TableFiles = field(compare=False)
    files: tuple[File, ...]
    reading: Reading
    rows: EnvelopeRows
    parts_of: PartsOf = line_parts

    @classmethod
    def of(cls, table: TableFiles, files: Sequence[File], parts_of: PartsOf = line_parts) -> MessageBatch:
        """Return the batch of files; raises SparkNeeded if Spark must read them.

        `table` has the columns that the files have.
        """
        return cls(table, tuple(files), table.reading, _rows_of(table, files), parts_of)

    def read(self) -> pa.Table:
        """Return the events of the files; raises SparkNeeded if Spark must read them."""
        remaining_bytes, events = MOST_BYTES, list[pa.Table]()
        pending = deque[Future[pa.Table]]()
        with ThreadPoolExecutor(pa.cpu_count()) as pool:
            for rank, file in enumerate(self.files):
                part_reader = self._part_reader(rank, file)
                for part in self.parts_of(self.table, file):
                    remaining_bytes -= part.size
                    if remaining_bytes < 0:
                        most = format_count(MOST_BYTES, "byte")
                        raise SparkNeeded(f"the files of the batch have more than {most}")
                    pending.append(pool.submit(part_reader.read, part))
                    if len(pending) > _PARTS_A_CORE * pa.cpu_count():
                        events.append(pending.popleft().result())
            events += [part.result() for part in pending]
        if not events:
            raise SparkNeeded("its files have no lines")
        return pa.concat_tables(events).combine_chunks()

    def _part_reader(self, rank: int, file: File) -> _PartReader:
        place = FilePlace(file.item.order, rank, is_load=self.table.is_snapshot, has_op=self.table.has_op)
        return _PartReader(self.rows, MessageEvents(self.table, self.reading, self.rows, place))


def _rows_of(table: TableFiles, files: Sequence[File]) -> EnvelopeRows:
    """Return the reader of a table's messages; raises SparkNeeded if Arrow cannot decode them by the settings."""
    others = [file.item.name for file in files if file.format != "debezium" or is_packed_otherwise(file.item.name)]
    if others or table.options.path_columns or table.has_others:
        raise SparkNeeded("its files have rows other than Debezium messages in their usual form")
    rows = EnvelopeRows.of(table)
    if rows is None:
        raise SparkNeeded("its messages have no form that Arrow decodes")
    reason = why_not_events(table)
    if reason is not None:
        raise SparkNeeded(reason)
    return rows


@dataclass(frozen=True, slots=True)
class _PartReader:
    rows: EnvelopeRows
    events: MessageEvents

    def read(self, part: Part) -> pa.Table:
        """Return the events of a part; raises SparkNeeded for messages of another form."""
        try:
            decoded = part.decoded(self.rows.envelopes)
            if not all(pc.all(batch.column(IS_DECODED)).as_py() for batch in decoded):
                raise SparkNeeded("a message has another form than the usual one")
            return pa.concat_tables(map(self.events.of, decoded))
        except (pa.ArrowException, OverflowError, ValueError) as error:
            raise SparkNeeded(f"a line has a value that Arrow cannot hold: {error}") from error
