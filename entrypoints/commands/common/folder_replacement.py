"""Atomic replacement of a folder of files: a reader sees all old files, or all new ones.

A file system cannot replace a folder in one step, but a symbolic link. So the files are in a folder of their own
within `.NAME.lakeward`, and NAME is a link to it.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lakeward.core.errors import ConfigError, LockedError


def place(to: str) -> Path:
    """Return the absolute path of a folder; raises ConfigError if it cannot be replaced atomically."""
    if "://" in to:
        raise ConfigError(
            f"{to} is not a folder on this machine",
            found="an object store cannot replace many objects at once: a reader would see old and new files",
            todo="Write to a folder on disk, and copy it to a new prefix. Or let readers read the table itself.",
        )
    path = Path.cwd() / os.path.normpath(to)  # without following the link that it may be
    if not path.is_symlink() and path.exists():
        raise _not_replaceable(path, "it exists, and was not written by lakeward")
    if path.is_symlink() and not _is_own_link(path):
        raise _not_replaceable(path, f"it is a link to {os.readlink(path)}")
    if within := next((parent for parent in path.parents if _is_own_link(parent)), None):
        raise _not_replaceable(path, f"it is in {within}, which is replaced as a whole")
    return path


def _is_own_link(path: Path) -> bool:
    """Return True if a path is a link that `replacing` made."""
    return path.is_symlink() and Path(os.readlink(path)).parent == Path(_store_of(path).name)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty folder to write to; at the end of the context the path links to it, and old files are removed.

    If the context fails or the process ends, the path keeps its old content, and the next call removes the rest.
    Raises ConfigError if nothing can be written there, and LockedError if another process writes there.
    """
    store = _store_of(path)
    try:
        store.mkdir(parents=True, exist_ok=True)
        with FileLock(store / "lock", timeout=0):
            _remove_unlinked(path)
            folder = store / uuid.uuid4().hex
            folder.mkdir()
            try:
                yield folder
                _flush(folder)
                _link(path, folder)
            finally:
                _remove_unlinked(path)
    except Timeout as error:
        raise LockedError(
            f"another process writes to {path}", todo="Wait until it is done, and try again."
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written",
            found=str(error),
            todo=f"The files are written to {store.name}, and {path.name} is a link to them: name a folder on a "
            "file system with symbolic links and enough space.",
        ) from error


def _store_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lakeward")


def _flush(folder: Path) -> None:
    """Remove all but the data files, and flush them to disk: the power may fail right after the link is made."""
    for file in folder.iterdir():
        if file.suffix != ".parquet" or file.name.startswith("."):
            file.unlink()
        else:
            _sync(file)
    _sync(folder)


def _link(path: Path, folder: Path) -> None:
    """Make the path a link to the folder in one atomic step."""
    link = folder.with_suffix(".link")
    link.symlink_to(Path(_store_of(path).name) / folder.name, target_is_directory=True)
    link.replace(path)
    _sync(path.parent)


def _remove_unlinked(path: Path) -> None:
    """Remove all folders and links that the path does not link to."""
    current = Path(os.readlink(path)).name if path.is_symlink() else None
    for other in _store_of(path).iterdir():
        if other.is_symlink():
            other.unlink()
        elif other.is_dir() and other.name != current:
            shutil.rmtree(other)


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _not_replaceable(path: Path, content: str) -> ConfigError:
    todo = "Name a folder that does not exist, or one that lakeward wrote before."
    return ConfigError(f"{path} cannot be replaced", found=content, todo=todo)
