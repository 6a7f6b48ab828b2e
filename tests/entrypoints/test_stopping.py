"""Ctrl-C once finishes the commit in hand; twice stops at once. Nothing is lost either way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import shop
import third_party
from projects import write

from lakeward.entrypoints.locking import locked

SLOW = """
import sys
import shop
from lakeward.entrypoints import cli

def take(self, dimension, past, usual=shop.ShopSource.take):
    print("taking", len(past.seen), flush=True)
    sys.stdin.readline()
    return usual(self, dimension, past)

shop.ShopSource.take = take
sys.exit(cli.main(["run", "--json"]))
"""


@contextmanager
def running(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that is in the middle of its first batch, until it reads a line."""
    write(folder, shop.SETTINGS)
    third_party.describe(folder / "site", "shop")
    path = os.pathsep.join([str(folder / "site"), str(Path(shop.__file__).parent)])
    with subprocess.Popen(
        [sys.executable, "-c", SLOW],
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
def test_once_finishes_the_batch_in_hand_and_begins_no_other(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path) as process:
        assert process.stderr is not None
        process.send_signal(number)
        assert process.stderr.readline().startswith("Finishing the commit in hand; once more stops now.")
        out, _ = process.communicate("go on\n", timeout=30)
    assert process.returncode == 75, "what was not begun waits for the next run"
    assert [batch["batch"] for batch in json.loads(out)["tables"][0]["batches"]] == [1]


def test_twice_stops_at_once(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        assert "Finishing" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGINT
    assert "Stopped. What was not committed is read again by the next run." in err
    with locked(tmp_path / "state"):
        pass
