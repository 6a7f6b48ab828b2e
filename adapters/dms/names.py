"""What the names of DMS files say: full load or changes, and in which order.

Names are those of docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.S3.html: full
loads count in hexadecimal (`LOAD00000001`, …, `LOAD0000000A`); files of changes carry the
time they were written (`20141029-1134010000`), with a counter behind the milliseconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_LOAD = re.compile(r"LOAD(?P<counter>[0-9A-Fa-f]{5,8})$")
_CHANGES = re.compile(r"(?P<second>\d{8}-\d{6})(?P<millis>\d{0,3})(?P<counter>\d{0,6})$")
_FORMAT = re.compile(r"\.(?P<format>csv|parquet)(?P<packed>\.gz)?$", re.IGNORECASE)

_COUNTER_BITS = 20


@dataclass(frozen=True, slots=True)
class FileName:
    """A DMS file as its name tells it. Load files sort before files of changes."""

    is_load: bool
    order: int
    format: str


def read_name(name: str) -> FileName | None:
    """Return what a file's name says, or None where it is not one that DMS writes.

    >>> read_name("LOAD0000000A.csv").order
    10
    >>> read_name("20141029-113401001.csv").order < read_name("20141029-1134010011.csv.gz").order
    True
    >>> read_name("notes.csv") is None
    True
    """
    ending = _FORMAT.search(name)
    if ending is None:
        return None
    stem, format_ = name[: ending.start()], ending["format"].lower()
    if load := _LOAD.match(stem):
        return FileName(is_load=True, order=int(load["counter"], 16), format=format_)
    if (changes := _CHANGES.match(stem)) and (written := _millis(changes)) is not None:
        order = (written << _COUNTER_BITS) + int(changes["counter"] or 0)
        return FileName(is_load=False, order=order, format=format_)
    return None


def load_number(name: str) -> tuple[str, int] | None:
    """Return the series of a file of a full load, and its number there; None for a file of changes.

    >>> load_number("LOAD0000000A.csv"), load_number("20141029-113401001.csv")
    (('', 10), None)
    """
    folder, _, file = name.rpartition("/")
    load = _LOAD.match(_FORMAT.sub("", file))
    return None if load is None else (folder, int(load["counter"], 16))


def listed_from(name: str) -> str | None:
    """Return the text before which no file sorts that is of a name's time or later; None where that is not told.

    Counters are no part of it: 10 comes after 9, and sorts before it. Files of a full load sort behind all others.

    >>> listed_from("20141029-1134010019.csv")
    '20141029-113401001'
    """
    changes = _CHANGES.match(_FORMAT.sub("", name))
    return None if changes is None else changes["second"] + changes["millis"]


def known_name(name: str) -> FileName:
    """Return what the name of a file that was listed as one of DMS says."""
    found = read_name(name)
    if found is None:
        raise ValueError(f"{name} is no name that DMS gives")
    return found


def _parts(second: str) -> tuple[int, int, int, int, int, int]:
    """Return year to second of a time as names have it: a table may have a million of them."""
    year, month, day = int(second[:4]), int(second[4:6]), int(second[6:8])
    return year, month, day, int(second[9:11]), int(second[11:13]), int(second[13:15])


def _millis(name: re.Match[str]) -> int | None:
    try:
        second = datetime(*_parts(name["second"]), tzinfo=UTC)
    except ValueError:
        return None
    millis = int(second.timestamp()) * 1000 + int(name["millis"].ljust(3, "0"))
    return millis if millis >= 0 else None
