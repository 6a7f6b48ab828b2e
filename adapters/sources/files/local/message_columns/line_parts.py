"""Parts of files of lines, each of which is a message."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.local.line_reader import open_unpacked
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.envelopes import Envelopes
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.source_rows import LINE, NAME, VALUE

_BYTES: Final = 4 * 1024**2
"""The bytes of a part."""

_MOST_FAILURES: Final = 8
"""The most decoding failures of a part: after each one it is halved, after the last one Spark reads the batch."""


def line_parts(table: TableFiles, file: File) -> Iterator[LinePart]:
    """Yield the parts of a file, unpacked; raises SparkNeeded if it cannot be unpacked."""
    first_line = 1
    try:
        with open_unpacked(table, file.item.name) as file_lines:
            while data := file_lines.read(_BYTES) + file_lines.readline():
                yield LinePart(data, first_line)
                first_line += data.count(b"\n")
    except (OSError, EOFError, zlib.error) as error:
        raise SparkNeeded(f"{file.item.name} cannot be read to its end") from error


@dataclass(frozen=True, slots=True)
class LinePart:
    """A part of a file: its lines as bytes, and the number of the first line."""

    data: bytes
    first_line: int

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data)

    def decoded(self, envelopes: Envelopes) -> Sequence[pa.RecordBatch]:
        """Return the messages, decoded."""
        lines = self.lines()
        numbers = pa.array(np.arange(self.first_line, self.first_line + len(lines)), pa.int64())
        columns = {VALUE: lines, NAME: pa.nulls(len(lines), pa.string()), LINE: numbers}
        return envelopes.decode(pa.RecordBatch.from_pydict(columns), _MOST_FAILURES)

    def lines(self) -> pa.Array:
        """Return the lines; the bytes are not copied."""
        end = len(self.data) - self.data.endswith(b"\n")
        buffers = (None, pa.py_buffer(np.array([0, end], np.int32)), pa.py_buffer(self.data))
        return pc.split_pattern(pa.Array.from_buffers(pa.string(), 1, buffers), "\n").flatten()
