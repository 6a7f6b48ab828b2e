"""Metrics of a run, while it runs and at its end: log lines for CloudWatch and a server for Prometheus."""

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
class RunMetrics:
    """Recorder of metrics: writes CloudWatch lines if the settings ask for them, and updates the Prometheus server.

    Counters of a line are differences to the line before, so that sums are right; gauges are current values.
    `before` holds the written values by table. `runs` and `joined` are the results used if an error ends the whole
    run. `clock` is in seconds, `now` in microseconds since 1970.
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
        """Serve the metrics to Prometheus at a port within the context; do nothing without a port.

        Raises SetupError if the port is in use.
        """
        if port is None:
            return nullcontext()
        self.server = MetricsServer(self.settings.address, port, self._figures(None))
        log.info("metrics", url=self.server.url)
        return self.server

    def measure(self, runs: Collection[TableRun], joined: Collection[JoinRun], waiting: int) -> None:
        """Record metrics while the run continues; tables without new batches or failures get no line."""
        self.watch(runs, joined)
        figures = self._figures(waiting)
        since = {figure.table: self._since(figure) for figure in figures.tables}
        changed = {table: figure for table, figure in since.items() if figure.batches or figure.failures}
        if changed:
            reported = [changed.get(figure.table, figure.since(figure)) for figure in figures.tables]
            self._write(replace(figures, tables=reported, seconds=None), [*changed.values()])
            self.before.update({figure.table: figure for figure in figures.tables if figure.table in changed})

    def end(self, runs: Collection[TableRun], joined: Collection[JoinRun]) -> None:
        """Record metrics of all tables at the end of the run."""
        self.watch(runs, joined)
        self._end(has_failed=False)

    def fail(self) -> None:
        """Record metrics after an error ended the whole run, and count the failure."""
        self._end(has_failed=True)

    def watch(self, runs: Collection[TableRun], joined: Collection[JoinRun]) -> None:
        """Set the results that `fail` records; the collections may still grow."""
        self.runs, self.joined = runs, joined

    def _end(self, *, has_failed: bool) -> None:
        figures = self._figures(None)
        since = [self._since(figure) for figure in figures.tables]
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
        """Return the difference of a table's figures to its last line."""
        return figures.since(self.before.get(figures.table, TableFigures(table=figures.table)))

    def _write(self, figures: PipelineFigures, tables: Sequence[TableFigures]) -> None:
        if self.settings.format is None:
            return
        lines = embedded_lines(figures, self.settings.namespace, tables if self.settings.per_table else ())
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()


@contextmanager
def measure_run(container: Any, port: int | None = None) -> Iterator[RunMetrics]:
    """Record metrics of a run within the context, and serve them to Prometheus at `port` if there is one.

    An error that ends the whole run is counted and raised again. Raises SetupError if the port is in use.
    """
    settings, now = container.configured().settings, container.runtime().now
    measurement = RunMetrics(settings.pipeline.name, settings.metrics, now, began=time.monotonic())
    with measurement.serving(port):
        try:
            yield measurement
        except Exception:
            measurement.fail()
            raise


def _tables(runs: Collection[TableRun], joined: Collection[JoinRun]) -> Iterator[TableFigures]:
    yield from (figures_of(run) for run in [*runs] if run.is_begun)
    for run in [*joined]:  # a copy, since other threads add runs
        yield TableFigures(
            table=str(run.table),
            batches=run.batches,
            failures=run.failed_turns,
            seconds=run.seconds,
            alarms=len(run.alarms) + isinstance(run.error, AlarmRaised),
            failing=int(run.error is not None),
        )


def figures_of(run: TableRun) -> TableFigures:
    """Return the metrics of a table."""
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
