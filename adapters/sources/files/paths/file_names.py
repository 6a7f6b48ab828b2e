"""What the names of plain files say of their order, and the order of those whose names say nothing.

Files of a Kafka Connect sink for S3 are called `<topic>+<partition>+<first offset>`, the offset in ten digits
(docs.confluent.io/kafka-connectors/s3-sink/current/overview.html#s3-object-names), or
`<topic>-<partition>-<first offset>` without zeros in front
(github.com/Aiven-Open/cloud-storage-connectors-for-apache-kafka). Dates and times are written with `-`, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

from lakeward.adapters.sources.files.paths.snapshot_folders import refuse_nested, snapshot_folder
from lakeward.adapters.sources.landing.places import FileName, Naming, Part, format_of, has_format
from lakeward.adapters.sources.landing.setting_values import counted, time_digits
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory

_OFFSET_BITS: Final = 44
COUNTER_BITS: Final = 20
_NO_ORDER: Final = 0
"""Orders are whole numbers of 64 bits: of a sink's file the partition, above 44 bits of an offset; of a time the
milliseconds since 1970, above 20 bits of a counter. Files that tell nothing are counted, from 1."""

_WITH_PLUS: Final = re.compile(r".+\+(?P<partition>\d{1,5})\+(?P<counter>\d{1,13})")
_WITH_HYPHEN: Final = re.compile(
    r".+-(?P<partition>0|[1-9]\d{0,4})-(?P<counter>0|[1-9]\d{0,12}|\d{10,13})", re.ASCII
)
_PARTITIONS: Final = 100_000

_YEAR, _MONTH, _DAY = r"(?:19|20)\d\d", r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
_DATED: Final = re.compile(
    rf"(?<!\d){_YEAR}[-_.]{_MONTH}[-_.]{_DAY}(?!\d)"  # 2026-12-31, whatever follows
    rf"|(?<!\d){_YEAR}-\d+\Z"  # 2026-12, and days of a year
    rf"|(?<!\d)\d\d-\d\d-(?:{_YEAR}|\d\d)\Z"  # 31-12-2026, 23-59-59
    r"|(?<!\d)(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:T?\d{2,6})?-\d+-\d+\Z"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z"
)
"""What ends a name in numbers that are no partition and no offset: a date, a time, an identifier."""

_BEGINNINGS: Final = {4: "0101", 6: "01"}
"""What a year, and a month, lack of a date: they count from their first day."""

_BESIDE: Final = re.compile(r"[+_-][0-9]+[+_-][0-9]{10,}\.(?:keys|headers)\.[a-z]+(?:\.[a-z0-9]+)?$")
"""Files that a sink writes beside those of the values (`store.kafka.keys`, `store.kafka.headers`).

They are called so behind partition and offset, in the sink's ten digits: a topic or a table may be called so, too.
"""

_DIGITS: Final = re.compile(r"(\d+)")


def is_of_sink(path: str) -> bool:
    """Return whether a file is one that a sink of messages writes beside those of the values: keys or headers."""
    return _BESIDE.search(path) is not None


@dataclass(frozen=True, slots=True)
class FileNames(Naming):
    """Which files are taken, and their order: by the groups of a pattern, by a sink's names, else by none.

    The names of messages may be a sink's; what could as well be a date is none. Where they are
    `snapshots` of a table, each is of a full load; else none is. With `in_folders` a file lies in a folder.
    """

    pattern: re.Pattern[str] | None = None
    is_messages: bool = False
    snapshots: bool = False
    in_folders: bool = False

    def read(self, path: str, _part: Part) -> FileName | None:
        """Return what the path of a file says."""
        if self.in_folders and "/" not in path:
            return None
        if self.pattern is None:
            is_taken = has_format(path) and not (self.is_messages and is_of_sink(path))
            return FileName(self.snapshots, self.order_of_sink(path), format_of(path)) if is_taken else None
        found = self.pattern.fullmatch(path)
        order = None if found is None else _told(found)
        return None if order is None else FileName(self.snapshots, order, format_of(path))

    def partition(self, name: str) -> str | None:
        """Return the partition that a sink's file is of: the files of each come in the order of their offsets."""
        found = self._of_sink(name) if self.pattern is None else self.pattern.fullmatch(name)
        return None if found is None else found.groupdict().get("partition")

    def partition_end(self, name: str) -> int | None:
        """Return the order behind all files of that partition."""
        partition = self.partition(name)
        return None if partition is None else _placed(str(int(partition) + 1), 0)

    def order_of_sink(self, path: str) -> int:
        """Return the order of a sink's file; 0 where it has another name."""
        found = self._of_sink(path)
        return _NO_ORDER if found is None else _placed(found["partition"], int(found["counter"])) or _NO_ORDER

    def _of_sink(self, path: str) -> re.Match[str] | None:
        if self.pattern is not None or not self.is_messages:
            return None
        name = PurePosixPath(path).name.split(".json")[0]
        is_dated = _DATED.search(name) is not None
        return _WITH_PLUS.fullmatch(name) or (None if is_dated else _WITH_HYPHEN.fullmatch(name))


