"""`lakeward run --follow` as a process of its own, which tests kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

SCRIPT: Final = "from lakeward.entrypoints.cli import run; run()"
PATIENCE: Final = 600
"""The seconds within which a process makes its first commit on a slow machine."""


class Following:
    """A process that follows the source, in its own process group, with its log in a file."""

    def __init__(self, folder: Path, number: int) -> None:
        self.log = folder / f"follows-{number}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SCRIPT, "run", "--follow", "--log", "json", "--json"],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    def wait_for_a_commit(self) -> None:
        until = time.monotonic() + PATIENCE
        while '"event": "committed"' not in self.log.read_text("utf-8"):
            assert time.monotonic() < until, self.log.read_text("utf-8")[-2000:]
            time.sleep(0.05)

    def end(self, *, with_java: bool) -> None:
        """Kill it, alone or with its children."""
        if with_java:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        assert self.process.wait() == -signal.SIGKILL, self.log.read_text("utf-8")[-2000:]

    def clean(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
