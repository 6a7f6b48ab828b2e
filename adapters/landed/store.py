"""Files on a local disk: listing them as a bucket would, and moving them into an archive."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from lakeward.core.ports import Stored

HASHED_WHOLE: Final = 64 * 1024 * 1024
HASHED_ENDS: Final = 4 * 1024 * 1024
"""Of files larger than the first so many bytes are hashed at each end: reading them twice is not cheap."""


class LocalStore:
    """A local disk."""

    def list(self, folder: str, start: str | None) -> Iterator[Stored]:
        """Return what is in a folder and below it, by paths; what is hidden there, or behind a link, is not.

        What sorts before `start` and is no folder is left out, and costs next to nothing.
        """
        inner = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner += [] if entry.name.startswith((".", "_")) else [entry.name]
                elif start is None or entry.name >= start:
                    state = _state(entry)
                    if state is None:
                        yield Stored(entry.name, None, 0)
                    else:
                        yield Stored(entry.name, state.st_size, state.st_mtime_ns // 1000)
        for name in inner:
            with suppress(FileNotFoundError):  # it went away since it was seen, and all its files with it
                for found in self.list(f"{folder}/{name}", None):
                    yield replace(found, name=f"{name}/{found.name}")


def _state(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return size and time of a file, or None for what is no file, or is gone since it was listed."""
    try:
        return entry.stat(follow_symlinks=False) if entry.is_file(follow_symlinks=False) else None
    except FileNotFoundError:
        return None


def content_hash(path: Path) -> str:
    """Return a hash of a file's content, of a great one of its beginning and its end."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= HASHED_WHOLE:
            return hashlib.file_digest(file, "sha256").hexdigest()[:32]
        found = hashlib.sha256(file.read(HASHED_ENDS))
        file.seek(size - HASHED_ENDS)
        found.update(file.read(HASHED_ENDS))
        return f"{found.hexdigest()[:32]}-ends"


def move(file: Path, target: Path) -> None:
    """Move a file; it is never under neither name, and nothing that is there is overwritten.

    Where the target is a file of that content already, because a crash came between, only the
    source is removed; where it is another file, `.2`, `.3`, … is put behind the name.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        place = target if number == 1 else target.with_name(f"{target.name}.{number}")
        if not place.exists():
            _rename(file, place)
            return
        if place.stat().st_size == file.stat().st_size and content_hash(place) == content_hash(file):
            file.unlink()
            return


def _rename(file: Path, place: Path) -> None:
    try:
        file.rename(place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        part = place.with_name(f".{place.name}.part")
        shutil.copy2(file, part)
        with part.open("rb") as copied:
            os.fsync(copied.fileno())
        part.rename(place)
        file.unlink()
