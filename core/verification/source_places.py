"""Places in the log of a source database, and whether a table has passed one.

A place is the number that `adapters.sources.messages.log_positions` makes of the same place in a message, so both
can be compared.
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
    """Where a database was: its clock in microseconds since 1970, and its log position, as text and as a number.

    `origin` is the name of the log, as `core.checks.log_steps.LogName` reads it. None is what the database does not
    tell, or not to this user.
    """

    time: int | None = None
    log: str | None = None
    sequence: int | None = None
    origin: str | None = None


def postgresql_place(lsn: str) -> int | None:
    """Return the number of an LSN; the changes of transactions that committed before it have lower numbers.

    >>> postgresql_place("0/1F") == 31 * 10**19
    True
    """
    match = _LSN.fullmatch(lsn)
    return None if match is None else ((int(match[1], 16) << 32) + int(match[2], 16)) * _LSN_SPAN


def binlog_place(file: str, position: str) -> int | None:
    """Return the number of a place in a binlog of MariaDB or MySQL; the changes before it have lower numbers.

    >>> binlog_place("mysql-bin.000002", "7") == (2 * 10**16 + 7) * 10**7
    True
    """
    match = _FILE_NUMBER.search(file)
    if match is None or not position.isdecimal():
        return None
    return (int(match[0]) * _POSITIONS + int(position)) * _ROWS


def has_passed(progress: Progress, place: SourcePlace, *, is_lifted: bool) -> bool | None:
    """Return True if a table has applied a change that was committed behind a place; None where that is not known.

    Places in the log are compared where changes have them, they are of the same log, and the log never started over
    (not `is_lifted`). Else commit times are compared. A sequence below all places is the value of a column.
    """
    high = progress.high_watermark
    in_log = progress.sequences is Sequences.PLACES and high is not None and high.sequence >= _LSN_SPAN
    if in_log and place.sequence is not None and not is_lifted and _is_same_log(progress, place):
        return high is not None and high.sequence >= place.sequence
    if progress.time is None or place.time is None:
        return None
    return progress.time > place.time


def _is_same_log(progress: Progress, place: SourcePlace) -> bool:
    """Return True if the changes of a table are from the log of a place, as far as names tell.

    A replica has another log.
    """
    source_log = LogName.of(place.origin)
    logs = [LogName.of(name) for name in progress.logs or ()]
    return all(
        log.base in ("", source_log.base)
        and (log.server == source_log.server or "" in (log.server, source_log.server))
        for log in logs
    )
