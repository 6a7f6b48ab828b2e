"""One writer per pipeline, and a lock that no crash leaves behind."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest

from lakeward.core.errors import ConfigError, LockedError
from lakeward.entrypoints.runtime.locks.pipeline_lock import locked

HOLDER = """
import sys
from pathlib import Path
from lakeward.entrypoints.runtime.locks.pipeline_lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(state: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until it is killed."""
    command = [sys.executable, "-c", HOLDER, str(state)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_lock_makes_its_folder_and_leaves_it_free(tmp_path: Path) -> None:
    state = tmp_path / "not" / "there"
    for _ in range(2):
        with pytest.raises(KeyError), locked(state):
            raise KeyError
    with locked(state), locked(tmp_path / "other"):
        assert all((folder / "lock").exists() for folder in (state, tmp_path / "other")), "another pipeline is free"


def test_a_second_process_is_refused_and_told_who_holds_the_lock(tmp_path: Path) -> None:
    with another_process(tmp_path) as process, pytest.raises(LockedError) as refused, locked(tmp_path):
        pass
    assert refused.value.what == "another process runs this pipeline"
    assert f"process {process.pid} on " in str(refused.value.found)
    assert refused.value.retryable


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    with another_process(tmp_path) as process:
        process.kill()
        process.wait()
        assert (tmp_path / "lock.holder").exists()
        began = time.monotonic()
        with locked(tmp_path):
            assert time.monotonic() - began < 1


def test_a_holder_that_cannot_be_told_is_no_error_of_its_own(tmp_path: Path) -> None:
    with locked(tmp_path):
        (tmp_path / "lock.holder").write_text("{", "utf-8")
        with pytest.raises(LockedError, match="it has just begun, or is about to end"), locked(tmp_path):
            pass


@pytest.mark.parametrize("in_the_way", ["state", "state/lock.holder/is-a-folder"])
def test_a_state_folder_that_cannot_be_written_is_refused(tmp_path: Path, in_the_way: str) -> None:
    (tmp_path / in_the_way).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / in_the_way).touch()
    with pytest.raises(ConfigError, match="cannot be written") as refused, locked(tmp_path / "state"):
        pass
    assert "`state` under [pipeline]" in str(refused.value.todo)


# Lending.


@pytest.mark.parametrize("has_guest", [True, False])
def test_a_lock_that_is_lent_is_free_and_says_whether_another_process_had_it(
    tmp_path: Path, has_guest: bool
) -> None:
    def pause(_seconds: float) -> None:
        with locked(tmp_path) if has_guest else nullcontext():
            pass

    with locked(tmp_path) as lock:
        assert [lock.lend(pause, 10, lambda: False) for _ in range(2)] == [has_guest] * 2
        with pytest.raises(LockedError), locked(tmp_path):
            pass


def test_the_guest_is_waited_for_and_one_that_crashed_was_there_too(tmp_path: Path) -> None:
    with ExitStack() as guests:
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 1:
                guests.enter_context(another_process(tmp_path))
            if len(pauses) == 3:
                guests.close()  # which kills it

        with locked(tmp_path) as lock:
            assert lock.lend(pause, 10, lambda: False)
            assert len(pauses) == 3


def test_who_is_asked_to_stop_does_not_wait_for_the_lock(tmp_path: Path) -> None:
    with ExitStack() as guests:

        def pause(_seconds: float) -> None:
            guests.enter_context(another_process(tmp_path))

        with locked(tmp_path) as lock:
            assert lock.lend(pause, 10, lambda: True)
        assert (tmp_path / "lock.holder").exists(), "it is the guest's"


def test_two_processes_cannot_follow_one_pipeline(tmp_path: Path) -> None:
    follows = (tmp_path, "follow", "follows")
    with locked(*follows), locked(tmp_path), pytest.raises(LockedError) as refused, locked(*follows):
        pass
    assert refused.value.what == "another process follows this pipeline"
