"""`lakeward run` in a process of its own, whose log is followed and which can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from lakeward.core.merge.counts import Counts
from lakeward.entrypoints.settings.configuration import FILE

_COMMAND: Final = (
    *(sys.executable, "-c", "from lakeward.entrypoints.cli import run; run()"),
    *("run", "--once", "--log", "json", "--config", FILE),
)


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit of a batch, as logged by a run."""

    table: str
    batch: int
    counts: Counts


class Run:
    """`lakeward run --once` in a folder, in a process group of its own."""

    def __init__(self, folder: Path) -> None:
        self.output: list[str] = []
        self._process = subprocess.Popen(  # noqa: S603  # our own command
            _COMMAND,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.kill()
        self._errors.close()

    @property
    def _errors(self) -> IO[str]:
        if self._process.stderr is None:
            raise RuntimeError("the run was started without a pipe")
        return self._process.stderr

    def commits(self) -> Iterator[Committed]:
        """Yield the commits until the process ends; other lines are added to `output`."""
        for line in self._errors:
            try:
                logged = json.loads(line)
            except ValueError:
                self.output.append(line.rstrip("\n"))
                continue
            if isinstance(logged, dict) and logged.get("event") == "committed":
                yield Committed(logged["table"], logged["batch"], Counts.of(logged))

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        return self._process.wait()

    def kill(self) -> None:
        """Kill the process and its JVM at once, as a power cut would."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
