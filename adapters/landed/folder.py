"""A landing folder on a local disk: which files below it are those of a table, and what they begin with."""

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from lakeward.adapters.landed.places import Places, filled, table_of
from lakeward.adapters.landed.store import LocalStore, content_hash, move
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.ledger import SourceObject
from lakeward.core.ports import Store, Stored

HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder under which DMS writes, where below it the tables lie, and where applied files go, if they do.

    A file's name is its path below the table's folder, parted by `/`; for a table whose
    full load and changes lie apart, its path below the landing folder. Links are not
    followed, so that no name leads out of it; the landing folder itself may be one.
    """

    root: Path
    places: Places
    archive: Path | None = None
    store: Store = field(default_factory=LocalStore)

    @property
    def base(self) -> Path:
        """The landing folder as it really is, without links."""
        return self.root.resolve()

    def list(
        self, table: TableName, start: str | None = None
    ) -> tuple[Sequence[SourceObject], Sequence[str]] | None:
        """Return the files of a table and the names of other files beside them; None without a folder.

        Names that sort before `start` are left out, where the folder's own files have them.
        Raises ConfigError where the landing folder itself is missing, and SourceError
        where a folder cannot be read.
        """
        place, found, others = self.places.of(table), dict[str, SourceObject](), set[str]()
        folders = [(part, self._really(table, part.folder)) for part in place.parts(table)]
        if all(folder is None for _, folder in folders):
            return None
        try:
            for part, folder in folders:
                for entry in self._stored(folder, start):
                    name = f"{part.folder}/{entry.name}" if place.is_split else entry.name
                    said = place.read(entry.name, part)
                    if said is None or entry.size is None:
                        others.add(name)
                    elif name in found:
                        raise _taken_twice(table, name)
                    else:
                        found[name] = SourceObject(name, said.order, entry.size, entry.modified, entry.etag)
        except OSError as error:
            raise SourceError(
                f"{table}: its folder cannot be read",
                found=str(error),
                todo="Grant permission to read it. Other tables go on.",
            ) from error
        return list(found.values()), sorted(others - found.keys())

    def _stored(self, folder: str | None, start: str | None) -> Iterator[Stored]:
        """Return what is in a folder; what is hidden is passed over."""
        listed = iter(()) if folder is None else self.store.list(str(self.base / folder), start)
        return (entry for entry in listed if not PurePosixPath(entry.name).name.startswith((".", "_")))

    def path(self, table: TableName, name: str) -> Path:
        """Return where a file is: in the landing folder, or in the archive."""
        path, archived = self.landed(table, name), self._archived(table, name)
        return archived if archived is not None and not path.exists() and archived.exists() else path

    def landed(self, table: TableName, name: str) -> Path:
        """Return where a file lies or lay; raises SourceError for a name that leads out of the landing folder."""
        if ".." in PurePosixPath(name).parts or name.startswith("/"):
            raise _leads_out(table, name)
        place = self.places.of(table)
        if not place.is_split:
            own = filled(place.load, table)
            return self.base / (self._really(table, own) or own) / name
        for part in place.parts(table):
            if name.startswith(part.folder + "/") and (folder := self._really(table, part.folder)) is not None:
                found = self.base / folder / name.removeprefix(part.folder + "/")
                if found.exists():
                    return found
        return self.base / name

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have a folder where tables lie that the settings say nothing of."""
        found = set()
        for template in {self.places.others.load, self.places.others.changes}:
            pattern = "/".join("*" if "{" in part else glob.escape(part) for part in template.split("/"))
            for path in self.base.glob(f"{pattern}/"):
                inner = path.relative_to(self.base)
                if not any(part.startswith((".", "_")) for part in inner.parts):
                    found.add(table_of(template, inner.as_posix()))
        return sorted(table for table in found if table is not None)

    def folders(self, table: TableName) -> Sequence[str]:
        """Return the folders of a table that are there, below the landing folder, as they are really called."""
        parts = self.places.of(table).parts(table)
        return [folder for part in parts if (folder := self._really(table, part.folder)) is not None]

    def _archived(self, table: TableName, name: str) -> Path | None:
        return None if self.archive is None else self.archive / table.schema / table.table / name

    def put_away(self, table: TableName, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move applied files into the archive; return those that are there now, none without an archive.

        A file that is another than was applied stays: the next run says so. Raises SourceError
        where one cannot be moved.
        """
        there = []
        for item in objects:
            path, archived = self.landed(table, item.name), self._archived(table, item.name)
            if archived is None:
                continue
            try:
                if path.exists():
                    state = path.stat()
                    if (state.st_size, state.st_mtime_ns // 1000) != (item.size, item.modified):
                        continue
                    move(path, archived)
                there += [item.name] if archived.exists() else []
            except OSError as error:
                raise SourceError(
                    f"{table}: {item.name} cannot be moved into the archive",
                    found=str(error),
                    todo="It is applied, and stays where it is until a run can move it. Grant permission to write "
                    "in both folders, or make room.",
                ) from error
        return there

    def etag(self, table: TableName, name: str) -> str | None:
        """Return a hash of a file's content; None where it is gone."""
        try:
            return content_hash(self.landed(table, name))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(table, name, error) from error

    def head(self, table: TableName, name: str, row_end: str = "\n") -> str:
        """Return the beginning of a CSV file, ending at the end of a line unless it is the whole file.

        Raises SourceError where the file cannot be read or is no gzip file.
        """
        path, end = self.path(table, name), row_end.encode()
        try:
            opened = gzip.open(path) if name.lower().endswith(".gz") else path.open("rb")
            with opened as file:
                data = more = file.read(HEAD_BYTES)
                while len(more) == HEAD_BYTES and end not in data:
                    more = file.read(HEAD_BYTES)
                    data += more
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(table, name, error) from error
        text = data.decode("utf-8", errors="replace")
        return text if len(more) < HEAD_BYTES else text[: text.rfind(row_end) + len(row_end)]

    def _really(self, table: TableName, folder: str) -> str | None:
        """Return a folder below the landing folder as it is really called, or None where it is not there.

        Names are compared without case where none is exactly that. Raises SourceError where
        there are two of them, and where a link leads out of the landing folder.
        """
        if not self.root.is_dir():
            raise ConfigError(
                f"the landing folder {self.root} does not exist",
                todo="Correct `path` under [source]; it is relative to the settings file.",
            )
        there, base = self.base, self.base
        for part in PurePosixPath(folder).parts:
            if (there / part).exists():
                there /= part
                continue
            try:
                alike = [name for name in os.listdir(there) if name.lower() == part.lower()]
            except NotADirectoryError:
                return None
            except OSError as error:
                raise SourceError(
                    f"{table}: its folder cannot be read",
                    found=str(error),
                    todo="Grant permission to read it. Other tables go on.",
                ) from error
            if len(alike) > 1:
                raise SourceError(
                    f"{table}: which of these folders is meant cannot be told",
                    found=f"found {' and '.join(sorted(alike))} in {there}",
                    todo="Write the table's name as its folder is called. Nothing of the table was applied.",
                )
            if not alike:
                return None
            there /= alike[0]
        real = there.resolve()
        if not real.is_relative_to(base):
            raise _leads_out(table, str(there))
        return real.relative_to(base).as_posix()


def _taken_twice(table: TableName, name: str) -> ConfigError:
    return ConfigError(
        f"{table}: {name} is both of its full load and of its changes",
        todo=f'Let `load` and `changes` under [tables."{table}".source], or the names of files there, '
        "part the two.",
    )


def _leads_out(table: TableName, name: str) -> SourceError:
    return SourceError(
        f"{table}: {name} leads out of the landing folder",
        todo="Nothing of the table was applied; other tables go on. Put the files below the landing folder "
        "rather than a link to them, or make it the `path` under [source].",
    )


def _unreadable(table: TableName, name: str, error: Exception) -> SourceError:
    return SourceError(
        f"{table}: {name} cannot be read",
        found=str(error),
        todo="Nothing of the table was applied; other tables go on. Replace the file by a whole one.",
    )
