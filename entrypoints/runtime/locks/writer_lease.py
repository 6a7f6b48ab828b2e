"""Lease of a pipeline across machines, renewed by a thread while the process works."""

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
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.startup.context import container_of
from lakeward.entrypoints.views.timestamps import far

log = structlog.get_logger()

_OFTEN: Final = 3
"""Number of renewals within the duration of a grant: two of three requests may be lost."""

_LEAST: Final = 1.0
"""Least number of seconds between two renewals."""

_MOMENT: Final = 5.0
"""Seconds between two attempts to take a lease that another process holds."""


class WriterLease:
    """The lease `name`, held by this process. A context manager whose thread renews it.

    A writer calls `check` before each commit, which makes no request while the grant is valid. `now` returns
    microseconds since 1970. `does` is the verb of the error message.
    """

    def __init__(self, lease: Lease, name: str, now: Callable[[], int], *, does: str = "runs") -> None:
        self.lease = lease
        self.name = name
        self.now = now
        self.does = does
        self.owner = f"process {os.getpid()} on {socket.gethostname()} ({uuid.uuid4().hex[:12]})"
        self.term: LeaseGrant | None = None
        self.successor: LeaseGrant | None = None
        self.error: LakewardError | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease {name}", daemon=True)

    def __enter__(self) -> WriterLease:
        """Take the lease; raises LockedError, which names the owner and the end, if another process holds it."""
        grant = self._take()
        if grant.owner != self.owner:
            raise LockedError(
                f"another process {self.does} this pipeline",
                found=_holder(grant),
                todo="Wait until it ends, and run again; if it has crashed, until its lease expires. Nothing was "
                "changed.",
            )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Give the lease back; if that fails, it expires."""
        self._over.set()
        self._thread.join()
        self._give_back()

    def check(self) -> None:
        """Raise LockedError, or the error of the lease, if this process may no longer write."""
        if self._is_over():
            with self._lock:
                if self.term is not None and self._is_over():  # the process was suspended; the lease may be free
                    self._renew(self.term)
        error = self.error
        if error is not None and not error.retryable:
            raise error
        if self._is_over():
            why = f", and it could not be renewed: {error}" if error else ""
            raise LockedError(
                "this process has lost the lease of the pipeline",
                found=f"it is held by {_holder(self.successor)}"
                if self.successor
                else f"it has expired{why}",
                todo="What it has not committed was not applied. Run again.",
            )

    def lend(
        self, meanwhile: Callable[[], bool], pause: Callable[[float], None], is_stopped: Callable[[], bool]
    ) -> bool:
        """Give the lease back, call `meanwhile`, and take it again; return True if another process wrote.

        That is so if `meanwhile` returns True, or if another process had the lease. If another process holds it,
        wait until it is free or `is_stopped`; then return True without the lease.
        """
        last = self.term
        self._give_back()
        result, is_logged = meanwhile(), False
        while not is_stopped():
            try:
                term = self._take()
            except LakewardError as error:
                if not error.retryable:
                    raise
                if not is_logged:
                    log.warning("the lease cannot be requested", error=error.what, found=error.found)
                is_logged = True
            else:
                if term.owner == self.owner:
                    return result or last is None or term.fence != last.fence + 1
            pause(_MOMENT)
        return True

    def _is_over(self) -> bool:
        term = self.term
        return term is None or self.now() >= term.until

    def _take(self) -> LeaseGrant:
        with self._lock:
            grant = self.lease.take(self.name, self.owner)
            if grant.owner == self.owner:
                self.term, self.successor, self.error = grant, None, None
            return grant

    def _renew(self, term: LeaseGrant) -> None:
        """Renew the grant, or store the error, which `check` raises if the grant expires."""
        try:
            renewed = self.lease.renew(term)
        except LakewardError as error:
            self.error = error
            return
        self.error = None
        if (renewed.owner, renewed.fence) == (term.owner, term.fence):
            self.term = renewed
        else:
            self.term, self.successor = None, renewed

    def _give_back(self) -> None:
        with self._lock:
            term, self.term = self.term, None
            if term is not None:
                try:
                    self.lease.give_back(term)
                except LakewardError as error:
                    log.warning("the lease cannot be released: it expires by itself", error=error.what)

    def _keep(self) -> None:
        while not self._over.wait(self._remaining_seconds()):
            with self._lock:
                if self.term is not None:
                    self._renew(self.term)

    def _remaining_seconds(self) -> float:
        term = self.term
        remaining = 0 if term is None else (term.until - self.now()) / 1_000_000
        return max(_LEAST, remaining / _OFTEN)


def _holder(term: LeaseGrant) -> str:
    seconds = term.until // 1_000_000 * 1_000_000
    return f"{term.owner}, until {far(seconds)}" if term.owner else "nobody: the lease was taken away"


def follower_lease(container: Any) -> AbstractContextManager[WriterLease | None]:
    """Return the lease that a follower holds while it runs; an empty context if the settings have no lease."""
    lease, name = container.lease(), container.configured().settings.pipeline.name
    if lease is None:
        return nullcontext()
    return WriterLease(lease, f"{name}/follow", container.runtime().now, does="follows")


def pipeline_lease(container: Any) -> AbstractContextManager[WriterLease | None]:
    """Return the lease of writers of the pipeline; an empty context if the settings have no lease."""
    return container.writer_lease() or nullcontext()


@contextmanager
def exclusive_container(configured: Configuration, manager: PluginManager | None = None) -> Iterator[Any]:
    """Return the container for a writing command, under the lock and the lease of the pipeline.

    Raises LockedError, which names the holder, if another process writes.
    """
    with (
        locked(configured.state),
        container_of(configured, manager) as container,
        pipeline_lease(container),
    ):
        yield container
