"""Deletion vectors of Delta tables: which rows of a data file are deleted.

The form is that of github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-format
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

from pyroaring import BitMap64

from lakeward.adapters.delta.files import vector_name
from lakeward.adapters.tables.storage import Folder

_MAGIC: Final = b"\xd1\xd3\x39\x64"
_IN_TABLE: Final = "u"
"""How the log calls vectors in files within the table's folder."""


def read_vector(table: Folder, vector: Mapping[str, Any] | None) -> BitMap64:
    """Return the positions that a deletion vector marks, none where there is none.

    `vector` is what the log says of it. Raises OSError where it is of a form that only Delta reads, or broken.
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
