"""The tables that read an object of a bucket, by its URL, for notices of a queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Part, Place
from lakeward.core.dimension import TableName


class ObjectTables:
    """Finds the tables that read an object of a landing folder in a bucket; none for a landing folder on a disk.

    Folders are compared without case, as those of tables are. A table too many costs one listing, and no more.
    """

    def __init__(self, folder: Folder, tables: Collection[TableName]) -> None:
        self._start = None if isinstance(folder.root, Path) else f"{folder.root}/"
        self._readers: dict[str, list[tuple[TableName, Place, Part]]] = defaultdict(list)
        for table in tables:
            place = folder.places.of(table)
            for part in place.parts(table):
                self._readers[part.folder.lower()].append((table, place, part))

    def __call__(self, url: str) -> Sequence[TableName]:
        """Return the tables that read the object, in order."""
        if self._start is None or not url.startswith(self._start):
            return []
        path = url[len(self._start) :]
        names = path.split("/")
        if any(name.startswith((".", "_")) or not name for name in names):  # hidden files are never listed
            return []
        readers = set[TableName]()
        for parent in PurePosixPath(path).parents:
            depth = len(parent.parts)
            folder, below = "/".join(names[:depth]).lower(), "/".join(names[depth:])
            readers |= {
                t for t, place, part in self._readers.get(folder, ()) if place.read(below, part) is not None
            }
        return sorted(readers)
