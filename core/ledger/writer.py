"""Write the ledger: what a run saw, applied and archived.

The table is the truth. What the ledger lacks, because it was lost or a process ended between a commit and its
entry, is read from the batch records when the next listing is recorded.
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
"""Tables of at most this many objects are listed completely each time: that costs next to nothing."""

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
    """Return True if an object may change from one state into another.

    >>> may_become(ObjectState.ARCHIVED, ObjectState.VANISHED)
    False
    """
    return before in _BECOMES.get(after, ())


def states_before(state: ObjectState) -> frozenset[ObjectState]:
    """Return the states from which an object may change into a state."""
    return frozenset(_BECOMES.get(state, ()))


def records_after(stored: Mapping[str, ObjectRecord], notes: Notes) -> dict[str, ObjectRecord]:
    """Return the records of a ledger by name after notes are written: of the `stored` objects, and of new ones.

    Only the objects that the notes name need to be known.
    """
    records = {} if notes.replaces_all else {**stored}
    for record in notes.records:
        before = records.get(record.object.name)
        records[record.object.name] = record if before is None else replace(record, first_seen=before.first_seen)
    for state, names in notes.states.items():
        for name in names:
            if name in records and may_become(records[name].state, state):
                records[name] = replace(records[name], state=state)
    return records


def account_after(stored: Account, notes: Notes) -> Account:
    """Return the account of a table after notes are written; its waiting objects are those of `stored`."""
    before = Account() if notes.replaces_all else stored
    return replace(
        before,
        checked={**before.checked, **notes.checked},
        listed=before.listed if notes.listed is None else notes.listed,
        batch=before.batch if notes.batch is None else notes.batch,
        alarms=before.alarms if notes.alarms is None else tuple(notes.alarms),
        acknowledged=before.acknowledged if notes.acknowledged is None else notes.acknowledged,
        awaited=notes.awaited if notes.sets_awaited else before.awaited,
        failure=notes.failure if notes.has_ended else before.failure,
        verdict=before.verdict if notes.verdict is None else notes.verdict,
        sent=before.sent if notes.sent is None else tuple(notes.sent),
    )


def applied_record(facts: ObjectFacts, batch: int) -> ObjectRecord:
    """Return the ledger record of an object that was applied in a batch."""
    return ObjectRecord(
        object=facts.object,
        state=ObjectState.APPLIED,
        batch=batch,
        rows=facts.rows,
        least=facts.least,
        greatest=facts.greatest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerWriter:
    """Writes the ledger of a pipeline.

    `now` returns the time in microseconds since 1970. In a table of many objects all are listed once in
    `whole_every` microseconds; in between only those from the low watermark on are.
    """

    ledger: Ledger
    now: Callable[[], int]
    whole_every: int = 0

    def object_history(
        self,
        table: str,
        progress: Progress,
        change_log_state: ChangeLogState,
        floor: int | None,
        *,
        load: Load | None = None,
        is_whole: bool = False,
    ) -> ObjectHistory:
        """Return what is known of the objects of a table; with `is_whole` all of them are to be listed.

        No object may appear at or below the order `floor`; a full `load` must be applied first.
        """
        account = self._account(table, progress)
        start = None if is_whole or load is not None else self._start(account, change_log_state, floor)
        vanished = self.ledger.objects(table, ObjectState.VANISHED) if start is None else ()
        return ObjectHistory(
            applied=change_log_state.objects,
            object_watermark=floor,
            last_applied=progress.object,
            waiting={name: item for name, item in account.waiting.items() if name not in change_log_state.objects},
            vanished=frozenset(record.object.name for record in vanished),
            checked=account.checked,
            start=start,
            acknowledged=change_log_state.acknowledged(progress.epoch if load is None else load.epoch),
            cut=change_log_state.cut(progress.epoch),
            load=load,
            earlier_versions=change_log_state.earlier_versions,
            awaited=account.awaited,
            now=self.now(),
            has_no_batch=progress.batch == 0,
        )

    def _account(self, table: str, progress: Progress) -> Account:
        """Return the account of a table.

        It is empty where the table was made anew and the ledger is still that of the earlier table. Where another
        tool rolled the table back, the objects that were applied since wait again, with those that waited before.
        """
        account = self.ledger.account(table)
        if account.batch <= progress.batch:
            return account
        if progress.batch == 0:
            return Account()
        records = self.ledger.objects(table, *_WERE_APPLIED)
        applied_since = (record.object for record in records if (record.batch or 0) > progress.batch)
        return Account(waiting={**account.waiting, **{item.name: item for item in applied_since}})

    def _start(self, account: Account, change_log_state: ChangeLogState, floor: int | None) -> str | None:
        """Return the name of the object to list from, or None where all objects must be listed."""
        is_due = account.listed is None or self.now() - account.listed >= self.whole_every
        if floor is None or is_due or len(change_log_state.objects) <= LISTED_WHOLE:
            return None
        return next((item.name for item in change_log_state.objects.values() if item.order == floor), None)

    def record_listing(
        self,
        table: str,
        history: ObjectHistory,
        selection: ObjectSelection,
        change_log_state: ChangeLogState,
        progress: Progress,
        change_log: ChangeLog,
    ) -> None:
        """Write what was listed, and what the ledger lacks of earlier batches."""
        account, now = self.ledger.account(table), self.now()
        is_another = account.batch > progress.batch
        after = 0 if is_another else account.batch
        missing = change_log.applied(progress, after) if after < progress.batch else ()
        waiting = [item for item in (*selection.objects, *selection.remaining) if not history.has_applied(item)]
        new_waiting = [item for item in waiting if is_another or history.waiting.get(item.name) != item]
        notes = Notes(
            replaces_all=is_another,
            records=[
                *missing,
                *_records(new_waiting, ObjectState.SEEN, now),
                *_records(selection.excluded, ObjectState.QUARANTINED, now),
            ],
            states={
                ObjectState.VANISHED: selection.vanished,
                ObjectState.APPLIED: selection.returned,
                ObjectState.SUPERSEDED: selection.superseded,
            },
            checked=selection.checked,
            listed=now if selection.is_whole else None,
            batch=progress.batch,
            alarms=None if selection.objects else (),
            acknowledged=history.acknowledged,
            sets_awaited=True,
            awaited=selection.awaited,
        )
        self.ledger.write(table, notes)

    def record_applied(self, table: str, objects: Sequence[ObjectFacts], batch: int) -> None:
        """Write which objects a batch applied.

        After a snapshot, the time since when the listing is unchanged is kept for the objects behind it.
        """
        records, awaited = [applied_record(facts, batch) for facts in objects], self.ledger.account(table).awaited
        remaining = None if awaited is None else awaited.once_applied
        self.ledger.write(
            table, Notes(records=records, batch=batch, alarms=(), sets_awaited=True, awaited=remaining)
        )

    def applied_objects(
        self, table: str, progress: Progress, objects: Sequence[SourceObject]
    ) -> Sequence[SourceObject]:
        """Return those of the objects that a table has applied in this version, as far as the ledger knows."""
        if self.ledger.account(table).batch > progress.batch:  # the table was made anew or rolled back since
            return ()
        applied = (ObjectState.APPLIED, ObjectState.ARCHIVED)
        records = self.ledger.objects(table, *applied, names=[item.name for item in objects])
        versions = {record.object.version for record in records}
        return [item for item in objects if item.version in versions]

    def record_archived(self, table: str, names: Sequence[str]) -> None:
        """Write which objects were moved into the archive."""
        self.ledger.write(table, Notes(states={ObjectState.ARCHIVED: names}))

    def record_alarm(self, table: str, error: AlarmRaised) -> None:
        """Write that an alarm stopped the table."""
        raised = Alarm(error.code, error.what, error.found or "", error.todo or "")
        rewritten = [version.rsplit(" ", 2)[0] for version in error.about] if error.code == "LEDGER-002" else ()
        self.ledger.write(table, Notes(alarms=[raised], states={ObjectState.REWRITTEN: rewritten}))

    def clear_alarms(self, table: str, awaited: AwaitedLoad | None) -> None:
        """Write that an operator has dealt with what stopped the table, and the full load that it waits for now."""
        self.ledger.write(table, Notes(alarms=(), sets_awaited=True, awaited=awaited))

    def record_acknowledgement(self, table: str, error: AlarmRaised, acked: Mapping[str, frozenset[str]]) -> None:
        """Write that an operator acknowledged an alarm; `acked` is all that is acknowledged in the epoch."""
        states = {"LEDGER-001": ObjectState.QUARANTINED, "LEDGER-003": ObjectState.VANISHED}
        changed = {states[error.code]: error.about} if error.code in states else {}
        self.ledger.write(table, Notes(states=changed, alarms=(), acknowledged=acked))

    def rebuild(
        self,
        table: str,
        progress: Progress,
        change_log_state: ChangeLogState,
        change_log: ChangeLog,
        *,
        keeps_waiting: bool = True,
    ) -> Sequence[ObjectRecord]:
        """Write the ledger of a table anew from its batch records, and return these.

        With `keeps_waiting`, objects that were seen and not applied stay, so that they are missed if they go away;
        so do, in a table that another tool rolled back, the objects that it has applied since.
        """
        records = change_log.applied(progress, 0)
        applied = {*change_log_state.objects, *(record.object.name for record in records)}
        waiting = self._account(table, progress).waiting if keeps_waiting else {}
        still_waiting = [item for name, item in waiting.items() if name not in applied]
        all_records = [*records, *_records(still_waiting, ObjectState.SEEN, self.now())]
        acked = change_log_state.acknowledged(progress.epoch)
        self.ledger.write(
            table,
            Notes(replaces_all=True, records=all_records, batch=progress.batch, alarms=(), acknowledged=acked),
        )
        return records


def _records(objects: Sequence[SourceObject], state: ObjectState, now: int) -> Sequence[ObjectRecord]:
    return [ObjectRecord(object=item, state=state, first_seen=now) for item in objects]
