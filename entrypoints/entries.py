"""Rows in quarantine as commands choose and show them."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.memory import Reason
from lakeward.core.mending import ADVICE
from lakeward.core.nearest import nearest
from lakeward.core.ports import Entry
from lakeward.entrypoints import documents

Reasons = Annotated[
    list[str] | None,
    typer.Option("--reason", help="Only rows of this reason; may be given again.", show_default="all"),
]
Since = Annotated[
    str | None,
    typer.Option(
        help="Only rows that are there since that: a time, or a duration before now (2h, 7d).", show_default="all"
    ),
]
Before = Annotated[
    str | None,
    typer.Option(help="Only rows that were there before that: a time, or a duration.", show_default="all"),
]
File = Annotated[
    str | None, typer.Option(help="Only rows of this file; `*` stands for anything.", show_default="all")
]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many, the oldest first.", show_default="all")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which rows of a quarantine are meant. Times are in microseconds since 1970."""

    key: Sequence[str] = ()
    at: str | None = None
    reasons: Sequence[Reason] = ()
    since: int | None = None
    before: int | None = None
    file: str | None = None
    limit: int | None = None

    @property
    def is_any(self) -> bool:
        """Whether nothing says which rows are meant: a limit alone does not."""
        return not (self.key or self.at or self.reasons or self.since or self.before or self.file)

    def __call__(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return those that are meant, whatever the limit."""
        return [entry for entry in entries if self._means(entry)]

    def _means(self, entry: Entry) -> bool:
        return (
            (not self.key or key_parts(entry) == list(self.key))
            and (self.at is None or place(entry) == self.at)
            and (not self.reasons or Reason(entry.reason) in self.reasons)
            and (self.since is None or entry.since >= self.since)
            and (self.before is None or entry.since < self.before)
            and (self.file is None or fnmatch.fnmatchcase(entry.object, self.file))
        )


def choice(
    *,
    key: Sequence[str] | None = None,
    at: str | None = None,
    reasons: Sequence[str] | None = None,
    since: str | None = None,
    before: str | None = None,
    file: str | None = None,
    limit: int | None = None,
) -> Choice:
    """Return what the options mean; raises ConfigError for a reason or a time that is none."""
    if key and at:
        raise ConfigError(
            "say which rows are meant: by their key, or by file and row",
            found=f"{' '.join(key)}, and --at {at}",
            todo="Leave one of them out.",
        )
    return Choice(
        key=tuple(key or ()),
        at=at,
        reasons=[_reason(text) for text in reasons or ()],
        since=None if since is None else moment(since),
        before=None if before is None else moment(before),
        file=file,
        limit=limit,
    )


def _reason(text: str) -> Reason:
    known = [reason.value for reason in Reason]
    if text not in known:
        raise ConfigError(
            f"{text!r} is no reason", found="reasons are " + ", ".join(known), todo=nearest(text, known)
        )
    return Reason(text)


_DURATION: Final = re.compile(r"([0-9]+) *(s|m|min|h|d)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


def moment(text: str, now: datetime | None = None) -> int:
    """Return a time, or a duration before now, in microseconds since 1970; without a zone it is the user's.

    >>> moment("2h", datetime(1970, 1, 1, 3, tzinfo=UTC)), moment("1970-01-01T00:00:01Z")
    (3600000000, 1000000)
    """
    duration = _DURATION.fullmatch(text.strip())
    try:
        if duration is not None:
            found = (now or datetime.now(UTC)) - timedelta(**{_UNITS[duration[2]]: int(duration[1])})
        else:
            found = datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{text!r} is no time and no duration",
            todo="Write a time as 2026-11-21T10:00, in your zone, or 2026-11-21T10:00Z; a duration as 30m, 2h, 7d.",
        ) from error
    return (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def key_parts(entry: Entry) -> list[str] | None:
    """Return the parts of a key, or None where it is not known."""
    return None if entry.key is None else [str(part) for part in json.loads(entry.key)]


def key_words(entry: Entry) -> str:
    """Return a key as a person writes it."""
    return "–" if entry.key is None else " ".join(key_parts(entry) or ())


def place(entry: Entry) -> str:
    """Return where a row is from."""
    return f"{entry.object}:{entry.row}"


def named(entry: Entry) -> str:
    """Return how a command names a row: by the key that it holds, as a shell takes it, else by its place."""
    if not entry.is_held:
        return shlex.join(["--at", place(entry)])
    parts = key_parts(entry) or ()
    return shlex.join(["--", *parts] if any(part.startswith("-") for part in parts) else parts)


def state(entry: Entry) -> str:
    """Return whether later events wait behind a row, or it is mended, or final."""
    if entry.mended is not None:
        return "mended"
    return "held" if entry.is_held else "final"


COLUMNS: Final = (
    *("table", "key", "state", "reason", "detail", "advice", "object", "row", "operation", "position"),
    *("time", "batch", "since", "text", "waits"),
)
"""What `document` has."""


def document(table: TableName, entry: Entry) -> dict[str, Any]:
    """Return a row as programs get it."""
    return {
        "table": str(table),
        "key": key_parts(entry),
        "state": state(entry),
        "reason": entry.reason,
        "detail": entry.detail,
        "advice": ADVICE[Reason(entry.reason)],
        "object": entry.object,
        "row": entry.row,
        "operation": entry.operation,
        "position": entry.position,
        "time": documents.time(entry.time),
        "batch": entry.batch,
        "since": documents.time(entry.since),
        "text": entry.text,
        "waits": entry.waits,
    }
