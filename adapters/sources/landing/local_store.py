"""Files on a local disk, listed as those of a bucket are; and what both stores share."""

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
"""Of a file larger than `HASHED_WHOLE` so many bytes are hashed at each end, as reading it twice is expensive."""

CHUNK_BYTES: Final = 8 * 1024 * 1024


class LocalStore:
    """A local disk."""

    def resolve(self, folder: str) -> str | None:
        """Return the path of a folder with links resolved, or None if it does not exist."""
        path = Path(folder)
        return str(path.resolve()) if path.exists() else None

    def folders(self, folder: str) -> Sequence[str]:
        """Return the names of the folders in a folder, and of links to folders."""
        try:
            with os.scandir(folder) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def list(self, folder: str, start: str | None) -> Iterator[Stored]:
        """Yield the files below a folder by their paths, without hidden folders and without following links.

        Files before `start` in the order of names are left out, and cost next to nothing. If `start` is a name
        without a folder, folders are listed whatever their names are.
        """
        inner = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith((".", "_")) and not _is_before(entry.name, start):
                        inner.append(entry.name)
                elif start is None or entry.name >= start:
                    state = _stat(entry)
                    if state is None:
                        yield Stored(entry.name, None, 0)
                    else:
                        yield Stored(entry.name, state.st_size, state.st_mtime_ns // 1000)
        for name in inner:
            below = start.removeprefix(f"{name}/") if start is not None and start.startswith(f"{name}/") else None
            with suppress(FileNotFoundError):  # the folder was deleted after it was listed
                for stored in self.list(f"{folder}/{name}", below):
                    yield replace(stored, name=f"{name}/{stored.name}")

    def stat(self, path: str) -> Stored | None:
        """Return size and time of a file, or None if it does not exist."""
        try:
            state = Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Stored(path, state.st_size, state.st_mtime_ns // 1000)

    def open(self, path: str) -> BinaryIO:
        """Open a file."""
        return Path(path).open("rb")

    def move(self, path: str, target: str) -> None:
        """Move a file, also to another disk. If the target has its content already, the file is only removed."""
        file, before = Path(path), self.stat(path)
        place = free_place(self, path, target)
        if place is None:
            if self.stat(path) == before:
                file.unlink()
            return
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        _rename(file, Path(place))


def _is_before(name: str, start: str | None) -> bool:
    """Return True if all files of a folder sort before a name that lies in a folder."""
    return start is not None and "/" in start and f"{name}/" < start and not start.startswith(f"{name}/")


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return size and time of a file.

    None for anything else, and for a file that was deleted after it was listed.
    """
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


# Shared by the stores of a disk and of a bucket.


def content_hash(file: BinaryIO) -> str:
    """Return a hash of a file's content; of a large file, of its beginning and its end."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= HASHED_WHOLE:
        return hashlib.file_digest(cast("Any", file), "sha256").hexdigest()[:32]
    digest = hashlib.sha256(file.read(HASHED_ENDS))
    file.seek(size - HASHED_ENDS)
    digest.update(file.read(HASHED_ENDS))
    return f"{digest.hexdigest()[:32]}-ends"


def free_place(store: Store, path: str, target: str) -> str | None:
    """Return the path to which a file is moved, so that no file is overwritten.

    If the target is another file, `.2`, `.3`, … is appended to its name. None if a target has the content already,
    as after a crash between copying and deleting.
    """
    for number in count(1):
        place = target if number == 1 else f"{target}.{number}"
        existing = store.stat(place)
        if existing is None:
            return place
        if _has_same_content(store, path, place, existing):
            return None
    raise AssertionError("numbers end")


def _has_same_content(store: Store, path: str, place: str, existing: Stored) -> bool:
    stored = store.stat(path)
    if stored is None or stored.size != existing.size:
        return False
    if stored.etag is not None and stored.etag == existing.etag:
        return True
    with store.open(path) as one, store.open(place) as other:
        while (chunk := one.read(CHUNK_BYTES)) == other.read(CHUNK_BYTES):
            if not chunk:
                return True
    return False
