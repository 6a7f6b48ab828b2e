"""The folder in which messages lie as files from when they are read until they are applied."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from lakeward.adapters.sources.kafka.broker import Record
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange, read_names, read_transactions
from lakeward.adapters.sources.kafka.staging.message_lines import ToLine, to_line
from lakeward.adapters.sources.kafka.topics import Place
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError
from lakeward.core.ledger.objects import SourceObject

_LEFT: Final = 3600.0
"""Seconds after which nobody writes a file any more that has a hidden name."""

_STARTS: Final = "_starts.json"
"""Where a table begins that has no batch yet; the source of files passes over what begins with `_`."""

_JOINED: Final = "_joined-"
"""What begins the name of a file with the names of those that landed together, so that transactions are whole.

Behind it stands a digest of where the table was.
"""

_TRANSACTIONS: Final = "_transactions.json"
"""How far a table without new messages is in its topic of transactions."""


class WrittenFile(NamedTuple):
    """A file that was written: its range, and how many messages and bytes it has."""

    range: OffsetRange
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Staging:
    """Files of JSON lines, one for a range of offsets, in a folder for each table of the source.

    A file is written whole under a hidden name, which no other process has, and renamed then: one that has its name
    is whole. The same messages make the same file, with the same time: that of its last message.
    """

    root: Path

    def folder(self, table: TableName) -> Path:
        """Return the folder of a table, which is there then; raises SourceError where it cannot be made."""
        found = self.root / table.schema / table.table
        try:
            found.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_written(table, error) from error
        return found

    def ranges(self, table: TableName) -> list[OffsetRange]:
        """Return the ranges of the files that are there."""
        return read_names(self._names(table))

    def _names(self, table: TableName) -> list[str]:
        return [file.name for file in self.folder(table).iterdir()]

    def write(
        self,
        table: TableName,
        of: OffsetRange,
        records: Iterator[Record],
        is_full: Callable[[int, int], bool],
        to_line: ToLine = to_line,
    ) -> WrittenFile | None:
        """Write the messages of a range, and return what the file has; None where there are no messages.

        `to_line` makes the line of a message. `is_full` is asked after each message, by the number of messages and
        of bytes; once it is, the range ends behind that message.
        """
        first = next(records, None)
        if first is None:
            return None
        count, size, last, reached = 0, 0, first, of.end
        place = Place.of(of.topic, of.partition)
        part = self.unnamed(table, of)
        try:
            with part.open("wb") as file:
                for record in chain([first], records):
                    size += file.write(to_line(*place, record))
                    count, last = count + 1, record
                    if is_full(count, size):
                        reached = record.offset + 1
                        break
                file.flush()
                os.fsync(file.fileno())
            found = OffsetRange(of.topic, of.id, of.partition, of.start, reached)
            self._name(part, table, found, last.timestamp or 0)
        except OSError as error:
            raise _not_written(table, error) from error
        return WrittenFile(found, count, size)

    @contextmanager
    def writing(self, table: TableName, file: Path) -> Iterator[BinaryIO]:
        """Open a file to write into it; raises SourceError where that does not go."""
        try:
            with file.open("wb") as opened:
                yield opened
        except OSError as error:
            raise _not_written(table, error) from error

    def name(self, table: TableName, file: Path, of: OffsetRange, size: int, millis: int) -> None:
        """Give a file the name of its range; of what was written it keeps so many bytes, and is durable then."""
        try:
            with file.open("r+b") as opened:
                opened.truncate(size)
                os.fsync(opened.fileno())
            self._name(file, table, of, millis)
        except OSError as error:
            raise _not_written(table, error) from error

    def begin(self, table: TableName, id_: str, ranges: Sequence[OffsetRange]) -> None:
        """Write files without messages, behind which the table begins; others of the kind are removed.

        So are files of a topic with another id than `id_`, which was there before.
        """
        folder = self.folder(table)
        try:
            for one in self.ranges(table):
                if one.id != id_ or (one not in ranges and self.is_empty(table, one)):
                    (folder / one.name).unlink(missing_ok=True)
            for one in ranges:
                part = self.unnamed(table, one)
                part.write_bytes(b"")
                self._name(part, table, one, 0)
        except OSError as error:
            raise _not_written(table, error) from error

    def is_empty(self, table: TableName, of: OffsetRange) -> bool:
        """Whether a file has no messages; one that another process has removed had some."""
        try:
            return (self.folder(table) / of.name).stat().st_size == 0
        except FileNotFoundError:
            return False

    def unnamed(self, table: TableName, of: OffsetRange) -> Path:
        """Return the file of a range that is to be written, under a hidden name that no other process has.

        Those that ended processes left are removed.
        """
        folder, now = self.folder(table), time.time()
        for file in folder.glob(".*.part"):
            with suppress(OSError):
                if now - file.stat().st_mtime > _LEFT:
                    file.unlink()
        return folder / f".{of.partition}-{os.getpid()}-{threading.get_ident()}.part"

    def _name(self, part: Path, table: TableName, found: OffsetRange, millis: int) -> None:
        os.utime(part, ns=(millis * 1_000_000, millis * 1_000_000))
        part.rename(self.folder(table) / found.name)

    def remove(self, table: TableName, objects: Iterable[SourceObject]) -> list[str]:
        """Remove the files of applied objects, and return the names of those that are not there now.

        So go files of other ranges that begin before the end of these, as a `plan` beside a run may leave them.
        """
        folder, names = self.folder(table), [item.name for item in objects]
        applied = [*read_names(names), *read_transactions(names)]
        ends = {(one.topic, one.id, one.partition): one.end for one in sorted(applied)}
        listed = self._names(table)

        def is_passed(one: OffsetRange) -> bool:
            return one.start < ends.get((one.topic, one.id, one.partition), 0)

        passed = [one.name for one in (*read_names(listed), *read_transactions(listed)) if is_passed(one)]
        noted = {name: self._read(table, name) or {"names": ()} for name in listed if name.startswith(_JOINED)}
        joined = {name: read_names(one["names"]) for name, one in noted.items()}
        done = [name for name, ranges in joined.items() if not ranges or any(map(is_passed, ranges))]
        for name in (*done, *passed):
            with suppress(OSError):  # it is applied; the next run tries again
                (folder / name).unlink(missing_ok=True)
        return [one.name for one in applied if not (folder / one.name).exists()]

    def join(
        self,
        table: TableName,
        id_: str,
        positions: Mapping[int, int],
        ranges: Sequence[OffsetRange],
        transactions: tuple[OffsetRange, int] | None,
    ) -> Sequence[OffsetRange]:
        """Write down which files landed together for a table at these positions of a topic, and return them.

        One without messages says what range of the topic of transactions they make whole. The last of these ended
        at the time beside it, in milliseconds since 1970.
        """
        found = [*ranges, *([] if transactions is None else [transactions[0]])]
        if transactions is not None:
            of, millis = transactions
            part = self.unnamed(table, of)
            try:
                part.write_bytes(b"")
                self._name(part, table, of, millis)
            except OSError as error:
                raise _not_written(table, error) from error
        self._write(table, _joined_name(id_, positions), {"names": [one.name for one in found]})
        return found

    def joined(self, table: TableName, id_: str, positions: Mapping[int, int]) -> Sequence[OffsetRange]:
        """Return the files that landed together for a table at these positions, where they are all there."""
        noted = self._read(table, _joined_name(id_, positions))
        names = [] if noted is None else noted["names"]
        return [*read_names(names), *read_transactions(names)] if {*self._names(table)}.issuperset(names) else ()

    def write_transactions(self, table: TableName, noted: Mapping[str, Any]) -> None:
        """Write down how far a table is in its topic of transactions."""
        self._write(table, _TRANSACTIONS, noted)

    def noted_transactions(self, table: TableName) -> Mapping[str, Any] | None:
        """Return what was written down of that."""
        found: Mapping[str, Any] | None = self._read(table, _TRANSACTIONS)
        return found

    def starts(self, table: TableName, of: Mapping[str, Any]) -> Mapping[int, int] | None:
        """Return where the partitions of a table begin, as it was written down for the same topic and settings."""
        found = self._read(table, _STARTS)
        if found is None or found.get("of") != of:
            return None
        return {int(partition): offset for partition, offset in found["offsets"].items()}

    def write_starts(self, table: TableName, of: Mapping[str, Any], offsets: Mapping[int, int]) -> None:
        """Write down where the partitions of a table begin."""
        self._write(table, _STARTS, {"of": of, "offsets": offsets})

    def _read(self, table: TableName, name: str) -> Any:
        """Return what was written down, None where nothing was, or it cannot be read."""
        try:
            return json.loads((self.root / table.schema / table.table / name).read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def _write(self, table: TableName, name: str, told: Mapping[str, Any]) -> None:
        file = self.folder(table) / name
        part = self.folder(table) / f".{name}-{os.getpid()}-{threading.get_ident()}.part"
        try:
            part.write_text(json.dumps(told), "utf-8")
            part.replace(file)
        except OSError as error:
            raise _not_written(table, error) from error


def _joined_name(id_: str, positions: Mapping[int, int]) -> str:
    told = json.dumps([id_, sorted(positions.items())])
    return f"{_JOINED}{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"


def _not_written(table: TableName, error: OSError) -> SourceError:
    return SourceError(
        f"{table}: messages cannot be written into the staging folder",
        found=str(error),
        todo="Nothing of this batch was applied. Make room, or grant permission to write there, or name another "
        "folder with `path` under [source].",
    )
