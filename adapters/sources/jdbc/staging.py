"""Staging of rows that were read: they are written to a hidden folder, which gets its name once it is complete."""

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
from lakeward.adapters.sources.jdbc.file_names import StagedRead
from lakeward.adapters.sources.landing.places import encoded_folder
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError, SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ports import Stored
from lakeward.core.schema import Column

if TYPE_CHECKING:
    from lakeward.adapters.sources.staging.prefix import StagingPrefix

_STARTS: Final = "starts.txt"
"""A file in the folder of a snapshot: where the feed of the table begins, as names of ranges."""

_COMPLETE_MARKER: Final = "whole.txt"
"""A file in a folder of a bucket: all files of the read are there."""

_ABANDONED: Final = 24 * 3600.0
"""Seconds after which an incomplete folder is that of an ended process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A read to stage: what is known of it before, the cursor (None: there is none) and its overlap.

    `tail` is a digest of the rows that a query finds if nothing is new (None: any row is new). `find_starts`
    returns where the feed of the table begins. It is called before the first row is read, and the names that it
    returns are stored with the rows.
    """

    query: Query
    staged: StagedRead
    cursor: Column | None = None
    overlap: int = 0
    tail: str | None = None
    find_starts: Callable[[], Sequence[str]] | None = None


class Staging(Protocol):
    """The storage of rows until they are applied: a folder for each complete read."""

    def land(self, table: TableName, reader: Reader, request: ReadRequest) -> None:
        """Read rows and stage them; a query that finds nothing new stages nothing.

        Raises as `Reader.write` does, and SourceError where they cannot be written: then nothing is staged.
        """
        ...

    def starts(self, table: TableName, item: SourceObject) -> Sequence[str]:
        """Return where the feed of a table begins, by the snapshot of a staged file.

        Raises SourceError if the snapshot is gone.
        """
        ...

    def select_complete(self, listed: Sequence[SourceObject], others: Sequence[str]) -> Sequence[SourceObject]:
        """Return the listed files whose folders are complete; `others` are the names of all other files."""
        ...

    def remove(self, table: TableName, objects: Sequence[SourceObject]) -> None:
        """Remove staged files, and folders without further files."""
        ...

    def clean(self, table: TableName, *, is_dry: bool) -> Sequence[str]:
        """Remove what ended processes left in a shared place, and return it; with `is_dry` only return it."""
        ...


@dataclass(frozen=True, slots=True)
class FolderStaging:
    """A folder on a disk. A read is complete once its folder has its name."""

    root: Path

    def land(self, table: TableName, reader: Reader, request: ReadRequest) -> None:
        """Read rows into a hidden folder, and rename it."""
        home = self.root / table.schema / table.table
        with _new_folder(table, home) as folder:
            starts = None if request.find_starts is None else request.find_starts()
            position = reader.write(request.query, f"file://{folder}")
            for number, file in enumerate(sorted(folder.glob("*.parquet")), 1):
                file.rename(folder / f"{number}.parquet")
            if starts is not None:
                (folder / _STARTS).write_text("\n".join(starts), "utf-8")
            name = _folder_name(request, ds.dataset(sorted(folder.glob("*.parquet")), format="parquet"), position)
            if name is not None:
                folder.rename(home / name)

    def starts(self, table: TableName, item: SourceObject) -> Sequence[str]:
        """Return the stored beginning of the feed of a snapshot."""
        file = (self.root / table.schema / table.table / item.name).with_name(_STARTS)
        try:
            return file.read_text("utf-8").split()
        except OSError as error:
            raise _snapshot_gone_error(table, error) from error

    def select_complete(self, listed: Sequence[SourceObject], others: Sequence[str]) -> Sequence[SourceObject]:
        """Return all listed files: incomplete folders are hidden."""
        return listed

    def clean(self, table: TableName, *, is_dry: bool) -> Sequence[str]:
        """Return nothing: no other pipeline uses the folder, and the next read removes what is left in it."""
        return ()

    def remove(self, table: TableName, objects: Sequence[SourceObject]) -> None:
        """Remove staged files, and folders without further files."""
        home = self.root / table.schema / table.table
        for item in objects:
            (home / item.name).unlink(missing_ok=True)
        for folder in {home / PurePosixPath(item.name).parts[0] for item in objects}:
            if not any(folder.glob("*.parquet")):
                shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class BucketStaging:
    """A prefix of a bucket, in which nothing can be renamed. A read is complete once its folder has a marker file.

    The marker is written last, and removed first.
    """

    prefix: StagingPrefix

    def land(self, table: TableName, reader: Reader, request: ReadRequest) -> None:
        """Read rows into a hidden folder, and copy its files into one that has its name."""
        home = encoded_folder(table)
        new = f"{home}/.{uuid4().hex}"
        self._remove_abandoned(home)
        try:
            starts = None if request.find_starts is None else request.find_starts()
            position = reader.write(request.query, self.prefix.path(new))
            written = self._written(new)
            with ExitStack() as stack:
                files = [stack.enter_context(self.prefix.open(name)) for name in written]
                rows = ds.dataset([_dataset_of(file) for file in files])
                name = _folder_name(request, rows, position)
            if name is None:
                return
            for number, file in enumerate(written, 1):
                self.prefix.copy(file, f"{home}/{name}/{number}.parquet")
            if starts is not None:
                self.prefix.write(f"{home}/{name}/{_STARTS}", "\n".join(starts).encode())
            self.prefix.write(f"{home}/{name}/{_COMPLETE_MARKER}", b"")
        except OSError as error:
            raise SourceError(
                f"{table}: what was read of it cannot be staged",
                found=str(error),
                todo="Nothing was applied: run again.",
            ) from error
        finally:
            with suppress(LakewardError, OSError):  # the first error is raised; the next read removes the files
                self.prefix.remove([one.name for one in self.prefix.list(new)])

    def starts(self, table: TableName, item: SourceObject) -> Sequence[str]:
        """Return the stored beginning of the feed of a snapshot."""
        folder = PurePosixPath(item.name).parts[0]
        try:
            return self.prefix.read(f"{encoded_folder(table)}/{folder}/{_STARTS}").decode().split()
        except OSError as error:
            raise _snapshot_gone_error(table, error) from error

    def select_complete(self, listed: Sequence[SourceObject], others: Sequence[str]) -> Sequence[SourceObject]:
        """Return the files whose folder has its marker."""
        complete_folders = {
            name.removesuffix(f"/{_COMPLETE_MARKER}") for name in others if name.endswith(f"/{_COMPLETE_MARKER}")
        }
        return [item for item in listed if item.name.rpartition("/")[0] in complete_folders]

    def remove(self, table: TableName, objects: Sequence[SourceObject]) -> None:
        """Remove staged files; a folder without further files is removed as a whole, its marker first."""
        home, names = encoded_folder(table), {item.name for item in objects}
        for folder in sorted({name.rpartition("/")[0] for name in names}):
            files = [one.name for one in self.prefix.list(f"{home}/{folder}")]
            remaining = {name for name in files if name.endswith(".parquet")} - {f"{home}/{name}" for name in names}
            if not remaining:
                self.prefix.remove([f"{home}/{folder}/{_COMPLETE_MARKER}"])
            self.prefix.remove([name for name in files if not remaining or name.removeprefix(f"{home}/") in names])

    def clean(self, table: TableName, *, is_dry: bool) -> Sequence[str]:
        """Remove the files of incomplete folders a day after they were written, and return them.

        With `is_dry` only return them.
        """
        names = self._abandoned(encoded_folder(table))
        if not is_dry:
            self.prefix.remove(names)
        return [f"{self.prefix.url}/{name}" for name in names]

    def _written(self, folder: str) -> Sequence[str]:
        """Return the files of a read, in order; files of failed attempts of Spark are hidden, or in folders."""
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
        limit = (time.time() - _ABANDONED) * 1_000_000
        return [
            one.name
            for folder, files in folders.items()
            if f"{home}/{folder}/{_COMPLETE_MARKER}" not in {other.name for other in files}
            and all(other.modified < limit for other in files)
            for one in files
        ]



