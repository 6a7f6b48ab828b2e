"""Graceful stop of a run, by a signal or at a time limit: the current commit is finished first."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

ALERT: Final = 1.0
"""Greatest number of seconds that the main thread may wait at once.

CPython handles a signal that arrives between its check for signals and the wait only when the wait ends.
"""


class Stop:
    """Stop request. The first SIGINT or SIGTERM finishes the current commit, the second ends the process at once.

    Neither loses data. `until` is a time of `clock` in seconds at which a stop is requested without a signal.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        until: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.say = say
        self.until = until
        self.clock = clock
        self.was_asked = False
        self._requests: SimpleQueue[None] = SimpleQueue()

    @property
    def is_asked(self) -> bool:
        """True if no further batch may begin."""
        return self.was_asked or (self.until is not None and self.clock() >= self.until)

    def ask(self) -> None:
        """Request a stop. Safe in a signal handler: SimpleQueue.put is reentrant, an Event may deadlock."""
        self.was_asked = True
        self._requests.put(None)

    def pause(self, seconds: float) -> None:
        """Wait so many seconds, or until a stop is requested."""
        remaining = seconds if self.until is None else min(seconds, self.until - self.clock())
        while remaining > 0 and not self.was_asked:
            with suppress(Empty):
                self._requests.get(timeout=min(remaining, ALERT))
            remaining -= ALERT

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM within the context; do nothing outside the main thread, as Python requires."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            signal.signal(number, self._answer)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _answer(self, number: int, _frame: FrameType | None) -> None:
        if self.was_asked:
            self.say("Stopped. What was not committed is read again by the next run.")
            sys.stderr.flush()
            os._exit(128 + number)
        self.ask()
        self.say("Finishing the current commit; once more stops now. Nothing is lost either way.")
