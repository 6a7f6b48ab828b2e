"""A landing folder on a local disk, in the standard layout: `<schema>/<table>/<files>`."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lakeward.adapters.dms.names import read_name
from lakeward.adapters.dms.store import LocalStore, content_hash, move
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.ledger import SourceObject
from lakeward.core.ports import Store

HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder under which DMS writes, and the one that applied files go into, if they do not stay."""

    root: Path
    archive: Path | None = None
    store: Store = field(default_factory=LocalStore)

    def of(self, table: TableName) -> Path:
        """Return the folder of a table."""
        return self.root / table.schema / table.table

    def list(
        self, table: TableName, start: str | None = None
    ) -> tuple[Sequence[SourceObject], Sequence[str]] | None:
        """Return the DMS files of a table and the names of other files beside them; None without a folder.

        Names that sort before `start` are left out.
        Raises ConfigError where the landing folder itself is missing, and SourceError
        where a folder cannot be read.
        """
        if not self.root.is_dir():
            raise ConfigError(
                f"the landing folder {self.root} does not exist",
                todo="Correct `path` under [source]; it is relative to the settings file.",
            )
        objects, others = [], []
        try:
            for entry in self.store.list(str(self.of(table)), start):
                name = read_name(entry.name)
                if name is not None and entry.size is not None:
                    objects.append(SourceObject(entry.name, name.order, entry.size, entry.modified, entry.etag))
                elif not entry.name.startswith((".", "_")):
                    others.append(entry.name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceError(
                f"{table}: its folder cannot be read",
                found=str(error),
                todo="Grant permission to read it. Other tables go on.",
            ) from error
        return objects, sorted(others)

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have a folder."""
        return sorted(TableName(*path.relative_to(self.root).parts) for path in self.root.glob("*/*/"))

    def path(self, table: TableName, name: str) -> Path:
        """Return where a file is: in the landing folder, or in the archive."""
        path = self.of(table) / name
        archived = self._archived(table, name)
        return archived if archived is not None and not path.exists() and archived.exists() else path

    def _archived(self, table: TableName, name: str) -> Path | None:
        return None if self.archive is None else self.archive / table.schema / table.table / name

    def put_away(self, table: TableName, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move applied files into the archive; return those that are there now, none without an archive.

        A file that is another than was applied stays: the next run says so. Raises SourceError
        where one cannot be moved.
        """
        there = []
        for item in objects:
            path, archived = self.of(table) / item.name, self._archived(table, item.name)
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
            return content_hash(self.of(table) / name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(table, name, error) from error

    def head(self, table: TableName, name: str) -> str:
        """Return the beginning of a CSV file, ending at the end of a line unless it is the whole file.

        Raises SourceError where the file cannot be read or is no gzip file.
        """
        path = self.path(table, name)
        try:
            opened = gzip.open(path) if name.lower().endswith(".gz") else path.open("rb")
            with opened as file:
                data = more = file.read(HEAD_BYTES)
                while len(more) == HEAD_BYTES and b"\n" not in data:
                    more = file.read(HEAD_BYTES)
                    data += more
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(table, name, error) from error
        text = data.decode("utf-8", errors="replace")
        return text if len(more) < HEAD_BYTES else text[: text.rfind("\n") + 1]


def _unreadable(table: TableName, name: str, error: Exception) -> SourceError:
    return SourceError(
        f"{table}: {name} cannot be read",
        found=str(error),
        todo="Nothing of the table was applied; other tables go on. Replace the file by a whole one.",
    )
