"""A lock that is an object in a bucket, created and changed by conditional writes only.

The owner of the lock rewrites the object regularly, and each write changes its ETag. Another process may take the
lock if the ETag was unchanged for a term. So no clocks are compared, and after a crash the lock is held for one
more term.
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

from lakeward.adapters.aws.s3.access import bucket_and_key
from lakeward.adapters.aws.s3.error_messages import explain_s3_errors
from lakeward.core.errors import LakewardError

TERM: Final = 60.0
"""Seconds for which the object must be unchanged before another process may take the lock."""

_REWRITES: Final = 4
"""How often the owner rewrites the object within a term."""

_POLL: Final = 1.0
"""Seconds between reads of the object while another process has the lock."""

_CHANGED_CODES: Final = ("412", "PreconditionFailed", "409", "ConditionalRequestConflict", "404", "NoSuchKey")
"""The codes with which S3 refuses a write because the object has changed; 409 for concurrent requests."""


class LockTakenError(Exception):
    """Another process has the lock; the message names it."""


class LockLostError(Exception):
    """Another process took the lock while it was held."""


@dataclass(frozen=True, slots=True)
class _LockState:
    """The object as it was read. `owner` is empty if the lock is free or the object does not exist.

    `written` is a unique text of the write, by which a process recognizes its own.
    """

    etag: str = ""
    owner: str = ""
    written: str = ""


@dataclass(slots=True)
class ObjectLock:
    """A lock at a URL, in a bucket that `client`, one of boto3, reaches.

    `term` is in seconds, and so is the result of `now`. `owner` is the name of this process in messages.
    """

    client: Any = field(repr=False)
    url: str
    term: float = TERM
    now: Callable[[], float] = time.time
    owner: str = field(
        default_factory=lambda: f"process {os.getpid()} on {socket.gethostname()} ({uuid.uuid4().hex[:12]})"
    )
    _state: _LockState = field(default_factory=_LockState)
    _write_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @contextmanager
    def hold(self, timeout: float) -> Iterator[None]:
        """Hold the lock in the context; a thread rewrites the object meanwhile.

        Raises LockTakenError, with the owner, if another process keeps the lock for longer than `timeout` seconds.
        Raises LockLostError after the context if another process has taken the lock.
        """
        self._take(timeout)
        end = threading.Event()
        thread = threading.Thread(target=self._rewrite_until, args=(end,), name=f"lock {self.url}", daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            with suppress(LakewardError, OSError):  # the first error counts; the lock expires by itself
                self._free(end, thread)
            raise
        if not self._free(end, thread):
            raise LockLostError

    def _free(self, end: threading.Event, thread: threading.Thread) -> bool:
        """Free the lock; return False if another process has taken it."""
        end.set()
        thread.join()
        return self._write("")

    def _take(self, timeout: float) -> None:
        last_state, since = _LockState(), self.now()
        deadline = since + timeout
        while True:
            if (state := self._read()) != last_state:
                last_state, since = state, self.now()
            if state.owner == "" or self.now() - since >= self.term:
                self._state = state
                if self._write(self.owner):
                    return
            elif self.now() >= deadline:
                raise LockTakenError(state.owner)
            else:
                time.sleep(_POLL)

    def _rewrite_until(self, end: threading.Event) -> None:
        while not end.wait(self.term / _REWRITES):
            with suppress(LakewardError, OSError):  # the next write may succeed
                if not self._write(self.owner):
                    return

    def _read(self) -> _LockState:
        bucket, key = bucket_and_key(self.url)
        try:
            with explain_s3_errors(self.url):
                response = self.client.get_object(Bucket=bucket, Key=key)
                return _LockState(str(response["ETag"]), **json.loads(response["Body"].read()))
        except FileNotFoundError:
            return _LockState()

    def _write(self, owner: str) -> bool:
        """Write the object if it is unchanged; return False if it has changed.

        If the object has changed by this very write, whose response was lost, the write counts as successful.
        """
        with self._write_lock:
            content = {"owner": owner, "written": uuid.uuid4().hex}
            etag = self._put(json.dumps(content).encode())
            state = self._read() if etag is None else _LockState(etag, **content)
            if state.written != content["written"]:
                return False
            self._state = state
            return True

    def _put(self, body: bytes) -> str | None:
        """Write the object if it is unchanged; return the new ETag, or None if it has changed."""
        bucket, key = bucket_and_key(self.url)
        condition = {"IfMatch": self._state.etag} if self._state.etag else {"IfNoneMatch": "*"}
        with explain_s3_errors(self.url):
            try:
                return str(self.client.put_object(Bucket=bucket, Key=key, Body=body, **condition)["ETag"])
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _CHANGED_CODES:
                    return None
                raise
