"""The notice of a run: which tables need attention, why, and what to do next.

A run sends one notice for all tables. What was sent is stored (`SentEntry`), so that the same entry is not sent
again within an hour. Two entries are the same if table, code and reason are, whatever numbers and times are in
them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.progress import Progress
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.reporting.failures import Failure
from lakeward.core.text.numbers import format_count

AGAIN_AFTER: Final = 3_600_000_000
"""For how many microseconds the same entry is not sent again."""

_SHOWN: Final = 20
"""The number of entries of a notice that are shown at most: a message of a service may have 256 KiB."""
_LONGEST: Final = 500
"""The number of characters of a part of an entry that are shown: a Java error has its stack trace as its text."""

_NUMBERS: Final = re.compile(r"(?<!\w)\d[\d,.:T+-]*Z?(?!\w)")
"""Counts and times within a reason; digits within a name do not match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeEntry:
    """Why a table needs attention; `table` is empty where it is about the pipeline as a whole.

    `code` is that of an alarm, the name of an error class, or `quarantine`, `held`, `inexact`, `load`, `strays`.
    `since` is when the entry was first sent, in microseconds since 1970, None if it was not sent before. `rows` is
    the number of rows since the last run; it adds up until the entry is sent.
    """

    table: str
    code: str
    reason: str
    found: str | None = None
    next_step: str | None = None
    since: int | None = None
    rows: int = 0

    @property
    def digest(self) -> str:
        """A digest of code and reason without numbers: with the table it identifies the entry.

        >>> one = NoticeEntry(table="a", code="c", reason="2 keys wait since 2026-11-29T10:00:00Z")
        >>> one.digest == replace(one, reason="17 keys wait since 2026-11-30T11:00:00Z", found="x").digest
        True
        >>> one.digest == replace(one, reason="2 keys of x2 wait since 2026-11-29T10:00:00Z").digest
        False
        """
        reason = _NUMBERS.sub("#", self.reason)
        return sha256(f"{self.code}\n{reason}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotice:
    """The notice of a run: pipeline, id of the run, time in microseconds since 1970, and entries."""

    pipeline: str
    run: str
    at: int
    entries: Sequence[NoticeEntry]

    @property
    def subject(self) -> str:
        """The subject in one line."""
        tables = {entry.table for entry in self.entries} - {""}
        needs = format_count(len(tables), "table needs somebody", "tables need somebody")
        return f"lakeward {self.pipeline}: {needs if tables else 'the pipeline needs somebody'}"

    @property
    def text(self) -> str:
        """The whole notice as text for people."""
        entries = "\n\n".join("\n".join(_lines(entry)) for entry in self._first)
        more = f"\n\nand {self.more:,} more: `lakeward status` shows all" if self.more else ""
        run = f" (run {self.run}, {_time(self.at)})" if self.run else f" ({_time(self.at)})"
        return f"{self.subject}{run}\n\n{entries}{more}\n"

    @property
    def more(self) -> int:
        """The number of entries that are not shown."""
        return len(self.entries) - len(self._first)

    def to_document(self) -> dict[str, Any]:
        """Return the notice as JSON values, for programs."""
        return {
            "pipeline": self.pipeline,
            "run": self.run,
            "at": _time(self.at),
            "subject": self.subject,
            "entries": [
                {
                    "table": _printable(entry.table) if entry.table else None,
                    "code": entry.code,
                    "reason": _printable(entry.reason),
                    "found": None if entry.found is None else _printable(entry.found),
                    "next_step": None if entry.next_step is None else _printable(entry.next_step),
                    "since": None if entry.since is None else _time(entry.since),
                }
                for entry in self._first
            ],
            "more": self.more,
        }

    @property
    def _first(self) -> Sequence[NoticeEntry]:
        return self.entries[:_SHOWN]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEntry:
    """An entry that a `notifier` took: table, digest, and when it took it first and last.

    Times are in microseconds since 1970, and 0 where it has not taken the entry yet. `untold` is the number of rows
    since it last took the entry.
    """

    notifier: str
    table: str
    digest: str
    first: int
    last: int
    untold: int = 0


def find_entries(
    table: str,
    *,
    failure: Failure | None = None,
    code: str | None = None,
    alarms: Iterable[Alarm] = (),
    progress: Progress | None = None,
    quarantined: int = 0,
    awaited: AwaitedLoad | None = None,
) -> list[NoticeEntry]:
    """Return why a table needs attention.

    The reasons are: the `failure` of its last turn, with a `code` where an alarm stopped the table; other alarms;
    rows that went into quarantine; held keys; an inexact table; and a full load that it waits for.
    """
    entries = [] if failure is None else [of_failure(table, failure, code)]
    for alarm in alarms:
        reason, step = alarm.what, alarm.todo
        entries.append(NoticeEntry(table=table, code=alarm.code, reason=reason, found=alarm.found, next_step=step))
    show = _show(table)
    if quarantined:
        entries.append(of_quarantined(table, quarantined))
    if progress is not None and progress.held:
        reason = "keys are held until their rows in quarantine are repaired or discarded"
        keys = format_count(progress.held, "key")
        entries.append(NoticeEntry(table=table, code="held", reason=reason, found=keys, next_step=show))
    if progress is not None and progress.inexact_since:
        reason = "it is inexact: the key of a row could not be read"
        since = f"since {progress.inexact_since}"
        entries.append(NoticeEntry(table=table, code="inexact", reason=reason, found=since, next_step=show))
    if awaited is not None and awaited.is_held_up:
        reason = "it waits for a full load"
        step = f"`lakeward status {table}`; docs/how-to/reload.md says what completes it"
        entries.append(
            NoticeEntry(table=table, code="load", reason=reason, found=awaited.describe(), next_step=step)
        )
    return entries


def of_failure(table: str, failure: Failure, code: str | None = None) -> NoticeEntry:
    """Return the entry for an error of a table, or of the pipeline where `table` is empty."""
    return NoticeEntry(
        table=table,
        code=code or failure.kind,
        reason=failure.what,
        found=failure.found,
        next_step=failure.todo,
    )


def of_quarantined(table: str, rows: int) -> NoticeEntry:
    """Return the entry for rows of a table that went into quarantine."""
    return NoticeEntry(
        table=table,
        code="quarantine",
        reason="rows went into quarantine",
        found=format_count(rows, "row"),
        next_step=_show(table),
        rows=rows,
    )


def of_unrouted_rows(rows: int) -> NoticeEntry:
    """Return the entry for rows that name no table."""
    return NoticeEntry(
        table="",
        code="strays",
        reason="rows do not say of which table they are, so any table may lack them",
        found=format_count(rows, "row"),
        next_step="`lakeward quarantine unrouted`",
    )


def unsent(notice: RunNotice, notifier: str, sent: Iterable[SentEntry]) -> RunNotice | None:
    """Return the notice to send to a notifier, or None where it took each entry within the last hour.

    It has all entries, with the time at which each was first sent, and with all rows that were not sent yet.
    """
    sent_entries = _of(notifier, sent)
    entries = [*_with_untold(notice.entries, sent_entries)]
    if all(_is_fresh(sent_entries.get((entry.table, entry.digest)), notice.at) for entry in entries):
        return None
    first_times = {key: entry.first or None for key, entry in sent_entries.items()}
    return replace(
        notice, entries=[replace(entry, since=first_times.get((entry.table, entry.digest))) for entry in entries]
    )


def after_sending(notice: RunNotice, notifier: str, sent: Iterable[SentEntry]) -> tuple[SentEntry, ...]:
    """Return the sent entries after a notifier took a notice."""
    sent_entries = _of(notifier, sent)
    others = tuple(item for item in sent if item.notifier != notifier)
    for entry in notice.entries:
        key = entry.table, entry.digest
        first = (sent_entries[key].first if key in sent_entries else 0) or notice.at
        sent_entries[key] = SentEntry(
            notifier=notifier, table=entry.table, digest=entry.digest, first=first, last=notice.at
        )
    return (*others, *sent_entries.values())


def after_waiting(notice: RunNotice, notifier: str, sent: Iterable[SentEntry]) -> tuple[SentEntry, ...]:
    """Return the sent entries after a notice was not sent to a notifier: its rows are to be sent later."""
    sent_entries = _of(notifier, sent)
    others = tuple(item for item in sent if item.notifier != notifier)
    for entry in notice.entries:
        if entry.rows:
            key = entry.table, entry.digest
            never = SentEntry(notifier=notifier, table=entry.table, digest=entry.digest, first=0, last=0)
            before = sent_entries.get(key, never)
            sent_entries[key] = replace(before, untold=before.untold + entry.rows)
    return (*others, *sent_entries.values())


def without_ended(
    sent: Iterable[SentEntry], notice: RunNotice, looked_at: Collection[str], tables: Collection[str]
) -> tuple[SentEntry, ...]:
    """Return the sent entries without those whose cause is gone.

    An entry ends when it is not in the notice of a run that looked at its table, or when its table is no longer in
    `tables`; entries with untold rows stay. It is removed only after the hour is over, so that what comes and goes
    is sent once an hour.
    """
    current = {(item.table, item.digest) for item in notice.entries}
    return tuple(
        entry
        for entry in sent
        if _is_fresh(entry, notice.at)
        or (entry.table, entry.digest) in current
        or (entry.table in tables and (entry.untold > 0 or entry.table not in looked_at))
    )


def _with_untold(
    entries: Iterable[NoticeEntry], sent_entries: Mapping[tuple[str, str], SentEntry]
) -> Iterator[NoticeEntry]:
    """Yield the entries with untold rows added, and entries for untold rows without new ones."""
    untold = {key: sent.untold for key, sent in sent_entries.items() if sent.untold}
    for entry in entries:
        rows = untold.pop((entry.table, entry.digest), 0)
        yield of_quarantined(entry.table, rows + entry.rows) if rows else entry
    for (table, _), rows in untold.items():
        yield of_quarantined(table, rows)


def _show(table: str) -> str:
    """Return the command that shows the quarantine of a table."""
    return f"`lakeward quarantine show {table}`"


def _of(notifier: str, sent: Iterable[SentEntry]) -> dict[tuple[str, str], SentEntry]:
    """Return the sent entries of a notifier by table and digest."""
    return {(entry.table, entry.digest): entry for entry in sent if entry.notifier == notifier}


def _is_fresh(entry: SentEntry | None, now: int) -> bool:
    """Return True if an entry was sent within the hour; False where the clock was set back."""
    return entry is not None and 0 <= now - entry.last < AGAIN_AFTER


def _lines(entry: NoticeEntry) -> Iterable[str]:
    """Yield the lines of an entry."""
    yield f"{_printable(entry.table)}: {entry.code}" if entry.table else entry.code
    named: Mapping[str, str | None] = {"": entry.reason, "found: ": entry.found, "next: ": entry.next_step}
    for name, part in named.items():
        if part:
            yield f"  {name}{_printable(part)}".replace("\n", "\n    ")
    if entry.since is not None:
        yield f"  first told: {_time(entry.since)}"


def _printable(text: str) -> str:
    """Return text that every service takes: cut, and without control characters other than line ends."""
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in cut)


def _time(micros: int) -> str:
    """Return a time in microseconds since 1970 as ISO 8601."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=micros // 1_000_000)
    return moment.isoformat().replace("+00:00", "Z")
