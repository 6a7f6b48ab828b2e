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

def select_objects(self, dimension, past, usual=shop.ShopSource.select_objects):
    print("taking", len(past.seen), flush=True)
    sys.stdin.readline()
    return usual(self, dimension, past)

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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("way", "code"), [("--once", 75), ("--follow", 0)])
def test_once_finishes_the_batch_in_hand_and_begins_no_other(
    tmp_path: Path, number: signal.Signals, way: str, code: int
) -> None:
    """What a run did not begin waits for the next; to one that follows it is the way to end."""
    with running(tmp_path, way) as process:
        assert process.stderr is not None
        process.send_signal(number)
        assert process.stderr.readline().startswith("Finishing the current commit; once more stops now.")
        out, _ = process.communicate("go on\n", timeout=30)
    assert process.returncode == code
    assert [batch["batch"] for batch in json.loads(out)["tables"][0]["batches"]] == [1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_follows_and_has_nothing_to_do_ends_when_it_is_asked_to(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running(tmp_path, "--follow", "--log", "off") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "taking 1\n"
        process.send_signal(number)
        out, _ = process.communicate("go on\n" * 10, timeout=30)
    assert process.returncode == 0
    assert json.loads(out)["tables"][0]["counts"]["applied"] == 4


@pytest.mark.parametrize("way", ["--once", "--follow"])
def test_twice_stops_at_once(tmp_path: Path, way: str) -> None:
    with running(tmp_path, way) as process:
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
