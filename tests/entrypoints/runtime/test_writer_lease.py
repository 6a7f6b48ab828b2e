"""The lease of a pipeline while a process works: renewed, given back, lent, lost; and what it says of each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tenancies import Clock

from lakeward.adapters.memory import MemoryLease, MemorySource, MemoryTarget
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError, LockedError, StoreUnreachable
from lakeward.core.ports import LeaseGrant
from lakeward.entrypoints.runtime.locks import writer_lease
from lakeward.entrypoints.runtime.locks.writer_lease import WriterLease
from lakeward.entrypoints.startup.jobs import make_joined_maintenance


class Shared:
    """A lease that two processes have in common, and a clock that somebody turns."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.lease = MemoryLease(self.clock)

    def writer_lease(self, does: str = "runs") -> WriterLease:
        return WriterLease(self.lease, "shop", self.clock, does=does)

    def sleep(self, part: float = 1.1) -> None:
        """Let a part of a term go by without a thread that wakes."""
        self.clock.advance(part * self.lease.duration)


@pytest.fixture
def shared() -> Shared:
    return Shared()


def stopped() -> bool:
    return True


def going_on() -> bool:
    return False


def fail(error: LakewardError) -> Callable[..., LeaseGrant]:
    def raising(*_: object) -> LeaseGrant:
        raise error

    return raising


UNREACHABLE = StoreUnreachable("the table: DynamoDB does not answer")
WRONG_CLOCK = ConfigError("the clock of this machine is 93 s ahead of that of DynamoDB")

# One at a time.


def test_a_second_process_is_refused_and_told_who_has_it_and_until_when(shared: Shared) -> None:
    assert shared.writer_lease().owner != shared.writer_lease().owner
    with shared.writer_lease() as first, pytest.raises(LockedError) as refused, shared.writer_lease():
        pass
    assert first.owner.startswith("process ")
    assert refused.value.what == "another process runs this pipeline"
    assert refused.value.found == f"{first.owner}, until 2026-11-18T11:07:40Z"
    assert refused.value.retryable
    with (
        pytest.raises(LockedError, match="another process follows"),
        shared.writer_lease(),
        shared.writer_lease("follows"),
    ):
        pass


def test_it_is_free_when_the_work_is_done_and_when_it_fails(shared: Shared) -> None:
    with shared.writer_lease():
        pass
    with pytest.raises(KeyError), shared.writer_lease():
        raise KeyError
    with shared.writer_lease() as last:
        last.check()


def test_a_process_that_crashed_keeps_it_until_its_time_is_over(shared: Shared) -> None:
    shared.lease.take("shop", "who crashed")
    with pytest.raises(LockedError, match="who crashed, until"), shared.writer_lease():
        pass
    shared.sleep()
    with shared.writer_lease() as selection:
        selection.check()


# Renewing.


