"""What a run is told by its queue: hidden from others while its tables are in work, given back where one failed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

import structlog

from lakeward.core.errors import LakewardError
from lakeward.core.ports import EXTEND_EVERY, Notice, Queue

log = structlog.get_logger()


class Inbox:
    """The queue of a run of `tables`, and the notices that are in work: a context, in which a thread hides these.

    A queue that does not answer for now stops no table: its notices come again, or the tables are looked at anyhow.
    Whether it did when it was asked last says `answers`.
    """

    def __init__(self, queue: Queue, tables: Collection[str], every: float = EXTEND_EVERY) -> None:
        self.queue = queue
        self.tables = tables
        self.every = every
        self.answers = False
        self._held: dict[Notice, None] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_hidden, name="queue", daemon=True)
        self._has_warned = False

    def __enter__(self) -> Inbox:
        """Begin to keep hidden what is in work."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Give back what is still in work: its turn did not come, or did not end."""
        self._over.set()
        self._thread.join()
        self.give_back([*self._held])

    def receive(self) -> Sequence[Notice]:
        """Return the notices of the tables; none where the queue does not answer for now."""
        self.answers, found = False, list[Notice]()
        with self._warning("it is not known which tables have something new"):
            found = [notice for notice in self.queue.receive() if notice.table in self.tables]
            with self._lock:
                self._held.update(dict.fromkeys(found))
            self.answers, self._has_warned = True, False
        return found

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Forget notices whose changes are committed."""
        self._end(notices, self.queue.acknowledge)

    def give_back(self, notices: Sequence[Notice]) -> None:
        """Let others receive notices at once whose table failed, or was not begun; what goes wrong is logged."""
        try:
            self._end(notices, self.queue.give_back)
        except Exception as error:  # noqa: BLE001  # it comes again by itself, and what failed before is of more use
            log.warning("notices cannot be given back: they come again later", error=str(error))

    def release(self, notices: Sequence[Notice]) -> None:
        """Keep notices hidden no longer whose table waits for something: they come again by themselves."""
        with self._lock:
            for notice in notices:
                self._held.pop(notice, None)

    def extend(self, notices: Sequence[Notice]) -> None:
        """Keep notices hidden that are in work."""
        self.queue.extend(notices)

    def _end(self, notices: Sequence[Notice], tell: Callable[[Sequence[Notice]], None]) -> None:
        with self._lock:
            ended = [notice for notice in notices if notice in self._held]
            for notice in ended:
                del self._held[notice]
        if ended:
            with self._warning("notices come again whose tables are done"):
                tell(ended)

    @contextmanager
    def _warning(self, then: str) -> Iterator[None]:
        """Warn of a queue that does not answer for now, once until it does; raise any other error."""
        try:
            yield
        except LakewardError as error:
            if not error.retryable:
                raise
            (log.debug if self._has_warned else log.warning)(
                "the queue does not answer", then=then, error=error.what, found=error.found
            )
            self._has_warned = True

    def _keep_hidden(self) -> None:
        """Hide what is in work, again and again; what goes wrong for good is said once, and stops no table."""
        try:
            while not self._over.wait(self.every):
                with self._lock:
                    held = [*self._held]
                if held:
                    with self._warning("notices in work may come again"):
                        self.queue.extend(held)
        except Exception as error:  # noqa: BLE001  # nobody waits for this thread: what it raised would be lost
            log.warning("notices in work are no longer hidden, and may come again", error=str(error))
