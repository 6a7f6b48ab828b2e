"""A landing folder on a local disk, in the standard layout: `<schema>/<table>/<files>`."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakeward.adapters.dms.names import read_name
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.ledger import SourceObject

HEAD_BYTES = 64 * 1024

HASHED_WHOLE = 64 * 1024 * 1024
HASHED_ENDS = 4 * 1024 * 1024
"""Of files larger than the first so many bytes are hashed at each end: reading them twice is not cheap."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder under which DMS writes."""

    root: Path

    def of(self, table: TableName) -> Path:
        """Return the folder of a table."""
        return self.root / table.schema / table.table

    def list(
        self, table: TableName, start: str | None = None
    ) -> tuple[Sequence[SourceObject], Sequence[str]] | None:
        """Return the DMS files of a table and the names of other files beside them; None without a folder.

        Names that sort before `start` are passed over, and cost next to nothing.
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
            for entry in os.scandir(self.of(table)):
                if start is not None and entry.name < start:
                    continue
                name = read_name(entry.name)
                if name is not None and (state := _state(entry)) is not None:
                    modified = state.st_mtime_ns // 1000
                    objects.append(SourceObject(entry.name, name.order, state.st_size, modified))
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

    def etag(self, table: TableName, name: str) -> str | None:
        """Return a hash of a file's content, of a great one of its beginning and its end; None where it is gone."""
        path = self.of(table) / name
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size <= HASHED_WHOLE:
                    return hashlib.file_digest(file, "sha256").hexdigest()[:32]
                found = hashlib.sha256(file.read(HASHED_ENDS))
                file.seek(size - HASHED_ENDS)
                found.update(file.read(HASHED_ENDS))
                return f"{found.hexdigest()[:32]}-ends"
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(table, name, error) from error

    def head(self, table: TableName, name: str) -> str:
        """Return the beginning of a CSV file, ending at the end of a line unless it is the whole file.

        Raises SourceError where the file cannot be read or is no gzip file.
        """
        path = self.of(table) / name
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


def _state(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return size and time of a file, or None for what is no file, or is gone since it was listed."""
    try:
        return entry.stat() if entry.is_file() else None
    except FileNotFoundError:
        return None
