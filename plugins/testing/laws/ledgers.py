"""The laws of a ledger: what was noted is read back, and a state follows only those that it may follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, TypeAlias

from lakeward.core.events import Position
from lakeward.core.ledger.objects import PIPELINE, Account, Notes, ObjectRecord, ObjectState, SourceObject
from lakeward.core.ports import Ledger
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.reporting.failures import Failure
from lakeward.core.reporting.notices import SentEntry
from lakeward.core.verification.row_comparison import Difference, Summary
from lakeward.core.verification.source_places import SourcePlace
from lakeward.core.verification.source_verification import KnownDifference, Outcome, Proof, SourceVerdict
from lakeward.plugins.testing.contract import port_contract

Open: TypeAlias = Callable[[], Ledger]
"""Opens the ledger under test as a new process would: twice, it is the same one."""

Law: TypeAlias = Callable[[Open], None]

TABLE: Final = "shop.orders"
OTHER: Final = "shop.lines"
_FAILURE: Final = Failure("TableError", "what", None, "todo", retryable=False, at=9)

_PLACE: Final = SourcePlace(6, "0/1F", 31 * 10**19)
_DIFFERENCE: Final = Difference('["é"]', Summary(1, -(2**70)), Summary(), 2**65)
_KNOWN: Final = KnownDifference(_DIFFERENCE, 7, _PLACE, Proof.PASSED)
_VERDICT: Final = SourceVerdict(
    at=8,
    outcome=Outcome.DIFFERENT,
    source_rows=2,
    table_rows=1,
    differing=1,
    differences=(_KNOWN, replace(_KNOWN, proof=None)),
    through=SourcePlace(origin="mysql-bin. 1"),
    through_at=3,
)


def ledger_contract(make: Callable[..., Open]) -> type:
    """Return a test class with the laws of a ledger.

    `make` returns what opens a ledger that knows nothing yet; its parameters are fixtures of pytest.
    """
    return port_contract("The laws of a ledger.", make, LAWS)


def _record(order: int, state: ObjectState = ObjectState.SEEN, **rest: Any) -> ObjectRecord:
    return ObjectRecord(object=SourceObject(f"f{order}", order, 10, 5, rest.pop("etag", None)), state=state, **rest)


def _states(ledger: Ledger) -> Mapping[str, ObjectState]:
    return {found.object.name: found.state for found in ledger.objects(TABLE)}


def an_empty_ledger_knows_nothing(open_: Open) -> None:
    """Of a table that nobody noted there is an empty account, and no object."""
    assert open_().account(TABLE) == Account()
    assert list(open_().objects(TABLE)) == []


def what_is_written_is_read_back_whole_and_in_order(open_: Open) -> None:
    """By another process, too; of the table that it was written of, and no other."""
    place = Position(1, -(2**63), 2**62, 1)
    applied = _record(
        2**62, ObjectState.APPLIED, etag="x", first_seen=7, batch=3, rows=9, least=place, greatest=place
    )
    open_().write(TABLE, Notes(records=[applied, _record(1, first_seen=8)]))
    open_().write(OTHER, Notes(records=[_record(5)]))
    assert list(open_().objects(TABLE)) == [_record(1, first_seen=8), applied]
    assert list(open_().objects(TABLE, ObjectState.APPLIED)) == [applied]
    assert open_().account(TABLE).waiting == {"f1": _record(1).object}


def where_objects_are_named_no_others_are_listed(open_: Open) -> None:
    """In whatever state they are, or in the states that are asked for; one that nobody noted is none."""
    waits, applied = _record(1, first_seen=8), _record(2, ObjectState.APPLIED, batch=1)
    open_().write(TABLE, Notes(records=[waits, applied, _record(3, ObjectState.APPLIED, batch=1)]))
    named = ["f9", "f2", "f1"]
    assert list(open_().objects(TABLE, names=named)) == [waits, applied]
    assert list(open_().objects(TABLE, ObjectState.APPLIED, names=named)) == [applied]
    assert list(open_().objects(TABLE, names=[])) == []


def the_time_when_an_object_was_first_seen_stays(open_: Open) -> None:
    """Whatever is noted of it later."""
    open_().write(TABLE, Notes(records=[_record(1, first_seen=8)]))
    open_().write(TABLE, Notes(records=[_record(1, ObjectState.APPLIED, batch=1)]))
    (found,) = open_().objects(TABLE)
    assert (found.first_seen, found.batch, found.state) == (8, 1, ObjectState.APPLIED)


def a_state_follows_only_those_that_it_may_follow(open_: Open) -> None:
    """`core.ledger.writer.may_become` defines which; an object in any other state keeps it, and none is created."""
    open_().write(TABLE, Notes(records=[_record(n, ObjectState.APPLIED) for n in (1, 2, 3)]))
    open_().write(TABLE, Notes(states={ObjectState.ARCHIVED: ["f1"]}))
    open_().write(TABLE, Notes(states={ObjectState.VANISHED: ["f1", "f2", "f9"]}))
    archived, vanished, applied = ObjectState.ARCHIVED, ObjectState.VANISHED, ObjectState.APPLIED
    assert _states(open_()) == {"f1": archived, "f2": vanished, "f3": applied}
    open_().write(TABLE, Notes(states={ObjectState.APPLIED: ["f1", "f2"]}))
    assert _states(open_()) == {"f1": archived, "f2": applied, "f3": applied}


def what_is_not_said_stays(open_: Open) -> None:
    """None says nothing, and an empty list says that there is nothing any more."""
    alarm = Alarm("LEDGER-005", "what", "found", "todo")
    acked = {"LEDGER-001": frozenset({"a", "b"})}
    open_().write(TABLE, Notes(listed=5, batch=2, alarms=[alarm], acked=acked, checked={"f1": 4}))
    open_().write(TABLE, Notes(checked={"f1": 5, "f2": 1}))
    known = Account(checked={"f1": 5, "f2": 1}, listed=5, batch=2, alarms=(alarm,), acked=acked)
    assert open_().account(TABLE) == known
    open_().write(TABLE, Notes(has_ended=True, failure=_FAILURE))
    open_().write(TABLE, Notes(batch=2, verdict=_VERDICT))
    open_().write(TABLE, Notes(batch=2))
    assert open_().account(TABLE) == replace(known, failure=_FAILURE, verdict=_VERDICT)
    later = replace(_VERDICT, at=10, outcome=Outcome.EQUAL, differing=0, differences=())
    open_().write(TABLE, Notes(alarms=(), acked={}, has_ended=True, verdict=later))
    assert open_().account(TABLE) == Account(checked=known.checked, listed=5, batch=2, verdict=later)


def what_was_told_is_kept_of_the_pipeline_as_a_whole(open_: Open) -> None:
    """Until other notes say what was told; beside the tables, in which nothing is changed."""
    first = SentEntry(notifier="sns", table=TABLE, digest="0123456789abcdef", first=3, last=2**60, untold=7)
    other = SentEntry(notifier="webhook 2", table="", digest="fedcba9876543210", first=4, last=4)
    open_().write(PIPELINE, Notes(sent=[first, other]))
    open_().write(TABLE, Notes(batch=2))
    open_().write(PIPELINE, Notes())
    assert open_().account(PIPELINE) == Account(sent=(first, other))
    assert open_().account(TABLE) == Account(batch=2)
    open_().write(PIPELINE, Notes(sent=[other]))
    assert open_().account(PIPELINE).sent == (other,)
    open_().write(PIPELINE, Notes(sent=[]))
    assert open_().account(PIPELINE) == Account()


def anew_forgets_a_table_and_no_other(open_: Open) -> None:
    """A ledger that was lost is made from what tables remember."""
    for table in (TABLE, OTHER):
        notes = Notes(records=[_record(1)], listed=5, batch=2, has_ended=True, failure=_FAILURE, verdict=_VERDICT)
        open_().write(table, notes)
    open_().write(TABLE, Notes(anew=True, records=[_record(2)], batch=1))
    assert _states(open_()) == {"f2": ObjectState.SEEN}
    account = open_().account(TABLE)
    assert (account.listed, account.failure, account.verdict) == (None, None, None)
    assert open_().account(OTHER).batch == 2


def a_note_may_have_many_objects(open_: Open) -> None:
    """A source may have a hundred thousand files when it is first looked at; one note has them all."""
    many, gone = range(1, 251), range(101, 231)
    open_().write(TABLE, Notes(records=[_record(n, first_seen=8) for n in many]))
    assert list(open_().objects(TABLE)) == [_record(n, first_seen=8) for n in many]
    vanished, checked = {ObjectState.VANISHED: [f"f{n}" for n in gone]}, {f"f{n}": n for n in many}
    applied = [_record(n, ObjectState.APPLIED, batch=1) for n in many]
    open_().write(TABLE, Notes(records=applied, states=vanished, checked=checked, batch=1))
    wanted = {f"f{n}": ObjectState.VANISHED if n in gone else ObjectState.APPLIED for n in many}
    assert _states(open_()) == wanted
    assert [found.object.order for found in open_().objects(TABLE, ObjectState.VANISHED)] == [*gone]
    assert open_().account(TABLE) == Account(checked=checked, batch=1)
    named = [found.object.order for found in open_().objects(TABLE, names=wanted.keys())]
    assert named == [*many]


def what_is_written_at_once_is_not_lost(open_: Open) -> None:
    """Processes may write of one table at the same time: each note is written behind the other."""

    def write(n: int) -> None:
        open_().write(TABLE, Notes(records=[_record(n)], checked={f"f{n}": n}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(24)))
    assert [found.object.order for found in open_().objects(TABLE)] == [*range(24)]
    assert open_().account(TABLE).checked == {f"f{n}": n for n in range(24)}


def threads_share_it(open_: Open) -> None:
    """A run works on tables side by side, with one ledger."""
    ledger = open_()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: ledger.write(f"shop.t{n % 4}", Notes(records=[_record(n)])), range(40)))
    assert sum(len(list(ledger.objects(f"shop.t{n}"))) for n in range(4)) == 40


LAWS: Final[tuple[Law, ...]] = (
    an_empty_ledger_knows_nothing,
    what_is_written_is_read_back_whole_and_in_order,
    where_objects_are_named_no_others_are_listed,
    the_time_when_an_object_was_first_seen_stays,
    a_state_follows_only_those_that_it_may_follow,
    what_is_not_said_stays,
    what_was_told_is_kept_of_the_pipeline_as_a_whole,
    anew_forgets_a_table_and_no_other,
    a_note_may_have_many_objects,
    what_is_written_at_once_is_not_lost,
    threads_share_it,
)