def _placed(partition: str, offset: int) -> int | None:
    """Return the order of an offset of a partition; None where they are none."""
    if not partition.isdecimal() or int(partition) >= _PARTITIONS or offset >> _OFFSET_BITS:
        return None
    return (int(partition) << _OFFSET_BITS) + offset + 1


def _told(found: re.Match[str]) -> int | None:
    """Return the order that the groups of a pattern give; None where what one holds is no number, or no time."""
    groups = found.groupdict()
    try:
        number = counted(found)
    except ValueError:
        return None
    if groups.get("partition") is not None:
        return _placed(groups["partition"], number or 0)
    if groups.get("time") is None:
        return _NO_ORDER if number is None else number + 1
    digits = time_digits(groups["time"])
    digits += _BEGINNINGS.get(len(digits), "")
    try:
        moment = datetime.strptime(digits[:14].ljust(14, "0"), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    millis = int(moment.timestamp()) * 1000 + int(digits[14:17].ljust(3, "0"))
    if millis < 0:
        return None  # it is a number, as one of seconds since 1970
    return (millis << COUNTER_BITS) + min(number or 0, (1 << COUNTER_BITS) - 1)


def time_of(order: int) -> int | None:
    """Return the time that the name of a file tells, in microseconds since 1970, by its order; None where none."""
    return (order >> COUNTER_BITS) * 1000 if order >> COUNTER_BITS else None


def with_ordinals(_table: TableName, listed: Sequence[SourceObject], past: ObjectHistory) -> Sequence[SourceObject]:
    """Return files with the place of those whose names give none: the one they had, else behind all others.

    Those that are new together are counted in the order of their names, numbers in them by value.
    """
    known = {name: item.order for items in (past.waiting, past.seen) for name, item in items.items()}
    last = max([*known.values(), *(item.order for item in listed)], default=0)
    found = []
    for item in sorted(listed, key=lambda item: by_value(item.name)):
        order = item.order or known.get(item.name)
        if order is None:
            last += 1
            order = last
        found.append(replace(item, order=order))
    return found


def in_folders(
    folder_of: Callable[[str], str], table: TableName, listed: Sequence[SourceObject], past: ObjectHistory
) -> Sequence[SourceObject]:
    """Return files of folders that are snapshots with their places; `folder_of` tells which of them a file is of.

    Where a folder's name alone tells one, its files have the same: they are counted from there on, as they come.
    Raises SourceError for a folder that may as well be a part of a snapshot.
    """
    refuse_nested(table, {folder_of(item.name) for item in listed})
    known = {name: item.order for items in (past.waiting, past.seen) for name, item in items.items()}
    folders: dict[tuple[str, int], list[SourceObject]] = defaultdict(list)
    for item in sorted(listed, key=lambda item: by_value(item.name)):
        folders[folder_of(item.name), item.order].append(item)
    found = []
    for (_, order), files in folders.items():
        last = max([order - 1, *(known[item.name] for item in files if item.name in known)])
        for item in files if order else ():
            last += item.name not in known
            found.append(replace(item, order=known.get(item.name, last)))
    return with_ordinals(table, [*found, *(item for item in listed if not item.order)], past)


def of_sinks(table: TableName, listed: Sequence[SourceObject], past: ObjectHistory) -> Sequence[SourceObject]:
    """Return files of messages with their places; raises SourceError for new ones without a place beside a sink's.

    Behind all others they would lie before the next files of the sink, or have the place of one.
    """
    names = FileNames(is_messages=True)
    known = {**past.waiting, **past.seen}
    new = [item.name for item in listed if not item.order and item.name not in known]
    applied = (item.name for item in past.seen.values() if item.order == names.order_of_sink(item.name))
    told = next((item.name for item in listed if item.order), None) or next(applied, None)
    if new and told is not None:
        others = f" and {len(new) - 1} more" if len(new) > 1 else ""
        raise SourceError(
            f"{table}: the order of files cannot be told from their names",
            found=f"found {new[0]}{others}, and {told}, whose name is that of a sink: partition and offset",
            todo="Nothing of this batch was applied. Move away what does not belong there. Where all of them are a "
            r"sink's, `names` says where the numbers stand, as 'orders-(?P<partition>\d+)-(?P<counter>\d+)\.json'; "
            "where none is, groups of `names` give their order (docs/reference/plain-files.md).",
        )
    return with_ordinals(table, listed, past)


def by_value(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return what a name sorts by, its numbers by value.

    >>> sorted(["a10", "a9", "a"], key=by_value)
    ['a', 'a9', 'a10']
    """
    parts = _DIGITS.split(name)
    return tuple((place % 2, int(part) if place % 2 else 0, part) for place, part in enumerate(parts))


def snapshot_of(snapshots: str, path_columns: Collection[str]) -> Callable[[str], str | None]:
    """Return what tells of which snapshot a file is, by what the settings say that one is.

    It is that of the file, of a folder, or one without a name, where all are `rewritten`.
    """
    if snapshots == "folder":
        return snapshot_folder(path_columns)
    return str if snapshots == "file" else lambda _: None
