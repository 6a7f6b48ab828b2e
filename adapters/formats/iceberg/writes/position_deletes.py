"""Marking rows of data files as deleted: position delete files (format 2), vectors (format 3).

Each data file has at most one such file of ours: the positions that were deleted before
are part of the new one, which takes the old one's place, so that reading does not grow
slower with every batch. The forms are those of iceberg.apache.org/spec/#delete-formats
and iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type.
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


@dataclass(slots=True)
class Deletion:
    """What to delete of one data file: its path, its scan task, positions, those deleted before included.

    The path is spelt exactly as the table does: another spelling would be ignored.
    """

    path: str
    task: Any
    positions: BitMap64
    newly_deleted: int = 0
    replaced: list[Any] = field(default_factory=list)


def runs(rows: DataFrame) -> DataFrame:
    """Return the runs of positions in each data file: its path, and a list of first positions and lengths.

    A full load of a history takes the place of all rows that are current: as runs they are few, however many.
    """
    by_position = Window.partitionBy(FILE).orderBy(POS)
    island = F.col(POS) - F.row_number().over(by_position)
    found = rows.select(FILE, POS, island.alias(_ISLAND)).groupBy(FILE, _ISLAND)
    each = found.agg(F.struct(F.min(POS).alias("first"), F.count(POS).alias("length")).alias(_RUN))
    return each.groupBy(FILE).agg(F.collect_list(_RUN).alias(_RUN))


def positions_in(places: pa.Table) -> Mapping[str, BitMap64]:
    """Return the positions of each data file, given as a row for each position: its path, and the position."""
    found: dict[str, BitMap64] = {}
    for path, position in zip(places[FILE].to_pylist(), places[POS].to_pylist(), strict=True):
        found.setdefault(path, BitMap64()).add(position)
    return found


def by_file(found: pa.Table) -> Iterator[tuple[str, BitMap64]]:
    """Return the positions of each data file, given as its `runs`, without a Python object a row."""
    for batch in found.to_batches():
        for row, path in enumerate(batch.column(0).to_pylist()):
            listed = batch.column(1).slice(row, 1).flatten()
            first, length = (listed.field(name).to_numpy() for name in ("first", "length"))
            behind = np.cumsum(length)
            positions = np.repeat(first - behind + length, length) + np.arange(behind[-1])
            yield path, BitMap64(array("Q", np.sort(positions).astype(np.uint64).tobytes()))


def deletions(
    jvm: Jvm, table: str, io: FileIO, data: Mapping[str, DataFile], rows: Mapping[str, BitMap64]
) -> list[Deletion]:
    """Return what to delete of each data file, with the deletes that this takes the place of."""
    found, files = [], jvm.iceberg.util.ContentFileUtil
    for path, positions in rows.items():
        deletion, before = Deletion(path, data[path].task, positions), BitMap64()
        deletes = indexed(deletion.task.deletes()) if data[path].deletes else ()
        for described, delete in zip(data[path].deletes, deletes, strict=True):
            if described["content"] == OF_POSITIONS:
                before |= deleted_positions(table, io, described, path)
                if files.isFileScoped(delete):
                    deletion.replaced.append(delete)
        deletion.newly_deleted = len(deletion.positions - before)
        deletion.positions |= before
        found.append(deletion)
    return found


def deleted_positions(table: str, io: FileIO, file: Mapping[str, Any], path: str) -> BitMap64:
    """Read which positions of a data file a delete file marks, whoever wrote it; `file` is as Iceberg describes it.

    Raises TableError where it is of a format that lakeward does not read.
    """
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


def write_deletes(jvm: Jvm, table: Any, io: FileIO, found: Sequence[Deletion], *, version: int) -> Iterator[Any]:
    """Write the delete files; they become part of the table by a commit only."""
    if not found:
        return iter(())
    described = _DeleteFiles(jvm, table, io)
    if version >= 3:
        return _write_vectors(described, found)
    return (_write_positions(described, deletion) for deletion in found)


def _write_positions(files: _DeleteFiles, deletion: Deletion) -> Any:
    positions = pa.array(np.frombuffer(deletion.positions.to_array(), np.uint64)).cast(pa.int64())
    rows = pa.Table.from_arrays([pa.repeat(deletion.path, len(positions)), positions], schema=_DELETE_SCHEMA)
    buffer = BytesIO()
    pq.write_table(rows, buffer, compression="zstd")
    location = files.write(f"{uuid.uuid4()}-deletes.parquet", buffer.getvalue(), deletion)
    builder = files.builder(deletion, len(positions))
    builder.withPath(location)
    builder.withFormat("PARQUET")
    builder.withFileSizeInBytes(len(buffer.getvalue()))
    return builder.build()


def _write_vectors(files: _DeleteFiles, found: Sequence[Deletion]) -> Iterator[Any]:
    """Write one Puffin file with a vector for each data file."""
    content, blobs = bytearray(_PUFFIN_MAGIC), []
    for deletion in found:
        vector = _encode(deletion.positions)
        blobs.append((deletion, len(content), len(vector)))
        content += vector
    content += _puffin_footer(blobs)
    location = files.write(f"{uuid.uuid4()}-deletes.puffin", bytes(content))
    for deletion, offset, length in blobs:
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
    """Where the delete files of a table lie, and how they are described to it.

    A table that is seldom compacted has hundreds of data files that a batch deletes of, and each call to Java
    takes a tenth of a millisecond: what is the same for all of them is asked once.
    """

    def __init__(self, jvm: Jvm, table: Any, io: FileIO) -> None:
        self.io = io
        self.places = table.locationProvider()
        self.specs = {int(spec.specId()): spec for spec in jvm.items(table.specs().values())}
        make = jvm.iceberg.FileMetadata.deleteFileBuilder
        self.builders = {id_: make(spec).ofPositionDeletes() for id_, spec in self.specs.items()}
        self.partitioned = {id_ for id_, spec in self.specs.items() if spec.isPartitioned()}

    def builder(self, deletion: Deletion, count: int) -> Any:
        """Return what builds the description of a file that deletes so many rows of a data file."""
        spec, partition = self._place(deletion)
        builder = self.builders[spec]
        if partition is not None:
            builder.withPartition(partition)
        builder.withReferencedDataFile(deletion.path)
        builder.withRecordCount(count)
        return builder

    def write(self, name: str, content: bytes, deletion: Deletion | None = None) -> str:
        """Write a file where the table's data lies."""
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
        """Return the id of the spec that a data file is partitioned by, and its partition, if it is."""
        if len(self.specs) == 1 and not self.partitioned:
            return next(iter(self.specs)), None
        data = deletion.task.file()
        spec = int(data.specId())
        return spec, data.partition() if spec in self.partitioned else None
