"""The lock in a bucket: it has one owner at a time, and after a crash it is held for one more term."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
from buckets import Buckets

from lakeward.adapters.aws.s3 import lock as locks
from lakeward.adapters.aws.s3.access import find_access
from lakeward.adapters.aws.s3.lock import LockLostError, LockTakenError, ObjectLock


@dataclass
class Clock:
    """A clock that advances only by waiting."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(locks.time, "sleep", clock.sleep)
    return clock


@pytest.fixture
def url(s3: Buckets) -> str:
    return f"s3://{s3.make()}/lake/shop/.item.lock"


def lock(url: str, clock: Clock, owner: str) -> ObjectLock:
    return ObjectLock(find_access().client, url, now=clock, owner=owner)


def test_a_freed_lock_is_taken_without_waiting(url: str, clock: Clock) -> None:
    with lock(url, clock, "one").hold(0):
        pass
    with lock(url, clock, "two").hold(0):
        pass
    assert clock() == 0, "nobody had to wait"


def test_the_error_for_a_taken_lock_names_its_owner(url: str, clock: Clock) -> None:
    with (
        lock(url, clock, "one").hold(0),
        pytest.raises(LockTakenError, match="one"),
        lock(url, clock, "two").hold(10),
    ):
        pytest.fail("two have it")


def test_the_lock_of_a_crashed_process_is_taken_after_a_term(url: str, clock: Clock) -> None:
    lock(url, clock, "one")._write("one")
    with lock(url, clock, "two").hold(600):
        assert clock() >= locks.TERM


def test_a_process_that_lost_the_lock_gets_an_error_and_does_not_free_it(url: str, clock: Clock) -> None:
    other = lock(url, clock, "two")
    with pytest.raises(LockLostError), lock(url, clock, "one").hold(0):
        other._take(600)
    assert other._read().owner == "two"
    assert other._write("two")


def test_a_lost_response_is_a_success(s3: Buckets, url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 wrote the object, the response was lost, and the repeated request finds the object changed."""
    one = lock(url, clock, "one")
    put = one._put
    monkeypatch.setattr(ObjectLock, "_put", lambda _lock, body: put(body) and None)
    assert one._write("one")


def test_the_object_is_rewritten_while_the_lock_is_held(url: str, clock: Clock) -> None:
    one = lock(url, clock, "one")
    one.term = 0.04
    with one.hold(0):
        first, seen = one._read(), threading.Event()
        is_anew = any(one._read() != first or seen.wait(0.01) for _ in range(3_000))
    assert is_anew
