"""Running a pipeline: tables side by side, none of them stopping another."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

import structlog

from lakeward.core.alarms import Alarm, alarms
from lakeward.core.clock import Backwards
from lakeward.core.counts import Counts
from lakeward.core.dimension import TableName
from lakeward.core.errors import EngineLost, LakewardError, SetupError
from lakeward.core.loads import Awaited
from lakeward.core.pipeline import Report, apply_changes
from lakeward.core.ports import Notice
from lakeward.core.progress import Progress
from lakeward.core.twins import Twin
from lakeward.entrypoints.container import Container

log = structlog.get_logger()


@dataclass(slots=True)
class TableRun:
    """What a run did to one table."""

    table: TableName
    reports: list[Report] = field(default_factory=list)
    standing: Progress | None = None
    error: BaseException | None = None
    acked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    alarms: Sequence[Alarm] = ()
    cautions: Sequence[str] = ()
    awaited: Awaited | None = None
    seconds: float = 0.0
    is_done: bool = False

    @property
    def counts(self) -> Counts:
        """The counts of all its batches."""
        return sum((report.counts for report in self.reports), Counts())

    @property
    def warnings(self) -> Mapping[str, int]:
        """How many rows broke a quality rule that only warns, by what it is called."""
        told: Counter[str] = Counter()
        for report in self.reports:
            told.update(report.plan.facts.warnings)
        return told

    @property
    def backwards(self) -> Sequence[Backwards]:
        """Where the order of its batches runs backwards; without a batch, that of the one before."""
        progresses = [report.progress for report in self.reports] if self.reports else [self.standing]
        return [p.backwards for p in progresses if p is not None and p.backwards is not None]

    @property
    def twins(self) -> Sequence[Twin]:
        """Which files of its batches have the content of another; without a batch, those of the one before."""
        progresses = [report.progress for report in self.reports] if self.reports else [self.standing]
        return [p.twin for p in progresses if p is not None and p.twin is not None]

    @property
    def progress(self) -> Progress | None:
        """Where the table stands now."""
        return self.reports[-1].progress if self.reports else self.standing


class Observer(Protocol):
    """Told what happens, from the threads that it happens in."""

    def step(self, table: TableName, name: str) -> None:
        """A step begins."""
        ...

    def batch(self, table: TableName, report: Report) -> None:
        """A batch was committed."""
        ...

    def done(self, run: TableRun) -> None:
        """A table is done, or failed."""
        ...


class Stop:
    """Ctrl-C once: finish the commit in hand. Twice: stop now; nothing is lost either way."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.asked = threading.Event()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Answer SIGINT and SIGTERM while the context lasts."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            signal.signal(number, self._answer)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _answer(self, number: int, _frame: FrameType | None) -> None:
        if self.asked.is_set():
            self.say("Stopped. What was not committed is read again by the next run.")
            sys.stderr.flush()
            os._exit(128 + number)
        self.asked.set()
        self.say("Finishing the commit in hand; once more stops now. Nothing is lost either way.")


def run_tables(container: Container, tables: Sequence[TableName], observer: Observer, stop: Stop) -> list[TableRun]:
    """Bring tables up to date; one that fails keeps its place and stops no other.

    Raises SetupError where Spark cannot be started at all, and ConfigError for rules that it does not take.
    """
    # What is wrong with the settings is said before any thread starts.
    container.source(), container.target(), container.ledger(), container.statistics()
    container.rules(tables=tables)
    runs = [TableRun(table) for table in tables]
    wanted = {str(run.table): run for run in runs}
    notices: dict[str, list[Notice]] = defaultdict(list)
    for notice in container.queue().receive():
        if notice.table in wanted:
            notices[notice.table].append(notice)
    hooks = container.manager().hook
    parallel = container.configured().settings.pipeline.parallel

    def work(table: str) -> None:
        run = wanted[table]
        structlog.contextvars.unbind_contextvars("batch")
        structlog.contextvars.bind_contextvars(table=table)
        began = time.monotonic()

        @contextmanager
        def watch(step: str) -> Iterator[None]:
            observer.step(run.table, step)
            log.debug("step", step=step)
            yield

        def on_batch(report: Report) -> None:
            run.reports.append(report)
            run.seconds = time.monotonic() - began
            log.info("committed", commit=report.commit, **_counted(report.counts))
            observer.batch(run.table, report)
            _tell(hooks, report)
            structlog.contextvars.bind_contextvars(batch=report.progress.batch + 1)

        try:
            job = container.job(table=run.table, notices=notices[table])
            run.acked = container.ledger().account(table).acked
            run.standing = job.opened.table.standing().progress
            structlog.contextvars.bind_contextvars(batch=run.standing.batch + 1)
            apply_changes(job, watch, on_batch, stop.asked.is_set)
            run.awaited = container.ledger().account(table).awaited
        except Exception as error:  # noqa: BLE001  # a table's failure, whatever it is, stops no other
            run.error = _lost(run.table) if container.spark().has_ended(error) else error
            _log_failure(run.error)
        finally:
            if run.progress is not None:
                now = container.runtime().now()
                run.alarms = alarms(table, run.progress.ahead, run.backwards, run.twins, now, run.acked)
            run.seconds = time.monotonic() - began
            run.is_done = True
            observer.done(run)

    with ThreadPoolExecutor(max_workers=parallel, initializer=_inherit()) as pool, stop.listening():
        _await(pool, [pool.submit(work, table) for table in notices], runs)
    return [run for run in runs if run.is_done]


def _inherit() -> Callable[[], None]:
    """Give a thread the logging context of the one that starts it."""
    context = structlog.contextvars.get_contextvars()

    def initialize() -> None:
        structlog.contextvars.bind_contextvars(**context)

    return initialize


def _await(pool: ThreadPoolExecutor, futures: Sequence[Future[None]], runs: Sequence[TableRun]) -> None:
    """Wait for all, or until one finds that Spark cannot start: then none can."""
    rest = set(futures)
    while rest:
        done, rest = wait(rest, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
        hopeless = next((run.error for run in runs if isinstance(run.error, SetupError)), None)
        if hopeless is not None:
            pool.shutdown(wait=True, cancel_futures=True)
            raise hopeless


def _lost(table: TableName) -> EngineLost:
    return EngineLost(
        f"{table}: Java has ended in the middle of it",
        found="it was stopped from outside, or by the system where memory was short",
        todo="Nothing is lost: run again. Where it was memory, set `memory` under [spark] lower than what the "
        "machine has, or work on fewer tables at a time: `parallel` under [pipeline].",
    )


def _log_failure(error: BaseException) -> None:
    if isinstance(error, LakewardError):
        log.error("failed", error=error.what, found=error.found)
    else:
        log.error("failed", error=repr(error), exc_info=error)


def _counted(counts: Counts) -> dict[str, int]:
    return {name: value for name in counts.__slots__ if (value := getattr(counts, name))}


def _tell(hooks: Any, report: Report) -> None:
    try:
        hooks.after_commit(report=report)
    except Exception:  # an observer's failure is its own
        log.warning("a plugin failed in after_commit", exc_info=True)
