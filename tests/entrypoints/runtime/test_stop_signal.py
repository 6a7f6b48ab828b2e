"""Ctrl-C once finishes the current commit; twice stops at once. Nothing is lost either way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeAlias

import pytest
import shop
import third_party
from projects import write

from lakeward.entrypoints.runtime import stop_signal
from lakeward.entrypoints.runtime.locks.pipeline_lock import locked
from lakeward.entrypoints.runtime.stop_signal import Stop

TraceFunction: TypeAlias = Callable[[FrameType, str, object], object]

SLOW = """
import sys
import shop
from lakeward.entrypoints import cli

def select_objects(self, dimension, object_history, usual=shop.ShopSource.select_objects):
    print("taking", len(object_history.applied), flush=True)
    sys.stdin.readline()
    return usual(self, dimension, object_history)

shop.ShopSource.select_objects = select_objects
sys.exit(cli.main(["run", "--json", *sys.argv[1:]]))
"""


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A run that is in the middle of its first batch, until it reads a line."""
    write(folder, shop.SETTINGS)
    third_party.describe(folder / "site", "shop")
    usual = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([str(folder / "site"), str(Path(shop.__file__).parent), usual])
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taking 0\n"
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("number", "way", "code"), [(signal.SIGINT, "--once", 75), (signal.SIGTERM, "--follow", 0)]
)
def test_one_signal_finishes_the_current_batch_and_begins_no_other(
    tmp_path: Path, number: signal.Signals, way: str, code: int
) -> None:
    """Batches that a run did not begin wait for the next run; a follower always ends by a signal."""
    with running(tmp_path, way) as process:
        assert process.stderr is not None
        process.send_signal(number)
        assert process.stderr.readline().startswith("Finishing the current commit; once more stops now.")
        out, _ = process.communicate("go on\n", timeout=30)
    assert process.returncode == code
    assert [batch["batch"] for batch in json.loads(out)["tables"][0]["batches"]] == [1]


def test_an_idle_follower_ends_by_a_signal(tmp_path: Path) -> None:
    with running(tmp_path, "--follow", "--log", "off") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "taking 1\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate("go on\n" * 10, timeout=30)
    assert process.returncode == 0
    assert json.loads(out)["tables"][0]["counts"]["applied"] == 4


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    with running(tmp_path, "--once") as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        assert "Finishing" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGINT
    assert "Stopped. What was not committed is read again by the next run." in err
    with locked(tmp_path / "state"):
        pass


def test_a_signal_in_the_midst_of_a_pause_ends_it() -> None:
    """It is answered between two instructions of the thread that waits, whatever locks that holds by then."""
    said: list[str] = []
    stop = Stop(said.append)
    before = signal.signal(signal.SIGALRM, stop._answer)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        stop.pause(60)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert stop.is_asked
    assert said == ["Finishing the current commit; once more stops now. Nothing is lost either way."]


@pytest.mark.timeout(60)
def test_asked_at_any_instruction_of_a_pause_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python answers signals between any two of them, within what a pause calls as well."""
    monkeypatch.setattr(stop_signal, "ALERT", 0.01)  # behind the first wait there are instructions, too
    instructions = _paused(asking_at=0)
    assert instructions > 10
    for instruction in range(1, instructions + 1):
        _paused(asking_at=instruction)


def _paused(asking_at: int) -> int:
    """Ask to stop at one of the instructions of a pause, of a minute but for the zeroth; return how many ran."""
    stop, count = Stop(lambda _words: None), 0

    def trace(frame: FrameType, event: str, _arg: object) -> TraceFunction:
        nonlocal count
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == asking_at:
                sys.settrace(None)
                stop.ask()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        stop.pause(60 if asking_at else 0.001)
    finally:
        sys.settrace(before)
    assert stop.is_asked == bool(asking_at)
    return count
