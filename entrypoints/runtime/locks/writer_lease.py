"""Whose turn it is, here and among machines: the lock, and the lease that a process renews while it works."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, Final

import structlog
from pluggy import PluginManager

from lakeward.core.errors import LakewardError, LockedError
from lakeward.core.ports import Lease, LeaseGrant
from lakeward.entrypoints.runtime.locks.pipeline_lock import locked
from lakeward.entrypoints.settings.configuration import Configured
from lakeward.entrypoints.startup.context import container_of
from lakeward.entrypoints.views.timestamps import far

log = structlog.get_logger()

_OFTEN: Final = 3
"""A term is renewed so often in its time: two of three requests may be lost."""

_LEAST: Final = 1.0
"""Seconds between two tries at the least, however little is left."""

_MOMENT: Final = 5.0
"""Seconds until the lease is asked for again, where another process has it."""


class Tenure:
    """The lease `name` while this process has it: a context, in which a thread renews it.

    Who is about to write asks with `check`, which asks nobody while the term is not over.
    """

    def __init__(self, lease: Lease, name: str, now: Callable[[], int], *, does: str = "runs") -> None:
        self.lease = lease
        self.name = name
        self.now = now
        self.does = does
        self.owner = f"process {os.getpid()} on {socket.gethostname()} ({uuid.uuid4().hex[:12]})"
        self.term: LeaseGrant | None = None
        self.selection: LeaseGrant | None = None
        self.error: LakewardError | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease {name}", daemon=True)

    def __enter__(self) -> Tenure:
        """Take it; raises LockedError, naming who has it and until when, where it is taken."""
        found = self._take()
        if found.owner != self.owner:
            raise LockedError(
                f"another process {self.does} this pipeline",
                found=_holder(found),
                todo="Wait until it is done, and run again; if it has crashed, until its time is over. Nothing was "
                "changed.",
            )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Give it back; where that cannot be said, its time ends by itself."""
        self._over.set()
        self._thread.join()
        self._give_back()

    def check(self) -> None:
        """Raise LockedError, or what is wrong with the lease, where this process may not write any more."""
        if self._is_over():
            with self._lock:
                if self.term is not None and self._is_over():  # it was stopped for long: perhaps nobody came
                    self._renew(self.term)
        error = self.error
        if error is not None and not error.retryable:
            raise error
        if self._is_over():
            why = f", and it could not be renewed: {error}" if error else ""
            raise LockedError(
                "this process has lost its turn at the pipeline",
                found=f"now it is that of {_holder(self.selection)}"
                if self.selection
                else f"its time is over{why}",
                todo="What it has not committed was not applied. Run again.",
            )

    def lend(
        self, meanwhile: Callable[[], bool], pause: Callable[[float], None], is_stopped: Callable[[], bool]
    ) -> bool:
        """Let others have the lease `meanwhile`; return what that says, or whether one had it, or has it still.

        It is taken again once nobody has it, unless somebody asks to stop before.
        """
        had = self.term
        self._give_back()
        found, is_told = meanwhile(), False
        while not is_stopped():
            try:
                term = self._take()
            except LakewardError as error:
                if not error.retryable:
                    raise
                if not is_told:
                    log.warning("the lease cannot be asked for", error=error.what, found=error.found)
                is_told = True
            else:
                if term.owner == self.owner:
                    return found or had is None or term.fence != had.fence + 1
            pause(_MOMENT)
        return True

    def _is_over(self) -> bool:
        term = self.term
        return term is None or self.now() >= term.until

    def _take(self) -> LeaseGrant:
        with self._lock:
            found = self.lease.take(self.name, self.owner)
            if found.owner == self.owner:
                self.term, self.selection, self.error = found, None, None
            return found

    def _renew(self, term: LeaseGrant) -> None:
        """Make the term longer, or note why not: that is for `check` to say, when it matters."""
        try:
            found = self.lease.renew(term)
        except LakewardError as error:
            self.error = error
            return
        self.error = None
        if (found.owner, found.fence) == (term.owner, term.fence):
            self.term = found
        else:
            self.term, self.selection = None, found

    def _give_back(self) -> None:
        with self._lock:
            term, self.term = self.term, None
            if term is not None:
                try:
                    self.lease.give_back(term)
                except LakewardError as error:
                    log.warning("the lease cannot be given back: its time ends by itself", error=error.what)

    def _keep(self) -> None:
        while not self._over.wait(self._rest()):
            with self._lock:
                if self.term is not None:
                    self._renew(self.term)

    def _rest(self) -> float:
        term = self.term
        left = 0 if term is None else (term.until - self.now()) / 1_000_000
        return max(_LEAST, left / _OFTEN)


def _holder(term: LeaseGrant) -> str:
    seconds = term.until // 1_000_000 * 1_000_000
    return f"{term.owner}, until {far(seconds)}" if term.owner else "nobody: the lease was taken away"


def of_follower(container: Any) -> AbstractContextManager[Tenure | None]:
    """Return the lease of who follows a pipeline, for as long as he does, where the settings have one."""
    lease, name = container.lease(), container.configured().settings.pipeline.name
    if lease is None:
        return nullcontext()
    return Tenure(lease, f"{name}/follow", container.runtime().now, does="follows")


def of_writer(container: Any) -> AbstractContextManager[Tenure | None]:
    """Return the lease of who writes to the tables of a pipeline, where the settings have one."""
    return container.tenure() or nullcontext()


@contextmanager
def alone(configured: Configured, manager: PluginManager | None = None) -> Iterator[Any]:
    """Put the parts together for what writes: no other process of the pipeline does, here or on another machine.

    Raises LockedError, naming who does, where one is there already.
    """
    with locked(configured.state), container_of(configured, manager) as container, of_writer(container):
        yield container
