"""The laws of a queue: a notice stays until it is acknowledged, and one that came meanwhile stays then, too.

A queue may hide what was received. Where it does, a law lets the time pass before it asks again.
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
"""Seconds after which a queue counts as one that waits for a notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bell:
    """A queue under test that holds nothing yet; the configured tables are `TABLES`.

    `open` opens it as a new process would: twice, it is the same one. `ring` says that a table may have
    something new, as who writes the changes does. A queue that is not told so, but tells of every table
    whenever it is asked, has no `ring`: the laws of what is forgotten are closed to it. `pass_time` lets a part of
    the time go by for which a notice is hidden once it is received, 1.0 being all of it; a queue that hides no
    notice has none.
    """

    open: Callable[[], Queue]
    ring: Callable[[str], object] | None = None
    pass_time: Callable[[float], object] | None = None

    def rung(self, *tables: str) -> None:
        """Ring for tables; raises Closed for a queue that tells of all."""
        if self.ring is None:
            raise Closed("notices that are forgotten")
        for table in tables:
            self.ring(table)

    def show(self) -> None:
        """Let all be seen again that was received and neither acknowledged nor extended."""
        if self.pass_time is not None:
            self.pass_time(1.0)

    def told(self) -> Collection[str]:
        """Return the tables that a new process is told of now."""
        return {notice.table for notice in notices_of(self.open())}

    def waiting(self) -> Collection[str]:
        """Return the tables that a new process is told of once nothing is hidden."""
        self.show()
        return self.told()


Law: TypeAlias = Callable[[Bell], None]


def queue_contract(make: Callable[..., Bell]) -> type:
    """Return a test class with the laws of a queue; parameters of `make` are fixtures of pytest."""
    return port_contract("The laws of a queue.", make, LAWS)


def notices_of(queue: Queue, patience: float = PATIENCE) -> Sequence[Notice]:
    """Return what a queue tells; raises AssertionError for one that waits until there is something."""
    told: SimpleQueue[Sequence[Notice] | BaseException] = SimpleQueue()

    def ask() -> None:
        try:
            told.put(queue.receive())
        except BaseException as error:  # noqa: BLE001  # whatever it is, it is raised where it was asked for
            told.put(error)

    Thread(target=ask, daemon=True).start()
    try:
        found = told.get(timeout=patience)
    except Empty:
        raise AssertionError(
            f"`receive` has not returned for {patience:g} seconds: it must tell what there is, and not wait"
        ) from None
    if isinstance(found, BaseException):
        raise found
    return found


def _of(notices: Sequence[Notice], table: str) -> Sequence[Notice]:
    return [notice for notice in notices if notice.table == table]


def a_table_is_told_by_its_name(bell: Bell) -> None:
    """As `lakeward status` shows it."""
    if bell.ring is not None:
        bell.rung(*TABLES)
    assert bell.waiting() == set(TABLES)


def a_queue_without_a_notice_tells_nothing(bell: Bell) -> None:
    """It does not wait for one, either; and there is nothing to acknowledge."""
    bell.rung()
    assert not bell.waiting()
    bell.open().acknowledge([])


def a_queue_that_is_open_tells_what_is_new(bell: Bell) -> None:
    """A process that follows its tables opens a queue once, and asks it again and again."""
    bell.rung()
    queue = bell.open()
    assert not notices_of(queue)
    for table in TABLES:
        bell.rung(table)
        notices = notices_of(queue)
        assert {notice.table for notice in notices} == {table}
        queue.acknowledge(notices)


def a_notice_stays_until_it_is_acknowledged(bell: Bell) -> None:
    """Whoever receives it, and however often: a process may end before it commits."""
    if bell.ring is not None:
        bell.rung(*TABLES)
    queue = bell.open()
    for opened in (queue, queue, bell.open()):
        bell.show()
        assert {notice.table for notice in notices_of(opened)} == set(TABLES)
    queue.acknowledge([])
    assert bell.waiting() == set(TABLES)


def what_is_acknowledged_is_forgotten_and_nothing_else(bell: Bell) -> None:
    """For good, also for another process."""
    bell.rung(*TABLES)
    queue = bell.open()
    queue.acknowledge(_of(notices_of(queue), TABLES[0]))
    assert bell.waiting() == {TABLES[1]}
    bell.show()
    queue.acknowledge(notices_of(queue))
    assert not bell.waiting()


def a_notice_that_came_meanwhile_stays(bell: Bell) -> None:
    """Of the same table: the commit that is acknowledged may not contain what it tells of."""
    bell.rung(TABLES[0])
    queue = bell.open()
    received = notices_of(queue)
    bell.rung(TABLES[0])
    queue.acknowledge(received)
    assert bell.waiting() == {TABLES[0]}


def a_notice_may_be_acknowledged_twice(bell: Bell) -> None:
    """After a crash by another process; it is no error, and takes nothing else away."""
    if bell.ring is not None:
        bell.rung(*TABLES)
    received = _of(notices_of(bell.open()), TABLES[0])
    for _ in range(2):
        bell.open().acknowledge(received)
    assert TABLES[1] in bell.waiting()


def threads_share_it(bell: Bell) -> None:
    """A run works on tables side by side, with one queue, and acknowledges each for itself."""
    bell.rung(*TABLES)
    queue = bell.open()
    received = notices_of(queue)
    notices = [_of(received, table) for table in TABLES]
    with ThreadPoolExecutor(len(TABLES)) as pool:
        list(pool.map(queue.acknowledge, notices))
    assert not bell.waiting()


def what_is_given_back_is_told_at_once(bell: Bell) -> None:
    """Its table failed: it is told of again, also to another process, until somebody is done with it."""
    if bell.ring is not None:
        bell.rung(*TABLES)
    queue = bell.open()
    received = notices_of(queue)
    queue.give_back(_of(received, TABLES[0]))
    queue.give_back([])
    assert TABLES[0] in bell.told()
    assert bell.waiting() == set(TABLES)


def what_is_in_work_is_hidden_and_not_forgotten(bell: Bell) -> None:
    """Others are not told of it while it is in work, and are once nobody extends it any more."""
    if bell.ring is not None:
        bell.rung(*TABLES)
    queue = bell.open()
    received = notices_of(queue)
    for _ in range(3):
        if bell.pass_time is not None:
            bell.pass_time(0.6)
        queue.extend(received)
        if bell.pass_time is not None:
            assert not bell.told(), "what is in work must be hidden from others"
    queue.extend([])
    assert bell.waiting() == set(TABLES)


LAWS: Final[tuple[Law, ...]] = (
    a_table_is_told_by_its_name,
    a_queue_without_a_notice_tells_nothing,
    a_queue_that_is_open_tells_what_is_new,
    a_notice_stays_until_it_is_acknowledged,
    what_is_acknowledged_is_forgotten_and_nothing_else,
    a_notice_that_came_meanwhile_stays,
    a_notice_may_be_acknowledged_twice,
    threads_share_it,
    what_is_given_back_is_told_at_once,
    what_is_in_work_is_hidden_and_not_forgotten,
)
