"""Notices of the queue that a run works on: hidden from other processes, and given back if the table fails."""

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
"""Greatest number of receive calls before a run begins."""

PATIENCE: Final = 30.0
"""Seconds that a run waits at its end for a pending request to the queue."""

_PORTION: Final = 50
"""Notices extended in one request. A notice that is acknowledged meanwhile waits for at most one request."""


class Inbox:
    """The queue of a run of `tables`. A context manager whose thread extends the notices that are in progress.

    A queue that does not answer stops no table: its notices are delivered again, and all tables are examined.
    `answers` is True if the last `receive` succeeded. Table names are compared without case; a returned notice has
    the name as spelled in `tables`. `every` is the time between two extensions in seconds.
    """

    def __init__(self, queue: Queue, tables: Collection[str], every: float = EXTEND_EVERY) -> None:
        self.queue = queue
        self.tables = tables
        self.every = every
        self.answers = False
        self._names = {table.lower(): table for table in tables}
        self._held: dict[Notice, Notice] = {}  # returned notice to the notice as received
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._inherit = inherit_context()
        self._thread = threading.Thread(target=self._keep_hidden, name="queue", daemon=True)
        self._is_failing = False

    def __enter__(self) -> Inbox:
        """Start the thread that extends notices in progress."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Give back the notices that are still in progress, if the queue answers."""
        self._over.set()
        self._thread.join(PATIENCE)
        if self._thread.is_alive() or self._is_failing:
            (log.debug if self._is_failing else log.warning)(
                "notices are not given back: they come again later", notices=len(self._held)
            )
            return
        self.give_back([*self._held])

    def receive(self) -> Sequence[Notice]:
        """Return new notices of the tables; none if the queue does not answer."""
        self.answers, notices = False, dict[Notice, Notice]()
        with self._warning("it is not known which tables have something new"):
            received = self.queue.receive()
            unknown = [notice.table for notice in received if notice.table.lower() not in self._names]
            for notice in received:
                if (table := self._names.get(notice.table.lower())) is not None:
                    notices[Notice(table, notice.receipt)] = notice
            with self._lock:
                self._held.update(notices)
            if unknown:
                log.warning("notices name no table of this run", notices=len(unknown), example=unknown[0])
            self.answers = True
        return [*notices]

    def receive_all(self) -> Sequence[Notice]:
        """Receive until nothing new arrives, at most `RECEIVES` times; warn if more may wait."""
        notices = dict[Notice, None]()
        for _ in range(RECEIVES):
            new = [notice for notice in self.receive() if notice not in notices]
            if not new:
                return [*notices]
            notices.update(dict.fromkeys(new))
        log.warning("more notices may wait than one run receives: the next goes on", notices=len(notices))
        return [*notices]

    def held(self, notices: Sequence[Notice]) -> Sequence[Notice]:
        """Return those of the notices that are still in progress."""
        with self._lock:
            return [notice for notice in notices if notice in self._held]

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Delete notices whose changes are committed. An error is logged only, since the commit is durable."""
        self._end(notices, self.queue.acknowledge, "notices come again whose tables are done")

    def give_back(self, notices: Sequence[Notice]) -> None:
        """Make notices visible to other processes at once: their table failed or was not begun. Log errors."""
        self._end(notices, self.queue.give_back, "notices cannot be given back: they come again later")

    def release(self, notices: Sequence[Notice]) -> None:
        """Stop extending notices whose table waits for something: the queue delivers them again later."""
        self._take(notices)

    def extend(self, notices: Sequence[Notice]) -> None:
        """Extend those of the notices that are in progress; raises what the queue raises."""
        for start in range(0, len(notices), _PORTION):
            with self._lock:  # a notice given back during the request would be hidden again
                some = [self._held[notice] for notice in notices[start : start + _PORTION] if notice in self._held]
                if some and not self._over.is_set():
                    self.queue.extend(some)

    def _take(self, notices: Sequence[Notice]) -> Sequence[Notice]:
        """Remove notices from those in progress; return them as the queue delivered them."""
        with self._lock:
            return [self._held.pop(notice) for notice in dict.fromkeys(notices) if notice in self._held]

    def _end(self, notices: Sequence[Notice], tell: Callable[[Sequence[Notice]], None], then: str) -> None:
        originals = self._take(notices)
        if originals:
            try:
                with self._warning(then):
                    tell(originals)
            except Exception as error:  # noqa: BLE001  # the queue delivers them again, whatever failed
                log.warning(then, error=str(error))

    @contextmanager
    def _warning(self, then: str) -> Iterator[None]:
        """Warn once of a queue that does not answer; raise any error that is not retryable."""
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
        """Extend the notices in progress until the run is over. Each kind of error is logged once."""
        self._inherit()
        logged = set[str]()
        while not self._over.wait(self.every):
            with self._lock:
                held = [*self._held]
            if not held:
                continue
            try:
                with self._warning("notices in progress may be delivered again"):
                    self.extend(held)
            except Exception as error:  # noqa: BLE001  # nothing joins this thread for its error
                (log.debug if str(error) in logged else log.warning)(
                    "notices in progress cannot be extended, and may be delivered again", error=str(error)
                )
                logged.add(str(error))
