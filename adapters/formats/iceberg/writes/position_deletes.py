"""Mark rows of data files as deleted: with position delete files (format 2) or deletion vectors (format 3).

Each data file has at most one such file of ours. It includes the positions deleted before and replaces the old
file, so that reading does not slow down with every batch. Formats: iceberg.apache.org/spec/#delete-formats and
iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyroaring import BitMap64
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakeward.adapters.formats.iceberg.java import Jvm, indexed
from lakeward.adapters.formats.iceberg.writes.data_files import OF_POSITIONS, DataFile
from lakeward.adapters.formats.shared.storage.file_cache import FileCache
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql.names import PREFIX
from lakeward.core.errors import TableError

_VECTOR_MAGIC: Final = b"\xd1\xd3\x39\x64"
_PUFFIN_MAGIC: Final = b"PFA1"
_ROW_POSITION: Final = 2147483645  # reserved field id of _pos
_ISLAND, _RUN = f"{PREFIX}island", f"{PREFIX}run"
_DELETE_SCHEMA: Final = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)

_POSITIONS: Final[FileCache[BitMap64]] = FileCache(16 * 1024**2)
"""The positions of a data file in delete files that this process has read or written."""


@dataclass(slots=True)
class Deletion:
    """The deleted positions of one data file, those deleted before included, and the number of its `rows`.

    The path is written exactly as the table writes it: Iceberg ignores any other spelling.
    """

    path: str
    task: Any
    rows: int
    positions: BitMap64
    newly_deleted: int = 0
    replaced: list[Any] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether no row of the file is left."""
        return len(self.positions) == self.rows


def runs(rows: DataFrame) -> DataFrame:
    """Return the runs of positions in each data file: its path, and a list of first positions and lengths.

    A full load of a history replaces all current rows: these are few runs, however many rows there are.
    """
    by_position = Window.partitionBy(FILE).orderBy(POS)
    island = F.col(POS) - F.row_number().over(by_position)
    islands = rows.select(FILE, POS, island.alias(_ISLAND)).groupBy(FILE, _ISLAND)
    each = islands.agg(F.struct(F.min(POS).alias("first"), F.count(POS).alias("length")).alias(_RUN))
    return each.groupBy(FILE).agg(F.collect_list(_RUN).alias(_RUN))


def positions_in(places: pa.Table) -> Mapping[str, BitMap64]:
    """Return the positions by data file, given as a row for each position."""
    by_path = places.select([FILE, POS]).group_by(FILE, use_threads=False).aggregate([(POS, "list")])
    lists = by_path[f"{POS}_list"].combine_chunks()
    numbers = (lists.slice(row, 1).flatten().to_numpy() for row in range(len(lists)))
    return {path: _bitmap(some) for path, some in zip(by_path[FILE].to_pylist(), numbers, strict=True)}


def by_file(runs_by_file: pa.Table) -> Iterator[tuple[str, BitMap64]]:
    """Return the positions by data file, given as its `runs`, without a Python object for each row."""
    for batch in runs_by_file.to_batches():
        for row, path in enumerate(batch.column(0).to_pylist()):
            listed = batch.column(1).slice(row, 1).flatten()
            first, length = (listed.field(name).to_numpy() for name in ("first", "length"))
            ends = np.cumsum(length)
            yield path, _bitmap(np.repeat(first - ends + length, length) + np.arange(ends[-1]))


def _bitmap(positions: np.ndarray[Any, Any]) -> BitMap64:
    return BitMap64(array("Q", np.sort(positions).astype(np.uint64).tobytes()))


def deletions(
    jvm: Jvm, table: str, io: FileIO, data: Mapping[str, DataFile], rows: Mapping[str, BitMap64]
) -> list[Deletion]:
    """Return the deletions of each data file, with the delete files that they replace."""
    result, files = [], jvm.iceberg.util.ContentFileUtil
    for path, positions in rows.items():
        deletion, before = Deletion(path, data[path].task, data[path].rows, positions), BitMap64()
        deletes = indexed(deletion.task.deletes()) if data[path].deletes else ()
        for described, delete in zip(data[path].deletes, deletes, strict=True):
            if described["content"] == OF_POSITIONS:
                before |= deleted_positions(table, io, described, path)
                if files.isFileScoped(delete):
                    deletion.replaced.append(delete)
        deletion.newly_deleted = len(deletion.positions - before)
        deletion.positions |= before
        result.append(deletion)
    return result


def deleted_positions(table: str, io: FileIO, file: Mapping[str, Any], path: str) -> BitMap64:
    """Return which positions of a data file a delete file marks. `file` is Iceberg's description of that.

    Raises TableError for a format that lakeward does not read.
    """
    key = file["file-path"], file.get("content-offset"), path
    positions = _POSITIONS.get(key)
    if positions is None:
        positions = _read_positions(table, io, file, path)
        _keep(key, positions)
    return positions


def _keep(key: tuple[str, int | None, str], positions: BitMap64) -> None:
    _POSITIONS.put(key, positions, len(positions.serialize()))


def _read_positions(table: str, io: FileIO, file: Mapping[str, Any], path: str) -> BitMap64:
    if file["file-format"] == "puffin":
        return _decode(_read(io, file["file-path"], file["content-offset"], file["content-size-in-bytes"]))
    if file["file-format"] != "parquet":
        raise TableError(
            f"{table} has deletes in the format {file['file-format']}, which lakeward does not read",
            found=f"found {file['file-path']}",
            todo="Rewrite them (`CALL system.rewrite_position_delete_files`), and run again.",
        )
    rows = pq.read_table(BytesIO(_read(io, file["file-path"], 0, file["file-size-in-bytes"])))
    return BitMap64(rows.filter(pc.equal(rows["file_path"], path))["pos"].to_pylist())


