"""Options that select rows of a quarantine, shared by the quarantine commands."""

from __future__ import annotations

import fnmatch
import functools
import inspect
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeAlias

import typer

from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError
from lakeward.core.merge.change_log import Reason
from lakeward.core.ports import Entry
from lakeward.core.text.literals import read_key, same_key
from lakeward.core.text.suggestions import nearest
from lakeward.entrypoints.views.quarantine_entries import place

Key = Annotated[list[str] | None, typer.Argument(help="The key.", show_default="all")]
At = Annotated[str | None, typer.Option("--at", help="One row, as FILE:ROW.")]
Reasons = Annotated[
    list[str] | None,
    typer.Option("--reason", help="Only rows with this reason; may be repeated.", show_default="all"),
]
Since = Annotated[
    str | None,
    typer.Option(
        help="Only rows quarantined since then: a time, or a duration before now (2h, 7d).", show_default="all"
    ),
]
Before = Annotated[
    str | None,
    typer.Option(help="Only rows quarantined before then: a time, or a duration before now.", show_default="all"),
]
File = Annotated[
    str | None, typer.Option(help="Only rows of this file; `*` stands for anything.", show_default="all")
]
Limit = Annotated[
    int | None, typer.Option(min=1, help="At most this many rows, the oldest first.", show_default="all")
]
First = Annotated[
    int | None,
    typer.Option("--limit", "--events", min=1, help="At most this many rows, the first ones.", show_default="all"),
]

FILTERS: Final = {"reason": Reasons, "since": Since, "before": Before, "file": File, "limit": Limit}
BY_KEY: Final = {"key": Key, "at": At}
Command: TypeAlias = Callable[..., int]


def choosing(options: dict[str, Any]) -> Callable[[Command], Command]:
    """Return a decorator that replaces the parameter `chosen` of a command by these options.

    The command receives a `Choice` built from the options. The call raises ConfigError for an unknown reason or an
    invalid time.
    """

    def with_options(command: Command) -> Command:
        @functools.wraps(command)
        def call(**arguments: Any) -> int:
            return command(chosen=choice(**{name: arguments.pop(name) for name in options}), **arguments)

        own = inspect.signature(command, eval_str=True).parameters
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
            for name, option in options.items()
        ]
        parameters = [
            parameter for name, p in own.items() for parameter in (added if name == "chosen" else [_by_name(p)])
        ]
        call.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in parameters}
        return call

    return with_options


def _by_name(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Filter of rows in a quarantine. Times are in microseconds since 1970."""

    key: Sequence[str] = ()
    at: str | None = None
    reasons: Sequence[Reason] = ()
    since: int | None = None
    before: int | None = None
    file: str | None = None
    limit: int | None = None

    @property
    def is_any(self) -> bool:
        """True if the filter matches all rows; `limit` is no filter."""
        return not (self.key or self.at or self.reasons or self.since or self.before or self.file)

    def __call__(self, entries: Sequence[Entry], dimension: Dimension, *, by_hold: bool = False) -> list[Entry]:
        """Return the rows that match, without applying `limit`.

        With `by_hold`, rows that hold the key through another key match as well. Keys are compared as values of the
        table's types. Raises ConfigError for an invalid key.
        """
        if self.key:
            read_key(dimension, self.key)
        return [entry for entry in entries if self._means(entry, dimension, by_hold=by_hold)]

    def _means(self, entry: Entry, dimension: Dimension, *, by_hold: bool) -> bool:
        keys = entry.held_keys if by_hold else entry.keys
        return (
            (not self.key or any(same_key(dimension, json.loads(key), self.key) for key in keys))
            and (self.at is None or place(entry) == self.at)
            and (not self.reasons or Reason(entry.reason) in self.reasons)
            and (self.since is None or entry.since >= self.since)
            and (self.before is None or 0 < entry.since < self.before)
            and (self.file is None or fnmatch.fnmatchcase(entry.object, self.file))
        )


def choice(
    *,
    key: Sequence[str] | None = None,
    at: str | None = None,
    reason: Sequence[str] | None = None,
    since: str | None = None,
    before: str | None = None,
    file: str | None = None,
    limit: int | None = None,
) -> Choice:
    """Return the filter for the options; raises ConfigError for an unknown reason or an invalid time."""
    if key and at:
        raise ConfigError(
            "a key and --at cannot be given together",
            found=f"{' '.join(key)}, and --at {at}",
            todo="Leave one of them out.",
        )
    return Choice(
        key=tuple(key or ()),
        at=at,
        reasons=[_reason(text) for text in reason or ()],
        since=None if since is None else moment(since),
        before=None if before is None else moment(before),
        file=file,
        limit=limit,
    )


def _reason(text: str) -> Reason:
    reasons = [reason.value for reason in Reason]
    if text not in reasons:
        raise ConfigError(
            f"{text!r} is not a reason", found="the reasons are " + ", ".join(reasons), todo=nearest(text, reasons)
        )
    return Reason(text)


_DURATION: Final = re.compile(r"([0-9]+) *(s|m|min|h|d)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


def moment(text: str, now: datetime | None = None) -> int:
    """Return a time, or a duration before now, in microseconds since 1970; without a zone it is a local time.

    >>> moment("2h", datetime(1970, 1, 1, 3, tzinfo=UTC)), moment("1970-01-01T00:00:01Z")
    (3600000000, 1000000)
    """
    duration = _DURATION.fullmatch(text.strip())
    try:
        if duration is not None:
            time = (now or datetime.now(UTC)) - timedelta(**{_UNITS[duration[2]]: int(duration[1])})
        else:
            time = datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{text!r} is neither a time nor a duration",
            todo="Write a time as 2026-11-21T10:00, in your zone, or 2026-11-21T10:00Z; a duration as 30m, 2h, 7d.",
        ) from error
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
