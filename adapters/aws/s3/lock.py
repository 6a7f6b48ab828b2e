"""A lock that is an object of a bucket: it is only made, and changed, on the condition that it is what was read.

Who holds it writes it anew while he does, and each time it has another ETag. One that stays the same for a term is
nobody's any more: so no clocks are compared, and a crash holds it for a term.
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
from lakeward.adapters.aws.s3.error_messages import told
from lakeward.core.errors import LakewardError

TERM: Final = 60.0
"""Seconds for which the object must stay the same until another takes it."""

_OFTEN: Final = 4
"""It is written anew so often in a term."""

_MOMENT: Final = 1.0
"""Seconds until it is looked at again, where another process has it."""

_LOST: Final = ("412", "PreconditionFailed", "409", "ConditionalRequestConflict", "404", "NoSuchKey")
"""What S3 answers where the object is another by now; 409 where two ask at once."""


class LockTakenError(Exception):
    """Another process has the lock; it is named."""


class LockLostError(Exception):
    """Another process took the lock while it was held."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The object as it was read: no `owner` has it where it is free, or not there."""

    etag: str = ""
    owner: str = ""
    written: str = ""


@dataclass(slots=True)
class ObjectLock:
    """A lock at a URL."""

    client: Any = field(repr=False)
    url: str
    term: float = TERM
    now: Callable[[], float] = time.time
    owner: str = field(
        default_factory=lambda: f"process {os.getpid()} on {socket.gethostname()} ({uuid.uuid4().hex[:12]})"
    )
    _at: _Seen = field(default_factory=_Seen)
    _turns: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @contextmanager
    def held(self, patience: float) -> Iterator[None]:
        """Hold it while the context lasts, in which a thread writes it anew.

        Raises LockTakenError, which says who has it, where that one keeps it for longer than `patience`, and
        LockLostError behind the context, where another process took it meanwhile.
        """
        self._take(patience)
        over = threading.Event()
        thread = threading.Thread(target=self._keep, args=(over,), name=f"lock {self.url}", daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            with suppress(LakewardError, OSError):  # what was said first counts; the lock is free in a term
                self._end(over, thread)
            raise
        if not self._end(over, thread):
            raise LockLostError

    def _end(self, over: threading.Event, thread: threading.Thread) -> bool:
        """Free it, and say whether it was held until now."""
        over.set()
        thread.join()
        return self._write("")

    def _take(self, patience: float) -> None:
        seen, since = _Seen(), self.now()
        until = since + patience
        while True:
            if (found := self._read()) != seen:
                seen, since = found, self.now()
            if found.owner == "" or self.now() - since >= self.term:
                self._at = found
                if self._write(self.owner):
                    return
            elif self.now() >= until:
                raise LockTakenError(found.owner)
            else:
                time.sleep(_MOMENT)

    def _keep(self, over: threading.Event) -> None:
        while not over.wait(self.term / _OFTEN):
            with suppress(LakewardError, OSError):  # S3 may answer the next time
                if not self._write(self.owner):
                    return

    def _read(self) -> _Seen:
        bucket, key = split(self.url)
        try:
            with told(self.url):
                found = self.client.get_object(Bucket=bucket, Key=key)
                return _Seen(str(found["ETag"]), **json.loads(found["Body"].read()))
        except FileNotFoundError:
            return _Seen()

    def _write(self, owner: str) -> bool:
        """Write it where it is as it was seen, and say whether it was; the answer may have been lost on its way."""
        with self._turns:
            said = {"owner": owner, "written": uuid.uuid4().hex}
            etag = self._put(json.dumps(said).encode())
            found = self._read() if etag is None else _Seen(etag, **said)
            is_ours = found.written == said["written"]
            if is_ours:
                self._at = found
            return is_ours

    def _put(self, body: bytes) -> str | None:
        """Return its new ETag, or None where it is another by now."""
        bucket, key = split(self.url)
        only = {"IfMatch": self._at.etag} if self._at.etag else {"IfNoneMatch": "*"}
        with told(self.url):
            try:
                return str(self.client.put_object(Bucket=bucket, Key=key, Body=body, **only)["ETag"])
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _LOST:
                    return None
                raise