def _read(io: FileIO, location: str, offset: int, length: int) -> bytes:
    with io.new_input(location).open() as stream:
        stream.seek(offset)
        return stream.read(length)


def _encode(positions: BitMap64) -> bytes:
    vector = _VECTOR_MAGIC + positions.serialize()
    return struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


def _decode(blob: bytes) -> BitMap64:
    return BitMap64.deserialize(blob[8:-4])


def write_deletes(
    jvm: Jvm, table: Any, io: FileIO, deletions_: Sequence[Deletion], *, version: int
) -> Iterator[Any]:
    """Write the delete files; a commit makes them part of the table."""
    if not deletions_:
        return iter(())
    files = _DeleteFiles(jvm, table, io)
    if version >= 3:
        return _write_vectors(files, deletions_)
    return (_write_positions(files, deletion) for deletion in deletions_)


def _write_positions(files: _DeleteFiles, deletion: Deletion) -> Any:
    positions = pa.array(np.frombuffer(deletion.positions.to_array(), np.uint64)).cast(pa.int64())
    rows = pa.Table.from_arrays([pa.repeat(deletion.path, len(positions)), positions], schema=_DELETE_SCHEMA)
    buffer = BytesIO()
    pq.write_table(rows, buffer, compression="zstd")
    location = files.write(f"{uuid.uuid4()}-deletes.parquet", buffer.getvalue(), deletion)
    _keep((location, None, deletion.path), deletion.positions)
    builder = files.builder(deletion, len(positions))
    builder.withPath(location)
    builder.withFormat("PARQUET")
    builder.withFileSizeInBytes(len(buffer.getvalue()))
    return builder.build()


def _write_vectors(files: _DeleteFiles, deletions_: Sequence[Deletion]) -> Iterator[Any]:
    """Write one Puffin file with a vector for each data file."""
    content, blobs = bytearray(_PUFFIN_MAGIC), []
    for deletion in deletions_:
        vector = _encode(deletion.positions)
        blobs.append((deletion, len(content), len(vector)))
        content += vector
    content += _puffin_footer(blobs)
    location = files.write(f"{uuid.uuid4()}-deletes.puffin", bytes(content))
    for deletion, offset, length in blobs:
        _keep((location, offset, deletion.path), deletion.positions)
        builder = files.builder(deletion, len(deletion.positions))
        builder.withPath(location)
        builder.withFormat("PUFFIN")
        builder.withContentOffset(offset)
        builder.withContentSizeInBytes(length)
        builder.withFileSizeInBytes(len(content))
        yield builder.build()


def _puffin_footer(blobs: Sequence[tuple[Deletion, int, int]]) -> bytes:
    described = [
        {
            "type": "deletion-vector-v1",
            "fields": [_ROW_POSITION],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": offset,
            "length": length,
            "properties": {
                "referenced-data-file": deletion.path,
                "cardinality": str(len(deletion.positions)),
            },
        }
        for deletion, offset, length in blobs
    ]
    payload = json.dumps({"blobs": described, "properties": {"created-by": "lakeward"}}).encode()
    return _PUFFIN_MAGIC + payload + struct.pack("<I", len(payload)) + b"\0\0\0\0" + _PUFFIN_MAGIC


class _DeleteFiles:
    """The locations of a table's delete files, and their descriptions for Iceberg.

    A table that is seldom compacted has hundreds of data files with deletes, and each call to Java takes a tenth of
    a millisecond: what is the same for all of them is asked once.
    """

    def __init__(self, jvm: Jvm, table: Any, io: FileIO) -> None:
        self.io = io
        self.places = table.locationProvider()
        self.specs = {int(spec.specId()): spec for spec in jvm.items(table.specs().values())}
        make = jvm.iceberg.FileMetadata.deleteFileBuilder
        self.builders = {id_: make(spec).ofPositionDeletes() for id_, spec in self.specs.items()}
        self.partitioned = {id_ for id_, spec in self.specs.items() if spec.isPartitioned()}

    def builder(self, deletion: Deletion, count: int) -> Any:
        """Return the builder for a file that deletes `count` rows of a data file."""
        spec, partition = self._place(deletion)
        builder = self.builders[spec]
        if partition is not None:
            builder.withPartition(partition)
        builder.withReferencedDataFile(deletion.path)
        builder.withRecordCount(count)
        return builder

    def write(self, name: str, content: bytes, deletion: Deletion | None = None) -> str:
        """Write a file into the table's data location, and return its path."""
        location = None
        if deletion is not None:
            spec, partition = self._place(deletion)
            if partition is not None:
                location = self.places.newDataLocation(self.specs[spec], partition, name)
        location = location or self.places.newDataLocation(name)
        with self.io.new_output(location).create() as stream:
            stream.write(content)
        return str(location)

    def _place(self, deletion: Deletion) -> tuple[int, Any]:
        """Return the id of a data file's partition spec, and its partition, if it has one."""
        if len(self.specs) == 1 and not self.partitioned:
            return next(iter(self.specs)), None
        data = deletion.task.file()
        spec = int(data.specId())
        return spec, data.partition() if spec in self.partitioned else None
