"""What a run is told by its queue: hidden from others while its tables are in work, given back where one failed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final

import structlog

from lakeward.core.errors import LakewardError
from lakeward.core.ports import EXTEND_EVERY, Notice, Queue
from lakeward.entrypoints.runtime.reporting.logs import inherit_context

log = structlog.get_logger()

RECEIVES: Final = 20
"""How often a run receives before it begins, at the most."""

PATIENCE: Final = 30.0
"""Seconds that a run waits at its end for a request that is under way to the queue."""

_PORTION: Final = 50
"""Notices that are extended at once: what is acknowledged or given back meanwhile waits for no more than these."""


class Inbox:
    """The queue of a run of `tables`, and the notices that are in work: a context, in which a thread hides these.

    A queue that does not answer for now stops no table: its notices come again, or the tables are looked at anyhow.
    `answers` is True if the last `receive` succeeded. Names of tables are compared without case; a notice has the
    name as it is in `tables`.
    """

    def __init__(self, queue: Queue, tables: Collection[str], every: float = EXTEND_EVERY) -> None:
        self.queue = queue
        self.tables = tables
        self.every = every
        self.answers = False
        self._names = {table.lower(): table for table in tables}
        self._held: dict[Notice, Notice] = {}  # each with the one that the queue gave out
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._inherit = inherit_context()
        self._thread = threading.Thread(target=self._keep_hidden, name="queue", daemon=True)
        self._is_failing = False

    def __enter__(self) -> Inbox:
        """Begin to keep hidden what is in work."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Give back what is still in work, if the queue answers: its turn did not come, or did not end."""
        self._over.set()
        self._thread.join(PATIENCE)
        if self._thread.is_alive() or self._is_failing:
            (log.debug if self._is_failing else log.warning)(
                "notices are not given back: they come again later", notices=len(self._held)
            )
            return
        self.give_back([*self._held])

    def receive(self) -> Sequence[Notice]:
        """Return the notices of the tables; none where the queue does not answer for now."""
        self.answers, found = False, dict[Notice, Notice]()
        with self._warning("it is not known which tables have something new"):
            received = self.queue.receive()
            unknown = [notice.table for notice in received if notice.table.lower() not in self._names]
            for notice in received:
                if (table := self._names.get(notice.table.lower())) is not None:
                    found[Notice(table, notice.receipt)] = notice
            with self._lock:
                self._held.update(found)
            if unknown:
                log.warning("notices name no table of this run", notices=len(unknown), example=unknown[0])
            self.answers = True
        return [*found]

    def receive_all(self) -> Sequence[Notice]:
        """Receive until nothing new comes, `RECEIVES` times at the most; warn where more may wait."""
        found = dict[Notice, None]()
        for _ in range(RECEIVES):
            new = [notice for notice in self.receive() if notice not in found]
            if not new:
                return [*found]
            found.update(dict.fromkeys(new))
        log.warning("more notices may wait than one run receives: the next goes on", notices=len(found))
        return [*found]

    def held(self, notices: Sequence[Notice]) -> Sequence[Notice]:
        """Return those of the notices that are in work still."""
        with self._lock:
            return [notice for notice in notices if notice in self._held]

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Forget notices whose changes are committed; what goes wrong is logged, as the commit stands."""
        self._end(notices, self.queue.acknowledge, "notices come again whose tables are done")

    def give_back(self, notices: Sequence[Notice]) -> None:
        """Let others receive notices at once whose table failed, or was not begun; what goes wrong is logged."""
        self._end(notices, self.queue.give_back, "notices cannot be given back: they come again later")

    def release(self, notices: Sequence[Notice]) -> None:
        """Keep notices hidden no longer whose table waits for something: they come again by themselves."""
        self._take(notices)

    def extend(self, notices: Sequence[Notice]) -> None:
        """Keep those of the notices hidden that are in work; raises what the queue does."""
        for start in range(0, len(notices), _PORTION):
            with self._lock:  # none is given back while it is extended: it would be hidden again
                some = [self._held[one] for one in notices[start : start + _PORTION] if one in self._held]
                if some and not self._over.is_set():
                    self.queue.extend(some)

    def _take(self, notices: Sequence[Notice]) -> Sequence[Notice]:
        """Return those in work as the queue gave them out, which are so no longer."""
        with self._lock:
            return [self._held.pop(notice) for notice in dict.fromkeys(notices) if notice in self._held]

    def _end(self, notices: Sequence[Notice], tell: Callable[[Sequence[Notice]], None], then: str) -> None:
        ended = self._take(notices)
        if ended:
            try:
                with self._warning(then):
                    tell(ended)
            except Exception as error:  # noqa: BLE001  # they come again by themselves, whatever it is
                log.warning(then, error=str(error))

    @contextmanager
    def _warning(self, then: str) -> Iterator[None]:
        """Warn of a queue that does not answer for now, once until it does; raise any other error."""
        try:
            yield
            self._is_failing = False
        except LakewardError as error:
            if not error.retryable:
                raise
            (log.debug if self._is_failing else log.warning)(
                "the queue does not answer", then=then, error=error.what, found=error.found, todo=error.todo
            )
            self._is_failing = True

    def _keep_hidden(self) -> None:
        """Hide what is in work, again and again; what goes wrong is said once, and stops no table."""
        self._inherit()
        said = set[str]()
        while not self._over.wait(self.every):
            with self._lock:
                held = [*self._held]
            if not held:
                continue
            try:
                with self._warning("notices in work may come again"):
                    self.extend(held)
            except Exception as error:  # noqa: BLE001  # nobody waits for this thread: what it raised would be lost
                (log.debug if str(error) in said else log.warning)(
                    "notices in work cannot be hidden for longer, and may come again", error=str(error)
                )
                said.add(str(error))
