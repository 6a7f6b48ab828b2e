"""The files of tables that are read, and removed, without Spark: those of a folder, on a disk or in a bucket."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from lakeward.core.errors import TableError

PATIENCE: Final = 600.0
"""Seconds to wait while another process is alone with a table."""


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """A file as it was listed: its name seen from the folder, its bytes, and when it was written, since 1970."""

    name: str
    size: int
    seconds: float


class Folder(Protocol):
    """A folder, which need not be there: in a bucket it is what has keys that begin with its name.

    As a text it is where Spark and Delta find it. Names are seen from it, with `/` between folders.
    """

    def within(self, name: str) -> Folder:
        """Return a folder in it."""
        ...

    def files(self) -> Collection[Found]:
        """Return the files that lie in it; none where it is not there."""
        ...

    def every(self) -> Collection[Found]:
        """Return the files that lie in it and in its folders."""
        ...

    def folders(self) -> Collection[str]:
        """Return the names of the folders that lie in it; none where it is not there."""
        ...

    def holds(self) -> str | None:
        """Return the name of something in it, file or folder, or None where it is not there or empty."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Open a file; raises FileNotFoundError, at the first read at the latest, where it is not there."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def place(self, written: str) -> str:
        """Return where a file lies that a format names: seen from the folder, or by a whole URL."""
        ...

    def presence(self) -> Callable[[str], bool]:
        """Return what tells of many places, as of now, whether a file is there."""
        ...

    def alone(self, what: str) -> AbstractContextManager[None]:
        """Keep other processes of lakeward out that want to be alone with it, too; `what` is what it holds.

        Raises TableError where one stays for too long, or came in meanwhile.
        """
        ...

    def prepare(self) -> None:
        """Make it, where folders are made; raises TableError or ConfigError where nothing can be written there."""
        ...


@dataclass(frozen=True, slots=True)
class DiskFolder:
    """A folder of this machine."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def within(self, name: str) -> DiskFolder:
        """Return a folder in it."""
        return DiskFolder(self.path / name)

    def files(self) -> Collection[Found]:
        """Return the files that lie in it; none where it is not there."""
        return self._found(self.path.iterdir()) if self.path.is_dir() else ()

    def every(self) -> Collection[Found]:
        """Return the files that lie in it and in its folders."""
        return self._found(self.path.rglob("*"))

    def folders(self) -> Collection[str]:
        """Return the names of the folders that lie in it; none where it is not there."""
        return [path.name for path in self.path.iterdir() if path.is_dir()] if self.path.is_dir() else ()

    def _found(self, paths: Iterable[Path]) -> Collection[Found]:
        found = []
        for path in paths:
            with suppress(FileNotFoundError):  # it went away since it was listed
                if path.is_file():
                    state = path.stat()
                    found.append(Found(path.relative_to(self.path).as_posix(), state.st_size, state.st_mtime))
        return found

    def holds(self) -> str | None:
        """Return the name of something in it, file or folder, or None where it is not there or empty."""
        return min((path.name for path in self.path.iterdir()), default=None) if self.path.is_dir() else None

    def open(self, name: str) -> BinaryIO:
        """Open a file; raises FileNotFoundError where it is not there."""
        return (self.path / name).open("rb")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def place(self, written: str) -> str:
        """Return the path of a file that a format names: seen from the folder, or by a whole URL."""
        is_url = "://" in written or written.startswith("file:/")
        return str(self.path / (urlsplit(written).path if is_url else written))

    def presence(self) -> Callable[[str], bool]:
        """Return what tells of many places whether a file is there."""
        return lambda place: Path(place).exists()

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Hold a lock beside it, which the end of a process frees: nobody holds one that he forgot."""
        try:
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=PATIENCE):
                yield
        except Timeout as error:
            raise selection(what, error.lock_file) from error

    def prepare(self) -> None:
        """Make it; raises TableError where that is not allowed."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TableError(
                f"the warehouse {self.path} cannot be made",
                found=str(error),
                todo="Grant permission to write there, or correct `warehouse` under [target].",
            ) from error


def selection(what: str, lock: str) -> TableError:
    """Return what to say where a lock is held for too long."""
    return TableError(
        f"{what}: another process is committing to the table",
        found=f"it has held {lock} for {PATIENCE:.0f} s",
        todo="Nothing was changed. Run again when it is done.",
    )
