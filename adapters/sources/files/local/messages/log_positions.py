"""Positions of changes in the logs of databases, equal to `adapters.sources.messages.log_positions` in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from lakeward.adapters.sources.files.local.values.texts import number
from lakeward.adapters.sources.messages.mongodb import PLACE
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.core.checks.log_steps import FOLLOWS, OVERLAP
from lakeward.core.events import READ_SEQUENCE

Field: TypeAlias = Callable[[str], str | None]
"""Returns a field of a message's source as a text, by its name."""

_SPAN: Final = 10**19
_POSITIONS: Final = 10**16
_ROWS: Final = 10**7
_TRANSACTIONS: Final = 2**40
_MOST: Final = 10**38

_COMMITS: Final = re.compile(r'\[ *(?:null|"([^"\\]*)") *(?:, *(?:null|"[^"\\]*") *)*\]')
_FILE_NUMBER: Final = re.compile(r"[0-9]{1,10}\Z")
_FILE_END: Final = re.compile(r"[0-9]+\Z")
_COMMIT_LSN: Final = re.compile(r"[0-9a-fA-F]{20}")


def place_and_log(field: Field, is_read: bool) -> tuple[str, str | None]:
    """Return the sequence of a message as a text, and the log of its position.

    Without a known field the sequence is that of `no_place`. If a field holds no valid position, the sequence is
    the field with its name. `core.checks.log_steps.LogName` reads the log.

    >>> place_and_log({"lsn": "0/16B3748"}.get, is_read=False)[0]
    'lsn: 0/16B3748'
    """
    if (lsn := field("lsn")) is not None:
        commit, own_position = _commit(field), number(lsn)
        log = f"{OVERLAP} " if commit is None else _log(field) or f"{FOLLOWS} "
        return _place_or_field(_pair(own_position if commit is None else commit, own_position), "lsn", lsn), log
    if file := field("file"):
        server = field("server_id")
        named = f"{OVERLAP}{_FILE_END.sub('', _plain(file))} {server if server not in (None, '0') else ''}"
        return _place_or_field(_mysql(field, file), "file", file), named
    if (commit_lsn := field("commit_lsn")) is not None:
        return _place_or_field(_sql_server(_plain(commit_lsn)), "commit_lsn", commit_lsn), _log(field)
    if (scn := field("scn")) is not None:
        commit, own_position = number(field("commit_scn")), number(scn)
        return _place_or_field(_pair(own_position if commit is None else commit, own_position), "scn", scn), _log(
            field
        )
    return no_place(is_read), None


def place_of_mongodb(field: Field, is_read: bool) -> str:
    """Return the sequence of a rewritten message of MongoDB's connector; its log has no name."""
    place = field(PLACE)
    return no_place(is_read) if place is None else _place_or_field(number(place), PLACE, place)


def no_place(is_read: bool) -> str:
    """Return the sequence of a message without a position: that of a snapshot row is below all changes."""
    return str(READ_SEQUENCE) if is_read else "0"


def _log(field: Field) -> str | None:
    """Return the log of a position outside of binlogs: in Oracle's, transactions overlap."""
    return None if field("scn") is None else f"{OVERLAP} "


def _plain(text: str) -> str:
    if not text.isprintable():
        raise SparkNeeded("a place in a log has a character that is not printed")
    return text


def _place_or_field(place: int | None, name: str, value: str) -> str:
    """Return a position as a text; if it is None, the field that should hold it, with its name."""
    return f"{name}: {value}" if place is None else str(place)


def _pair(high: int | None, low: int | None, span: int = _SPAN) -> int | None:
    """Return `high * span + low`; None if it has more digits than a decimal."""
    if high is None or low is None or abs(high * span) >= _MOST:
        return None
    place = high * span + low
    return place if abs(place) < _MOST else None


def _commit(field: Field) -> int | None:
    """Return the LSN of the last commit: the first element of the JSON list in the field `sequence`."""
    places = field("sequence")
    if places is None:
        return None
    match = _COMMITS.fullmatch(places)
    if match is None:
        raise SparkNeeded("`sequence` of a message is no list of texts")
    return number(match[1])


def _mysql(field: Field, file: str) -> int | None:
    match = _FILE_NUMBER.search(file)
    row = number(field("row"))
    place = _pair(None if match is None else int(match[0]), number(field("pos")), _POSITIONS)
    return _pair(place, row or 0, _ROWS)


def _sql_server(commit_lsn: str) -> int | None:
    digits = commit_lsn.replace(":", "")
    if not _COMMIT_LSN.fullmatch(digits):
        return None
    return _pair(int(digits[:10], 16), int(digits[10:], 16), _TRANSACTIONS)
