"""A ledger in plain Python."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from threading import Lock

from lakeward.core.ledger.objects import Account, Notes, ObjectRecord, ObjectState
from lakeward.core.ledger.writer import account_after, records_after


@dataclass(slots=True)
class MemoryLedger:
    """Accounts and objects by table, in dictionaries."""

    accounts: dict[str, Account] = field(default_factory=dict)
    known: dict[str, dict[str, ObjectRecord]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def account(self, table: str) -> Account:
        """Return the account of a table."""
        records = self.known.get(table, {}).values()
        waiting = {record.object.name: record.object for record in records if record.state is ObjectState.SEEN}
        return replace(self.accounts.get(table, Account()), waiting=waiting)

    def objects(
        self, table: str, *states: ObjectState, names: Collection[str] | None = None
    ) -> Iterator[ObjectRecord]:
        """Yield the objects of a table in order, with these states and names."""
        for record in sorted(self.known.get(table, {}).values(), key=lambda r: (r.object.order, r.object.name)):
            if (not states or record.state in states) and (names is None or record.object.name in names):
                yield record

    def write(self, table: str, notes: Notes) -> None:
        """Apply notes to the ledger."""
        with self.lock:
            self.known[table] = records_after(self.known.get(table, {}), notes)
            self.accounts[table] = account_after(self.accounts.get(table, Account()), notes)
