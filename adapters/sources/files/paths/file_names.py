"""The order of plain files, by their names or, for names without an order, by a count.

Files of a Kafka Connect sink for S3 are called `<topic>+<partition>+<first offset>`, the offset in ten digits
(docs.confluent.io/kafka-connectors/s3-sink/current/overview.html#s3-object-names), or
`<topic>-<partition>-<first offset>` without zeros in front
(github.com/Aiven-Open/cloud-storage-connectors-for-apache-kafka). Dates and times have hyphens as well, so names
that may be dates are not read as names of a sink.
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
from lakeward.adapters.sources.landing.setting_values import group_number, time_digits
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory

_OFFSET_BITS: Final = 44
COUNTER_BITS: Final = 20
_NO_ORDER: Final = 0
"""Orders are whole numbers of 64 bits. A sink's file has the partition above 44 bits of the offset. A file with a
time has milliseconds since 1970 above 20 bits of a counter. Files without an order in their names are counted from
1; `_NO_ORDER` stands for their order until then."""

_WITH_PLUS: Final = re.compile(r".+\+(?P<partition>\d{1,5})\+(?P<counter>\d{1,13})")
_WITH_HYPHEN: Final = re.compile(
    r".+-(?P<partition>0|[1-9]\d{0,4})-(?P<counter>0|[1-9]\d{0,12}|\d{10,13})", re.ASCII
)
_PARTITIONS: Final = 100_000

_YEAR, _MONTH, _DAY = r"(?:19|20)\d\d", r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
_DATE_ENDING: Final = re.compile(
    rf"(?<!\d){_YEAR}[-_.]{_MONTH}[-_.]{_DAY}(?!\d)"  # 2026-12-31, whatever follows
    rf"|(?<!\d){_YEAR}-\d+\Z"  # 2026-12, and days of a year
    rf"|(?<!\d)\d\d-\d\d-(?:{_YEAR}|\d\d)\Z"  # 31-12-2026, 23-59-59
    r"|(?<!\d)(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:T?\d{2,6})?-\d+-\d+\Z"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z"
)
"""Endings of names whose numbers are no partition and offset: dates, times and identifiers."""

_FIRST_DAYS: Final = {4: "0101", 6: "01"}
"""The digits that complete a year (4 digits) or a month (6 digits) to a date, its first day."""

_SIDE_FILE: Final = re.compile(r"[+_-][0-9]+[+_-][0-9]{10,}\.(?:keys|headers)\.[a-z]+(?:\.[a-z0-9]+)?$")
"""Files with keys or headers that a sink writes in addition (`store.kafka.keys`, `store.kafka.headers`).

The words must follow partition and offset in the sink's ten digits, because a topic may be named `keys` as well.
"""

_DIGITS: Final = re.compile(r"(\d+)")


def is_sink_side_file(path: str) -> bool:
    """Return whether a file has the keys or headers that a sink writes in addition to its files of values."""
    return _SIDE_FILE.search(path) is not None


@dataclass(frozen=True, slots=True)
class FileNames(Naming):
    """Which files are read, and their order: by the groups of a pattern, else by a sink's names, else none.

    Only files of messages may have a sink's names, and a name that may be a date is none of these. With `snapshots`
    each file is of a full load, otherwise none is. With `in_folders` files outside of folders are not read.
    """

    pattern: re.Pattern[str] | None = None
    is_messages: bool = False
    snapshots: bool = False
    in_folders: bool = False

    def read(self, path: str, _part: Part) -> FileName | None:
        """Return the order and format of a file by its path below the table's folder; None if it is not read."""
        if self.in_folders and "/" not in path:
            return None
        if self.pattern is None:
            is_read = has_format(path) and not (self.is_messages and is_sink_side_file(path))
            return FileName(self.snapshots, self.order_of_sink(path), format_of(path)) if is_read else None
        match = self.pattern.fullmatch(path)
        order = None if match is None else _order_of_groups(match)
        return None if order is None else FileName(self.snapshots, order, format_of(path))

    def partition(self, name: str) -> str | None:
        """Return the partition of a file, whose files are in the order of their offsets; None without one."""
        match = self._match_sink(name) if self.pattern is None else self.pattern.fullmatch(name)
        return None if match is None else match.groupdict().get("partition")

    def partition_end(self, name: str) -> int | None:
        """Return an order greater than those of all files of the same partition; None without a partition."""
        partition = self.partition(name)
        return None if partition is None else _order_in_partition(str(int(partition) + 1), 0)

    def order_of_sink(self, path: str) -> int:
        """Return the order of a file with a sink's name; 0 for any other name."""
        match = self._match_sink(path)
        order = None if match is None else _order_in_partition(match["partition"], int(match["counter"]))
        return order or _NO_ORDER

    def _match_sink(self, path: str) -> re.Match[str] | None:
        if self.pattern is not None or not self.is_messages:
            return None
        name = PurePosixPath(path).name.split(".json")[0]
        is_dated = _DATE_ENDING.search(name) is not None
        return _WITH_PLUS.fullmatch(name) or (None if is_dated else _WITH_HYPHEN.fullmatch(name))