def test_a_thread_renews_it_for_as_long_as_the_work_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times in a term, by a clock that stands still here: the machine may be slow."""
    monkeypatch.setattr(writer_lease, "_LEAST", 0.001)
    shared, renewed, often = Shared(), list[LeaseGrant](), threading.Event()
    shared.lease.duration = 30_000

    def renew(self: MemoryLease, term: LeaseGrant) -> LeaseGrant:
        renewed.append(term)
        if len(renewed) == 5:
            often.set()
        return usual(self, term)

    usual = MemoryLease.renew
    monkeypatch.setattr(MemoryLease, "renew", renew)
    with shared.writer_lease() as held_lease:
        assert often.wait(60)
        held_lease.check()
        assert held_lease._remaining_seconds() == 0.01
    assert {term.fence for term in renewed} == {1}
    assert not [thread for thread in threading.enumerate() if thread.name == "lease shop"]


def test_who_was_stopped_for_long_and_not_overtaken_goes_on(shared: Shared) -> None:
    with shared.writer_lease() as held_lease:
        shared.sleep()
        held_lease.check()
        assert shared.lease.take("shop", "another").owner == held_lease.owner


def test_who_was_stopped_for_long_and_was_overtaken_is_refused_and_told_by_whom(shared: Shared) -> None:
    with shared.writer_lease() as held_lease:
        shared.sleep()
        shared.lease.take("shop", "another")
        for _ in range(2):
            with pytest.raises(LockedError, match="this process has lost the lease") as refused:
                held_lease.check()
            assert str(refused.value.found).startswith("it is held by another, until 2026")
    assert shared.lease.terms["shop"].owner == "another", "its own end took nothing away"


def test_a_lease_that_a_person_took_away_is_lost(shared: Shared) -> None:
    with shared.writer_lease() as held_lease:
        shared.lease.terms.clear()
        shared.sleep()
        with pytest.raises(LockedError, match="the lease was taken away"):
            held_lease.check()


def test_what_does_not_answer_is_no_loss_before_the_time_is_over(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shared.writer_lease() as held_lease:
        monkeypatch.setattr(MemoryLease, "renew", fail(UNREACHABLE))
        shared.sleep(0.9)
        held_lease.check()
        shared.sleep(0.2)
        with pytest.raises(LockedError, match="could not be renewed: the table: DynamoDB does not answer"):
            held_lease.check()
        monkeypatch.undo()
        held_lease.check()


def test_what_will_not_be_over_is_said_as_it_is(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    with shared.writer_lease() as held_lease:
        monkeypatch.setattr(MemoryLease, "renew", fail(WRONG_CLOCK))
        shared.sleep()
        with pytest.raises(ConfigError, match="93 s ahead"):
            held_lease.check()


def test_a_lease_that_cannot_be_given_back_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryLease, "give_back", fail(UNREACHABLE))
    shared = Shared()
    with shared.writer_lease():
        pass
    shared.sleep()
    assert shared.lease.take("shop", "another").owner == "another"


# Lending.


@pytest.mark.parametrize("has_guest", [True, False])
def test_what_is_lent_is_free_and_it_is_seen_whether_another_had_it(shared: Shared, has_guest: bool) -> None:

    def meanwhile() -> bool:
        if has_guest:
            with shared.writer_lease():
                pass
        return False

    with shared.writer_lease() as held_lease:
        assert [held_lease.lend(meanwhile, fail(UNREACHABLE), going_on) for _ in range(2)] == [has_guest] * 2
        held_lease.check()
        with pytest.raises(LockedError), shared.writer_lease():
            pass
        assert held_lease.lend(lambda: True, fail(UNREACHABLE), going_on), "what another had here is passed on"


def test_a_guest_is_waited_for_and_nothing_may_be_written_meanwhile(shared: Shared) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        with pytest.raises(LockedError):
            held_lease.check()
        shared.sleep(0.4)

    with shared.writer_lease() as held_lease:
        assert held_lease.lend(lambda: bool(shared.lease.take("shop", "guest")) and False, pause, going_on)
        assert len(pauses) == 3
        held_lease.check()


def test_who_is_asked_to_stop_does_not_wait_for_the_lease(shared: Shared) -> None:
    with shared.writer_lease() as held_lease:
        assert held_lease.lend(
            lambda: bool(shared.lease.take("shop", "guest")) and False, fail(UNREACHABLE), stopped
        )
    assert shared.lease.terms["shop"].owner == "guest"


def test_a_follower_outlives_a_lease_that_does_not_answer_for_a_while(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shared.writer_lease() as held_lease:
        monkeypatch.setattr(MemoryLease, "take", fail(UNREACHABLE))
        assert not held_lease.lend(lambda: False, lambda _seconds: monkeypatch.undo(), going_on)
        held_lease.check()
        monkeypatch.setattr(MemoryLease, "take", fail(WRONG_CLOCK))
        with pytest.raises(ConfigError, match="93 s ahead"):
            held_lease.lend(lambda: False, lambda _seconds: None, going_on)


def test_care_of_a_joined_table_asks_for_the_lease_as_that_of_any_other() -> None:
    name, shared = TableName("shop", "sales"), Shared()
    configured: Any = SimpleNamespace(joined={name: SimpleNamespace(history=None)})
    writer_lease = shared.writer_lease()
    job = make_joined_maintenance(
        configured=configured, source=MemorySource(), target=MemoryTarget(), writer_lease=writer_lease, table=name
    )
    with pytest.raises(LockedError):
        job.check()
    with writer_lease:
        job.check()
