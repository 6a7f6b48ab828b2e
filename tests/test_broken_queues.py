"""The laws of a queue can fail, each on a mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from threading import Barrier, BrokenBarrierError, Event

import pytest
from hiding_queue import HidingQueue, hiding_bell

from lakeward.adapters.memory import MemoryQueue
from lakeward.core.errors import LakewardError
from lakeward.core.ports import Notice
from lakeward.plugins.testing import QueueUnderTest
from lakeward.plugins.testing.laws import queues

SEEN = (AssertionError, LakewardError, LookupError, ValueError)


class TellsTheTableAlone(MemoryQueue):
    def receive(self) -> Sequence[Notice]:
        return [replace(notice, table=notice.table.split(".")[-1]) for notice in self.notices]


class TellsOfAllWhereThereIsNone(MemoryQueue):
    def receive(self) -> Sequence[Notice]:
        return self.notices or [Notice(table) for table in queues.TABLES]


class TellsWhatWasThereAtFirst(MemoryQueue):
    def receive(self) -> Sequence[Notice]:
        self.first = getattr(self, "first", [*self.notices])
        return self.first


class ForgetsWhatItTold(MemoryQueue):
    def receive(self) -> Sequence[Notice]:
        told, self.notices = self.notices, []
        return told


class ForgetsEverything(MemoryQueue):
    def acknowledge(self, notices: Sequence[Notice]) -> None:
        if notices:
            self.notices.clear()


class ForgetsAllOfATable(MemoryQueue):
    def acknowledge(self, notices: Sequence[Notice]) -> None:
        tables = {notice.table for notice in notices}
        self.notices = [notice for notice in self.notices if notice.table not in tables]


class WantsEachOnce(MemoryQueue):
    def acknowledge(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            self.notices.remove(notice)


MEETING = Barrier(2)


class PutsBackWhatAnotherThreadForgot(MemoryQueue):
    def acknowledge(self, notices: Sequence[Notice]) -> None:
        left = [notice for notice in self.notices if notice not in notices]
        try:
            MEETING.wait(10)
        except BrokenBarrierError:
            MEETING.reset()
        self.notices = left


class ForgetsWhatIsGivenBack(MemoryQueue):
    def give_back(self, notices: Sequence[Notice]) -> None:
        self.acknowledge(notices)


class ForgetsWhatIsExtended(MemoryQueue):
    def extend(self, notices: Sequence[Notice]) -> None:
        self.acknowledge(notices)


BROKEN: Mapping[str, type[MemoryQueue]] = {
    "a_notice_names_its_table": TellsTheTableAlone,
    "an_empty_queue_returns_nothing": TellsOfAllWhereThereIsNone,
    "an_open_queue_returns_later_notices": TellsWhatWasThereAtFirst,
    "a_notice_stays_until_it_is_acknowledged": ForgetsWhatItTold,
    "only_acknowledged_notices_are_forgotten": ForgetsEverything,
    "a_notice_that_comes_after_receive_stays": ForgetsAllOfATable,
    "a_notice_may_be_acknowledged_twice": WantsEachOnce,
    "threads_share_a_queue": PutsBackWhatAnotherThreadForgot,
    "a_returned_notice_is_received_at_once": ForgetsWhatIsGivenBack,
    "an_extended_notice_is_hidden_and_not_forgotten": ForgetsWhatIsExtended,
}


def bell(kind: type[MemoryQueue]) -> QueueUnderTest:
    queue, receipts = kind(), count()
    return QueueUnderTest(
        open=lambda: queue, ring=lambda table: queue.notices.append(Notice(table, str(next(receipts))))
    )


@pytest.mark.parametrize("law", queues.LAWS)
def test_a_broken_queue_breaks_its_law(law: queues.Law) -> None:
    law(bell(MemoryQueue))
    broken = bell(BROKEN[law.__name__])
    with pytest.raises(SEEN):
        law(broken)


def test_every_law_has_a_queue_that_breaks_it() -> None:
    assert [law.__name__ for law in queues.LAWS] == [*BROKEN]


class KeepsHiddenWhatIsGivenBack(HidingQueue):
    def give_back(self, notices: Sequence[Notice]) -> None:
        pass


class ShowsWhatIsExtended(HidingQueue):
    def extend(self, notices: Sequence[Notice]) -> None:
        pass


class HidesForGood(HidingQueue):
    def extend(self, notices: Sequence[Notice]) -> None:
        self.hidden.update(dict.fromkeys(notices, 1e9))


class HidesForGoodWhatWasReceived(HidingQueue):
    def receive(self) -> Sequence[Notice]:
        found = HidingQueue.receive(self)
        self.hidden.update(dict.fromkeys(found, 1e9))
        return found


@pytest.mark.parametrize("law", queues.LAWS)
def test_a_queue_that_hides_received_notices_keeps_every_law(law: queues.Law) -> None:
    law(hiding_bell())


@pytest.mark.parametrize(
    ("law", "kind"),
    [
        (queues.a_returned_notice_is_received_at_once, KeepsHiddenWhatIsGivenBack),
        (queues.an_extended_notice_is_hidden_and_not_forgotten, ShowsWhatIsExtended),
        (queues.an_extended_notice_is_hidden_and_not_forgotten, HidesForGood),
        (queues.a_notice_stays_until_it_is_acknowledged, HidesForGoodWhatWasReceived),
    ],
)
def test_a_queue_that_hides_notices_wrongly_breaks_a_law(law: queues.Law, kind: type[HidingQueue]) -> None:
    with pytest.raises(AssertionError):
        law(hiding_bell(kind))


def test_a_queue_of_one_process_breaks_a_law() -> None:
    queue = MemoryQueue()
    opened = iter([queue, *(MemoryQueue() for _ in range(9))])
    with pytest.raises(AssertionError):
        queues.a_notice_stays_until_it_is_acknowledged(
            QueueUnderTest(open=lambda: next(opened), ring=lambda table: queue.notices.append(Notice(table)))
        )


class WaitsWhereThereIsNothingNew(ForgetsWhatItTold):
    def receive(self) -> Sequence[Notice]:
        if not self.notices:
            NEVER.wait()
        return ForgetsWhatItTold.receive(self)


NEVER = Event()


@pytest.mark.parametrize("law", queues.LAWS)
def test_a_queue_that_waits_for_a_notice_does_not_hang_its_laws(
    law: queues.Law, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues.notices_of, "__defaults__", (0.1,))
    with suppress(AssertionError):
        law(bell(WaitsWhereThereIsNothingNew))
    with pytest.raises(AssertionError, match="has not returned"):
        queues.an_empty_queue_returns_nothing(bell(WaitsWhereThereIsNothingNew))
    NEVER.set()
    NEVER.clear()


@pytest.mark.parametrize("error", [LookupError("it is not there"), SystemExit("it is not there")])
def test_an_error_of_a_queue_is_raised_by_its_laws(error: BaseException) -> None:
    class Raises(MemoryQueue):
        def receive(self) -> Sequence[Notice]:
            raise error

    with pytest.raises(type(error), match="it is not there"):
        queues.notices_of(Raises())
