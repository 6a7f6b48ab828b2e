"""Files of tables that are listed, read and removed without Spark, in a folder on a disk or in a bucket."""

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
"""Seconds to wait for a lock on a table."""


@dataclass(frozen=True, slots=True, order=True)
class ListedFile:
    """A listed file: name relative to the folder, size in bytes, modification time in seconds since 1970."""

    name: str
    size: int
    seconds: float


class Folder(Protocol):
    """A folder, which need not exist. In a bucket it is the set of keys that begin with its name.

    `str` gives its path or URL for Spark and Delta. Names are relative to it, with `/` between folders.
    """

    def within(self, name: str) -> Folder:
        """Return a folder in it."""
        ...

    def files(self) -> Collection[ListedFile]:
        """Return the files directly in it; none if it does not exist."""
        ...

    def all_files(self) -> Collection[ListedFile]:
        """Return the files in it and in its folders."""
        ...

    def folders(self) -> Collection[str]:
        """Return the names of the folders directly in it; none if it does not exist."""
        ...

    def holds(self) -> str | None:
        """Return the name of a file or folder in it, or None if it is empty or does not exist."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Open a file. Raises FileNotFoundError if it does not exist, at the first read at the latest."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        ...

    def place(self, written: str) -> str:
        """Return the path or URL of a file that a format names by a relative path or a URL."""
        ...

    def existence_check(self) -> Callable[[str], bool]:
        """Return a function that says whether a file exists, by its path or URL, as of now."""
        ...

    def lock(self, table_name: str) -> AbstractContextManager[None]:
        """Lock the folder against other processes of lakeward. `table_name` names the table in errors.

        Raises TableError if the lock is not free in time, or was lost meanwhile.
        """
        ...

    def prepare(self) -> None:
        """Create it, if folders are created. Raises TableError or ConfigError if it cannot be written to."""
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

    def files(self) -> Collection[ListedFile]:
        """Return the files directly in it; none if it does not exist."""
        return self._listed_files(self.path.iterdir()) if self.path.is_dir() else ()

    def all_files(self) -> Collection[ListedFile]:
        """Return the files in it and in its folders."""
        return self._listed_files(self.path.rglob("*"))

    def folders(self) -> Collection[str]:
        """Return the names of the folders directly in it; none if it does not exist."""
        return [path.name for path in self.path.iterdir() if path.is_dir()] if self.path.is_dir() else ()

    def _listed_files(self, paths: Iterable[Path]) -> Collection[ListedFile]:
        files = []
        for path in paths:
            with suppress(FileNotFoundError):  # it was removed after it was listed
                if path.is_file():
                    state = path.stat()
                    files.append(ListedFile(path.relative_to(self.path).as_posix(), state.st_size, state.st_mtime))
        return files

    def holds(self) -> str | None:
        """Return the name of a file or folder in it, or None if it is empty or does not exist."""
        return min((path.name for path in self.path.iterdir()), default=None) if self.path.is_dir() else None

    def open(self, name: str) -> BinaryIO:
        """Open a file. Raises FileNotFoundError if it does not exist."""
        return (self.path / name).open("rb")

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        (self.path / name).unlink(missing_ok=True)

    def place(self, written: str) -> str:
        """Return the path of a file that a format names by a relative path or a URL."""
        is_url = "://" in written or written.startswith("file:/")
        return str(self.path / (urlsplit(written).path if is_url else written))

    def existence_check(self) -> Callable[[str], bool]:
        """Return a function that says whether a file exists."""
        return lambda place: Path(place).exists()

    @contextmanager
    def lock(self, table_name: str) -> Iterator[None]:
        """Hold a lock file beside the folder. The operating system frees it when the process ends."""
        try:
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=PATIENCE):
                yield
        except Timeout as error:
            raise lock_timeout(table_name, error.lock_file) from error

    def prepare(self) -> None:
        """Create it. Raises TableError if that is not allowed."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TableError(
                f"the warehouse {self.path} cannot be created",
                found=str(error),
                todo="Grant permission to write there, or correct `warehouse` under [target].",
            ) from error


def lock_timeout(table_name: str, lock: str) -> TableError:
    """Return the error for a lock that is held for too long."""
    return TableError(
        f"{table_name}: another process is committing to the table",
        found=f"it has held {lock} for {PATIENCE:.0f} s",
        todo="Nothing was changed. Run again after the other process has finished.",
    )
