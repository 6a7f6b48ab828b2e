"""Round-robin scheduler of tables: at most `workers` tables run at once, one batch each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from lakeward.core.ports import Notice


class TableOutcome(Enum):
    """How one batch of a table ended: more changes wait, none wait, or the table failed."""

    MORE = "more"
    DONE = "done"
    FAILED = "failed"


Take: TypeAlias = Callable[[str, Sequence[Notice]], TableOutcome]
"""Apply at most one batch of a table, given its notices."""


@dataclass(slots=True)
class TableScheduler:
    """Round-robin scheduler: at most `workers` tables run at once in `pool`, one batch each.

    A table runs in one thread at a time. A table with more changes is queued again at the end, so that a long
    backlog delays no other table.
    """

    take: Take
    pool: Executor
    workers: int
    waiting: dict[str, dict[Notice, None]] = field(default_factory=dict)
    running: dict[Future[TableOutcome], str] = field(default_factory=dict)
    notices: dict[str, dict[Notice, None]] = field(default_factory=dict)

    def join(self, notices: Iterable[Notice]) -> None:
        """Append the tables of notices to the queue; a table that already waits keeps its place."""
        for notice in notices:
            self.waiting.setdefault(notice.table, {})[notice] = None

    def begin(self, may: Callable[[str], bool] = lambda _: True) -> None:
        """Start waiting tables for which `may` returns True, in order, while workers are free."""
        busy = set(self.running.values())
        for table in [table for table in self.waiting if table not in busy and may(table)]:
            if len(self.running) >= self.workers:
                return
            self.notices[table] = self.waiting.pop(table)
            self.running[self.pool.submit(self.take, table, tuple(self.notices[table]))] = table

    def finished(self, seconds: float | None = None) -> Sequence[tuple[str, TableOutcome]]:
        """Wait at most `seconds` until a batch ends; return the ended tables with their outcomes.

        A table with more changes is queued again. Raises what the batch raised.
        """
        finished, _ = wait(self.running, seconds, FIRST_COMPLETED)
        outcomes = []
        for future in sorted(finished, key=[*self.running].index):
            table = self.running.pop(future)
            notices, outcome = self.notices.pop(table), future.result()
            if outcome is TableOutcome.MORE:
                self.join(notices)
            outcomes.append((table, outcome))
        return outcomes
