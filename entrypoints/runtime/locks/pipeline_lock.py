"""File lock of a pipeline: one writer on a machine. The operating system releases it if the process ends."""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from lakeward.core.errors import ConfigError, LockedError

_MOMENT: Final = 0.5
"""Seconds between two attempts to take a lock that another process holds."""


@dataclass(slots=True)
class Lock:
    """The lock of a pipeline, held by this process; it may be lent to other processes for a while."""

    file: FileLock
    own: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def holder(self) -> Path:
        """The file that describes the current or last holder."""
        return Path(f"{self.file.lock_file}.holder")

    def take(self) -> bool:
        """Take the lock and write the holder file; return True if another process held it since this one did.

        Raises Timeout if another process holds it, and ConfigError if the folder cannot be written.
        """
        try:
            self.file.acquire()
            last = _read(self.holder).get("lock")
            since = datetime.now(UTC).isoformat(timespec="seconds")
            held = {"process": os.getpid(), "host": socket.gethostname(), "since": since, "lock": self.own}
            self.holder.write_text(json.dumps(held), encoding="utf-8")
        except Timeout:
            raise
        except OSError as error:
            raise _unwritable(self.holder.parent, error) from error
        return last != self.own

    def give_back(self) -> None:
        """Release the lock for good."""
        if self.file.is_locked:
            self.holder.unlink(missing_ok=True)
            self.file.release()

    def lend(self, pause: Callable[[float], None], seconds: float, is_stopped: Callable[[], bool]) -> bool:
        """Release the lock for so many seconds and take it again; return True if another process held it.

        If another process holds it, wait for it until `is_stopped`; then return True without the lock.
        """
        self.file.release()
        pause(seconds)
        while not is_stopped():
            with suppress(Timeout):
                return self.take()
            pause(_MOMENT)
        return True


@contextmanager
def locked(
    state: Path, name: str = "lock", does: str = "runs", todo: str = "Wait until it is done, and run again."
) -> Iterator[Lock]:
    """Hold a lock of the pipeline within the context.

    The lock is one of the operating system on a file, so it ends with the process, even after a crash. The holder
    file only describes the holder to people. `does` and `todo` are parts of the error message.
    Raises LockedError, which names the holder, if another process holds it, and ConfigError if the folder `state`
    cannot be written.
    """
    lock = Lock(FileLock(state / name, timeout=0))
    try:
        state.mkdir(parents=True, exist_ok=True)
        lock.take()
    except Timeout as error:
        raise LockedError(
            f"another process {does} this pipeline",
            found=_holder(lock.holder),
            todo=f"{todo} Nothing was changed.",
        ) from error
    except OSError as error:
        raise _unwritable(state, error) from error
    try:
        yield lock
    finally:
        lock.give_back()


def _unwritable(state: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"the state folder {state} cannot be written",
        found=str(error),
        todo="Grant permission to write there, or name another with `state` under [pipeline].",
    )


def _read(file: Path) -> dict[str, object]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _holder(file: Path) -> str:
    held = _read(file)
    if "process" not in held:
        return "it has just begun, or is about to end"
    return f"process {held['process']} on {held['host']}, since {held['since']}"
