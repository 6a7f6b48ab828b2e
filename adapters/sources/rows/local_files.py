"""The files of a small batch, read in this process, or the reason why Spark reads them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final, TypeAlias

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.sources.csv.layout import Layout
from lakeward.adapters.sources.rows import local_parquet
from lakeward.adapters.sources.rows.local_csv import read_csv
from lakeward.adapters.sources.rows.local_parquet import read_parquet
from lakeward.adapters.sources.rows.parquet_footers import Footer
from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.adapters.spark.frames import local_casts, local_source_rows
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.adapters.spark.frames.local_source_rows import FilePlace, to_events
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import TableName
from lakeward.core.text.numbers import format_count

log = structlog.get_logger()

BYTES_OF_A_ROW: Final = 1024
"""The size limit of a small batch: so many bytes for each row that a small batch may have."""

PACKED_ENDINGS: Final = (".bz2", ".zst", ".snappy", ".lz4", ".deflate", ".gz")
"""The endings by which Hadoop unpacks files, in any case but gzip's, which must be in lower case."""

RowMapper: TypeAlias = Callable[[pa.Table], pa.Table]

_GZIP: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file of a small batch: its name, its size in bytes, how it is opened, and the place of its rows.

    A CSV file has a `layout`, a Parquet file a `footer`. `called` has the names in the file of columns that were
    renamed, by their present names.
    """

    name: str
    size: int
    open: Callable[[], BinaryIO]
    place: FilePlace
    layout: Layout | None = None
    footer: Footer | None = None
    called: Mapping[str, str] = field(default_factory=dict)


def why_in_spark(files: Sequence[SmallFile], reading: Reading, small_batch: int) -> str | None:
    """Return in words why Spark must read these files; None if nothing is known against reading them here."""
    size = sum(file.size for file in files)
    if size > small_batch * BYTES_OF_A_ROW:
        return f"its files have {format_count(size, 'byte')}, more than a small batch"
    for file in files:
        if file.layout is None and (file.footer is None or file.footer.forms or file.footer.written):
            return f"{file.name} is not CSV, or Parquet of plain types, named as they are wanted"
        if file.layout is not None and is_packed_otherwise(file.name):
            return f"{file.name} is not packed by gzip"
    reasons = [local_source_rows.why_spark(reading)]
    if any(file.layout is None for file in files):
        reasons.append(local_parquet.why_spark(reading))
    if any(file.layout is not None for file in files):
        formats = ((item, reading.format_of(item.name)) for item in reading.dimension.schema)
        reasons += [local_casts.why_spark(item, written) for item, written in formats]
    return next(filter(None, reasons), None)


def is_packed_otherwise(name: str) -> bool:
    """Return whether the name of a file says that it is packed by something else than gzip."""
    return name.lower().endswith(PACKED_ENDINGS) and not name.endswith(".gz")


def read_frame(
    table: TableName,
    spark: Callable[[], SparkSession],
    read_here: Callable[[], pa.Table],
    read_in_spark: Callable[[], DataFrame],
) -> Frame:
    """Return the event frame of a batch: read in this process, or by Spark if `read_here` raises SparkNeeded.

    The reason for Spark is logged at the level debug.
    """
    try:
        return LocalFrame(read_here(), spark)
    except SparkNeeded as needed:
        log.debug("Spark reads the batch", table=str(table), reason=str(needed))
        return read_in_spark()


def read_files(
    files: Sequence[SmallFile],
    reading: Reading,
    small_batch: int,
    map_rows: RowMapper = lambda rows: rows,
    also: Sequence[str] = (),
) -> pa.Table:
    """Return the event frame of the files of a small batch; raises SparkNeeded if Spark must read them.

    `map_rows` fills operation, order and time of a file's rows from other columns. `also` are the columns that it
    adds.
    """
    why = why_in_spark(files, reading, small_batch)
    if why is not None:
        raise SparkNeeded(why)
    frames: list[pa.Table] = []
    most, count = small_batch * BYTES_OF_A_ROW, 0
    for file in files:
        data = _content(file, most)
        most -= len(data)
        frames.append(_events(file, data, reading, map_rows, also))
        count += frames[-1].num_rows
        if count > small_batch:
            raise SparkNeeded(f"its files have more than {format_count(small_batch, 'row')}")
    return pa.concat_tables(frames).combine_chunks()


def _events(file: SmallFile, data: bytes, reading: Reading, map_rows: RowMapper, also: Sequence[str]) -> pa.Table:
    if file.layout is not None:
        return to_events(map_rows(read_csv(data, file.layout, reading)), file.place, reading, also)
    rows = read_parquet(data, reading, has_op=file.place.has_op, called=file.called)
    events = to_events(map_rows(rows), file.place, reading, also)
    if events.column(names.REASON).null_count < events.num_rows:
        raise SparkNeeded(f"a row of {file.name} goes into quarantine, with its text")
    return events


def _content(file: SmallFile, most: int) -> bytes:
    """Return the unpacked content of a file; raises SparkNeeded if it has more bytes than `most`."""
    try:
        with file.open() as opened:
            data = opened.read(most + 1)
            if file.layout is not None and file.name.endswith(".gz"):
                data = _unpacked(data, most)
    except (OSError, zlib.error) as error:
        raise SparkNeeded(f"{file.name} cannot be read here: {error}") from error
    if len(data) > most:
        raise SparkNeeded(f"{file.name} has more bytes than a small batch")
    return data


def _unpacked(data: bytes, most: int) -> bytes:
    """Return the content of a gzip file of one or more members; at most one byte more than `most`.

    Raises zlib.error if the file is damaged or ends early.
    """
    content = b""
    while data and len(content) <= most:
        part = zlib.decompressobj(_GZIP)
        content += part.decompress(data, most + 1 - len(content))
        if not part.eof and len(content) <= most:
            raise zlib.error("it ends early")
        data = part.unused_data
    return content
