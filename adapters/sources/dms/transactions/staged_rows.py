"""Storage of rows of transaction files until their tables have applied them: on a disk, or below a bucket prefix.

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
"""Seconds after which a place without an index entry is that of an ended process."""


class StagedRows(Protocol):
    """Places with rows. Paths are complete, in the form that Spark accepts."""

    def new(self) -> str:
        """Return the path of a new, empty place."""
        ...

    def name_place(self, written: str) -> str:
        """Give a written place its name, and return it; a place without rows does not exist."""
        ...

    def path(self, place: str, part: str) -> str:
        """Return the path of a part of a place."""
        ...

    def exists(self, path: str) -> bool:
        """Return True if a place or part has content."""
        ...

    def remove(self, path: str) -> None:
        """Remove a place or part; one that does not exist is ignored."""
        ...

    def places(self) -> Mapping[str, Collection[str]]:
        """Return the names of all places, each with the names of its parts."""
        ...

    def is_abandoned(self, place: str) -> bool:
        """Return True if no process writes a place that has no index entry."""
        ...


@dataclass(frozen=True, slots=True)
class DiskRows:
    """Places on a disk. A place has a hidden name until it is complete."""

    folder: Path

    def new(self) -> str:
        """Return the path of a new hidden folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return str(self.folder / f"{_UNFINISHED}{time.time_ns():x}")

    def name_place(self, written: str) -> str:
        """Give a written folder its final name, and return it."""
        place = Path(written).name.removeprefix(_UNFINISHED)
        if self.exists(written):
            Path(written).rename(self.folder / place)
        return place

    def path(self, place: str, part: str) -> str:
        """Return the folder of a part."""
        return str(self.folder / place / part)

    def exists(self, path: str) -> bool:
        """Return True if a folder exists."""
        return Path(path).exists()

    def remove(self, path: str) -> None:
        """Remove a folder."""
        shutil.rmtree(path, ignore_errors=True)

    def places(self) -> Mapping[str, Collection[str]]:
        """Return the names of the folders, each with the names of its parts."""
        folders = [path for path in self.folder.iterdir() if path.is_dir()] if self.folder.exists() else []
        return {path.name: [part.name for part in path.glob("part=*")] for path in folders}

    def is_abandoned(self, place: str) -> bool:
        """Return True if a folder has its final name, or has been hidden for a day."""
        if not place.startswith(_UNFINISHED):
            return True
        return time.time() - (self.folder / place).stat().st_mtime > _ABANDONED


@dataclass(frozen=True, slots=True)
class BucketRows:
    """Places below a bucket prefix. Nothing can be renamed there, so a place has its final name from the start."""

    prefix: StagingPrefix

    def new(self) -> str:
        """Return the URL of a new place.

        Its name is the time, as a hexadecimal number of nanoseconds since 1970.
        """
        return self.prefix.path(f"{time.time_ns():x}")

    def name_place(self, written: str) -> str:
        """Return the name of the place."""
        return written.rpartition("/")[2]

    def path(self, place: str, part: str) -> str:
        """Return the URL of a part."""
        return self.prefix.path(f"{place}/{part}")

    def exists(self, path: str) -> bool:
        """Return True if there is an object below a URL."""
        return next(iter(self.prefix.list(self._name(path))), None) is not None

    def remove(self, path: str) -> None:
        """Remove all objects below a URL."""
        self.prefix.remove([one.name for one in self.prefix.list(self._name(path))])

    def places(self) -> Mapping[str, Collection[str]]:
        """Return the places of all objects, each with the names of its parts."""
        parts_of: dict[str, set[str]] = defaultdict(set)
        for one in self.prefix.list():
            place, _, below = one.name.partition("/")
            part = below.partition("/")[0]
            parts_of[place].update([part] if part.startswith("part=") else [])
        return parts_of

    def is_abandoned(self, place: str) -> bool:
        """Return True if writing of a place began more than a day ago."""
        try:
            began = int(place, 16) / 1e9
        except ValueError:
            return False
        return time.time() - began > _ABANDONED

    def _name(self, path: str) -> str:
        return path.removeprefix(f"{self.prefix.url}/")