def _order_in_partition(partition: str, offset: int) -> int | None:
    """Return the order of an offset in a partition; None if either is out of range."""
    if not partition.isdecimal() or int(partition) >= _PARTITIONS or offset >> _OFFSET_BITS:
        return None
    return (int(partition) << _OFFSET_BITS) + offset + 1


def _order_of_groups(match: re.Match[str]) -> int | None:
    """Return the order by the groups of a pattern; None if a group holds no number or no time."""
    groups = match.groupdict()
    try:
        number = group_number(match)
    except ValueError:
        return None
    if groups.get("partition") is not None:
        return _order_in_partition(groups["partition"], number or 0)
    if groups.get("time") is None:
        return _NO_ORDER if number is None else number + 1
    digits = time_digits(groups["time"])
    digits += _FIRST_DAYS.get(len(digits), "")
    try:
        moment = datetime.strptime(digits[:14].ljust(14, "0"), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    millis = int(moment.timestamp()) * 1000 + int(digits[14:17].ljust(3, "0"))
    if millis < 0:
        return None  # it is no date, but a number such as seconds since 1970
    return (millis << COUNTER_BITS) + min(number or 0, (1 << COUNTER_BITS) - 1)


def time_of(order: int) -> int | None:
    """Return the time in a file's name in microseconds since 1970, by the file's order; None without a time."""
    return (order >> COUNTER_BITS) * 1000 if order >> COUNTER_BITS else None


def with_ordinals(
    _table: TableName, listed: Sequence[SourceObject], history: ObjectHistory
) -> Sequence[SourceObject]:
    """Return files with an order for those whose names give none: the known one, else one after all others.

    New files are counted in the order of their names, with numbers compared by value.
    """
    orders = {name: item.order for items in (history.waiting, history.applied) for name, item in items.items()}
    last = max([*orders.values(), *(item.order for item in listed)], default=0)
    ordered = []
    for item in sorted(listed, key=lambda item: natural_sort_key(item.name)):
        order = item.order or orders.get(item.name)
        if order is None:
            last += 1
            order = last
        ordered.append(replace(item, order=order))
    return ordered


def in_folders(
    folder_of: Callable[[str], str], table: TableName, listed: Sequence[SourceObject], history: ObjectHistory
) -> Sequence[SourceObject]:
    """Return the files of snapshots that are folders with their orders; `folder_of` returns the folder of a file.

    If the name of the folder gives an order, all its files have the same one, and are counted from there. Raises
    SourceError for a folder that may be a snapshot or a part of one.
    """
    refuse_nested(table, {folder_of(item.name) for item in listed})
    orders = {name: item.order for items in (history.waiting, history.applied) for name, item in items.items()}
    folders: dict[tuple[str, int], list[SourceObject]] = defaultdict(list)
    for item in sorted(listed, key=lambda item: natural_sort_key(item.name)):
        folders[folder_of(item.name), item.order].append(item)
    ordered = []
    for (_, order), files in folders.items():
        last = max([order - 1, *(orders[item.name] for item in files if item.name in orders)])
        for item in files if order else ():
            last += item.name not in orders
            ordered.append(replace(item, order=orders.get(item.name, last)))
    return with_ordinals(table, [*ordered, *(item for item in listed if not item.order)], history)


def with_sink_orders(
    table: TableName, listed: Sequence[SourceObject], history: ObjectHistory
) -> Sequence[SourceObject]:
    """Return files of messages with their orders.

    Raises SourceError if some files have names of a sink and new ones do not: counted after all others, these would
    lie before the next files of the sink, or have the order of one.
    """
    names = FileNames(is_messages=True)
    earlier = {**history.waiting, **history.applied}
    new = [item.name for item in listed if not item.order and item.name not in earlier]
    applied = (item.name for item in history.applied.values() if item.order == names.order_of_sink(item.name))
    sink_file = next((item.name for item in listed if item.order), None) or next(applied, None)
    if new and sink_file is not None:
        others = f" and {len(new) - 1} more" if len(new) > 1 else ""
        raise SourceError(
            f"{table}: the order of files cannot be told from their names",
            found=f"found {new[0]}{others}, and {sink_file}, whose name is that of a sink: partition and offset",
            todo="Nothing of this batch was applied. Move away files that do not belong there. If all of them are "
            r"files of a sink, set `names` with groups, as 'orders-(?P<partition>\d+)-(?P<counter>\d+)\.json'; if "
            "none is, groups of `names` give their order (docs/reference/plain-files.md).",
        )
    return with_ordinals(table, listed, history)


def natural_sort_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key by which names are compared with their numbers by value.

    >>> sorted(["a10", "a9", "a"], key=natural_sort_key)
    ['a', 'a9', 'a10']
    """
    parts = _DIGITS.split(name)
    return tuple((place % 2, int(part) if place % 2 else 0, part) for place, part in enumerate(parts))


def snapshot_of(snapshots: str, path_columns: Collection[str]) -> Callable[[str], str | None]:
    """Return a function that returns the snapshot of a file by its path, for the setting `snapshots`.

    The snapshot is named by the file (`file`), by its folder (`folder`), or has no name (`rewritten`).
    """
    if snapshots == "folder":
        return snapshot_folder(path_columns)
    return str if snapshots == "file" else lambda _: None
