"""Tables in line: a few are worked on at once, each for one batch, and who needs more goes to the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from lakeward.core.ports import Notice


class Turn(Enum):
    """How a turn of a table ended: more waits, nothing does, or it failed."""

    MORE = "more"
    DONE = "done"
    FAILED = "failed"


Take: TypeAlias = Callable[[str, Sequence[Notice]], Turn]
"""Takes the turn of a table: works on one batch of it, at most."""


@dataclass(slots=True)
class Line:
    """Who waits for one of so many `hands`, in order; a table is in one hand at a time.

    Turns are taken in the threads of `pool`. A table with a long backlog holds up no other:
    it waits for its next turn behind them all.
    """

    take: Take
    pool: Executor
    hands: int
    waiting: dict[str, dict[Notice, None]] = field(default_factory=dict)
    in_hand: dict[Future[Turn], str] = field(default_factory=dict)
    notices: dict[str, dict[Notice, None]] = field(default_factory=dict)

    def join(self, notices: Iterable[Notice]) -> None:
        """Put the tables of notices at the end of the line, unless they stand in it."""
        for notice in notices:
            self.waiting.setdefault(notice.table, {})[notice] = None

    def begin(self, may: Callable[[str], bool] = lambda _: True) -> None:
        """Give free hands to those in line that may have one."""
        busy = set(self.in_hand.values())
        for table in [table for table in self.waiting if table not in busy and may(table)]:
            if len(self.in_hand) >= self.hands:
                return
            self.notices[table] = self.waiting.pop(table)
            self.in_hand[self.pool.submit(self.take, table, tuple(self.notices[table]))] = table

    def ended(self, seconds: float | None = None) -> Sequence[tuple[str, Turn]]:
        """Wait until a turn ends, or so long; return those that have ended.

        Raises what a turn raised. Who needs more is in line again.
        """
        done, _ = wait(self.in_hand, seconds, FIRST_COMPLETED)
        found = []
        for future in sorted(done, key=[*self.in_hand].index):
            table = self.in_hand.pop(future)
            notices, turn = self.notices.pop(table), future.result()
            if turn is Turn.MORE:
                self.join(notices)
            found.append((table, turn))
        return found
