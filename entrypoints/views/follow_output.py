"""What one that follows says on its way: a line a commit and a line an alarm, nothing where nothing happens."""

from __future__ import annotations

from datetime import datetime

import structlog

from lakeward.core.dimension import TableName
from lakeward.core.pipeline.job import Report
from lakeward.entrypoints.runtime.table_run import TableRun
from lakeward.entrypoints.views import terminal
from lakeward.entrypoints.views.safe_text import escaped

log = structlog.get_logger()


class Lines:
    """Lines for a terminal; elsewhere the log has them. Alarms are logged, once while they stand."""

    def __init__(self) -> None:
        self.console = terminal.console(stderr=True)
        self.told: dict[TableName, frozenset[tuple[str, str]]] = {}

    def step(self, table: TableName, name: str) -> None:
        """Say nothing: there are a dozen steps a batch."""

    def batch(self, table: TableName, report: Report) -> None:
        """Say what a batch did."""
        if self.console.is_terminal:
            words = terminal.count_words(report.counts)
            at = f"{datetime.now():%H:%M:%S}"
            self.console.print(f"{at} {escaped(str(table))} batch {report.progress.batch}: {words}")

    def done(self, run: TableRun) -> None:
        """Say what alarms are new."""
        before = self.told.get(run.table, frozenset())
        self.told[run.table] = frozenset((alarm.code, alarm.what) for alarm in run.alarms)
        for alarm in run.alarms:
            if (alarm.code, alarm.what) not in before:
                log.warning("alarm", code=alarm.code, what=alarm.what, found=alarm.found, todo=alarm.todo)
