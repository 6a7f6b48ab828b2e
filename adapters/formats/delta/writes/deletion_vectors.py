"""Deletion vectors of Delta tables: the deleted rows of a data file.

Each data file has at most one vector; a new one includes the positions deleted before. Format:
github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-format
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyroaring import BitMap64

from lakeward.adapters.formats.delta.metadata.commit_files import name_in_log, vector_name
from lakeward.adapters.formats.delta.writes.data_files import Add
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.adapters.spark.merge.resolution import FILE, POS

_MAGIC: Final = b"\xd1\xd3\x39\x64"
_VERSION: Final = b"\x01"
_IN_TABLE: Final = "u"
"""The log's storage type of vectors in files of the table's folder."""


def read_vector(table: Folder, vector: Mapping[str, Any] | None) -> BitMap64:
    """Return the positions that a deletion vector marks; none if there is no vector.

    `vector` is its entry in the log. Raises OSError if only Delta can read it, or if it is broken.
    """
    if vector is None:
        return BitMap64()
    if vector["storageType"] != _IN_TABLE:
        raise OSError(f"a deletion vector that lies elsewhere: {vector}")
    with table.open(vector_name(vector["pathOrInlineDv"])) as opened:
        opened.seek(vector["offset"])
        content = opened.read(vector["sizeInBytes"] + 8)
    (size,), data, (check,) = struct.unpack(">I", content[:4]), content[4:-4], struct.unpack(">I", content[-4:])
    if size != len(data) or zlib.crc32(data) != check or not data.startswith(_MAGIC):
        raise OSError(f"a deletion vector that is broken: {vector}")
    return BitMap64.deserialize(data[len(_MAGIC) :])


@dataclass(frozen=True, slots=True)
class Deletion:
    """The deleted positions of a data file, those deleted before included, and the number of new ones."""

    add: Add
    positions: BitMap64
    newly_deleted: int

    @property
    def is_whole(self) -> bool:
        """Whether no row of the file is left."""
        return len(self.positions) == _count(self.add)


def deletions(table: Folder, adds: Mapping[str, Add], places: pa.Table) -> Sequence[Deletion] | None:
    """Return the deletions of each data file, given the rows at `places` and all files by their URLs.

    Returns None if only Delta can tell: for an unknown file, or one without a row count in the log.
    """
    result = list[Deletion]()
    grouped = places.group_by(FILE).aggregate([(POS, "list")])
    for url, listed in zip(grouped[FILE].to_pylist(), grouped[f"{POS}_list"].to_pylist(), strict=True):
        add, positions = adds.get(url), BitMap64(listed)
        count = None if add is None else _count(add)
        if add is None or count is None or positions.max() >= count:
            return None
        try:
            before = read_vector(table, add.get("deletionVector"))
        except OSError:
            return None
        result.append(Deletion(add, positions | before, len(positions - before)))
    return result


def _count(add: Add) -> int | None:
    """Return the number of rows in a data file, deleted ones included, or None if the log does not say."""
    count = json.loads(add.get("stats") or "{}").get("numRecords")
    return None if count is None else int(count)


def encode_vectors(deletions_: Sequence[Deletion]) -> tuple[str, bytes, Sequence[Mapping[str, Any]]]:
    """Return a file with the vectors of these deletions: its name, its content, and each vector's log entry."""
    name, content, described = name_in_log(uuid.uuid4()), bytearray(_VERSION), list[Mapping[str, Any]]()
    for deletion in deletions_:
        data = _MAGIC + deletion.positions.serialize()
        vector = {"storageType": _IN_TABLE, "pathOrInlineDv": name, "offset": len(content)}
        described.append({**vector, "sizeInBytes": len(data), "cardinality": len(deletion.positions)})
        content += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    return vector_name(name), bytes(content), described
