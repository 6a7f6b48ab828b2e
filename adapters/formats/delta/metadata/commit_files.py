"""The files that a commit of a Delta log adds and removes, and whether they exist, without Spark.

Format: github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from lakeward.adapters.formats.delta.metadata.progress import LOG, file_of
from lakeward.adapters.formats.shared.storage.folder import Folder

_ASCII85: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""The digits of Python's base 85, and of the one in which a log has the names of deletion vectors."""

_UUID: Final = 20
"""The number of digits of a UUID. Digits before them are a folder."""


@dataclass(frozen=True, slots=True)
class File:
    """The paths of a data file and of the file of its deletion vector, if it has one."""

    data: str
    vector: str | None

    def is_there(self, exists: Callable[[str], bool]) -> bool:
        """Return whether both files exist; `exists` says it of a path."""
        return exists(self.data) and (self.vector is None or exists(self.vector))


def changed_by(table: Folder, version: int) -> tuple[Set[File], Set[File]]:
    """Return the files that a commit of a table's log adds, and those that it removes."""
    files_by_kind = {"add": set[File](), "remove": set[File]()}
    with table.within(LOG).open(file_of(version)) as lines:
        for line in lines:
            if line.startswith((b'{"add"', b'{"remove"')):
                ((kind, action),) = json.loads(line).items()
                files_by_kind[kind].add(_file(table, action))
    return files_by_kind["add"], files_by_kind["remove"]


def _file(table: Folder, action: Mapping[str, Any]) -> File:
    vector = action.get("deletionVector")
    return File(_place(table, action["path"]), None if vector is None else _vector(table, vector))


def _place(table: Folder, written: str) -> str:
    """Return the path of a file in the log, where it is encoded and may be relative to the table's folder."""
    return unquote(table.place(written))


def _vector(table: Folder, vector: Mapping[str, Any]) -> str | None:
    """Return the file of a deletion vector; None if the vector is in the log itself."""
    kind, written = vector["storageType"], str(vector["pathOrInlineDv"])
    if kind == "p":
        return _place(table, written)
    return table.place(vector_name(written)) if kind == "u" else None


def name_in_log(vector: uuid.UUID) -> str:
    """Return the name in the log of the file `deletion_vector_<vector>.bin` in the table's folder."""
    return base64.b85encode(vector.bytes).decode().translate(str.maketrans(_ASCII85, _Z85))


def vector_name(written: str) -> str:
    """Return the file of a deletion vector, relative to the table's folder, from its encoded name in the log."""
    folder, digits = written[:-_UUID], written[-_UUID:]
    name = uuid.UUID(bytes=base64.b85decode(digits.translate(str.maketrans(_Z85, _ASCII85))))
    return "/".join(filter(None, (folder, f"deletion_vector_{name}.bin")))
