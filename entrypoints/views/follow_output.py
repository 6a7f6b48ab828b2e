"""Output of a pipeline that is followed: one line per commit and one per new alarm."""

from __future__ import annotations

from datetime import datetime

import structlog

from lakeward.core.dimension import TableName
from lakeward.core.pipeline.job import Report
from lakeward.entrypoints.runtime.table_run import TableRun
from lakeward.entrypoints.views import terminal
from lakeward.entrypoints.views.safe_text import escaped

log = structlog.get_logger()


class FollowOutput:
    """Prints commits on a terminal; elsewhere the log has them. A new alarm is logged once."""

    def __init__(self) -> None:
        self.console = terminal.console(stderr=True)
        self.logged: dict[TableName, frozenset[tuple[str, str]]] = {}

    def step(self, table: TableName, name: str) -> None:
        """Print nothing: a batch has a dozen steps."""

    def batch(self, table: TableName, report: Report) -> None:
        """Print the counts of a batch."""
        if self.console.is_terminal:
            words = terminal.count_words(report.counts)
            at = f"{datetime.now():%H:%M:%S}"
            self.console.print(f"{at} {escaped(str(table))} batch {report.progress.batch}: {words}")

    def done(self, run: TableRun) -> None:
        """Log new alarms."""
        before = self.logged.get(run.table, frozenset())
        self.logged[run.table] = frozenset((alarm.code, alarm.what) for alarm in run.alarms)
        for alarm in run.alarms:
            if (alarm.code, alarm.what) not in before:
                log.warning("alarm", code=alarm.code, what=alarm.what, found=alarm.found, todo=alarm.todo)
