"""Stopping a run: by a signal, or when its time is over; always after the commit in hand."""

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
"""So many seconds, at most, may the main thread wait at once.

A signal that comes when CPython has looked for signals and not yet begun to wait is answered when the wait ends.
"""


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
        self.was_asked = False
        self._word: SimpleQueue[None] = SimpleQueue()

    @property
    def is_asked(self) -> bool:
        """Whether nothing more shall be begun."""
        return self.was_asked or (self.until is not None and self.clock() >= self.until)

    def ask(self) -> None:
        """Ask to stop; a signal may do so in the midst of a pause, which no lock of an event would survive."""
        self.was_asked = True
        self._word.put(None)

    def pause(self, seconds: float) -> None:
        """Wait so long, or until somebody asks to stop."""
        left = seconds if self.until is None else min(seconds, self.until - self.clock())
        while left > 0 and not self.was_asked:
            with suppress(Empty):
                self._word.get(timeout=min(left, ALERT))
            left -= ALERT

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Answer SIGINT and SIGTERM while the context lasts; in another thread than the main one Python cannot."""
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
        self.say("Finishing the commit in hand; once more stops now. Nothing is lost either way.")
