"""A landing folder, on a disk or in a bucket: the files of a table, their beginnings, and the archive."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import BinaryIO

from lakeward.adapters.sources.landing.file_head import UNSUPPORTED_COMPRESSION, read_head
from lakeward.adapters.sources.landing.folder_errors import (
    ambiguous_file_error,
    compression_error,
    outside_error,
    printable_name,
    refuse_colon,
    refuse_unstorable,
    unreadable_file_error,
    unreadable_folder_error,
)
from lakeward.adapters.sources.landing.local_store import LocalStore, content_hash
from lakeward.adapters.sources.landing.places import Part, Places, fill_template, table_of
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ports import Store, Stored


@dataclass(frozen=True, slots=True)
class Folder:
    """The landing folder, the places of tables in it, and the archive of applied files, if there is one.

    The name of a file is its path below the table's folder, with `/` between its parts. Where the full load and the
    changes of a table lie apart, it is its path below the landing folder. Links are not followed, so that no name
    leads out of the landing folder; only the landing folder itself may be a link. In a bucket the root is a URL.
    """

    root: Path | str
    places: Places
    archive: Path | str | None = None
    store: Store = field(default_factory=LocalStore)
    _resolved: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    _archive_locks: dict[TableName, Lock] = field(default_factory=dict, repr=False, compare=False)

    @property
    def base(self) -> str:
        """The path of the landing folder with links resolved."""
        return str(self.root.resolve()) if isinstance(self.root, Path) else self.root

    @property
    def is_missing(self) -> bool:
        """True if the landing folder does not exist."""
        return self.store.resolve(self.base) is None

    def warnings(self) -> Sequence[str]:
        """Return warnings of the landing folder as a whole: that it does not exist."""
        return [f"The landing folder {self.root} does not exist."] if self.is_missing else []

    def refuse_missing(self) -> None:
        """Raise ConfigError if the landing folder does not exist."""
        if self.is_missing:
            is_folder = isinstance(self.root, Path)
            raise ConfigError(
                f"the landing folder {self.root} does not exist",
                found=None if is_folder else "no object in the bucket begins so",
                todo="Correct `path` under [source]"
                + (
                    "; it is relative to the settings file."
                    if is_folder
                    else ", or run again when files are there."
                ),
            )

    def list(
        self, table: TableName, start: str | None = None
    ) -> tuple[Sequence[SourceObject], Sequence[str]] | None:
        """Return the files of a table, and the names of other files in its folders; None if it has no folder.

        Files before `start` in the order of names are left out where listing by names is possible. Raises
        ConfigError if the landing folder does not exist, and SourceError if a folder cannot be read.
        """
        place, objects, others = self.places.of(table), dict[str, SourceObject](), set[str]()
        folders = [(part, self._resolve(table, part.folder)) for part in place.parts(table)]
        if all(folder is None for _, folder in folders):
            return None
        try:
            for part, folder in folders:
                for entry in self._list_stored(folder, start):
                    name = place.name(entry.name, part)
                    file_name = place.read(entry.name, part)
                    if file_name is None or entry.size is None:
                        others.add(printable_name(name))
                    elif name in objects:
                        raise ambiguous_file_error(table, name)
                    else:
                        refuse_unstorable(table, name, file_name.order)
                        path = f"{self._full_path(folder or '')}/{entry.name}".partition("://")
                        refuse_colon(table, name, path[2] or path[0], is_on_disk=isinstance(self.root, Path))
                        objects[name] = SourceObject(name, file_name.order, entry.size, entry.modified, entry.etag)
        except OSError as error:
            raise unreadable_folder_error(table, error) from error
        return list(objects.values()), sorted(others - objects.keys())

    def find_missing(self, table: TableName, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return the names of these files that no longer exist; raises as `list` does."""
        listed, _ = self.list(table) or ((), ())
        listed_names = {item.name for item in listed}
        return [item.name for item in objects if item.name not in listed_names]

    def _list_stored(self, folder: str | None, start: str | None) -> Iterator[Stored]:
        """Yield the content of a folder below the landing folder; nothing for None."""
        return iter(()) if folder is None else self._list_visible(self._full_path(folder), start)

    def _list_visible(self, folder: str, start: str | None) -> Iterator[Stored]:
        """Yield the content of a folder, without hidden files."""
        listed = self.store.list(folder, start)
        return (entry for entry in listed if not PurePosixPath(entry.name).name.startswith((".", "_")))

    def _full_path(self, folder: str) -> str:
        return f"{self.base}/{folder}".rstrip("/")

    def path(self, table: TableName, name: str) -> str:
        """Return the path of a file, in the landing folder or in the archive."""
        path, archived = self.landing_path(table, name), self._archive_path(table, name)
        if archived is None or self.store.stat(path) is not None or self.store.stat(archived) is None:
            return path
        return archived

    def is_archived(self, table: TableName, name: str) -> bool:
        """Return True if a file is in the archive and no longer in the landing folder."""
        return self.path(table, name) == self._archive_path(table, name)

    def first_archived(self, table: TableName) -> str | None:
        """Return a table's own file in the archive that is first by name, or None if there is none.

        Raises SourceError if the archive cannot be read.
        """
        if self.archive is None:
            return None
        folder = f"{self.archive}/{table.schema}/{table.table}"
        try:
            if self.store.resolve(folder) is None:
                return None
            names = (entry.name for entry in self._list_visible(folder, None))
            return min(names, default=None) if isinstance(self.root, Path) else next(names, None)
        except OSError as error:
            raise SourceError(
                f"{table}: its archive cannot be read",
                found=str(error),
                todo="A table that begins looks there for files that it never applied. Grant permission for it.",
            ) from error

    def landing_path(self, table: TableName, name: str) -> str:
        """Return the path of a file in the landing folder, whether it exists or not.

        Raises SourceError for a name that leads out of the landing folder.
        """
        if ".." in PurePosixPath(name).parts or name.startswith("/"):
            raise outside_error(table, name)
        place = self.places.of(table)
        parts = [part for part in place.parts(table) if part.is_shared == self.is_shared(table, name)]
        candidates = [
            f"{self._full_path(folder)}/{path}"
            for part in parts
            if (path := place.path(name, part)) is not None
            and (folder := self._resolve(table, part.folder)) is not None
        ]
        if len(set(candidates)) > 1:
            candidates = [path for path in candidates if self.store.stat(path) is not None]
        is_own = not place.is_split and not parts[0].is_shared
        return next(iter(candidates), self._full_path(f"{parts[0].folder}/{name}" if is_own else name))

    def is_shared(self, table: TableName, name: str) -> bool:
        """Return True if a file has changes of many tables."""
        place = self.places.of(table)
        parsed = [
            place.read(path, part)
            for part in place.parts(table)
            if part.is_shared and (path := place.path(name, part)) is not None
        ]
        return any(file_name is not None and file_name.is_shared for file_name in parsed)

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have a folder and no settings of their own for its place.

        A folder that the settings give to a table of another name is not counted for its own name.
        """
        tables, taken_folders = set[TableName](), self._folders_of_renamed_tables()
        for template in {self.places.others.load, self.places.others.changes}:
            with suppress(OSError):  # reading a table of an unreadable folder raises an error
                for at in self._folders_of_template(template):
                    table = None if self._is_shared_folder(at) else table_of(template, at)
                    if table is not None and at.lower() not in taken_folders:
                        tables.add(table)
        return sorted(tables)

    def _folders_of_renamed_tables(self) -> Collection[str]:
        """Return the folders, in lower case, that the settings give to tables of other names."""
        return {
            folder
            for table, place in self.places.own.items()
            for part in place.parts(table)
            if not part.is_shared
            and (folder := part.folder.lower())
            not in {
                fill_template(form, table).lower() for form in (self.places.others.load, self.places.others.changes)
            }
        }

    def _folders_of_template(self, template: str) -> Sequence[str]:
        """Return the folders below the landing folder that may have the form of a template, without hidden ones."""
        folders = [""]
        *_, last = parts = template.split("/")
        for part in parts:
            is_any = "{" in part
            inner = [
                (at, name)
                for at in folders
                for name in (self.store.folders(self._full_path(at)) if is_any else [part])
            ]
            folders = [f"{at}/{name}".lstrip("/") for at, name in inner if not name.startswith((".", "_"))]
        return (
            folders
            if "{" in last
            else [at for at in folders if self.store.resolve(self._full_path(at)) is not None]
        )

    def find_by_prefix(self, prefix: str) -> str | None:
        """Return a file in the landing folder, or in a folder there, whose name has a prefix.

        None if there is none.
        """
        if isinstance(self.root, Path):
            paths = (path for pattern in ("", "*/") for path in self.root.glob(f"{pattern}{prefix}*"))
            return next((path.relative_to(self.root).as_posix() for path in paths), None)
        for at in ("", *self.store.folders(self.base)):
            first = next(self.store.list(self._full_path(at), prefix), None)  # the first name not before the prefix
            if first is not None and first.name.startswith(prefix):
                return f"{at}/{first.name}".lstrip("/")
        return None

    def has_folder(self, table: TableName) -> bool:
        """Return True if a table has a folder, or may have had one: in a bucket, archiving leaves no folder."""
        if isinstance(self.root, Path) and self.is_missing:
            return False
        return bool(self.folders(table)) or (self.archive is not None and not isinstance(self.root, Path))

    def _is_shared_folder(self, folder: str) -> bool:
        """Return True if a folder is the one with the changes of all tables, or lies in it."""
        shared = self.places.others.shared
        return shared is not None and PurePosixPath(folder.lower()).is_relative_to(shared.lower())

    def folders(self, table: TableName) -> Sequence[str]:
        """Return the existing folders of a table, below the landing folder, as they are spelled there."""
        parts = self.places.of(table).parts(table)
        return [folder for part in parts if (folder := self._resolve(table, part.folder)) is not None]

    def missing_folders(self, table: TableName) -> Sequence[Part]:
        """Return the folders of a table that do not exist.

        None in a bucket with an archive, which leaves no folder.
        """
        if self.archive is not None and not isinstance(self.root, Path):
            return ()
        return [part for part in self.places.of(table).parts(table) if self._resolve(table, part.folder) is None]

    def _archive_path(self, table: TableName, name: str) -> str | None:
        if self.archive is None:
            return None
        own = "" if self.is_shared(table, name) else f"{table.schema}/{table.table}/"
        return f"{self.archive}/{own}{name}"

    def archive_files(self, table: TableName, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move applied files into the archive.

        Return the names of those that are there now, none without an archive.

        A file that is not the one that was applied stays: the next run reports it. A table's files are moved by one
        thread at a time. Raises SourceError if a file cannot be moved.
        """
        if self.archive is None:
            return []
        with self._archive_locks.setdefault(table, Lock()):
            return [item.name for item in objects if self._archive_file(table, item)]

    def _archive_file(self, table: TableName, item: SourceObject) -> bool:
        """Move a file into the archive, unless it is there; return True if it is there now."""
        path, archived = self.landing_path(table, item.name), self._archive_path(table, item.name)
        if archived is None:
            return False
        try:
            stored = self.store.stat(path)
            if stored is not None:
                if is_replaced(stored, item):
                    return False
                self.store.move(path, archived)
            return self.store.stat(archived) is not None
        except OSError as error:
            raise SourceError(
                f"{table}: {item.name} cannot be moved into the archive",
                found=str(error),
                todo="It is applied, and stays where it is until a run can move it. Grant permission to write "
                "in both folders, or make room.",
            ) from error

    def open(self, table: TableName, name: str) -> BinaryIO:
        """Open a file of a table; raises SourceError if it cannot be read."""
        try:
            return self.store.open(self.path(table, name))
        except OSError as error:
            raise unreadable_file_error(table, name, error) from error

    def etag(self, table: TableName, name: str) -> str | None:
        """Return the store's tag of a file's content, or a hash of it; None if the file does not exist."""
        path = self.landing_path(table, name)
        try:
            stored = self.store.stat(path)
            if stored is None or stored.etag is not None:
                return None if stored is None else stored.etag
            with self.store.open(path) as file:
                return content_hash(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable_file_error(table, name, error) from error

    def is_written_since(self, table: TableName, name: str, time: int) -> bool:
        """Return True if a file was written after a time, in microseconds since 1970; False for 0, an unknown time.

        The header of such a file may not be that of a row which was read before.
        """
        stored = self.store.stat(self.landing_path(table, name)) if time else None
        return stored is not None and stored.modified > time

    def head(self, table: TableName, name: str, row_end: str = "\n", quote: str = "") -> str:
        """Return the beginning of a CSV file, which ends at a line end unless it is the whole file.

        It has the complete first row, also if that has line ends within quotes, up to 16 MiB. Raises
        SourceError if the file cannot be read, is not compressed as its ending says, or is compressed otherwise
        than by gzip or bzip2.
        """
        if name.lower().endswith(UNSUPPORTED_COMPRESSION):
            raise compression_error(table, name)
        try:
            with self.store.open(self.path(table, name)) as file:
                return read_head(file, name, row_end, quote)
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable_file_error(table, name, error) from error

    def _resolve(self, table: TableName, folder: str) -> str | None:
        """Return a folder below the landing folder as it is spelled there, or None if it does not exist.

        An exact match wins; otherwise case is ignored. Raises SourceError if several folders differ only in case,
        and if a link leads out of the landing folder.
        """
        if folder in self._resolved:
            return self._resolved[folder]
        if isinstance(self.root, Path):
            self.refuse_missing()
        real, base = self.store.resolve(self._full_path(folder)), self.base
        if real is None and (alike := self._match_ignoring_case(table, folder)) is not None:
            real = self.store.resolve(self._full_path(alike))
        if real is None:
            return None
        if real != base and not real.startswith(f"{base}/"):
            raise outside_error(table, self._full_path(folder))
        name = real[len(base) + 1 :]
        if not isinstance(self.root, Path):  # on a disk, a link may replace the folder
            self._resolved[folder] = name
        return name

    def _match_ignoring_case(self, table: TableName, folder: str) -> str | None:
        """Return a folder that matches in any case; its parent folders may be any that match."""
        matches = [""]
        for part in PurePosixPath(folder).parts:
            try:
                inner = [(at, name) for at in matches for name in self.store.folders(self._full_path(at))]
            except OSError as error:
                raise unreadable_folder_error(table, error) from error
            matches = [f"{at}/{name}".lstrip("/") for at, name in inner if name.lower() == part.lower()]
        if len(matches) > 1:
            raise SourceError(
                f"{table}: its folder is ambiguous",
                found=f"found {' and '.join(sorted(matches))} in {self.base}",
                todo="Write the table's name as its folder is called. Nothing of this batch was applied.",
            )
        return matches[0] if matches else None


def is_replaced(stored: Stored, item: SourceObject) -> bool:
    """Return True if a file is not the one that was listed or applied."""
    has_other_tag = stored.etag is not None and item.etag is not None and stored.etag != item.etag
    return has_other_tag or (stored.size, stored.modified) != (item.size, item.modified)
