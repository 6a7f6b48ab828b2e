"""The laws of a queue: a notice stays until it is acknowledged, also one that comes in the meantime.

A queue may hide received notices for a time. Then a law lets that time pass before it asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final, TypeAlias

from lakeward.core.ports import Notice, Queue
from lakeward.plugins.testing.contract import Closed, port_contract

TABLES: Final = ("shop.orders", "shop.lines")

PATIENCE: Final = 60.0
"""Seconds after which `receive` counts as waiting for a notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUnderTest:
    """An empty queue under test. The configured tables are `TABLES`.

    - `open`: opens the queue as a new process would. Every call opens the same queue.
    - `ring`: adds a notice that a table may have something new, as a writer of changes does. A queue that always
      lists every table has none; then the laws of forgotten notices are closed.
    - `pass_time`: lets this part of the time pass for which a received notice is hidden. 1.0 is all of it. A queue
      that hides no notices has none.
    """

    open: Callable[[], Queue]
    ring: Callable[[str], object] | None = None
    pass_time: Callable[[float], object] | None = None

    def rung(self, *tables: str) -> None:
        """Add notices of tables. Raises Closed for a queue that always lists all tables."""
        if self.ring is None:
            raise Closed("notices that are forgotten")
        for table in tables:
            self.ring(table)

    def show(self) -> None:
        """Make received notices visible again, unless they are acknowledged or extended."""
        if self.pass_time is not None:
            self.pass_time(1.0)

    def visible(self) -> Collection[str]:
        """Return the tables whose notices a new process receives now."""
        return {notice.table for notice in notices_of(self.open())}

    def waiting(self) -> Collection[str]:
        """Return the tables whose notices a new process receives once nothing is hidden."""
        self.show()
        return self.visible()


Law: TypeAlias = Callable[[QueueUnderTest], None]


def queue_contract(make: Callable[..., QueueUnderTest]) -> type:
    """Return a test class with the laws of a queue. Parameters of `make` are pytest fixtures."""
    return port_contract("The laws of a queue.", make, LAWS)


def notices_of(queue: Queue, patience: float = PATIENCE) -> Sequence[Notice]:
    """Return the notices of a queue. Raises AssertionError if it waits for one longer than `patience` seconds."""
    answers: SimpleQueue[Sequence[Notice] | BaseException] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(queue.receive())
        except BaseException as error:  # noqa: BLE001  # it is raised in the calling thread
            answers.put(error)

    Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=patience)
    except Empty:
        raise AssertionError(
            f"`receive` has not returned for {patience:g} seconds: it must return what there is, and not wait"
        ) from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _of(notices: Sequence[Notice], table: str) -> Sequence[Notice]:
    return [notice for notice in notices if notice.table == table]


def a_notice_names_its_table(bell: QueueUnderTest) -> None:
    """A notice has the name of its table as `lakeward status` shows it."""
    if bell.ring is not None:
        bell.rung(*TABLES)
    assert bell.waiting() == set(TABLES)


def an_empty_queue_returns_nothing(bell: QueueUnderTest) -> None:
    """An empty queue returns nothing at once, and nothing can be acknowledged."""
    bell.rung()
    assert not bell.waiting()
    bell.open().acknowledge([])


def an_open_queue_returns_later_notices(bell: QueueUnderTest) -> None:
    """An open queue returns notices that come later: a process that follows tables opens it once."""
    bell.rung()
    queue = bell.open()
    assert not notices_of(queue)
    for table in TABLES:
        bell.rung(table)
        notices = notices_of(queue)
        assert {notice.table for notice in notices} == {table}
        queue.acknowledge(notices)


def a_notice_stays_until_it_is_acknowledged(bell: QueueUnderTest) -> None:
    """A notice stays until it is acknowledged, because a process may crash before its commit."""
    if bell.ring is not None:
        bell.rung(*TABLES)
    queue = bell.open()
    for opened in (queue, queue, bell.open()):
        bell.show()
        assert {notice.table for notice in notices_of(opened)} == set(TABLES)
    queue.acknowledge([])
    assert bell.waiting() == set(TABLES)


def only_acknowledged_notices_are_forgotten(bell: QueueUnderTest) -> None:
    """An acknowledged notice is gone for all processes, and no other is."""
    bell.rung(*TABLES)
    queue = bell.open()
    queue.acknowledge(_of(notices_of(queue), TABLES[0]))
    assert bell.waiting() == {TABLES[1]}
    bell.show()
    queue.acknowledge(notices_of(queue))
    assert not bell.waiting()


def a_notice_that_comes_after_receive_stays(bell: QueueUnderTest) -> None:
    """A notice of the same table that comes after `receive` stays: the acknowledged commit may lack its changes."""
    bell.rung(TABLES[0])
    queue = bell.open()
    received = notices_of(queue)
    bell.rung(TABLES[0])
    queue.acknowledge(received)
    assert bell.waiting() == {TABLES[0]}


def a_notice_may_be_acknowledged_twice(bell: QueueUnderTest) -> None:
    """Acknowledging twice, as another process does after a crash, is no error and removes nothing else."""
    if bell.ring is not None:
        bell.rung(*TABLES)
    received = _of(notices_of(bell.open()), TABLES[0])
    for _ in range(2):
        bell.open().acknowledge(received)
    assert TABLES[1] in bell.waiting()


def threads_share_a_queue(bell: QueueUnderTest) -> None:
    """Threads of one run share a queue and acknowledge different tables."""
    bell.rung(*TABLES)
    queue = bell.open()
    received = notices_of(queue)
    notices = [_of(received, table) for table in TABLES]
    with ThreadPoolExecutor(len(TABLES)) as pool:
        list(pool.map(queue.acknowledge, notices))
    assert not bell.waiting()


def a_returned_notice_is_received_at_once(bell: QueueUnderTest) -> None:
    """A notice that is given back is received again at once, also by another process."""
    if bell.ring is not None:
        bell.rung(*TABLES)
    queue = bell.open()
    received = notices_of(queue)
    queue.give_back(_of(received, TABLES[0]))
    queue.give_back([])
    assert TABLES[0] in bell.visible()
    assert bell.waiting() == set(TABLES)


def an_extended_notice_is_hidden_and_not_forgotten(bell: QueueUnderTest) -> None:
    """An extended notice is hidden from others, and is received again when nobody extends it."""
    if bell.ring is not None:
        bell.rung(*TABLES)
    queue = bell.open()
    received = notices_of(queue)
    for _ in range(3):
        if bell.pass_time is not None:
            bell.pass_time(0.6)
        queue.extend(received)
        if bell.pass_time is not None:
            assert not bell.visible(), "an extended notice must be hidden from others"
    queue.extend([])
    assert bell.waiting() == set(TABLES)


LAWS: Final[tuple[Law, ...]] = (
    a_notice_names_its_table,
    an_empty_queue_returns_nothing,
    an_open_queue_returns_later_notices,
    a_notice_stays_until_it_is_acknowledged,
    only_acknowledged_notices_are_forgotten,
    a_notice_that_comes_after_receive_stays,
    a_notice_may_be_acknowledged_twice,
    threads_share_a_queue,
    a_returned_notice_is_received_at_once,
    an_extended_notice_is_hidden_and_not_forgotten,
)
