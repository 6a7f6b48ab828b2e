"""A ledger in plain Python."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from lakeward.core.books import may_become
from lakeward.core.ledger import Account, Notes, ObjectRecord, ObjectState


@dataclass(slots=True)
class MemoryLedger:
    """Accounts and objects by table, in dictionaries."""

    accounts: dict[str, Account] = field(default_factory=dict)
    known: dict[str, dict[str, ObjectRecord]] = field(default_factory=dict)

    def account(self, table: str) -> Account:
        """Return what is known of a table."""
        found = self.known.get(table, {}).values()
        waiting = {record.object.name: record.object for record in found if record.state is ObjectState.SEEN}
        return replace(self.accounts.get(table, Account()), waiting=waiting)

    def objects(
        self, table: str, *states: ObjectState, names: Collection[str] | None = None
    ) -> Iterator[ObjectRecord]:
        """Return objects in order."""
        for record in sorted(self.known.get(table, {}).values(), key=lambda r: (r.object.order, r.object.name)):
            if (not states or record.state in states) and (names is None or record.object.name in names):
                yield record

    def write(self, table: str, notes: Notes) -> None:
        """Take in notes."""
        before = Account() if notes.anew else self.accounts.get(table, Account())
        known = {} if notes.anew else self.known.get(table, {})
        self.known[table] = known
        for record in notes.records:
            name = record.object.name
            first_seen = known[name].first_seen if name in known else record.first_seen
            known[name] = replace(record, first_seen=first_seen)
        for state, listed in notes.states.items():
            for name in listed:
                if name in known and may_become(known[name].state, state):
                    known[name] = replace(known[name], state=state)
        self.accounts[table] = replace(
            before,
            checked={**before.checked, **notes.checked},
            listed=before.listed if notes.listed is None else notes.listed,
            batch=before.batch if notes.batch is None else notes.batch,
            alarms=before.alarms if notes.alarms is None else tuple(notes.alarms),
            acked=before.acked if notes.acked is None else notes.acked,
            awaited=notes.awaited if notes.looked else before.awaited,
            failure=notes.failure if notes.has_ended else before.failure,
            verdict=before.verdict if notes.verdict is None else notes.verdict,
        )
