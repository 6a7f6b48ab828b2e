"""Landing what is read: rows are written beside, and get their name once they are whole."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakeward.adapters.jdbc.cursors import is_time, number_of, value_of
from lakeward.adapters.jdbc.names import Staged
from lakeward.adapters.jdbc.reader import Query, Reader
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError
from lakeward.core.ledger import SourceObject
from lakeward.core.schema import Column

_STARTS: Final = "starts.txt"
"""A file beside the rows of a snapshot: where the feed of the table begins, by names of ranges."""

_ABANDONED: Final = 24 * 3600.0
"""Seconds after which what a process left in the middle of a read is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A read to land: `staged` as it is known before, the cursor (None: there is none) and its overlap.

    `tail` stands for the rows that a query finds where nothing is new (None: any row is). `find_starts` finds where
    the feed of the table begins, before the first row is read; the names that it returns are kept with the rows.
    """

    query: Query
    staged: Staged
    cursor: Column | None = None
    overlap: int = 0
    tail: str | None = None
    find_starts: Callable[[], Sequence[str]] | None = None


@dataclass(frozen=True, slots=True)
class Staging:
    """The folder in which rows lie from when they are read until they are applied."""

    root: Path

    def land(self, table: TableName, reader: Reader, landing: Landing) -> None:
        """Read rows and stage them; where a query finds nothing new, nothing is.

        Raises as `Reader.write` does, and SourceError where they cannot be written: then nothing is staged.
        """
        home = self.root / table.schema / table.table
        with _new_folder(table, home) as folder:
            starts = None if landing.find_starts is None else landing.find_starts()
            position = reader.write(landing.query, folder)
            for number, file in enumerate(sorted(folder.glob("*.parquet")), 1):
                file.rename(folder / f"{number}.parquet")
            if starts is not None:
                (folder / _STARTS).write_text("\n".join(starts), "utf-8")
            found = _survey(landing, folder)
            if found is not None:
                is_cursor_a_time = landing.cursor is not None and is_time(landing.cursor.type)
                name = replace(found, position=position).name(is_time=is_cursor_a_time)
                folder.rename(home / name)

    def starts(self, table: TableName, item: SourceObject) -> Sequence[str]:
        """Return where the feed of a table begins, by the snapshot of a staged file.

        Raises SourceError where that is gone.
        """
        file = (self.root / table.schema / table.table / item.name).with_name(_STARTS)
        try:
            return file.read_text("utf-8").split()
        except OSError as error:
            raise SourceError(
                f"{table}: its snapshot is not there any more",
                found=str(error),
                todo="Nothing was applied. Does another process write into the same folder? Run again.",
            ) from error

    def remove(self, table: TableName, objects: Sequence[SourceObject]) -> None:
        """Remove staged files, and folders of which no file is left."""
        home = self.root / table.schema / table.table
        for item in objects:
            (home / item.name).unlink(missing_ok=True)
        for folder in {home / PurePosixPath(item.name).parts[0] for item in objects}:
            if not any(folder.glob("*.parquet")):
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _new_folder(table: TableName, home: Path) -> Iterator[Path]:
    """Return a folder that no listing shows, for a read; what is left of it afterwards is removed."""
    folder = home / f".{uuid4().hex}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for left in home.glob(".*"):
            with suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > _ABANDONED:
                    shutil.rmtree(left, ignore_errors=True)
        yield folder
    except OSError as error:
        raise SourceError(
            f"{table}: what was read of it cannot be staged",
            found=str(error),
            todo="Nothing was applied. Make room or grant permission there, or name another folder: `path` under "
            "[source].",
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _survey(landing: Landing, folder: Path) -> Staged | None:
    """Return what the rows that were read make known; None where a query found nothing new."""
    cursor, staged = landing.cursor, landing.staged
    if cursor is None:
        return staged
    rows = ds.dataset(sorted(folder.glob("*.parquet")), format="parquet")
    if not staged.is_snapshot:
        found = digest_of(rows, cursor.name, staged.since)
        if found in (None, landing.tail):
            return None
    reached = max([n for n in (staged.reached, _highest(rows, cursor.name)) if n is not None], default=None)
    if reached is None:
        return staged
    return replace(staged, reached=reached, tail=digest_of(rows, cursor.name, reached - landing.overlap))


def _highest(rows: Any, cursor: str) -> int | None:
    found = (number_of(pc.max(batch.column(0)).as_py()) for batch in rows.to_batches(columns=[cursor]))
    return max((number for number in found if number is not None), default=None)


def digest_of(rows: Any, cursor: str, since: int | None) -> str | None:
    """Return what stands for the rows whose cursor is not below `since`, or all; None where there are none.

    Their order does not matter, and how often each is there does.
    """
    total, has_rows = 0, False
    bound = None if since is None else pc.field(cursor) >= value_of(since, rows.schema.field(cursor).type)
    for batch in rows.to_batches(filter=bound):
        for row in zip(*(_values(column) for column in batch.columns), strict=True):
            has_rows = True
            total += int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest(), "big")
    return f"{total % (1 << 48):012x}" if has_rows else None


def _values(column: pa.Array) -> list[Any]:
    """Return values of a column, times to the microsecond as they are written."""
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values
