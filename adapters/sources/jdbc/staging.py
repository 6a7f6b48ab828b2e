"""Landing what is read: rows are written beside, and get their name once they are whole."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakeward.adapters.sources.jdbc.cursors import is_time, number_of, value_of
from lakeward.adapters.sources.jdbc.database.queries import Query, Reader
from lakeward.adapters.sources.jdbc.file_names import Staged
from lakeward.adapters.sources.landing.places import OWN_FOLDER, encoded, filled
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError, SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ports import Stored
from lakeward.core.schema import Column

if TYPE_CHECKING:
    from lakeward.adapters.sources.staging.prefix import StagingPrefix

_STARTS: Final = "starts.txt"
"""A file beside the rows of a snapshot: where the feed of the table begins, by names of ranges."""

_WHOLE: Final = "whole.txt"
"""A file beside the rows in a bucket: all of them are there."""

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


class Staging(Protocol):
    """Where rows lie from when they are read until they are applied: a folder for each read, which is complete."""

    def land(self, table: TableName, reader: Reader, landing: Landing) -> None:
        """Read rows and stage them; where a query finds nothing new, nothing is.

        Raises as `Reader.write` does, and SourceError where they cannot be written: then nothing is staged.
        """
        ...

    def starts(self, table: TableName, item: SourceObject) -> Sequence[str]:
        """Return where the feed of a table begins, by the snapshot of a staged file.

        Raises SourceError where that is gone.
        """
        ...

    def select_complete(self, listed: Sequence[SourceObject], others: Sequence[str]) -> Sequence[SourceObject]:
        """Return the listed files whose folders are complete; `others` are the names of all other files."""
        ...

    def remove(self, table: TableName, objects: Sequence[SourceObject]) -> None:
        """Remove staged files, and folders of which no file is left."""
        ...

    def clean(self, table: TableName, *, is_dry: bool) -> Sequence[str]:
        """Remove what ended processes left unfinished in a place that others share, or only name it."""
        ...


@dataclass(frozen=True, slots=True)
class FolderStaging:
    """A folder on a disk. A read is whole once its folder has its name."""

    root: Path

    def land(self, table: TableName, reader: Reader, landing: Landing) -> None:
        """Read rows into a hidden folder, and rename that."""
        home = self.root / table.schema / table.table
        with _new_folder(table, home) as folder:
            starts = None if landing.find_starts is None else landing.find_starts()
            position = reader.write(landing.query, f"file://{folder}")
            for number, file in enumerate(sorted(folder.glob("*.parquet")), 1):
                file.rename(folder / f"{number}.parquet")
            if starts is not None:
                (folder / _STARTS).write_text("\n".join(starts), "utf-8")
            name = _name(landing, ds.dataset(sorted(folder.glob("*.parquet")), format="parquet"), position)
            if name is not None:
                folder.rename(home / name)

    def starts(self, table: TableName, item: SourceObject) -> Sequence[str]:
        """Return what stands beside the rows of a snapshot."""
        file = (self.root / table.schema / table.table / item.name).with_name(_STARTS)
        try:
            return file.read_text("utf-8").split()
        except OSError as error:
            raise _is_gone(table, error) from error

    def select_complete(self, listed: Sequence[SourceObject], others: Sequence[str]) -> Sequence[SourceObject]:
        """Return all: what is not whole is hidden."""
        return listed

    def clean(self, table: TableName, *, is_dry: bool) -> Sequence[str]:
        """Return nothing: nobody shares the folder, and the next read removes what is left in it."""
        return ()

    def remove(self, table: TableName, objects: Sequence[SourceObject]) -> None:
        """Remove staged files, and folders of which no file is left."""
        home = self.root / table.schema / table.table
        for item in objects:
            (home / item.name).unlink(missing_ok=True)
        for folder in {home / PurePosixPath(item.name).parts[0] for item in objects}:
            if not any(folder.glob("*.parquet")):
                shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class BucketStaging:
    """A prefix of a bucket, in which nothing can be renamed. A read is whole once its folder has a mark.

    The mark is written last, and removed first.
    """

    prefix: StagingPrefix

    def land(self, table: TableName, reader: Reader, landing: Landing) -> None:
        """Read rows into a hidden folder, and copy what was written into one that has its name."""
        home = _home(table)
        new = f"{home}/.{uuid4().hex}"
        self._remove_abandoned(home)
        try:
            starts = None if landing.find_starts is None else landing.find_starts()
            position = reader.write(landing.query, self.prefix.path(new))
            written = self._written(new)
            with ExitStack() as stack:
                files = [stack.enter_context(self.prefix.open(name)) for name in written]
                rows = ds.dataset([_dataset_of(file) for file in files])
                name = _name(landing, rows, position)
            if name is None:
                return
            for number, file in enumerate(written, 1):
                self.prefix.copy(file, f"{home}/{name}/{number}.parquet")
            if starts is not None:
                self.prefix.write(f"{home}/{name}/{_STARTS}", "\n".join(starts).encode())
            self.prefix.write(f"{home}/{name}/{_WHOLE}", b"")
        except OSError as error:
            raise SourceError(
                f"{table}: what was read of it cannot be staged",
                found=str(error),
                todo="Nothing was applied: run again.",
            ) from error
        finally:
            with suppress(LakewardError, OSError):  # what was said first counts; the next read tries again
                self.prefix.remove([one.name for one in self.prefix.list(new)])

    def starts(self, table: TableName, item: SourceObject) -> Sequence[str]:
        """Return what stands beside the rows of a snapshot."""
        folder = PurePosixPath(item.name).parts[0]
        try:
            return self.prefix.read(f"{_home(table)}/{folder}/{_STARTS}").decode().split()
        except OSError as error:
            raise _is_gone(table, error) from error

    def select_complete(self, listed: Sequence[SourceObject], others: Sequence[str]) -> Sequence[SourceObject]:
        """Return those whose folder has its mark."""
        marked = {name.removesuffix(f"/{_WHOLE}") for name in others if name.endswith(f"/{_WHOLE}")}
        return [item for item in listed if item.name.rpartition("/")[0] in marked]

    def remove(self, table: TableName, objects: Sequence[SourceObject]) -> None:
        """Remove staged files; of a folder that has no other, the mark first, and then all that is in it."""
        home, names = _home(table), {item.name for item in objects}
        for folder in sorted({name.rpartition("/")[0] for name in names}):
            there = [one.name for one in self.prefix.list(f"{home}/{folder}")]
            left = {name for name in there if name.endswith(".parquet")} - {f"{home}/{name}" for name in names}
            if not left:
                self.prefix.remove([f"{home}/{folder}/{_WHOLE}"])
            self.prefix.remove([name for name in there if not left or name.removeprefix(f"{home}/") in names])

    def clean(self, table: TableName, *, is_dry: bool) -> Sequence[str]:
        """Remove what was never whole, or is no more, a day after it was written, or only name it."""
        found = self._abandoned(_home(table))
        if not is_dry:
            self.prefix.remove(found)
        return [f"{self.prefix.url}/{name}" for name in found]

    def _written(self, folder: str) -> Sequence[str]:
        """Return the files of a read, in order; those of attempts that Spark gave up are hidden, or in folders."""
        files = {one.name.removeprefix(f"{folder}/"): one.name for one in self.prefix.list(folder)}
        return [
            files[name]
            for name in sorted(files)
            if name.endswith(".parquet") and "/" not in name and not name.startswith(("_", "."))
        ]

    def _remove_abandoned(self, home: str) -> None:
        self.prefix.remove(self._abandoned(home))

    def _abandoned(self, home: str) -> Sequence[str]:
        folders: dict[str, list[Stored]] = defaultdict(list)
        for one in self.prefix.list(home):
            folders[one.name.removeprefix(f"{home}/").partition("/")[0]].append(one)
        before = (time.time() - _ABANDONED) * 1_000_000
        return [
            one.name
            for folder, inside in folders.items()
            if f"{home}/{folder}/{_WHOLE}" not in {other.name for other in inside}
            and all(other.modified < before for other in inside)
            for one in inside
        ]


def _home(table: TableName) -> str:
    return filled(OWN_FOLDER, encoded(table))


def _dataset_of(file: BinaryIO) -> Any:
    """Return the rows of an open Parquet file as a dataset, which reads them when it is asked."""
    fragment = ds.ParquetFileFormat().make_fragment(pa.PythonFile(file, "r"))
    return ds.FileSystemDataset([fragment], fragment.physical_schema, fragment.format)


def _is_gone(table: TableName, error: OSError) -> SourceError:
    return SourceError(
        f"{table}: its snapshot is not there any more",
        found=str(error),
        todo="Nothing was applied. Does another process write into the same place? Run again.",
    )


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


def _name(landing: Landing, rows: Any, position: str | None) -> str | None:
    """Return the name of the folder for rows that were read; None where a query found nothing new."""
    found = _survey(landing, rows)
    is_cursor_a_time = landing.cursor is not None and is_time(landing.cursor.type)
    return None if found is None else replace(found, position=position).name(is_time=is_cursor_a_time)


def _survey(landing: Landing, rows: Any) -> Staged | None:
    """Return what the rows that were read make known; None where a query found nothing new."""
    cursor, staged = landing.cursor, landing.staged
    if cursor is None:
        return staged
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
