"""A landing folder, on a disk or in a bucket: which files in it are those of a table, and what they begin with."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import BinaryIO, Final, cast

from lakeward.adapters.sources.landing.local_store import LocalStore, content_hash
from lakeward.adapters.sources.landing.places import Part, Places, filled, table_of
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ports import Store, Stored

HEAD_BYTES = 64 * 1024
MOST_HEAD_BYTES: Final = 16 * 1024 * 1024
"""Beyond so much a quote that is still open is likelier never closed than one of the first row."""

_ORDERS: Final = 1 << 63
"""Orders are whole numbers of 64 bits."""

_STILL_PACKED: Final = (".zst", ".snappy", ".lz4", ".deflate")
"""Endings of what Spark would unpack by itself, or try to, and nothing here does."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder under which DMS writes, where below it the tables lie, and where applied files go, if they do.

    A file's name is its path below the table's folder, parted by `/`; for a table whose
    full load and changes lie apart, its path below the landing folder. Links are not
    followed, so that no name leads out of it; the landing folder itself may be one. In a bucket
    the root is a URL, and there are no folders: what begins so is in one.
    """

    root: Path | str
    places: Places
    archive: Path | str | None = None
    store: Store = field(default_factory=LocalStore)
    _known: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    _moving: dict[TableName, Lock] = field(default_factory=dict, repr=False, compare=False)

    @property
    def base(self) -> str:
        """The landing folder as it really is, without links."""
        return str(self.root.resolve()) if isinstance(self.root, Path) else self.root

    @property
    def is_missing(self) -> bool:
        """Whether there is no landing folder."""
        return self.store.real(self.base) is None

    def words(self) -> Sequence[str]:
        """Return what a person should know of the folder as a whole: that it is not there."""
        return [f"The landing folder {self.root} does not exist."] if self.is_missing else []

    def refuse_missing(self) -> None:
        """Raise ConfigError where there is no landing folder."""
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
                    name = place.name(entry.name, part)
                    said = place.read(entry.name, part)
                    if said is None or entry.size is None:
                        others.add(_readable(name))
                    elif name in found:
                        raise _taken_twice(table, name)
                    else:
                        _refuse_unkept(table, name, said.order)
                        path = f"{self._at(folder or '')}/{entry.name}".partition("://")
                        _refuse_colon(table, name, path[2] or path[0], is_on_disk=isinstance(self.root, Path))
                        found[name] = SourceObject(name, said.order, entry.size, entry.modified, entry.etag)
        except OSError as error:
            raise SourceError(
                f"{table}: its folder cannot be read",
                found=str(error),
                todo="Grant permission to read it. Other tables go on.",
            ) from error
        return list(found.values()), sorted(others - found.keys())

    def find_missing(self, table: TableName, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return the names of those of these files that are not there any more; raises as `list` does."""
        listed, _ = self.list(table) or ((), ())
        there = {item.name for item in listed}
        return [item.name for item in objects if item.name not in there]

    def _stored(self, folder: str | None, start: str | None) -> Iterator[Stored]:
        """Return what is in a folder of the landing folder, if it is there."""
        return iter(()) if folder is None else self._shown(self._at(folder), start)

    def _shown(self, folder: str, start: str | None) -> Iterator[Stored]:
        """Return what is in a folder; what is hidden is passed over."""
        listed = self.store.list(folder, start)
        return (entry for entry in listed if not PurePosixPath(entry.name).name.startswith((".", "_")))

    def _at(self, folder: str) -> str:
        return f"{self.base}/{folder}".rstrip("/")

    def path(self, table: TableName, name: str) -> str:
        """Return where a file is: in the landing folder, or in the archive."""
        path, archived = self.landed(table, name), self._archived(table, name)
        if archived is None or self.store.find(path) is not None or self.store.find(archived) is None:
            return path
        return archived

    def is_archived(self, table: TableName, name: str) -> bool:
        """Whether a file lies in the archive, and not in the landing folder any more."""
        return self.path(table, name) == self._archived(table, name)

    def first_archived(self, table: TableName) -> str | None:
        """Return the first of a table's own files in the archive, by name, or None where there is none.

        Raises SourceError where the archive cannot be read.
        """
        if self.archive is None:
            return None
        folder = f"{self.archive}/{table.schema}/{table.table}"
        try:
            if self.store.real(folder) is None:
                return None
            names = (entry.name for entry in self._shown(folder, None))
            return min(names, default=None) if isinstance(self.root, Path) else next(names, None)
        except OSError as error:
            raise SourceError(
                f"{table}: its archive cannot be read",
                found=str(error),
                todo="A table that begins looks there for files that it never applied. Grant permission for it.",
            ) from error

    def landed(self, table: TableName, name: str) -> str:
        """Return where a file lies or lay; raises SourceError for a name that leads out of the landing folder."""
        if ".." in PurePosixPath(name).parts or name.startswith("/"):
            raise _leads_out(table, name)
        place = self.places.of(table)
        parts = [part for part in place.parts(table) if part.is_shared == self.is_shared(table, name)]
        may_be = [
            f"{self._at(folder)}/{path}"
            for part in parts
            if (path := place.path(name, part)) is not None
            and (folder := self._really(table, part.folder)) is not None
        ]
        if len(set(may_be)) > 1:
            may_be = [path for path in may_be if self.store.find(path) is not None]
        is_own = not place.is_split and not parts[0].is_shared
        return next(iter(may_be), self._at(f"{parts[0].folder}/{name}" if is_own else name))

    def is_shared(self, table: TableName, name: str) -> bool:
        """Whether a file holds changes of many tables."""
        place = self.places.of(table)
        found = [
            place.read(path, part)
            for part in place.parts(table)
            if part.is_shared and (path := place.path(name, part)) is not None
        ]
        return any(said is not None and said.is_shared for said in found)

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have a folder where tables lie that the settings say nothing of.

        A folder that the settings give to a table of another name is none of its own name's.
        """
        found, lent = set[TableName](), self._lent()
        for template in {self.places.others.load, self.places.others.changes}:
            with suppress(OSError):  # what may not be read is said where a table of it is read
                for at in self._of_form(template):
                    table = None if self._is_of_all(at) else table_of(template, at)
                    if table is not None and at.lower() not in lent:
                        found.add(table)
        return sorted(found)

    def _lent(self) -> Collection[str]:
        """Return the folders, in lower case, that the settings give to tables of other names."""
        return {
            folder
            for table, place in self.places.own.items()
            for part in place.parts(table)
            if not part.is_shared
            and (folder := part.folder.lower())
            not in {filled(form, table).lower() for form in (self.places.others.load, self.places.others.changes)}
        }

    def _of_form(self, template: str) -> Sequence[str]:
        """Return the folders that may be of a form, below the landing folder; none that is hidden."""
        found = [""]
        *_, last = parts = template.split("/")
        for part in parts:
            is_any = "{" in part
            inner = [
                (at, name) for at in found for name in (self.store.folders(self._at(at)) if is_any else [part])
            ]
            found = [f"{at}/{name}".lstrip("/") for at, name in inner if not name.startswith((".", "_"))]
        return found if "{" in last else [at for at in found if self.store.real(self._at(at)) is not None]

    def beginning(self, prefix: str) -> str | None:
        """Return a file in the landing folder, or in a folder there, whose name begins so, if there is one."""
        if isinstance(self.root, Path):
            paths = (path for pattern in ("", "*/") for path in self.root.glob(f"{pattern}{prefix}*"))
            return next((path.relative_to(self.root).as_posix() for path in paths), None)
        for at in ("", *self.store.folders(self.base)):
            first = next(self.store.list(self._at(at), prefix), None)  # what sorts before is left out
            if first is not None and first.name.startswith(prefix):
                return f"{at}/{first.name}".lstrip("/")
        return None

    def is_there(self, table: TableName) -> bool:
        """Whether a table has a folder, or may have had one: in a bucket an archive leaves none behind."""
        if isinstance(self.root, Path) and self.is_missing:
            return False
        return bool(self.folders(table)) or (self.archive is not None and not isinstance(self.root, Path))

    def _is_of_all(self, folder: str) -> bool:
        """Whether a folder is that with the changes of all tables, or lies in it."""
        shared = self.places.others.shared
        return shared is not None and PurePosixPath(folder.lower()).is_relative_to(shared.lower())

    def folders(self, table: TableName) -> Sequence[str]:
        """Return the folders of a table that are there, below the landing folder, as they are really called."""
        parts = self.places.of(table).parts(table)
        return [folder for part in parts if (folder := self._really(table, part.folder)) is not None]

    def missing(self, table: TableName) -> Sequence[Part]:
        """Return the folders of a table that are not there; in a bucket an archive leaves none behind."""
        if self.archive is not None and not isinstance(self.root, Path):
            return ()
        return [part for part in self.places.of(table).parts(table) if self._really(table, part.folder) is None]

    def _archived(self, table: TableName, name: str) -> str | None:
        if self.archive is None:
            return None
        own = "" if self.is_shared(table, name) else f"{table.schema}/{table.table}/"
        return f"{self.archive}/{own}{name}"

    def put_away(self, table: TableName, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move applied files into the archive; return those that are there now, none without an archive.

        A file that is another than was applied stays: the next run says so. Of two threads that put the files of a
        table away, one waits for the other. Raises SourceError where one cannot be moved.
        """
        if self.archive is None:
            return []
        with self._moving.setdefault(table, Lock()):
            return [item.name for item in objects if self._is_put_away(table, item)]

    def _is_put_away(self, table: TableName, item: SourceObject) -> bool:
        """Move a file into the archive, unless it is there; return whether it is."""
        path, archived = self.landed(table, item.name), self._archived(table, item.name)
        if archived is None:
            return False
        try:
            found = self.store.find(path)
            if found is not None:
                if is_other(found, item):
                    return False
                self.store.move(path, archived)
            return self.store.find(archived) is not None
        except OSError as error:
            raise SourceError(
                f"{table}: {item.name} cannot be moved into the archive",
                found=str(error),
                todo="It is applied, and stays where it is until a run can move it. Grant permission to write "
                "in both folders, or make room.",
            ) from error

    def open(self, table: TableName, name: str) -> BinaryIO:
        """Open a file of a table; raises SourceError where it cannot be read."""
        try:
            return self.store.open(self.path(table, name))
        except OSError as error:
            raise _unreadable(table, name, error) from error

    def etag(self, table: TableName, name: str) -> str | None:
        """Return the store's tag of a file's content, or a hash of it; None where it is gone."""
        path = self.landed(table, name)
        try:
            found = self.store.find(path)
            if found is None or found.etag is not None:
                return None if found is None else found.etag
            with self.store.open(path) as file:
                return content_hash(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(table, name, error) from error

    def is_written_since(self, table: TableName, name: str, time: int) -> bool:
        """Whether a file in the landing folder was written behind a time, in microseconds since 1970; 0: unknown.

        Then its header need not be that of a row which was read before.
        """
        found = self.store.find(self.landed(table, name)) if time else None
        return found is not None and found.modified > time

    def head(self, table: TableName, name: str, row_end: str = "\n", quote: str = "") -> str:
        """Return the beginning of a CSV file, ending at the end of a line unless it is the whole file.

        The first row is whole, also where it has line ends within quotes, up to `MOST_HEAD_BYTES`.
        Raises SourceError where the file cannot be read, is not packed as its ending says, or is packed otherwise
        than by gzip or bzip2.
        """
        if name.lower().endswith(_STILL_PACKED):
            raise _packed_otherwise(table, name)
        end = row_end.encode()
        try:
            with self.store.open(self.path(table, name)) as raw:
                data, is_whole = _beginning(_unpacked(raw, name), end, quote.encode())
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(table, name, error) from error
        text = data.decode("utf-8", errors="replace")
        return text if is_whole else text[: text.rfind(row_end) + len(row_end)]

    def _really(self, table: TableName, folder: str) -> str | None:
        """Return a folder below the landing folder as it is really called, or None where it is not there.

        Names are compared without case where none is exactly that. Raises SourceError where
        there are two of them, and where a link leads out of the landing folder.
        """
        if folder in self._known:
            return self._known[folder]
        if isinstance(self.root, Path):
            self.refuse_missing()
        real, base = self.store.real(self._at(folder)), self.base
        if real is None and (alike := self._alike(table, folder)) is not None:
            real = self.store.real(self._at(alike))
        if real is None:
            return None
        if real != base and not real.startswith(f"{base}/"):
            raise _leads_out(table, self._at(folder))
        found = real[len(base) + 1 :]
        if not isinstance(self.root, Path):  # no link can come into its place
            self._known[folder] = found
        return found

    def _alike(self, table: TableName, folder: str) -> str | None:
        """Return a folder by what it is called in whatever case, whatever folders above it there are."""
        there = [""]
        for part in PurePosixPath(folder).parts:
            try:
                inner = [(at, name) for at in there for name in self.store.folders(self._at(at))]
            except OSError as error:
                raise SourceError(
                    f"{table}: its folder cannot be read",
                    found=str(error),
                    todo="Grant permission to read it. Other tables go on.",
                ) from error
            there = [f"{at}/{name}".lstrip("/") for at, name in inner if name.lower() == part.lower()]
        if len(there) > 1:
            raise SourceError(
                f"{table}: which of these folders is meant cannot be told",
                found=f"found {' and '.join(sorted(there))} in {self.base}",
                todo="Write the table's name as its folder is called. Nothing of this batch was applied.",
            )
        return there[0] if there else None


def is_other(found: Stored, item: SourceObject) -> bool:
    """Whether a file is another than the one that was listed or applied."""
    has_other_tag = found.etag is not None and item.etag is not None and found.etag != item.etag
    return has_other_tag or (found.size, found.modified) != (item.size, item.modified)


def _taken_twice(table: TableName, name: str) -> ConfigError:
    return ConfigError(
        f"{table}: {name} is both of its full load and of its changes",
        todo=f'Let `load` and `changes` under [tables."{table}".source], or the names of files there, '
        "part the two.",
    )


def _refuse_colon(table: TableName, name: str, path: str, *, is_on_disk: bool) -> None:
    """Raise SourceError for a file whose path has a colon where Spark cannot read it.

    Hadoop takes what is before a colon for a scheme: in the name of the checksum that it looks for beside a file on
    a disk, and in each part of a path that has characters of a pattern.
    """
    own = PurePosixPath(name)
    is_pattern = any(character in path for character in "[]{}*?\\")
    if ":" not in path or not (is_pattern or (is_on_disk and ":" in own.name)):
        return
    with_what = "a colon and one of []{}*?\\" if is_pattern else "a colon in the name of the file"
    raise SourceError(
        f"{table}: Spark cannot read {name}",
        found=f"its path has {with_what}",
        todo="Nothing of this batch was applied; other tables go on. Rename it without the colon, to "
        f"{name.replace(':', '-')} say, or move it away. Let its writer leave colons out.",
    )


def _refuse_unkept(table: TableName, name: str, order: int) -> None:
    """Raise SourceError for a file whose name, or whose place in the order, no table and no ledger can have."""
    if not -_ORDERS <= order < _ORDERS:
        raise SourceError(
            f"{table}: {name} has no place in the order of files",
            found="the number in its name is above 2^63, or its time behind the year 2248",
            todo="Nothing of this batch was applied; other tables go on. Move the file away, or let `names` take "
            "another part of the name for its counter or its time.",
        )
    if _readable(name) != name:
        raise SourceError(
            f"{table}: the name of a file is no text",
            found=f"{_readable(name)}, of which bytes are no UTF-8",
            todo="Nothing of this batch was applied; other tables go on. Rename the file, or move it away.",
        )


def _readable(name: str) -> str:
    r"""Return a name as it may be printed: bytes that are no UTF-8 as \xNN.

    >>> print(_readable("a\udcff.csv"))
    a\xff.csv
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _leads_out(table: TableName, name: str) -> SourceError:
    return SourceError(
        f"{table}: {name} leads out of the landing folder",
        todo="Nothing of this batch was applied; other tables go on. Put the files below the landing folder "
        "rather than a link to them, or make it the `path` under [source].",
    )


def _beginning(file: BinaryIO, end: bytes, quote: bytes) -> tuple[bytes, bool]:
    """Return the beginning of a file with its first row, and whether that is the whole file."""
    data = more = bytearray(file.read(HEAD_BYTES))
    start = searched = quotes = 0  # a row may be as long as its file: nothing is looked through twice
    while len(more) == HEAD_BYTES:
        found = data.find(end, searched)
        if found >= 0:
            quotes += data.count(quote, start, found) if quote else 0
            start = searched = found + len(end)
            if quotes % 2 == 0:
                break
        elif quotes % 2 == 1 and len(data) >= MOST_HEAD_BYTES:
            break
        else:
            searched = max(start, len(data) - len(end) + 1)
            more = bytearray(file.read(HEAD_BYTES))
            data += more
    return bytes(data), len(more) < HEAD_BYTES


def _unpacked(raw: BinaryIO, name: str) -> BinaryIO:
    """Return a file as Spark unpacks it by the ending of its name."""
    if name.lower().endswith(".gz"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    return cast("BinaryIO", bz2.BZ2File(raw)) if name.lower().endswith(".bz2") else raw


def _packed_otherwise(table: TableName, name: str) -> SourceError:
    return SourceError(
        f"{table}: {name} cannot be read",
        found=f"it is packed as {PurePosixPath(name).suffix}, and how it begins cannot be seen",
        todo="Nothing of this batch was applied; other tables go on. Pack the file by gzip (.gz) or bzip2 (.bz2), "
        "or not at all.",
    )


def _unreadable(table: TableName, name: str, error: Exception) -> SourceError:
    return SourceError(
        f"{table}: {name} cannot be read",
        found=str(error),
        todo="Nothing of this batch was applied; other tables go on. Replace the file by a whole one.",
    )
