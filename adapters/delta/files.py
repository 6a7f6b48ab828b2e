"""The files that a commit of a Delta log adds and removes, and whether they are there; no Spark is needed.

The forms are those of github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

_ASCII85: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""The digits of Python's base 85, and of the one in which a log has the names of deletion vectors."""

_UUID: Final = 20
"""So many of these digits are a UUID; what stands before them is a folder."""


@dataclass(frozen=True, slots=True)
class File:
    """A data file, and the file of the deletion vector that belongs to it, if it has one; both whole paths."""

    data: Path
    vector: Path | None

    @property
    def is_there(self) -> bool:
        """Whether both are there."""
        return self.data.exists() and (self.vector is None or self.vector.exists())


def changed_by(commit: Path) -> tuple[Set[File], Set[File]]:
    """Return the files that a commit of a log adds, and those that it removes."""
    base, found = commit.parent.parent, {"add": set[File](), "remove": set[File]()}
    with commit.open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(('{"add"', '{"remove"')):
                ((kind, action),) = json.loads(line).items()
                found[kind].add(_file(base, action))
    return found["add"], found["remove"]


def _file(base: Path, action: Mapping[str, Any]) -> File:
    vector = action.get("deletionVector")
    return File(_path(base, action["path"]), None if vector is None else _vector(base, vector))


def _path(base: Path, written: str) -> Path:
    """Return a path as the log has it: encoded, and seen from the table's folder where it is not whole."""
    return base / unquote(urlsplit(written).path if "://" in written or written.startswith("file:/") else written)


def _vector(base: Path, vector: Mapping[str, Any]) -> Path | None:
    """Return the file of a deletion vector; None where it stands in the log itself."""
    kind, written = vector["storageType"], str(vector["pathOrInlineDv"])
    if kind == "p":
        return _path(base, written)
    if kind != "u":
        return None
    folder, digits = written[:-_UUID], written[-_UUID:]
    name = uuid.UUID(bytes=base64.b85decode(digits.translate(str.maketrans(_Z85, _ASCII85))))
    return base / folder / f"deletion_vector_{name}.bin"
