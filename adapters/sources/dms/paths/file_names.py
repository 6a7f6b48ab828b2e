"""Names of DMS files: full load or changes, and their order.

The rules are those of docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.S3.html. Full loads count in hexadecimal
(`LOAD00000001`, …, `LOAD0000000A`), each segment of a parallel load by itself. Names of change files have the time
at which they were written (`20141029-1134010000`), with a counter behind the milliseconds; they may lie in folders
named by commit date. Names of transaction files (`CDC_TXN-20201117153046033`) have that time as well. A name is a
path below the table's folder, with `/` between its parts.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from lakeward.adapters.sources.dms.paths.date_folders import Period, find_period, folder_before
from lakeward.adapters.sources.landing.places import FileName, Naming, Part, Place, Places, format_of
from lakeward.adapters.sources.landing.setting_values import group_number, time_digits

_LOAD = re.compile(r"(?:SEGMENT(?P<segment>\d{1,6})_)?LOAD(?P<counter>[0-9A-Fa-f]{5,8})$")
_CHANGES = re.compile(r"(?P<second>\d{8}-\d{6})(?P<millis>\d{0,3})(?P<counter>\d{0,6})$")
_TRANSACTIONS = re.compile(r"CDC_TXN-(?=\d{8}-?\d{6})")
_FORMAT = re.compile(r"\.(?P<format>csv|parquet)(?P<packed>\.gz)?$", re.IGNORECASE)

_COUNTER_BITS: Final = 20
_DATED_BITS: Final = 10
_LOAD_BITS: Final = 32
_SEGMENT_BITS: Final = 24
_HASH_BITS: Final = 38
_UNTIMED: Final = 1 << 60
"""The base of orders without a time.

Orders are whole numbers of 64 bits. Change files: milliseconds since 1970, then a counter of 20 bits (in a date
folder 10 bits of the counter and 10 of the date); where only a counter orders them, 2^60 plus the counter. Files of
a full load: the counter, below the number of a `SEGMENT1_` (so all are smaller than the order of any file written
after 1972); in a segment known by its name, 38 bits of the name's hash and 24 of the counter, as a negative number.
"""


@dataclass(frozen=True, slots=True)
class Names(Naming):
    """Patterns of a table's file names, where they differ from those of DMS.

    `dates` is the form of date folders, as `YYYY/MM/DD`; None accepts every form of DMS. `load` and `changes` are
    patterns of whole paths; their groups `time`, `counter` and `hex` give the order.
    """

    dates: str | None = None
    load: re.Pattern[str] | None = None
    changes: re.Pattern[str] | None = None

    def read(self, path: str, part: Part) -> FileName | None:
        """Return what the path of a file below a folder states, or None if such files are not read there."""
        if part.is_shared:
            return read_transactions(path, self)
        load, changes = self.load if part.has_load else None, self.changes if part.has_changes else None
        name = read_name(path, replace(self, load=load, changes=changes))
        return name if name is not None and (part.has_load if name.is_load else part.has_changes) else None

    def listed_from(self, name: str) -> str | None:
        """Return a text that sorts before all files of a name's time or later; None with `changes` patterns."""
        return listed_from(name, self.dates) if self.changes is None else None

    def number(self, name: str) -> tuple[str, int] | None:
        """Return the series of a full-load file and its number in it, or None for names that are not DMS's."""
        return load_number(name) if self.load is None else None

    def written(self, order: int) -> int | None:
        """Return when a change file was written, in microseconds since 1970, or None if its name has no time."""
        return written_at(order, self)


STANDARD: Final = Names()
PLACES: Final = Places(Place(STANDARD))
"""The folders and file names of DMS, unless settings change them."""


def read_name(name: str, names: Names = STANDARD) -> FileName | None:
    """Return what a file's name states, or None for a name that DMS does not write.

    >>> read_name("LOAD0000000A.csv").order
    10
    >>> read_name("20141029-113401001.csv").order < read_name("20141029-1134010011.csv.gz").order
    True
    >>> read_name("part_2026/LOAD00000001.csv").order < 0
    True
    >>> read_name("29102014/20141029-113401001.csv").is_load
    False
    >>> read_name("notes.csv") is None
    True
    """
    load = _matched_load_order(name, names.load) if names.load else _load_order(_stem(name))
    if load is not None:
        return FileName(is_load=True, order=load, format=format_of(name))
    changes = (
        _matched_changes_order(name, names.changes) if names.changes else _changes_order(_stem(name), names.dates)
    )
    return None if changes is None else FileName(is_load=False, order=changes, format=format_of(name))


def read_transactions(name: str, names: Names = STANDARD) -> FileName | None:
    """Return what the name of a transaction file states, or None for a name that DMS does not write.

    DMS writes these files as CSV only. Their order is the time at which they were written.

    >>> found = read_transactions("CDC_TXN-20201117153046033.csv")
    >>> found == replace(known_name("20201117-153046033.csv"), is_shared=True)
    True
    """
    folder, slash, base = _stem(name).rpartition("/")
    if format_of(name) != "csv" or _TRANSACTIONS.match(base) is None:
        return None
    digits = base.removeprefix("CDC_TXN-").replace("-", "", 1)
    order = _changes_order(f"{folder}{slash}{digits[:8]}-{digits[8:]}", names.dates)
    return None if order is None else FileName(is_load=False, order=order, format="csv", is_shared=True)


def _stem(name: str) -> str:
    """Return a name without the ending of a data file, or an empty text for any other ending."""
    ending = _FORMAT.search(name)
    return "" if ending is None else name[: ending.start()]


