"""One writer per pipeline: a lock that a crash does not leave behind."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from lakeward.core.errors import ConfigError, LockedError


@contextmanager
def locked(state: Path) -> Iterator[None]:
    """Hold the pipeline's lock; raises LockedError, naming who holds it, where it is taken.

    The lock is the operating system's, on a file: it ends with the process, however that
    ends. What the file beside it says of the holder is for people.
    """
    try:
        state.mkdir(parents=True, exist_ok=True)
        lock = FileLock(state / "lock", timeout=0)
        lock.acquire()
        _say_who(state)
    except Timeout as error:
        raise LockedError(
            "another process runs this pipeline",
            found=_holder(state),
            todo="Wait until it is done, and run again. Nothing was changed.",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"the state folder {state} cannot be written",
            found=str(error),
            todo="Grant permission to write there, or name another with `state` under [pipeline].",
        ) from error
    try:
        yield
    finally:
        (state / "lock.holder").unlink(missing_ok=True)
        lock.release()


def _say_who(state: Path) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    held = {"process": os.getpid(), "host": socket.gethostname(), "since": since}
    (state / "lock.holder").write_text(json.dumps(held), encoding="utf-8")


def _holder(state: Path) -> str:
    try:
        held = json.loads((state / "lock.holder").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "it has just begun, or is about to end"
    return f"process {held['process']} on {held['host']}, since {held['since']}"