def _dataset_of(file: BinaryIO) -> Any:
    """Return the rows of an open Parquet file as a dataset, which reads them when they are asked for."""
    fragment = ds.ParquetFileFormat().make_fragment(pa.PythonFile(file, "r"))
    return ds.FileSystemDataset([fragment], fragment.physical_schema, fragment.format)


def _snapshot_gone_error(table: TableName, error: OSError) -> SourceError:
    return SourceError(
        f"{table}: its snapshot is not there any more",
        found=str(error),
        todo="Nothing was applied. Does another process write into the same place? Run again.",
    )


@contextmanager
def _new_folder(table: TableName, home: Path) -> Iterator[Path]:
    """Yield a hidden folder for a read; what remains of it is removed afterwards.

    Raises SourceError where it cannot be written.
    """
    folder = home / f".{uuid4().hex}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for hidden in home.glob(".*"):
            with suppress(FileNotFoundError):
                if time.time() - hidden.stat().st_mtime > _ABANDONED:
                    shutil.rmtree(hidden, ignore_errors=True)
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


def _folder_name(request: ReadRequest, rows: Any, position: str | None) -> str | None:
    """Return the name of the folder for rows that were read; None if a query found nothing new."""
    staged = _survey(request, rows)
    is_cursor_a_time = request.cursor is not None and is_time(request.cursor.type)
    return None if staged is None else replace(staged, position=position).name(is_time=is_cursor_a_time)


def _survey(request: ReadRequest, rows: Any) -> StagedRead | None:
    """Return the read with what its rows show; None if a query found nothing new."""
    cursor, staged = request.cursor, request.staged
    if cursor is None:
        return staged
    if not staged.is_snapshot:
        digest = digest_of(rows, cursor.name, staged.since)
        if digest in (None, request.tail):
            return None
    reached = max([n for n in (staged.reached, _highest_cursor(rows, cursor.name)) if n is not None], default=None)
    if reached is None:
        return staged
    return replace(staged, reached=reached, tail=digest_of(rows, cursor.name, reached - request.overlap))


def _highest_cursor(rows: Any, cursor: str) -> int | None:
    maxima = (number_of(pc.max(batch.column(0)).as_py()) for batch in rows.to_batches(columns=[cursor]))
    return max((number for number in maxima if number is not None), default=None)


def digest_of(rows: Any, cursor: str, since: int | None) -> str | None:
    """Return a digest of the rows whose cursor is not below `since` (None: of all); None if there are none.

    It does not depend on their order, but on how often each occurs.
    """
    total, has_rows = 0, False
    bound = None if since is None else pc.field(cursor) >= value_of(since, rows.schema.field(cursor).type)
    for batch in rows.to_batches(filter=bound):
        for row in zip(*(_values(column) for column in batch.columns), strict=True):
            has_rows = True
            total += int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest(), "big")
    return f"{total % (1 << 48):012x}" if has_rows else None


def _values(column: pa.Array) -> list[Any]:
    """Return the values of a column, times as numbers, which keep every digit."""
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values