def load_number(name: str) -> tuple[str, int] | None:
    """Return the series of a full-load file and its number in it, or None for a change file.

    >>> load_number("LOAD0000000A.csv"), load_number("20141029-113401001.csv")
    (('', 10), None)
    """
    folder, _, file = name.rpartition("/")
    load = _LOAD.match(_FORMAT.sub("", file))
    if load is None:
        return None
    series = folder if load["segment"] is None else f"{folder}/SEGMENT{load['segment']}"
    return series, int(load["counter"], 16)


def written_at(order: int, names: Names = STANDARD) -> int | None:
    """Return when a change file was written, in microseconds since 1970, by its order; None without a time.

    >>> written_at(read_name("20141029-113401001.csv").order)
    1414582441001000
    """
    is_timed = names.changes is None or "time" in names.changes.groupindex
    return (order >> _COUNTER_BITS) * 1000 if is_timed else None


def listed_from(name: str, dates: str | None = None) -> str | None:
    """Return a text that sorts before all files of a name's time or later, or None if nothing is known of it.

    Counters are left out, because 10 comes after 9 and sorts before it. In date folders the text is that of an
    earlier folder. Files of a full load sort behind all others.

    >>> listed_from("20141029-1134010019.csv"), listed_from("2014/10/29/20141029-1134010019.csv")
    ('20141029-113401001', '2014/10/27/')
    """
    folder, _, base = name.rpartition("/")
    changes = _CHANGES.match(_FORMAT.sub("", base))
    if changes is None:
        return None
    if not folder:
        return changes["second"] + changes["millis"]
    first = folder_before(folder, dates)
    return None if first is None else f"{first}/"


def known_name(name: str, names: Names = STANDARD) -> FileName:
    """Return what the name of a listed DMS file states; raises ValueError for any other name."""
    file_name = read_name(name, names)
    if file_name is None:
        raise ValueError(f"{name} is no name that DMS gives")
    return file_name


# Full loads.


def _load_order(stem: str) -> int | None:
    folder, _, base = stem.rpartition("/")
    load = _LOAD.match(base)
    if load is None:
        return None
    counter = int(load["counter"], 16)
    if folder:
        return _segment_order(f"{folder}/{load['segment'] or ''}", counter)
    return (int(load["segment"] or 0) << _LOAD_BITS) + counter


def _segment_order(segment: str, counter: int) -> int:
    """Return an order that depends on names alone; the order of segments among each other has no meaning."""
    counter = min(counter, (1 << _SEGMENT_BITS) - 1)
    return (_hash(segment, _HASH_BITS) << _SEGMENT_BITS) + counter - (1 << (_HASH_BITS + _SEGMENT_BITS))


def _matched_load_order(name: str, pattern: re.Pattern[str]) -> int | None:
    match = pattern.fullmatch(name)
    if match is None:
        return None
    try:
        counter = group_number(match)
    except ValueError:
        return None
    if counter is not None and counter < 1 << (_LOAD_BITS + _SEGMENT_BITS):
        return counter
    return _hash(match[0], _HASH_BITS + _SEGMENT_BITS) - (1 << (_HASH_BITS + _SEGMENT_BITS))


def _hash(text: str, bits: int) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - bits)


# Changes.


def _changes_order(stem: str, dates: str | None) -> int | None:
    folder, _, base = stem.rpartition("/")
    changes = _CHANGES.match(base)
    if changes is None or (written := _written_millis(changes)) is None:
        return None
    counter = int(changes["counter"] or 0)
    if not folder:
        return (written << _COUNTER_BITS) + counter
    period = find_period(folder, dates)
    return None if period is None else _dated_order(written, counter, period)


_AHEAD: Final = {"HH": 16, "DD": 2, "MM": 2}
"""The most periods by which a folder's date may be ahead of the time in a name, and one to spare.
`DatePartitionTimezone` may be up to 14 hours ahead of UTC."""


def _dated_order(written: int, counter: int, period: Period) -> int:
    """Return the order of a file in a date folder.

    Of two files of one name the one with the older date comes first.
    """
    most = (1 << _DATED_BITS) - 1
    age = min(most, max(0, period.age(written) + _AHEAD[period.unit]))
    return (written << _COUNTER_BITS) + (min(counter, most) << _DATED_BITS) + most - age


def _matched_changes_order(name: str, pattern: re.Pattern[str]) -> int | None:
    match = pattern.fullmatch(name)
    if match is None:
        return None
    groups = match.groupdict()
    try:
        counter = group_number(match)
    except ValueError:
        return None
    if groups.get("time") is None:
        return None if counter is None else _UNTIMED + min(counter, _UNTIMED - 1)
    digits = time_digits(groups["time"])
    second, millis = f"{digits[:8]}-{digits[8:14].ljust(6, '0')}", digits[14:17]
    written = _millis(second, millis) if len(digits) >= 8 else None
    if written is None:
        return None
    return (written << _COUNTER_BITS) + min(counter or 0, (1 << _COUNTER_BITS) - 1)


def _written_millis(name: re.Match[str]) -> int | None:
    return _millis(name["second"], name["millis"])


def _parts(second: str) -> tuple[int, int, int, int, int, int]:
    """Return year to second of the time in a name.

    It is faster than strptime, and a table may have a million files.
    """
    year, month, day = int(second[:4]), int(second[4:6]), int(second[6:8])
    return year, month, day, int(second[9:11]), int(second[11:13]), int(second[13:15])


def _millis(second: str, fraction: str) -> int | None:
    try:
        moment = datetime(*_parts(second), tzinfo=UTC)
    except ValueError:
        return None
    millis = int(moment.timestamp()) * 1000 + int(fraction.ljust(3, "0"))
    return millis if millis >= 0 else None
