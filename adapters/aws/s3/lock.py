"""A lock that is an object in a bucket, created and changed by conditional writes only.

The owner of the lock rewrites the object regularly, and each time its ETag changes. An object whose ETag is
unchanged for a term belongs to nobody. So no clocks are compared, and after a crash the lock is held for one more
term.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import ClientError

from lakeward.adapters.aws.s3.access import split
from lakeward.adapters.aws.s3.error_messages import explain_s3_errors
from lakeward.core.errors import LakewardError

TERM: Final = 60.0
"""Seconds for which the object must be unchanged before another process may take the lock."""

_OFTEN: Final = 4
"""How often the owner rewrites the object within a term."""

_MOMENT: Final = 1.0
"""Seconds between reads of the object while another process has the lock."""

_LOST: Final = ("412", "PreconditionFailed", "409", "ConditionalRequestConflict", "404", "NoSuchKey")
"""The codes with which S3 refuses a write because the object has changed; 409 for concurrent requests."""


class LockTakenError(Exception):
    """Another process has the lock; the message names it."""


class LockLostError(Exception):
    """Another process took the lock while it was held."""


@dataclass(frozen=True, slots=True)
class _LockState:
    """The object as it was read; `owner` is empty if the lock is free or the object does not exist."""

    etag: str = ""
    owner: str = ""
    written: str = ""


@dataclass(slots=True)
class ObjectLock:
    """A lock at a URL. `term` is in seconds; `now` returns seconds."""

    client: Any = field(repr=False)
    url: str
    term: float = TERM
    now: Callable[[], float] = time.time
    owner: str = field(
        default_factory=lambda: f"process {os.getpid()} on {socket.gethostname()} ({uuid.uuid4().hex[:12]})"
    )
    _at: _LockState = field(default_factory=_LockState)
    _write_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @contextmanager
    def held(self, patience: float) -> Iterator[None]:
        """Hold the lock in the context; a thread rewrites the object meanwhile.

        Raises LockTakenError, with the owner, if another process keeps the lock for longer than `patience` seconds.
        Raises LockLostError after the context if another process has taken the lock.
        """
        self._take(patience)
        over = threading.Event()
        thread = threading.Thread(target=self._rewrite_until, args=(over,), name=f"lock {self.url}", daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            with suppress(LakewardError, OSError):  # the first error counts; the lock expires by itself
                self._end(over, thread)
            raise
        if not self._end(over, thread):
            raise LockLostError

    def _end(self, over: threading.Event, thread: threading.Thread) -> bool:
        """Free the lock, and return whether it was held until now."""
        over.set()
        thread.join()
        return self._write("")

    def _take(self, patience: float) -> None:
        last_state, since = _LockState(), self.now()
        until = since + patience
        while True:
            if (state := self._read()) != last_state:
                last_state, since = state, self.now()
            if state.owner == "" or self.now() - since >= self.term:
                self._at = state
                if self._write(self.owner):
                    return
            elif self.now() >= until:
                raise LockTakenError(state.owner)
            else:
                time.sleep(_MOMENT)

    def _rewrite_until(self, over: threading.Event) -> None:
        while not over.wait(self.term / _OFTEN):
            with suppress(LakewardError, OSError):  # S3 may answer the next time
                if not self._write(self.owner):
                    return

    def _read(self) -> _LockState:
        bucket, key = split(self.url)
        try:
            with explain_s3_errors(self.url):
                response = self.client.get_object(Bucket=bucket, Key=key)
                return _LockState(str(response["ETag"]), **json.loads(response["Body"].read()))
        except FileNotFoundError:
            return _LockState()

    def _write(self, owner: str) -> bool:
        """Write the object if it is unchanged, and return whether that succeeded, even if the response was lost."""
        with self._write_lock:
            content = {"owner": owner, "written": uuid.uuid4().hex}
            etag = self._put(json.dumps(content).encode())
            state = self._read() if etag is None else _LockState(etag, **content)
            is_ours = state.written == content["written"]
            if is_ours:
                self._at = state
            return is_ours

    def _put(self, body: bytes) -> str | None:
        """Return the new ETag, or None if the object has changed."""
        bucket, key = split(self.url)
        only = {"IfMatch": self._at.etag} if self._at.etag else {"IfNoneMatch": "*"}
        with explain_s3_errors(self.url):
            try:
                return str(self.client.put_object(Bucket=bucket, Key=key, Body=body, **only)["ETag"])
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _LOST:
                    return None
                raise
