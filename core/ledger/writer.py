"""Keeping the ledger: what a run writes down of the objects that it sees, applies and moves.

The table is the truth. What the ledger lacks of it, because it was lost or a crash came
between a commit and its note, is taken from the batch records with the next note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakeward.core.errors import AlarmRaised
from lakeward.core.ledger.full_loads import AwaitedLoad, Load
from lakeward.core.ledger.objects import Account, Notes, ObjectRecord, ObjectState, SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.merge.facts import ObjectFacts
from lakeward.core.ports import ChangeLog, ChangeLogState, Ledger
from lakeward.core.progress import Progress
from lakeward.core.reporting.alarms import Alarm

LISTED_WHOLE: Final = 10_000
"""Tables of no more objects are listed whole each time: that costs next to nothing."""

_WERE_APPLIED: Final = (
    ObjectState.APPLIED,
    ObjectState.ARCHIVED,
    ObjectState.VANISHED,
    ObjectState.REWRITTEN,
)

_BECOMES: Final = {
    ObjectState.APPLIED: {ObjectState.VANISHED},
    ObjectState.QUARANTINED: {ObjectState.SEEN},
    ObjectState.VANISHED: {ObjectState.SEEN, ObjectState.APPLIED},
    ObjectState.REWRITTEN: {ObjectState.APPLIED},
    ObjectState.ARCHIVED: {ObjectState.APPLIED, ObjectState.VANISHED, ObjectState.REWRITTEN},
    ObjectState.SUPERSEDED: {ObjectState.SEEN},
}


def may_become(before: ObjectState, after: ObjectState) -> bool:
    """Whether a new state follows from the old one.

    >>> may_become(ObjectState.ARCHIVED, ObjectState.VANISHED)
    False
    """
    return before in _BECOMES.get(after, ())


def before(state: ObjectState) -> frozenset[ObjectState]:
    """Return the states that a state may follow."""
    return frozenset(_BECOMES.get(state, ()))


def records_after(known: Mapping[str, ObjectRecord], notes: Notes) -> dict[str, ObjectRecord]:
    """Return what a ledger has of objects, by name, once it has taken in notes: of those `known`, and of new ones.

    It is the same if only those are known that the notes name.
    """
    found = {} if notes.anew else {**known}
    for record in notes.records:
        before = found.get(record.object.name)
        found[record.object.name] = record if before is None else replace(record, first_seen=before.first_seen)
    for state, names in notes.states.items():
        for name in names:
            if name in found and may_become(found[name].state, state):
                found[name] = replace(found[name], state=state)
    return found


def account_after(known: Account, notes: Notes) -> Account:
    """Return the account of a table once its ledger has taken in notes; objects that wait are those of `known`."""
    before = Account() if notes.anew else known
    return replace(
        before,
        checked={**before.checked, **notes.checked},
        listed=before.listed if notes.listed is None else notes.listed,
        batch=before.batch if notes.batch is None else notes.batch,
        alarms=before.alarms if notes.alarms is None else tuple(notes.alarms),
        acked=before.acked if notes.acked is None else notes.acked,
        awaited=notes.awaited if notes.looked else before.awaited,
        failure=notes.failure if notes.has_ended else before.failure,
        verdict=before.verdict if notes.verdict is None else notes.verdict,
        sent=before.sent if notes.sent is None else tuple(notes.sent),
    )


def applied_record(found: ObjectFacts, batch: int) -> ObjectRecord:
    """Return what the ledger has of an object of a batch."""
    return ObjectRecord(
        object=found.object,
        state=ObjectState.APPLIED,
        batch=batch,
        rows=found.rows,
        least=found.least,
        greatest=found.greatest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerWriter:
    """The ledger of a pipeline, and the clock.

    Of a table with many objects all are listed once in `whole_every` microseconds; in between
    only those from the object at the mark on are.
    """

    ledger: Ledger
    now: Callable[[], int]
    whole_every: int = 0

    def past(
        self,
        table: str,
        progress: Progress,
        change_log_state: ChangeLogState,
        floor: int | None,
        *,
        load: Load | None = None,
        is_whole: bool = False,
    ) -> ObjectHistory:
        """Return what is known of a table's objects; `is_whole` asks for all of them to be listed."""
        account = self._account(table, progress)
        start = None if is_whole or load is not None else self._start(account, change_log_state, floor)
        vanished = self.ledger.objects(table, ObjectState.VANISHED) if start is None else ()
        return ObjectHistory(
            seen=change_log_state.objects,
            floor=floor,
            last=progress.object,
            waiting={name: item for name, item in account.waiting.items() if name not in change_log_state.objects},
            vanished=frozenset(record.object.name for record in vanished),
            checked=account.checked,
            start=start,
            acked=change_log_state.acked(progress.epoch if load is None else load.epoch),
            cut=change_log_state.cut(progress.epoch),
            load=load,
            left=change_log_state.left,
            awaited=account.awaited,
            now=self.now(),
            begins=progress.batch == 0,
        )

    def _account(self, table: str, progress: Progress) -> Account:
        """Return what is known of a table; of one that was made anew, behind its ledger, that is nothing.

        Where another tool took it back, what it has applied since waits again, beside what waited.
        """
        account = self.ledger.account(table)
        if account.batch <= progress.batch:
            return account
        if progress.batch == 0:
            return Account()
        records = self.ledger.objects(table, *_WERE_APPLIED)
        preview = (one.object for one in records if (one.batch or 0) > progress.batch)
        return Account(waiting={**account.waiting, **{item.name: item for item in preview}})

    def _start(self, account: Account, change_log_state: ChangeLogState, floor: int | None) -> str | None:
        is_due = account.listed is None or self.now() - account.listed >= self.whole_every
        if floor is None or is_due or len(change_log_state.objects) <= LISTED_WHOLE:
            return None
        return next((item.name for item in change_log_state.objects.values() if item.order == floor), None)

    def note(
        self,
        table: str,
        past: ObjectHistory,
        selection: ObjectSelection,
        change_log_state: ChangeLogState,
        at: Progress,
        of: ChangeLog,
    ) -> None:
        """Write down what was listed, and what the ledger lacks of the batches."""
        account, now = self.ledger.account(table), self.now()
        is_another = account.batch > at.batch
        after = 0 if is_another else account.batch
        missed = of.applied(at, after) if after < at.batch else ()
        waits = [item for item in (*selection.objects, *selection.left) if not past.has_applied(item)]
        fresh = [item for item in waits if is_another or past.waiting.get(item.name) != item]
        notes = Notes(
            anew=is_another,
            records=[
                *missed,
                *_records(fresh, ObjectState.SEEN, now),
                *_records(selection.aside, ObjectState.QUARANTINED, now),
            ],
            states={
                ObjectState.VANISHED: selection.vanished,
                ObjectState.APPLIED: selection.returned,
                ObjectState.SUPERSEDED: selection.overtaken,
            },
            checked=selection.checked,
            listed=now if selection.is_whole else None,
            batch=at.batch,
            alarms=None if selection.objects else (),
            acked=past.acked,
            looked=True,
            awaited=selection.awaited,
        )
        self.ledger.write(table, notes)

    def applied(self, table: str, objects: Sequence[ObjectFacts], batch: int) -> None:
        """Write down what a batch applied; what lies behind it goes on settling."""
        records, awaited = [applied_record(found, batch) for found in objects], self.ledger.account(table).awaited
        left = None if awaited is None else awaited.applied
        self.ledger.write(table, Notes(records=records, batch=batch, alarms=(), looked=True, awaited=left))

    def had(self, table: str, at: Progress, objects: Sequence[SourceObject]) -> Sequence[SourceObject]:
        """Return those of the objects that a table has applied as they are now, as far as is known."""
        if self.ledger.account(table).batch > at.batch:  # it was made anew, or taken back, since
            return ()
        applied = (ObjectState.APPLIED, ObjectState.ARCHIVED)
        found = self.ledger.objects(table, *applied, names=[item.name for item in objects])
        versions = {record.object.version for record in found}
        return [item for item in objects if item.version in versions]

    def archived(self, table: str, names: Sequence[str]) -> None:
        """Write down what was moved into the archive."""
        self.ledger.write(table, Notes(states={ObjectState.ARCHIVED: names}))

    def alarm(self, table: str, error: AlarmRaised) -> None:
        """Write down that an alarm stopped the table."""
        raised = Alarm(error.code, error.what, error.found or "", error.todo or "")
        rewritten = [version.rsplit(" ", 2)[0] for version in error.about] if error.code == "LEDGER-002" else ()
        self.ledger.write(table, Notes(alarms=[raised], states={ObjectState.REWRITTEN: rewritten}))

    def said(self, table: str, awaited: AwaitedLoad | None) -> None:
        """Write down that a person saw to what stopped the table, and the full load that it waits for now."""
        self.ledger.write(table, Notes(alarms=(), looked=True, awaited=awaited))

    def let_pass(self, table: str, error: AlarmRaised, acked: Mapping[str, frozenset[str]]) -> None:
        """Write down that an operator let an alarm pass, beside what was let pass of the epoch before."""
        states = {"LEDGER-001": ObjectState.QUARANTINED, "LEDGER-003": ObjectState.VANISHED}
        changed = {states[error.code]: error.about} if error.code in states else {}
        self.ledger.write(table, Notes(states=changed, alarms=(), acked=acked))

    def rebuild(
        self,
        table: str,
        progress: Progress,
        change_log_state: ChangeLogState,
        of: ChangeLog,
        *,
        keeps_waiting: bool = True,
    ) -> Sequence[ObjectRecord]:
        """Make the ledger of a table anew from its batch records, and return these.

        What waits is still missed where it goes away, unless that is forgotten as well: objects that were seen and
        not applied, and, of a table that another tool took back, those that it has applied since.
        """
        records = of.applied(progress, 0)
        known = {*change_log_state.objects, *(record.object.name for record in records)}
        waiting = self._account(table, progress).waiting if keeps_waiting else {}
        waits = [item for name, item in waiting.items() if name not in known]
        every = [*records, *_records(waits, ObjectState.SEEN, self.now())]
        acked = change_log_state.acked(progress.epoch)
        self.ledger.write(table, Notes(anew=True, records=every, batch=progress.batch, alarms=(), acked=acked))
        return records


def _records(objects: Sequence[SourceObject], state: ObjectState, now: int) -> Sequence[ObjectRecord]:
    return [ObjectRecord(object=item, state=state, first_seen=now) for item in objects]
