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

from lakeward.adapters.iceberg.java import Jvm, indexed
from lakeward.core.errors import TableError

_VECTOR_MAGIC: Final = b"\xd1\xd3\x39\x64"
_PUFFIN_MAGIC: Final = b"PFA1"
_ROW_POSITION: Final = 2147483645  # reserved field id of _pos
_DELETE_SCHEMA: Final = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


@dataclass(slots=True)
class Deletion:
    """What to delete of one data file: its scan task, and positions, those deleted before included."""

    task: Any
    positions: BitMap64
    newly_deleted: int = 0
    replaced: list[Any] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The data file, spelt exactly as the table does: another spelling would be ignored."""
        return str(self.task.file().location())


def deletions(
    jvm: Jvm, table: Any, io: FileIO, tasks: Mapping[str, Any], rows: Mapping[str, array[int]]
) -> list[Deletion]:
    """Return what to delete of each data file, with the deletes that this takes the place of."""
    found = []
    for path, positions in rows.items():
        deletion = Deletion(tasks[path], BitMap64(positions))
        before = BitMap64()
        for delete in indexed(deletion.task.deletes()):
            if str(delete.content()) == "POSITION_DELETES":
                before |= _positions(jvm, table, io, delete, path)
                if jvm.iceberg.util.ContentFileUtil.isFileScoped(delete):
                    deletion.replaced.append(delete)
        deletion.newly_deleted = len(deletion.positions - before)
        deletion.positions |= before
        found.append(deletion)
    return found


def _positions(jvm: Jvm, table: Any, io: FileIO, delete: Any, path: str) -> BitMap64:
    """Read which positions of a data file a delete file marks, whoever wrote it."""
    if jvm.iceberg.util.ContentFileUtil.isDV(delete):
        return _decode(_read(io, delete, delete.contentOffset(), delete.contentSizeInBytes()))
    if str(delete.format()) != "PARQUET":
        raise TableError(
            f"{table.name()} has deletes in the format {delete.format()}, which lakeward does not read",
            found=f"found {delete.location()}",
            todo="Rewrite them (`CALL system.rewrite_position_delete_files`), and run again.",
        )
    rows = pq.read_table(BytesIO(_read(io, delete, 0, delete.fileSizeInBytes())))
    return BitMap64(rows.filter(pc.equal(rows["file_path"], path))["pos"].to_pylist())


def _read(io: FileIO, delete: Any, offset: int, length: int) -> bytes:
    with io.new_input(delete.location()).open() as stream:
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
        return
    if version >= 3:
        yield from _write_vectors(jvm, table, io, found)
        return
    for deletion in found:
        yield _write_positions(jvm, table, io, deletion)


def _write_positions(jvm: Jvm, table: Any, io: FileIO, deletion: Deletion) -> Any:
    positions = pa.array(np.frombuffer(deletion.positions.to_array(), np.uint64)).cast(pa.int64())
    rows = pa.Table.from_arrays([pa.repeat(deletion.path, len(positions)), positions], schema=_DELETE_SCHEMA)
    buffer = BytesIO()
    pq.write_table(rows, buffer, compression="zstd")
    location = _write(table, io, deletion, f"{uuid.uuid4()}-deletes.parquet", buffer.getvalue())
    builder = _builder(jvm, table, deletion).withPath(location).withFormat("PARQUET")
    return builder.withRecordCount(len(positions)).withFileSizeInBytes(len(buffer.getvalue())).build()


def _write_vectors(jvm: Jvm, table: Any, io: FileIO, found: Sequence[Deletion]) -> Iterator[Any]:
    """Write one Puffin file with a vector for each data file."""
    content, blobs = bytearray(_PUFFIN_MAGIC), []
    for deletion in found:
        vector = _encode(deletion.positions)
        blobs.append((deletion, len(content), len(vector)))
        content += vector
    content += _puffin_footer(blobs)
    location = _write(table, io, None, f"{uuid.uuid4()}-deletes.puffin", bytes(content))
    for deletion, offset, length in blobs:
        builder = _builder(jvm, table, deletion).withPath(location).withFormat("PUFFIN")
        builder = builder.withContentOffset(offset).withContentSizeInBytes(length)
        yield builder.withRecordCount(len(deletion.positions)).withFileSizeInBytes(len(content)).build()


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


def _builder(jvm: Jvm, table: Any, deletion: Deletion) -> Any:
    data = deletion.task.file()
    spec = table.specs().get(data.specId())
    builder = jvm.iceberg.FileMetadata.deleteFileBuilder(spec).ofPositionDeletes()
    if spec.isPartitioned():
        builder = builder.withPartition(data.partition())
    return builder.withReferencedDataFile(deletion.path)


def _write(table: Any, io: FileIO, deletion: Deletion | None, name: str, content: bytes) -> str:
    """Write a file where the table's data lies."""
    if deletion is not None and (spec := table.specs().get(deletion.task.file().specId())).isPartitioned():
        location = table.locationProvider().newDataLocation(spec, deletion.task.file().partition(), name)
    else:
        location = table.locationProvider().newDataLocation(name)
    with io.new_output(location).create() as stream:
        stream.write(content)
    return str(location)
