"""A folder of files that is replaced whole: whoever looks sees all of the old ones, or all of the new ones.

A folder cannot take the place of another in one step; a link can. So what is written lies in a folder of its own
beside, in `.NAME.lakeward`, and NAME is a link to it.
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
    """Return where a folder is meant to be; raises ConfigError where none can be replaced whole."""
    if "://" in to:
        raise ConfigError(
            f"{to} is no folder of this machine",
            found="a store has no step that replaces many objects at once: a reader would see some of both",
            todo="Write to a disk, and copy the folder to a new name there. Or let readers read the table itself.",
        )
    path = Path.cwd() / os.path.normpath(to)  # without following the link that it may be
    if not path.is_symlink() and path.exists():
        raise _taken(path, "there is something of that name already")
    if path.is_symlink() and not _is_shown(path):
        raise _taken(path, f"it is a link to {os.readlink(path)}")
    if within := next((parent for parent in path.parents if _is_shown(parent)), None):
        raise _taken(path, f"it lies in {within}, which is replaced whole itself")
    return path


def _is_shown(path: Path) -> bool:
    """Whether a path is a link to a folder beside it, as `replacing` makes them."""
    return path.is_symlink() and Path(os.readlink(path)).parent == Path(_beside(path).name)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give an empty folder to write to; behind the context the path shows that, and what was there is removed.

    Where the context fails, or the process ends in it, the path shows what it showed. What that leaves, the next
    one removes. Raises ConfigError where nothing can be written there, LockedError where another process does.
    """
    beside = _beside(path)
    try:
        beside.mkdir(parents=True, exist_ok=True)
        with FileLock(beside / "lock", timeout=0):
            _sweep(path)
            fresh = beside / uuid.uuid4().hex
            fresh.mkdir()
            try:
                yield fresh
                _settle(fresh)
                _show(path, fresh)
            finally:
                _sweep(path)
    except Timeout as error:
        raise LockedError(
            f"another process writes to {path}", todo="Wait until it is done, and try again."
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written",
            found=str(error),
            todo=f"What is written lies beside it, in {beside.name}, and {path.name} is a link to that: name "
            "a folder where folders and links can be made, and that has room.",
        ) from error


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.lakeward")


def _settle(folder: Path) -> None:
    """Keep the data alone, and let the disk have it: the power may fail right behind the link."""
    for file in folder.iterdir():
        if file.suffix != ".parquet" or file.name.startswith("."):
            file.unlink()
        else:
            _sync(file)
    _sync(folder)


def _show(path: Path, folder: Path) -> None:
    """Let the path be a link to a folder beside it, in one step, whatever it was a link to."""
    link = folder.with_suffix(".link")
    link.symlink_to(Path(_beside(path).name) / folder.name, target_is_directory=True)
    link.replace(path)
    _sync(path.parent)


def _sweep(path: Path) -> None:
    """Remove all that the path does not show."""
    shown = Path(os.readlink(path)).name if path.is_symlink() else None
    for other in _beside(path).iterdir():
        if other.is_symlink():
            other.unlink()
        elif other.is_dir() and other.name != shown:
            shutil.rmtree(other)


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _taken(path: Path, found: str) -> ConfigError:
    todo = "Name a folder that is not there, or one that was written so before."
    return ConfigError(f"{path} cannot be replaced", found=found, todo=todo)
