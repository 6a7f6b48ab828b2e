"""Places of a source database, and whether what a table has applied has passed one.

A place in a log is the number that `adapters.sources.messages.log_positions` makes of the same place in a message,
so that both can be compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lakeward.core.checks.log_steps import LogName
from lakeward.core.events import Sequences
from lakeward.core.progress import Progress

_LSN: Final = re.compile(r"([0-9A-Fa-f]+)/([0-9A-Fa-f]+)")
_FILE_NUMBER: Final = re.compile(r"[0-9]{1,10}\Z")
_LSN_SPAN: Final = 10**19
_POSITIONS: Final = 10**16
_ROWS: Final = 10**7


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """Where a database was: its clock in microseconds since 1970, and its log, in words and as a number.

    `origin` is the name of that log, as `core.checks.log_steps.LogName` reads it. What the database does not tell,
    or not to this user, is None.
    """

    time: int | None = None
    log: str | None = None
    sequence: int | None = None
    origin: str | None = None


def postgresql_place(lsn: str) -> int | None:
    """Return the number of an LSN; the changes of transactions that committed before it are below.

    >>> postgresql_place("0/1F") == 31 * 10**19
    True
    """
    found = _LSN.fullmatch(lsn)
    return None if found is None else ((int(found[1], 16) << 32) + int(found[2], 16)) * _LSN_SPAN


def binlog_place(file: str, position: str) -> int | None:
    """Return the number of a place in a binlog of MariaDB or MySQL; the changes before it are below.

    >>> binlog_place("mysql-bin.000002", "7") == (2 * 10**16 + 7) * 10**7
    True
    """
    found = _FILE_NUMBER.search(file)
    if found is None or not position.isdecimal():
        return None
    return (int(found[0]) * _POSITIONS + int(position)) * _ROWS


def has_passed(progress: Progress, place: SourcePlace, *, is_lifted: bool) -> bool | None:
    """Return whether a table has applied a change that was committed behind a place; None where nothing tells.

    By the place in the log where changes tell theirs, in the same log, and it counts as the database does (not
    `is_lifted`: the log never started over), else by the commit time of the newest change. A sequence that is lower
    than all places is the value of a column.
    """
    high = progress.high_water
    in_log = progress.sequences is Sequences.PLACES and high is not None and high.sequence >= _LSN_SPAN
    if in_log and place.sequence is not None and not is_lifted and _is_same_log(progress, place):
        return high is not None and high.sequence >= place.sequence
    if progress.time is None or place.time is None:
        return None
    return progress.time > place.time


def _is_same_log(progress: Progress, place: SourcePlace) -> bool:
    """Whether the changes of a table come from the log of a place, as far as names tell: a replica has another."""
    own = LogName.of(place.origin)
    logs = [LogName.of(name) for name in progress.logs or ()]
    return all(
        log.base in ("", own.base) and (log.server == own.server or "" in (log.server, own.server)) for log in logs
    )
