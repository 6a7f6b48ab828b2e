"""Files on a local disk: listing them as a bucket would, reading them, and moving them into an archive."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from lakeward.core.ports import Store, Stored

HASHED_WHOLE: Final = 64 * 1024 * 1024
HASHED_ENDS: Final = 4 * 1024 * 1024
"""Of files larger than the first so many bytes are hashed at each end: reading them twice is not cheap."""

COMPARED_AT_ONCE: Final = 8 * 1024 * 1024


class LocalStore:
    """A local disk."""

    def real(self, folder: str) -> str | None:
        """Return the path of a folder without links, or None where nothing is there."""
        path = Path(folder)
        return str(path.resolve()) if path.exists() else None

    def folders(self, folder: str) -> Sequence[str]:
        """Return the names of the folders within a folder, and of links to some."""
        try:
            with os.scandir(folder) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def list(self, folder: str, start: str | None) -> Iterator[Stored]:
        """Return what is in a folder and below it, by paths; what is hidden there, or behind a link, is not.

        What sorts before `start` is left out, and costs next to nothing; but for folders, where
        `start` lies in none.
        """
        inner = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith((".", "_")) and not _is_before(entry.name, start):
                        inner.append(entry.name)
                elif start is None or entry.name >= start:
                    state = _state(entry)
                    if state is None:
                        yield Stored(entry.name, None, 0)
                    else:
                        yield Stored(entry.name, state.st_size, state.st_mtime_ns // 1000)
        for name in inner:
            below = start.removeprefix(f"{name}/") if start is not None and start.startswith(f"{name}/") else None
            with suppress(FileNotFoundError):  # it went away since it was seen, and all its files with it
                for found in self.list(f"{folder}/{name}", below):
                    yield replace(found, name=f"{name}/{found.name}")

    def find(self, path: str) -> Stored | None:
        """Return size and time of a file, or None where there is none."""
        try:
            state = Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Stored(path, state.st_size, state.st_mtime_ns // 1000)

    def open(self, path: str) -> BinaryIO:
        """Open a file."""
        return Path(path).open("rb")

    def move(self, path: str, target: str) -> None:
        """Move a file, to another disk too; where its content is in its place already, it is only removed."""
        file, before = Path(path), self.find(path)
        place = free_place(self, path, target)
        if place is None:
            if self.find(path) == before:
                file.unlink()
            return
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        _rename(file, Path(place))


def _is_before(name: str, start: str | None) -> bool:
    """Whether all that is in a folder sorts before a text that lies in a folder."""
    return start is not None and "/" in start and f"{name}/" < start and not start.startswith(f"{name}/")


def _state(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return size and time of a file, or None for what is no file, or is gone since it was listed."""
    try:
        return entry.stat(follow_symlinks=False) if entry.is_file(follow_symlinks=False) else None
    except FileNotFoundError:
        return None


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


# What is the same on a disk and in a bucket.


def content_hash(file: BinaryIO) -> str:
    """Return a hash of a file's content, of a great one of its beginning and its end."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= HASHED_WHOLE:
        return hashlib.file_digest(cast("Any", file), "sha256").hexdigest()[:32]
    found = hashlib.sha256(file.read(HASHED_ENDS))
    file.seek(size - HASHED_ENDS)
    found.update(file.read(HASHED_ENDS))
    return f"{found.hexdigest()[:32]}-ends"


def free_place(store: Store, path: str, target: str) -> str | None:
    """Return where a file goes that is to be moved: nothing that is there is overwritten.

    Where the target is another file, `.2`, `.3`, … is put behind the name; where it is one of
    that content, because a crash came between, None says that the file is there already.
    """
    for number in count(1):
        place = target if number == 1 else f"{target}.{number}"
        there = store.find(place)
        if there is None:
            return place
        if _is_alike(store, path, place, there):
            return None
    raise AssertionError("numbers end")


def _is_alike(store: Store, path: str, place: str, there: Stored) -> bool:
    own = store.find(path)
    if own is None or own.size != there.size:
        return False
    if own.etag is not None and own.etag == there.etag:
        return True
    with store.open(path) as one, store.open(place) as other:
        while (found := one.read(COMPARED_AT_ONCE)) == other.read(COMPARED_AT_ONCE):
            if not found:
                return True
    return False
