"""Reader of files of Debezium messages in this process, for batches of more rows than plain Python reads.

Arrow splits the files into lines, decodes their messages and converts their cells, in parts and on all cores. The
events are those of a small batch. A batch that has a message of another form, or a row for quarantine, is left to
Spark.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.json_lines.envelope_rows import EnvelopeRows
from lakeward.adapters.sources.files.local.columns.events import MessageEvents, why_not_events
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.envelopes import IS_DECODED
from lakeward.adapters.sources.rows.local_files import is_packed_otherwise
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_source_rows import FilePlace
from lakeward.adapters.spark.frames.source_rows import LINE, NAME, VALUE
from lakeward.core.text.numbers import format_count

MOST_BYTES: Final = 512 * 1024**2
"""The most bytes of the files of a batch, unpacked. Their events take about a third of that in memory."""

_BYTES_OF_A_PART: Final = 4 * 1024**2
_END: Final = b"\n"


def read_columns(table: TableFiles, files: Sequence[File]) -> pa.Table:
    """Return the events of files of messages; raises SparkNeeded if Spark must read them.

    `table` has the columns that the files have.
    """
    rows = _rows_of(table, files)
    left, events = MOST_BYTES, list[pa.Table]()
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        for rank, file in enumerate(files):
            data = _content(table, file, left)
            left -= len(data)
            place = FilePlace(file.item.order, rank, is_load=table.is_snapshot, has_op=table.has_op)
            part_reader = _PartReader(rows, MessageEvents(table, rows, place))
            events += pool.map(part_reader.read, _parts(data))
    if not events:
        raise SparkNeeded("its files have no lines")
    return pa.concat_tables(events).combine_chunks()


def _rows_of(table: TableFiles, files: Sequence[File]) -> EnvelopeRows:
    """Return the reader of a table's messages; raises SparkNeeded if Arrow cannot decode them by the settings."""
    others = [file.item.name for file in files if file.format != "debezium" or is_packed_otherwise(file.item.name)]
    if others or table.options.path_columns or table.has_others:
        raise SparkNeeded("its files have other rows than messages of Debezium in their usual form")
    rows = EnvelopeRows.of(table)
    if rows is None:
        raise SparkNeeded("its messages have no form that Arrow decodes")
    why = why_not_events(table, rows)
    if why is not None:
        raise SparkNeeded(why)
    return rows


def _content(table: TableFiles, file: File, most: int) -> bytes:
    """Return the content of a file, unpacked; raises SparkNeeded if it has more than `most` bytes."""
    name = file.item.name
    try:
        with table.folder.open(table.dimension.source, name) as raw:
            packed = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if name.endswith(".gz") else raw
            data = packed.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise SparkNeeded(f"{name} cannot be unpacked") from error
    if len(data) > most:
        raise SparkNeeded(f"the files of the batch have more than {format_count(MOST_BYTES, 'byte')}")
    return data


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a file: its bytes, which end at the end of a line, and the number of its first line."""

    data: bytes
    first: int


def _parts(data: bytes) -> Iterator[_Part]:
    start, first = 0, 1
    while start < len(data):
        end = data.find(_END, start + _BYTES_OF_A_PART) + 1 or len(data)
        part = _Part(data[start:end].removesuffix(_END), first)
        yield part
        first, start = first + part.data.count(_END) + 1, end


@dataclass(frozen=True, slots=True)
class _PartReader:
    rows: EnvelopeRows
    events: MessageEvents

    def read(self, part: _Part) -> pa.Table:
        """Return the events of a part; raises SparkNeeded for messages of another form."""
        try:
            lines = pc.split_pattern(pa.array([part.data], pa.string()), "\n").flatten()
        except (UnicodeDecodeError, pa.ArrowInvalid) as error:
            raise SparkNeeded("a line is no UTF-8") from error
        numbers = pa.array(np.arange(part.first, part.first + len(lines)), pa.int64())
        columns = {VALUE: lines, NAME: pa.nulls(len(lines), pa.string()), LINE: numbers}
        decoded = self.rows.envelopes.decode(pa.RecordBatch.from_pydict(columns))
        if not all(pc.all(batch.column(IS_DECODED)).as_py() for batch in decoded):
            raise SparkNeeded("a message has another form than the usual one")
        return pa.concat_tables(map(self.events.of, decoded))
