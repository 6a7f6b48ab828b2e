"""Where rows of files of transactions lie until their tables have them: on a disk, or below a prefix of a bucket.

A place has the rows of files that were read together, in a part for each table.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from lakeward.adapters.sources.staging.prefix import StagingPrefix

_UNFINISHED: Final = ".unfinished-"
_ABANDONED: Final = 24 * 3600
"""Seconds after which nobody writes any more what a process left in the middle of a read."""


class StagedRows(Protocol):
    """Places with rows. Paths are whole ones, as Spark takes them."""

    def new(self) -> str:
        """Return the path of a new place to write into; nothing is there."""
        ...

    def keep(self, written: str) -> str:
        """Return the name of a place that was written; where no row was, there is nothing."""
        ...

    def path(self, place: str, part: str) -> str:
        """Return the path of a part of a place."""
        ...

    def has(self, path: str) -> bool:
        """Whether something is in a place or a part."""
        ...

    def remove(self, path: str) -> None:
        """Remove a place or a part, if it is there."""
        ...

    def places(self) -> Mapping[str, Collection[str]]:
        """Return the names of all places, each with those of its parts."""
        ...

    def is_left(self, place: str) -> bool:
        """Whether no process writes a place that no index knows."""
        ...


@dataclass(frozen=True, slots=True)
class DiskRows:
    """Places on a disk. What is written has a hidden name until it is kept."""

    folder: Path

    def new(self) -> str:
        """Return a hidden folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return str(self.folder / f"{_UNFINISHED}{time.time_ns():x}")

    def keep(self, written: str) -> str:
        """Give a folder the name of its place."""
        place = Path(written).name.removeprefix(_UNFINISHED)
        if self.has(written):
            Path(written).rename(self.folder / place)
        return place

    def path(self, place: str, part: str) -> str:
        """Return the folder of a part."""
        return str(self.folder / place / part)

    def has(self, path: str) -> bool:
        """Whether a folder is there."""
        return Path(path).exists()

    def remove(self, path: str) -> None:
        """Remove a folder."""
        shutil.rmtree(path, ignore_errors=True)

    def places(self) -> Mapping[str, Collection[str]]:
        """Return the folders."""
        found = [path for path in self.folder.iterdir() if path.is_dir()] if self.folder.exists() else []
        return {path.name: [part.name for part in path.glob("part=*")] for path in found}

    def is_left(self, place: str) -> bool:
        """Whether a folder has its name, or has been hidden for a day."""
        if not place.startswith(_UNFINISHED):
            return True
        return time.time() - (self.folder / place).stat().st_mtime > _ABANDONED


@dataclass(frozen=True, slots=True)
class BucketRows:
    """Places below a prefix, in which nothing can be renamed: a place has its name from the first."""

    prefix: StagingPrefix

    def new(self) -> str:
        """Return the URL of a place with the time in its name."""
        return self.prefix.path(f"{time.time_ns():x}")

    def keep(self, written: str) -> str:
        """Return the name of the place."""
        return written.rpartition("/")[2]

    def path(self, place: str, part: str) -> str:
        """Return the URL of a part."""
        return self.prefix.path(f"{place}/{part}")

    def has(self, path: str) -> bool:
        """Whether an object is below a URL."""
        return next(iter(self.prefix.list(self._name(path))), None) is not None

    def remove(self, path: str) -> None:
        """Remove all objects below a URL."""
        self.prefix.remove([one.name for one in self.prefix.list(self._name(path))])

    def places(self) -> Mapping[str, Collection[str]]:
        """Return the places of all objects."""
        found: dict[str, set[str]] = defaultdict(set)
        for one in self.prefix.list():
            place, _, below = one.name.partition("/")
            part = below.partition("/")[0]
            found[place].update([part] if part.startswith("part=") else [])
        return found

    def is_left(self, place: str) -> bool:
        """Whether a day has passed since a place began to be written."""
        try:
            began = int(place, 16) / 1e9
        except ValueError:
            return False
        return time.time() - began > _ABANDONED

    def _name(self, path: str) -> str:
        return path.removeprefix(f"{self.prefix.url}/")
