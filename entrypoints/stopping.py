"""Stopping a run: by a signal, or when its time is over; always after the commit in hand."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Ctrl-C once: finish the commit in hand. Twice: stop now; nothing is lost either way.

    With `until`, a time of `clock` in seconds, it asks by itself.
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
        self.asked = threading.Event()

    @property
    def is_asked(self) -> bool:
        """Whether nothing more shall be begun."""
        return self.asked.is_set() or (self.until is not None and self.clock() >= self.until)

    def pause(self, seconds: float) -> None:
        """Wait so long, or until somebody asks to stop."""
        left = seconds if self.until is None else min(seconds, self.until - self.clock())
        self.asked.wait(max(0.0, left))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Answer SIGINT and SIGTERM while the context lasts."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            signal.signal(number, self._answer)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _answer(self, number: int, _frame: FrameType | None) -> None:
        if self.asked.is_set():
            self.say("Stopped. What was not committed is read again by the next run.")
            sys.stderr.flush()
            os._exit(128 + number)
        self.asked.set()
        self.say("Finishing the commit in hand; once more stops now. Nothing is lost either way.")
