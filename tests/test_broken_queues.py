"""The laws of a queue can fail on queues that hide notices, wait, raise, or are of one process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from threading import Event

import pytest
from broken_services import FORGETS_RECEIVED, bell
from hiding_queue import HidingQueue, hiding_bell
from mutations import Method, mutate, skip

from lakeward.adapters.memory import MemoryQueue
from lakeward.core.ports import Notice
from lakeward.plugins.testing import QueueUnderTest
from lakeward.plugins.testing.laws import queues


@pytest.mark.parametrize("law", queues.LAWS)
def test_a_queue_that_hides_received_notices_keeps_every_law(law: queues.Law) -> None:
    law(hiding_bell())


def _hide_for_good(own: HidingQueue, notices: Sequence[Notice]) -> Sequence[Notice]:
    own.hidden.update(dict.fromkeys(notices, 1e9))
    return notices


_queue = partial(mutate, HidingQueue)


@pytest.mark.parametrize(
    ("law", "kind"),
    [
        (queues.a_returned_notice_is_received_at_once, _queue("hides what is returned", give_back=skip)),
        (queues.an_extended_notice_is_hidden_and_not_forgotten, _queue("shows what is extended", extend=skip)),
        (
            queues.an_extended_notice_is_hidden_and_not_forgotten,
            _queue("hides for good what is extended", extend=lambda _, own, notices: _hide_for_good(own, notices)),
        ),
        (
            queues.a_notice_stays_until_it_is_acknowledged,
            _queue("hides for good what it returns", receive=lambda right, own: _hide_for_good(own, right())),
        ),
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


NEVER = Event()


def _wait_for_a_notice(right: Method, own: MemoryQueue) -> Sequence[Notice]:
    if not own.notices:
        NEVER.wait()
    return right()


WAITS = mutate(FORGETS_RECEIVED, "waits if there is nothing new", receive=_wait_for_a_notice)


@pytest.mark.parametrize("law", queues.LAWS)
def test_a_queue_that_waits_for_a_notice_does_not_hang_its_laws(
    law: queues.Law, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues.notices_of, "__defaults__", (0.1,))
    with suppress(AssertionError):
        law(bell(WAITS))
    with pytest.raises(AssertionError, match="has not returned"):
        queues.an_empty_queue_returns_nothing(bell(WAITS))
    NEVER.set()
    NEVER.clear()


@pytest.mark.parametrize("error", [LookupError("it is not there"), SystemExit("it is not there")])
def test_an_error_of_a_queue_is_raised_by_its_laws(error: BaseException) -> None:
    def fail(*_: object) -> None:
        raise error

    with pytest.raises(type(error), match="it is not there"):
        queues.notices_of(mutate(MemoryQueue, "raises an error", receive=fail)())
