"""Figures of a run while it goes on and when it ends, for who watches it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from lakeward.adapters.metrics.cloudwatch import embedded_lines
from lakeward.adapters.metrics.prometheus import MetricsServer
from lakeward.core.errors import AlarmRaised
from lakeward.core.reporting.figures import PipelineFigures, TableFigures
from lakeward.entrypoints.runtime.join_run import JoinRun
from lakeward.entrypoints.runtime.reporting.logs import id_of_run
from lakeward.entrypoints.runtime.table_run import TableRun
from lakeward.entrypoints.settings.models.sections import MetricsSettings

log = structlog.get_logger()


@dataclass(slots=True)
class Measuring:
    """Measures a pipeline: writes lines for CloudWatch where the settings say so, and gives a server the figures.

    A line has what was done since the line before, so that sums are right, and how things are then. `before`
    is what was written of each table, `runs` and `joined` are what was done until an error ends the run as a whole.
    `clock` is in seconds, `now` in microseconds since 1970.
    """

    pipeline: str
    settings: MetricsSettings
    now: Callable[[], int]
    clock: Callable[[], float] = time.monotonic
    server: MetricsServer | None = None
    began: float = 0.0
    before: dict[str, TableFigures] = field(default_factory=dict)
    runs: Collection[TableRun] = ()
    joined: Collection[JoinRun] = ()

    def serving(self, port: int | None) -> AbstractContextManager[object]:
        """Let Prometheus read the figures at a port while the context lasts; raises SetupError where it is taken.

        Without a port nothing is shown.
        """
        if port is None:
            return nullcontext()
        self.server = MetricsServer(self.settings.address, port, self._figures(None))
        log.info("metrics", url=self.server.url)
        return self.server

    def measure(self, runs: Collection[TableRun], joined: Collection[JoinRun], waiting: int) -> None:
        """Take the figures while the run goes on; tables in which nothing was done have no line."""
        self.watch(runs, joined)
        figures = self._figures(waiting)
        since = {one.table: self._since(one) for one in figures.tables}
        done = {table: one for table, one in since.items() if one.batches or one.failures}
        if done:
            shown = [done.get(one.table, one.since(one)) for one in figures.tables]
            self._write(replace(figures, tables=shown, seconds=None), [*done.values()])
            self.before.update({one.table: one for one in figures.tables if one.table in done})

    def end(self, runs: Collection[TableRun], joined: Collection[JoinRun]) -> None:
        """Take the figures at the end of the run, of all its tables."""
        self.watch(runs, joined)
        self._end(has_failed=False)

    def fail(self) -> None:
        """Take the figures of what was done until an error ended the run as a whole, and count that."""
        self._end(has_failed=True)

    def watch(self, runs: Collection[TableRun], joined: Collection[JoinRun]) -> None:
        """Take note of what is measured where an error ends the run as a whole, as it is then."""
        self.runs, self.joined = runs, joined

    def _end(self, *, has_failed: bool) -> None:
        figures = self._figures(None)
        since = [self._since(one) for one in figures.tables]
        self._write(replace(figures, tables=since, has_failed=has_failed), since)

    def _figures(self, waiting: int | None) -> PipelineFigures:
        figures = PipelineFigures(
            pipeline=self.pipeline,
            run=id_of_run(),
            at=self.now(),
            tables=[*_tables(self.runs, self.joined)],
            seconds=self.clock() - self.began,
            waiting=waiting,
        )
        if self.server is not None:
            self.server.figures = figures
        return figures

    def _since(self, figures: TableFigures) -> TableFigures:
        """Return what was done to a table since its line before."""
        return figures.since(self.before.get(figures.table, TableFigures(table=figures.table)))

    def _write(self, figures: PipelineFigures, tables: Sequence[TableFigures]) -> None:
        if self.settings.format is None:
            return
        lines = embedded_lines(figures, self.settings.namespace, tables if self.settings.per_table else ())
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()


@contextmanager
def measuring(container: Any, port: int | None = None) -> Iterator[Measuring]:
    """Return what measures a run while the context lasts; with a port Prometheus can read it there meanwhile.

    An error that ends the run as a whole is counted, and raised again. Raises SetupError where the port is taken.
    """
    settings, now = container.configured().settings, container.runtime().now
    found = Measuring(settings.pipeline.name, settings.metrics, now, began=time.monotonic())
    with found.serving(port):
        try:
            yield found
        except Exception:
            found.fail()
            raise


def _tables(runs: Collection[TableRun], joined: Collection[JoinRun]) -> Iterator[TableFigures]:
    yield from (figures_of(run) for run in [*runs] if run.is_begun)
    for run in [*joined]:  # other threads add to them
        yield TableFigures(
            table=str(run.table),
            batches=run.batches,
            failures=run.failed_turns,
            seconds=run.seconds,
            alarms=len(run.alarms) + isinstance(run.error, AlarmRaised),
            failing=int(run.error is not None),
        )


def figures_of(run: TableRun) -> TableFigures:
    """Return the figures of a table of a run."""
    progress, counts, lag = run.progress, run.counts, None
    if progress is not None and progress.time is not None and run.committed is not None:
        lag = (run.committed - progress.time) / 1_000_000
    return TableFigures(
        table=str(run.table),
        batches=run.batches,
        events_read=counts.read,
        events_applied=counts.applied,
        events_quarantined=counts.quarantined,
        failures=run.failed_turns,
        seconds=run.seconds,
        rows=None if progress is None else progress.rows,
        held_keys=None if progress is None else progress.held,
        lag_seconds=lag,
        alarms=len(run.alarms) + isinstance(run.error, AlarmRaised),
        failing=int(run.error is not None),
    )
