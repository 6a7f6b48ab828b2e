"""The laws of a ledger: it returns what was written, and refuses changes of state that are not allowed."""

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
"""Opens the ledger under test as a new process would. Every call opens the same ledger."""

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

    `make` returns a function that opens an empty ledger. Its parameters are pytest fixtures.
    """
    return port_contract("The laws of a ledger.", make, LAWS)


def _record(order: int, state: ObjectState = ObjectState.SEEN, **rest: Any) -> ObjectRecord:
    return ObjectRecord(object=SourceObject(f"f{order}", order, 10, 5, rest.pop("etag", None)), state=state, **rest)


def _states(ledger: Ledger) -> Mapping[str, ObjectState]:
    return {record.object.name: record.state for record in ledger.objects(TABLE)}


def an_empty_ledger_knows_nothing(open_: Open) -> None:
    """An unknown table has an empty account and no objects."""
    assert open_().account(TABLE) == Account()
    assert list(open_().objects(TABLE)) == []


def notes_are_read_back_complete_and_in_order(open_: Open) -> None:
    """Another process reads all fields, in order, and only for the table that they were written for."""
    place = Position(1, -(2**63), 2**62, 1)
    applied = _record(
        2**62, ObjectState.APPLIED, etag="x", first_seen=7, batch=3, rows=9, least=place, greatest=place
    )
    open_().write(TABLE, Notes(records=[applied, _record(1, first_seen=8)]))
    open_().write(OTHER, Notes(records=[_record(5)]))
    assert list(open_().objects(TABLE)) == [_record(1, first_seen=8), applied]
    assert list(open_().objects(TABLE, ObjectState.APPLIED)) == [applied]
    assert open_().account(TABLE).waiting == {"f1": _record(1).object}


def only_named_objects_are_listed(open_: Open) -> None:
    """With names, only these objects are listed, in all states or in the given ones. Unknown names are ignored."""
    waits, applied = _record(1, first_seen=8), _record(2, ObjectState.APPLIED, batch=1)
    open_().write(TABLE, Notes(records=[waits, applied, _record(3, ObjectState.APPLIED, batch=1)]))
    named = ["f9", "f2", "f1"]
    assert list(open_().objects(TABLE, names=named)) == [waits, applied]
    assert list(open_().objects(TABLE, ObjectState.APPLIED, names=named)) == [applied]
    assert list(open_().objects(TABLE, names=[])) == []


def the_first_seen_time_never_changes(open_: Open) -> None:
    """Later notes of an object do not change when it was first seen."""
    open_().write(TABLE, Notes(records=[_record(1, first_seen=8)]))
    open_().write(TABLE, Notes(records=[_record(1, ObjectState.APPLIED, batch=1)]))
    (record,) = open_().objects(TABLE)
    assert (record.first_seen, record.batch, record.state) == (8, 1, ObjectState.APPLIED)


def only_allowed_changes_of_state_are_made(open_: Open) -> None:
    """`core.ledger.writer.may_become` defines which; an object in any other state keeps it, and none is created."""
    open_().write(TABLE, Notes(records=[_record(n, ObjectState.APPLIED) for n in (1, 2, 3)]))
    open_().write(TABLE, Notes(states={ObjectState.ARCHIVED: ["f1"]}))
    open_().write(TABLE, Notes(states={ObjectState.VANISHED: ["f1", "f2", "f9"]}))
    archived, vanished, applied = ObjectState.ARCHIVED, ObjectState.VANISHED, ObjectState.APPLIED
    assert _states(open_()) == {"f1": archived, "f2": vanished, "f3": applied}
    open_().write(TABLE, Notes(states={ObjectState.APPLIED: ["f1", "f2"]}))
    assert _states(open_()) == {"f1": archived, "f2": applied, "f3": applied}


def a_field_that_a_note_lacks_is_kept(open_: Open) -> None:
    """None in a note leaves a field as it is. An empty list empties it."""
    alarm = Alarm("LEDGER-005", "what", "found", "todo")
    acked = {"LEDGER-001": frozenset({"a", "b"})}
    open_().write(TABLE, Notes(listed=5, batch=2, alarms=[alarm], acknowledged=acked, checked={"f1": 4}))
    open_().write(TABLE, Notes(checked={"f1": 5, "f2": 1}))
    account = Account(checked={"f1": 5, "f2": 1}, listed=5, batch=2, alarms=(alarm,), acknowledged=acked)
    assert open_().account(TABLE) == account
    open_().write(TABLE, Notes(has_ended=True, failure=_FAILURE))
    open_().write(TABLE, Notes(batch=2, verdict=_VERDICT))
    open_().write(TABLE, Notes(batch=2))
    assert open_().account(TABLE) == replace(account, failure=_FAILURE, verdict=_VERDICT)
    later = replace(_VERDICT, at=10, outcome=Outcome.EQUAL, differing=0, differences=())
    open_().write(TABLE, Notes(alarms=(), acknowledged={}, has_ended=True, verdict=later))
    assert open_().account(TABLE) == Account(checked=account.checked, listed=5, batch=2, verdict=later)


def sent_entries_are_kept_for_the_pipeline(open_: Open) -> None:
    """Sent entries are kept for the pipeline until other notes replace them. Tables do not change."""
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


def anew_replaces_one_table_only(open_: Open) -> None:
    """A note with `replaces_all` replaces all of one table, as when a ledger is rebuilt from change logs."""
    for table in (TABLE, OTHER):
        notes = Notes(records=[_record(1)], listed=5, batch=2, has_ended=True, failure=_FAILURE, verdict=_VERDICT)
        open_().write(table, notes)
    open_().write(TABLE, Notes(replaces_all=True, records=[_record(2)], batch=1))
    assert _states(open_()) == {"f2": ObjectState.SEEN}
    account = open_().account(TABLE)
    assert (account.listed, account.failure, account.verdict) == (None, None, None)
    assert open_().account(OTHER).batch == 2


def a_note_may_have_very_many_objects(open_: Open) -> None:
    """One note may have very many objects: the first listing of a source may find a hundred thousand files."""
    many, gone = range(1, 251), range(101, 231)
    open_().write(TABLE, Notes(records=[_record(n, first_seen=8) for n in many]))
    assert list(open_().objects(TABLE)) == [_record(n, first_seen=8) for n in many]
    vanished, checked = {ObjectState.VANISHED: [f"f{n}" for n in gone]}, {f"f{n}": n for n in many}
    applied = [_record(n, ObjectState.APPLIED, batch=1) for n in many]
    open_().write(TABLE, Notes(records=applied, states=vanished, checked=checked, batch=1))
    wanted = {f"f{n}": ObjectState.VANISHED if n in gone else ObjectState.APPLIED for n in many}
    assert _states(open_()) == wanted
    assert [record.object.order for record in open_().objects(TABLE, ObjectState.VANISHED)] == [*gone]
    assert open_().account(TABLE) == Account(checked=checked, batch=1)
    named = [record.object.order for record in open_().objects(TABLE, names=wanted.keys())]
    assert named == [*many]


def concurrent_notes_are_all_kept(open_: Open) -> None:
    """Concurrent notes of one table are all kept."""

    def write(n: int) -> None:
        open_().write(TABLE, Notes(records=[_record(n)], checked={f"f{n}": n}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(24)))
    assert [record.object.order for record in open_().objects(TABLE)] == [*range(24)]
    assert open_().account(TABLE).checked == {f"f{n}": n for n in range(24)}


def threads_share_a_ledger(open_: Open) -> None:
    """Threads of one run share a ledger and write about different tables."""
    ledger = open_()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: ledger.write(f"shop.t{n % 4}", Notes(records=[_record(n)])), range(40)))
    assert sum(len(list(ledger.objects(f"shop.t{n}"))) for n in range(4)) == 40


LAWS: Final[tuple[Law, ...]] = (
    an_empty_ledger_knows_nothing,
    notes_are_read_back_complete_and_in_order,
    only_named_objects_are_listed,
    the_first_seen_time_never_changes,
    only_allowed_changes_of_state_are_made,
    a_field_that_a_note_lacks_is_kept,
    sent_entries_are_kept_for_the_pipeline,
    anew_replaces_one_table_only,
    a_note_may_have_very_many_objects,
    concurrent_notes_are_all_kept,
    threads_share_a_ledger,
)
