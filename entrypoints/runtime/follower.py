"""Following: all tables are looked at again and again in one application, until somebody asks to stop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from lakeward.core.dimension import TableName
from lakeward.core.errors import EngineLost, LakewardError, SetupError
from lakeward.core.ports import Notice
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.runtime.discovery_schedule import FullLooks
from lakeward.entrypoints.runtime.inbox import Inbox
from lakeward.entrypoints.runtime.join_run import Chosen, Joining, JoinRun
from lakeward.entrypoints.runtime.pipeline_run import check, ended, line_of, notices_for_others, settings_digests
from lakeward.entrypoints.runtime.scheduler import Line, Turn
from lakeward.entrypoints.runtime.settings_watch import SettingsWatch
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.runtime.table_run import Observer, TableRun
from lakeward.entrypoints.runtime.worker import Turns
from lakeward.entrypoints.settings.configuration import Configured

log = structlog.get_logger()

LONGEST_REST: Final = 600.0
"""Seconds that a table rests at the most which failed again and again; a longer `poll` counts all the same."""

_TELL_EVERY: Final = 3600.0
"""Seconds between two words of what became of the tables."""


def rest(poll: float, failures: int) -> float:
    """Return for how many seconds a table is let alone that failed so often in a row.

    >>> [rest(10.0, failures) for failures in (1, 2, 3, 8)], rest(1800.0, 5)
    ([10.0, 20.0, 40.0, 600.0], 1800.0)
    """
    return max(poll, min(poll * 2.0 ** (min(failures, 64) - 1), LONGEST_REST))


Idle = Callable[[float], bool]
"""Waits so many seconds, or until somebody asks to stop; returns whether another process may have written."""

Review = Callable[[Sequence[TableRun], Sequence[JoinRun]], None]
"""Looks at what became of the tables so far, between their turns: of those that were begun, and of joined ones."""

Measure = Callable[[Collection[TableRun], Collection[JoinRun], int], None]
"""Takes the figures of all tables once a turn has ended, and with each poll; so many tables wait in line."""


@dataclass(slots=True)
class Following:
    """Polls, and gives the tables that have word of something new their turns.

    Joined tables stand in line with the others, once one of their sources went on. A table that fails is let alone
    for a while, which doubles with each failure in a row. It ends where the `watch` finds other settings of tables.
    There is a `review` with each poll, and before it waits.
    """

    line: Line
    runs: Mapping[str, TableRun]
    joining: Joining
    receive: Callable[[], Iterable[Notice]]
    stop: Stop
    idle: Idle
    poll: float
    reopen: Callable[[], None]
    review: Review
    measure: Measure
    watch: SettingsWatch | None = None
    resting: dict[str, float] = field(default_factory=dict)

    def __call__(self) -> None:
        """Follow until somebody asks to stop, settings change, or Java is gone; the turns in hand are waited for.

        Raises SetupError where Spark cannot be started at all.
        """
        clock = self.stop.clock
        due, tell = clock(), clock() + _TELL_EVERY
        while not (self.stop.is_asked or self._is_lost or self._is_outdated):
            now = clock()
            if now >= due:
                self._review()
                self._measure()
                self.line.join(notice for notice in self.receive() if notice.table in self.runs)
                due = now + self.poll
            if now >= tell:
                self._tell()
                tell = now + _TELL_EVERY
            self.line.begin(partial(self._is_rested, now))
            if self.line.in_hand:
                self._settle(due - now)
                continue
            self._join()
            self._review()
            until = [due, *map(self._rested, self.line.waiting), *([] if self.watch is None else [self.watch.due])]
            seconds = min(until) - clock()
            if seconds > 0 and self.idle(seconds):
                self.reopen()
        while self.line.in_hand:
            self._settle(None)

    def _rested(self, table: str) -> float:
        return self.resting.get(table, 0.0)

    def _is_rested(self, now: float, table: str) -> bool:
        return self._rested(table) <= now

    @property
    def _is_outdated(self) -> bool:
        return self.watch is not None and self.watch.is_changed()

    @property
    def _is_lost(self) -> bool:
        """Whether Java has ended: no table can go on without it."""
        return any(isinstance(run.error, EngineLost) for run in self._every.values())

    @property
    def _every(self) -> Mapping[str, TableRun | JoinRun]:
        """The runs of all tables, joined ones too."""
        return {**self.runs, **{str(run.table): run for run in list(self.joining.runs.values())}}

    def _join(self) -> None:
        """Put joined tables in line that have a source that went on."""
        batches = {run.table: run.progress.batch for run in self.runs.values() if run.progress is not None}
        self.line.join(Notice(str(table)) for table in self.joining.due(batches))

    def _settle(self, seconds: float | None) -> None:
        turns, runs = ended(self.line, self._every.values(), seconds), self._every
        for table, turn in turns:
            self.resting.pop(table, None)
            if turn is Turn.FAILED:
                self.resting[table] = self.stop.clock() + rest(self.poll, runs[table].failures)
                if table in self.runs:  # it is looked at again whatever the queue tells by then
                    self.line.join([Notice(table)])
        if turns:
            self._join()
            self._measure()

    def _review(self) -> None:
        self.review(self._begun, list(self.joining.runs.values()))

    def _measure(self) -> None:
        self.measure(self.runs.values(), self.joining.runs.values(), len(self.line.waiting))

    @property
    def _begun(self) -> Sequence[TableRun]:
        return [run for run in self.runs.values() if run.is_begun]

    def _tell(self) -> None:
        """Say what became of the tables so far: a process that goes on for days should be seen to live."""
        runs = self.runs.values()
        failing = [table for table, run in self._every.items() if run.error is not None]
        log.info(
            "following",
            tables=len(self.runs),
            batches=sum(run.batches for run in runs),
            rows=sum(run.counts.read for run in runs),
            failing=failing,
        )


@dataclass(frozen=True, slots=True)
class Followed:
    """What became of the tables of a pipeline that was followed, and the container that was the last one."""

    container: Container
    chosen: Chosen
    runs: Sequence[TableRun]
    joined: Sequence[JoinRun]


def follow_pipeline(
    container: Container,
    wanted: Chosen,
    observer: Observer,
    stop: Stop,
    pool: Executor,
    idle: Idle,
    watch: SettingsWatch | None = None,
    begin: Callable[[Container, Sequence[TableName]], None] = lambda _container, _tables: None,
    review: Review = lambda _runs, _joined: None,
    measure: Measure = lambda _runs, _joined, _waiting: None,
) -> Followed:
    """Follow tables until somebody asks to stop; return what became of each.

    Where the `watch` finds other settings of tables, the turns in hand end, and all goes on as a new process would,
    which `begin` does first: tables that came are followed, and those that are gone are left out.
    Raises what `follow_tables` does.
    """
    runs: dict[str, TableRun] = {}
    joins: dict[TableName, JoinRun] = {}
    now = wanted
    begin(container, now.tables)
    while True:
        joining = Joining(container, now.joined, stop, joins)
        observing = (observer, stop, pool, idle, joining, review, measure)
        follow_tables(container, now.tables, *observing, named=now.named, watch=watch, runs=runs)
        found = None if watch is None or stop.is_asked else watch.take()
        if watch is None or found is None:
            break
        tables = choose_again(found.configured(), wanted)
        try:
            check(found, tables.tables, pool)
        except SetupError:
            raise
        except LakewardError as error:
            watch.refuse(container, error)
            continue
        container, now = found, tables
        _leave_out(runs, joins, now)
        begin(container, now.tables)
    return Followed(container, now, [run for run in runs.values() if run.is_begun], [*joins.values()])


def choose_again(configured: Configured, wanted: Chosen) -> Chosen:
    """Return what is `wanted` by settings that have changed: all tables, or those that were named and are there."""
    if not wanted.named:
        return Chosen([*configured.tables], [*configured.joined])
    joined = [name for name in configured.joined if name in wanted.joined]
    sources = [source for name in joined for source in configured.sources_of(name)]
    tables = [name for name in wanted.tables if name in configured.tables]
    return Chosen([*dict.fromkeys((*tables, *sources))], joined, named=True)


def _leave_out(runs: Mapping[str, TableRun], joins: Mapping[TableName, JoinRun], now: Chosen) -> None:
    """Let tables that are followed no more wait for nobody: what was done to them stays in the sums."""
    for run in runs.values():
        if run.table not in now.tables:
            run.error, run.progress, run.awaited, run.alarms = None, None, None, ()
    for join in joins.values():
        if join.table not in now.joined:
            join.error, join.alarms = None, ()


def follow_tables(
    container: Container,
    tables: Sequence[TableName],
    observer: Observer,
    stop: Stop,
    pool: Executor,
    idle: Idle,
    joining: Joining,
    review: Review = lambda _runs, _joined: None,
    measure: Measure = lambda _runs, _joined, _waiting: None,
    *,
    named: bool = False,
    watch: SettingsWatch | None = None,
    runs: dict[str, TableRun] | None = None,
) -> list[TableRun]:
    """Follow tables until somebody asks to stop, or the `watch` finds other settings of tables.

    They are all looked at each time where a person `named` them, and the queue is left alone. Return what became of
    each that was looked at; `runs` has what became of tables before, and takes in what becomes of them now.
    Raises SetupError where Spark cannot be started at all, and ConfigError for rules that it does not take.
    """
    check(container, tables, pool)
    every = {} if runs is None else runs
    runs = {str(table): every.setdefault(str(table), TableRun(table, reports=deque(maxlen=1))) for table in tables}
    configured, joined = container.configured(), {str(t): t for t in joining.tables}
    read_by = settings_digests(configured, runs)
    looks = FullLooks(configured.look_at_all_every, lambda: round(stop.clock() * 1_000_000), read_by)
    with Inbox(container.queue(), runs) as inbox:
        turns = Turns(container, runs, observer, stop, inbox, looks_once=True)

        def take(table: str, notices: Sequence[Notice]) -> Turn:
            return joining.take(joined[table]) if table in joined else turns(table, notices)

        def reopen() -> None:
            looks.forget()
            turns.reopen()
            joining.reopen()

        following = Following(
            line=line_of(container, take, pool),
            runs=runs,
            joining=joining,
            receive=partial(notices_for_others, runs, ()) if named else NoticeReceiver(inbox, looks, runs),
            stop=stop,
            idle=idle,
            poll=configured.poll,
            reopen=reopen,
            review=review,
            measure=measure,
            watch=watch,
        )
        following()
    return [run for run in runs.values() if run.is_begun]


@dataclass(frozen=True, slots=True)
class NoticeReceiver:
    """Receives the notices of the queue, and adds others for tables that are looked at whatever it tells.

    Those are all tables at first, from time to time, and while the queue does not answer, and tables of `runs` that
    wait for a full load, or could not be registered.
    """

    inbox: Inbox
    looks: FullLooks
    runs: Mapping[str, TableRun]

    def __call__(self) -> Sequence[Notice]:
        """Return the notices of now."""
        began, notices = self.looks.now(), self.inbox.receive()
        if self.inbox.answers and not self.looks.is_due:
            again = [table for table, run in self.runs.items() if run.must_be_looked_at]
            return [*notices, *notices_for_others(again, notices)]
        self.looks.note([*self.runs], began=began)
        return [*notices, *notices_for_others([*self.runs], notices)]
