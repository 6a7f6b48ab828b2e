"""Notifications to people about a run: one notice for all tables, and not the same again within the hour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from lakeward.core.errors import AlarmRaised, ConfigError, LakewardError
from lakeward.core.ledger.objects import PIPELINE, Notes
from lakeward.core.ports import Notifier
from lakeward.core.reporting.failures import Failure
from lakeward.core.reporting.notices import (
    NoticeEntry,
    RunNotice,
    SentEntry,
    after_sending,
    after_waiting,
    find_entries,
    of_failure,
    of_unrouted_rows,
    unsent,
    without_ended,
)
from lakeward.entrypoints.runtime.join_run import JoinRun
from lakeward.entrypoints.runtime.reporting.failures import failure_of
from lakeward.entrypoints.runtime.reporting.logs import id_of_run
from lakeward.entrypoints.runtime.table_run import TableRun

log = structlog.get_logger()

_PAUSE: Final = 60_000_000
"""Microseconds until a process retries a notifier that failed."""


@dataclass(slots=True)
class RunNotifications:
    """Sends the notifiers of a pipeline what tables and joined tables need.

    Sent entries are stored in the ledger under the name of the pipeline, and read again before something is sent; a
    process without new entries makes no request. If the ledger cannot be used, they are known in this process only.
    `counted` holds for each table the number of quarantined rows that are already part of a notice. `resting` maps
    a notifier to the time of its last failure in microseconds since 1970.
    """

    container: Any
    notifiers: Mapping[str, Notifier] = field(default_factory=dict)
    sent: tuple[SentEntry, ...] | None = None
    resting: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    warned: set[str] = field(default_factory=set)

    def tell(
        self, runs: Iterable[TableRun], joined: Iterable[JoinRun], unrouted_rows: int | None = None
    ) -> Sequence[str]:
        """Send what the tables of the runs need, and the number of unrouted rows (None: not counted).

        Return a sentence for each notifier that failed, once per kind of failure. A failing notifier fails no run.
        """
        if not self.notifiers:
            return ()
        begun, join_runs = [run for run in runs if run.is_begun], [*joined]
        entries = [entry for run in begun for entry in self._of_table(run)]
        entries += [entry for run in join_runs for entry in self._of_joined(run)]
        entries += [of_unrouted_rows(unrouted_rows)] if unrouted_rows else []
        looked_at = {*(str(run.table) for run in begun), *(str(run.table) for run in join_runs)}
        looked_at |= set() if unrouted_rows is None else {""}
        return self._tell(entries, looked_at)

    def review(self, runs: Iterable[TableRun], joined: Iterable[JoinRun]) -> None:
        """Send what tables need while they are followed; log the notifiers that failed."""
        _warn(self.tell(runs, joined))

    def fail(self, error: Exception) -> None:
        """Send the error that ended the whole run."""
        if self.notifiers:
            _warn(self._tell([of_failure("", _failure_text(error))], ()))

    def _now(self) -> int:
        now: int = self.container.runtime().now()
        return now

    def _of_table(self, run: TableRun) -> Sequence[NoticeEntry]:
        error, table, rows = run.error, str(run.table), run.counts.quarantined
        new, self.counted[table] = rows - self.counted[table], rows
        return find_entries(
            table,
            failure=None if error is None else _failure_text(error),
            code=_code(error),
            alarms=run.alarms,
            progress=run.progress,
            quarantined=new,
            awaited=run.awaited,
        )

    def _of_joined(self, run: JoinRun) -> Sequence[NoticeEntry]:
        error = run.error
        failure = None if error is None else _failure_text(error)
        return find_entries(str(run.table), failure=failure, code=_code(error), alarms=run.alarms)

    def _tell(self, entries: Sequence[NoticeEntry], looked_at: Collection[str]) -> Sequence[str]:
        """Send new entries to each notifier that is not paused; return a sentence for each failure."""
        configured = self.container.configured()
        pipeline, now = configured.settings.pipeline.name, self._now()
        notice = RunNotice(pipeline=pipeline, run=id_of_run(), at=now, entries=entries)
        before = self._read() if self.sent is None else self.sent
        self.sent = before
        if any(entry.rows for entry in entries) or any(self._due(notice, name) for name in self.notifiers):
            before = self._read()  # another process may have sent it
        tables = {"", *map(str, configured.tables), *map(str, configured.joined)}
        self.sent = before
        warnings = [words for name in self.notifiers if (words := self._send(notice, name)) is not None]
        self.sent = without_ended(self.sent, notice, looked_at, tables)
        if self.sent != before:
            self._write()
        return warnings

    def _due(self, notice: RunNotice, name: str) -> RunNotice | None:
        """Return the entries to send to a notifier; None if there are none, or if it failed a moment ago."""
        is_resting = 0 <= notice.at - self.resting.get(name, notice.at - _PAUSE) < _PAUSE
        return None if is_resting else unsent(notice, name, self.sent or ())

    def _send(self, notice: RunNotice, name: str) -> str | None:
        """Send to one notifier if something is due; return a sentence if that failed."""
        due, sent = self._due(notice, name), self.sent or ()
        if due is None:
            self.sent = after_waiting(notice, name, sent)
            return None
        try:
            self.notifiers[name].send(due)
        except Exception as error:  # noqa: BLE001  # a failing notifier fails no run
            self.resting[name] = notice.at
            self.sent = after_waiting(notice, name, sent)
            return self._once(name, f"The notifier {name} failed: {_words(error)}.")
        self.resting.pop(name, None)
        self.warned = {words for words in self.warned if not words.startswith(f"{name}\n")}
        self.sent = after_sending(due, name, sent)
        return None

    def _once(self, name: str, words: str) -> str | None:
        key = f"{name}\n{words}"
        is_new = key not in self.warned
        self.warned.add(key)
        return words if is_new else None

    def _read(self) -> tuple[SentEntry, ...]:
        try:
            entries: tuple[SentEntry, ...] = self.container.ledger().account(PIPELINE).sent
        except Exception as error:  # noqa: BLE001  # an error of the ledger prevents no notice
            log.debug("sent notices cannot be read", error=repr(error))
            return self.sent or ()
        return entries

    def _write(self) -> None:
        try:
            self.container.ledger().write(PIPELINE, Notes(sent=self.sent))
        except Exception as error:  # noqa: BLE001  # an error of the ledger fails no run
            log.debug("sent notices cannot be stored", error=repr(error))


@contextmanager
def notify_about_run(container: Any) -> Iterator[RunNotifications]:
    """Send notifications of a run within the context.

    An error that ends the whole run is sent and raised again. Raises ConfigError if a notifier cannot be built.
    """
    notifications = RunNotifications(container, container.notifiers())
    try:
        yield notifications
    except Exception as error:
        notifications.fail(error)
        raise


def _warn(warnings: Iterable[str]) -> None:
    for words in warnings:
        log.warning("a notice was not sent", what=words)


def _code(error: BaseException | None) -> str | None:
    return error.code if isinstance(error, AlarmRaised) else None


def _failure_text(error: BaseException) -> Failure:
    """Return an error as it is sent to people. A foreign error is sent without its text, which may hold secrets.

    Its text is in the log of the run.
    """
    failure = failure_of(error, 0)
    if isinstance(error, LakewardError):
        return failure
    return replace(failure, what="this failed; the log of the run has the text of the error")


def _words(error: Exception) -> str:
    """Return an error in one line; of a foreign error only its class, since its text may hold secrets."""
    if not isinstance(error, LakewardError):
        return type(error).__name__
    details = f" ({error.found})" if error.found else ""
    step = f". {error.todo}".rstrip(".") if isinstance(error, ConfigError) and error.todo else ""
    return f"{error.what}{details}{step}"
