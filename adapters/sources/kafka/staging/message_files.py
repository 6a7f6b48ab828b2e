"""The folder of staged messages: files of JSON lines, from when they are read until they are applied."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from lakeward.adapters.sources.kafka.broker import Records
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange, parse_ranges, parse_transaction_ranges
from lakeward.adapters.sources.kafka.staging.message_lines import LineWriter, OpenWriter
from lakeward.adapters.sources.kafka.topics import TopicPartition
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError
from lakeward.core.ledger.objects import SourceObject

_ABANDONED: Final = 3600.0
"""Seconds after which a file with a hidden name is that of an ended process."""

_STARTS: Final = "_starts.json"
"""The file with the first offsets of a table without a batch; the source of files ignores names with `_` first."""

_GROUP_PREFIX: Final = "_joined-"
"""The prefix of a file with the names of files that landed together, so that transactions are whole.

A digest of the table's offsets follows it.
"""

_TRANSACTIONS: Final = "_transactions.json"
"""The file with the offset in the topic of transactions of a table without new messages."""


class Bounds(NamedTuple):
    """The most messages and bytes of a file.

    `is_late` returns True after the time limit; its argument is the number of messages so far.
    """

    messages: int = sys.maxsize
    bytes: int = sys.maxsize
    is_late: Callable[[int], bool] = lambda _: False


class WrittenFile(NamedTuple):
    """A written file: its range, and its number of messages and of bytes."""

    range: OffsetRange
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MessageStaging:
    """Files of JSON lines, one for each range of offsets, in a folder for each table of the source.

    A file is written under a hidden name, which no other process uses, and renamed when it is complete. The same
    messages make the same file with the same modification time, that of its last message.
    """

    root: Path

    def folder(self, table: TableName) -> Path:
        """Return the folder of a table, and create it if needed; raises SourceError where it cannot be created."""
        folder = self.root / table.schema / table.table
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _write_error(table, error) from error
        return folder

    def ranges(self, table: TableName) -> list[OffsetRange]:
        """Return the ranges of the files in a table's folder."""
        return parse_ranges(self._names(table))

    def _names(self, table: TableName) -> list[str]:
        return [file.name for file in self.folder(table).iterdir()]

    def write(
        self,
        table: TableName,
        offset_range: OffsetRange,
        records: Iterator[Records],
        bounds: Bounds,
        open_writer: OpenWriter = LineWriter,
    ) -> WrittenFile | None:
        """Write the messages of a range, and return the written file; None where there are no messages.

        `open_writer` makes the writer of the file. The range ends after the message that reaches one of the
        `bounds`. Raises SourceError where the file cannot be written.
        """
        first_records = next(records, None)
        if first_records is None:
            return None
        count, size, last, end = 0, 0, first_records[0], offset_range.end
        place = TopicPartition.of(offset_range.topic, offset_range.partition)
        with self.discarding(table):
            part = self.new_file(table, offset_range)
            with part.open("wb") as file:
                writer = open_writer(file, place)
                for batch in chain([first_records], records):
                    written = writer.write(batch[: bounds.messages - count], bounds.bytes - size)
                    count, size, last = count + written.messages, size + written.bytes, batch[written.messages - 1]
                    if count >= bounds.messages or size >= bounds.bytes or bounds.is_late(count):
                        end = last.offset + 1
                        break
                writer.finish()
                file.flush()
                os.fsync(file.fileno())
            written_range = OffsetRange(
                offset_range.topic, offset_range.id, offset_range.partition, offset_range.start, end
            )
            self._rename(part, table, written_range, last.timestamp or 0)
        return WrittenFile(written_range, count, size)

    @contextmanager
    def discarding(self, table: TableName) -> Iterator[None]:
        """Remove the hidden files that this thread has written for a table if the context fails.

        Raises SourceError where a file cannot be written.
        """
        try:
            yield
        except BaseException as error:
            with suppress(OSError):
                for file in self.folder(table).glob(f".*{_own_ending()}"):
                    file.unlink()
            if isinstance(error, OSError):
                raise _write_error(table, error) from error
            raise

    @contextmanager
    def writing(self, table: TableName, file: Path) -> Iterator[BinaryIO]:
        """Open a file for writing; raises SourceError where it cannot be written."""
        try:
            with file.open("wb") as stream:
                yield stream
        except OSError as error:
            raise _write_error(table, error) from error

    def name_file(self, table: TableName, file: Path, offset_range: OffsetRange, size: int, millis: int) -> None:
        """Truncate a written file to `size` bytes, make it durable, and give it the name of its range.

        `millis` is its modification time, in milliseconds since 1970.
        """
        try:
            with file.open("r+b") as stream:
                stream.truncate(size)
                os.fsync(stream.fileno())
            self._rename(file, table, offset_range, millis)
        except OSError as error:
            raise _write_error(table, error) from error

    def write_begin(self, table: TableName, id_: str, ranges: Sequence[OffsetRange]) -> None:
        """Write empty files for the ranges after which a table begins, and remove other empty files.

        Files of a topic with another id than `id_` are removed, too.
        """
        folder = self.folder(table)
        with self.discarding(table):
            for one in self.ranges(table):
                if one.id != id_ or (one not in ranges and self.is_empty(table, one)):
                    (folder / one.name).unlink(missing_ok=True)
            for one in ranges:
                part = self.new_file(table, one)
                part.write_bytes(b"")
                self._rename(part, table, one, 0)

    def is_empty(self, table: TableName, offset_range: OffsetRange) -> bool:
        """Return True if a file has no messages.

        False if another process has removed it, which means that it had some.
        """
        try:
            return (self.folder(table) / offset_range.name).stat().st_size == 0
        except FileNotFoundError:
            return False

    def new_file(self, table: TableName, offset_range: OffsetRange) -> Path:
        """Return the hidden name of a file to write for a range; no other process uses it.

        Hidden files of ended processes are removed.
        """
        folder, now = self.folder(table), time.time()
        for file in folder.glob(".*.part"):
            with suppress(OSError):
                if now - file.stat().st_mtime > _ABANDONED:
                    file.unlink()
        return folder / f".{offset_range.partition}{_own_ending()}"

    def _rename(self, part: Path, table: TableName, written_range: OffsetRange, millis: int) -> None:
        os.utime(part, ns=(millis * 1_000_000, millis * 1_000_000))
        part.rename(self.folder(table) / written_range.name)

    def remove(self, table: TableName, objects: Iterable[SourceObject]) -> list[str]:
        """Remove the files of applied objects, and return the names of those that do not exist now.

        Files of other ranges that begin before the end of these are removed, too, because a `plan` beside a run
        may leave them.
        """
        folder, names = self.folder(table), [item.name for item in objects]
        applied = [*parse_ranges(names), *parse_transaction_ranges(names)]
        ends = {(one.topic, one.id, one.partition): one.end for one in sorted(applied)}
        listed = self._names(table)

        def is_passed(one: OffsetRange) -> bool:
            return one.start < ends.get((one.topic, one.id, one.partition), 0)

        passed_names = [
            one.name for one in (*parse_ranges(listed), *parse_transaction_ranges(listed)) if is_passed(one)
        ]
        notes = {
            name: self._read_note(table, name) or {"names": ()} for name in listed if name.startswith(_GROUP_PREFIX)
        }
        groups = {name: parse_ranges(one["names"]) for name, one in notes.items()}
        finished = [name for name, ranges in groups.items() if not ranges or any(map(is_passed, ranges))]
        for name in (*finished, *passed_names):
            with suppress(OSError):  # its messages are applied; the next run tries again
                (folder / name).unlink(missing_ok=True)
        return [one.name for one in applied if not (folder / one.name).exists()]

    def write_group(
        self,
        table: TableName,
        id_: str,
        positions: Mapping[int, int],
        ranges: Sequence[OffsetRange],
        transactions: tuple[OffsetRange, int] | None,
    ) -> Sequence[OffsetRange]:
        """Record which files landed together for a table at these positions of a topic, and return their ranges.

        `transactions` is the range of the topic of transactions that they complete, with the end of the last
        transaction in milliseconds since 1970. An empty file is written for it.
        """
        ranges_of_group = [*ranges, *([] if transactions is None else [transactions[0]])]
        if transactions is not None:
            offset_range, millis = transactions
            with self.discarding(table):
                part = self.new_file(table, offset_range)
                part.write_bytes(b"")
                self._rename(part, table, offset_range, millis)
        self._write_note(table, _group_name(id_, positions), {"names": [one.name for one in ranges_of_group]})
        return ranges_of_group

    def read_group(self, table: TableName, id_: str, positions: Mapping[int, int]) -> Sequence[OffsetRange]:
        """Return the files that landed together for a table at these positions, if all of them exist."""
        note = self._read_note(table, _group_name(id_, positions))
        names = [] if note is None else note["names"]
        return (
            [*parse_ranges(names), *parse_transaction_ranges(names)]
            if {*self._names(table)}.issuperset(names)
            else ()
        )

    def write_transaction_progress(self, table: TableName, progress: Mapping[str, Any]) -> None:
        """Record the offset of a table in its topic of transactions."""
        self._write_note(table, _TRANSACTIONS, progress)

    def read_transaction_progress(self, table: TableName) -> Mapping[str, Any] | None:
        """Return the recorded offset of a table in its topic of transactions, or None."""
        progress: Mapping[str, Any] | None = self._read_note(table, _TRANSACTIONS)
        return progress

    def read_starts(self, table: TableName, origin: Mapping[str, Any]) -> Mapping[int, int] | None:
        """Return the recorded first offsets of a table's partitions; None for another topic or other settings."""
        note = self._read_note(table, _STARTS)
        if note is None or note.get("of") != origin:
            return None
        return {int(partition): offset for partition, offset in note["offsets"].items()}

    def write_starts(self, table: TableName, origin: Mapping[str, Any], offsets: Mapping[int, int]) -> None:
        """Record the first offsets of a table's partitions."""
        self._write_note(table, _STARTS, {"of": origin, "offsets": offsets})

    def _read_note(self, table: TableName, name: str) -> Any:
        """Return a JSON document of a table's folder, or None where it does not exist or is broken."""
        try:
            return json.loads((self.root / table.schema / table.table / name).read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def _write_note(self, table: TableName, name: str, note: Mapping[str, Any]) -> None:
        file = self.folder(table) / name
        with self.discarding(table):
            part = self.folder(table) / f".{name}{_own_ending()}"
            part.write_text(json.dumps(note), "utf-8")
            part.replace(file)


def _own_ending() -> str:
    """Return the ending of hidden files that no other process and no other thread uses."""
    return f"-{os.getpid()}-{threading.get_ident()}.part"


def _group_name(id_: str, positions: Mapping[int, int]) -> str:
    place = json.dumps([id_, sorted(positions.items())])
    return f"{_GROUP_PREFIX}{hashlib.sha256(place.encode()).hexdigest()[:16]}.json"


def _write_error(table: TableName, error: OSError) -> SourceError:
    return SourceError(
        f"{table}: messages cannot be written into the staging folder",
        found=str(error),
        todo="Nothing of this batch was applied. Make room, or grant permission to write there, or name another "
        "folder with `path` under [source].",
    )
