"""The head of a table's ledger: its account, and what its newest note changes of objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lakeward.core.events import Position
from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.ledger.objects import Account, ObjectRecord, ObjectState, SourceObject
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.reporting.failures import Failure
from lakeward.core.reporting.notices import SentEntry
from lakeward.core.verification.source_verification import SourceVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What the note of this number left, and by which writer; note 0 is that nothing was noted yet.

    `recent` are the writers of the notes before it, the newest first.

    `generation` is the note that began the ledger of the table, or made it anew: items of others do not count.
    `account` has neither what waits nor what was checked: those are items. `records` and `checked` are the changes
    of objects that are not in their items for certain.
    """

    note: int = 0
    by: str = ""
    recent: Sequence[str] = ()
    generation: str = ""
    account: Account = field(default_factory=Account)
    records: Sequence[ObjectRecord] = ()
    checked: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_settled(self) -> bool:
        """Whether all changes are in the items of their objects."""
        return not self.records and not self.checked

    def settled(self) -> Head:
        """Return the head without changes of objects."""
        return replace(self, records=(), checked={})

    def to_content(self) -> str:
        """Return what it says, as JSON in ASCII."""
        account = self.account
        return json.dumps(
            {
                "recent": [*self.recent],
                "listed": account.listed,
                "batch": account.batch,
                "alarms": [[one.code, one.what, one.found, one.todo] for one in account.alarms],
                "acked": {code: sorted(about) for code, about in account.acked.items()},
                "awaited": None if account.awaited is None else asdict(account.awaited),
                "failure": None if account.failure is None else asdict(account.failure),
                "verdict": None if account.verdict is None else account.verdict.to_document(),
                "sent": [asdict(one) for one in account.sent],
                "records": [record_to_document(record) for record in self.records],
                "checked": {**self.checked},
            }
        )

    def with_content(self, text: str) -> Head:
        """Return the head with what `to_content` returned."""
        said = json.loads(text)
        awaited, failure, verdict = said["awaited"], said["failure"], said["verdict"]
        account = Account(
            listed=said["listed"],
            batch=said["batch"],
            alarms=tuple(Alarm(*parts) for parts in said["alarms"]),
            acked={code: frozenset(about) for code, about in said["acked"].items()},
            awaited=None if awaited is None else AwaitedLoad(**{**awaited, "lacking": tuple(awaited["lacking"])}),
            failure=None if failure is None else Failure(**failure),
            verdict=None if verdict is None else SourceVerdict.of_document(verdict),
            sent=tuple(SentEntry(**one) for one in said.get("sent", ())),  # older versions wrote none
        )
        records = tuple(record_of_document(record) for record in said["records"])
        recent = tuple(said["recent"])
        return replace(self, recent=recent, account=account, records=records, checked=said["checked"])


def record_to_document(record: ObjectRecord) -> Mapping[str, Any]:
    """Return what the ledger has of an object, as what JSON can hold."""
    item = record.object
    return {
        "name": item.name,
        "order": item.order,
        "size": item.size,
        "modified": item.modified,
        "etag": item.etag,
        "state": record.state.value,
        "first_seen": record.first_seen,
        "batch": record.batch,
        "rows": record.rows,
        "least": record.least,
        "greatest": record.greatest,
    }


def record_of_document(said: Mapping[str, Any]) -> ObjectRecord:
    """Read what `record_to_document` returned."""
    least, greatest = said["least"], said["greatest"]
    return ObjectRecord(
        object=SourceObject(said["name"], said["order"], said["size"], said["modified"], said["etag"]),
        state=ObjectState(said["state"]),
        first_seen=said["first_seen"],
        batch=said["batch"],
        rows=said["rows"],
        least=None if least is None else Position(*least),
        greatest=None if greatest is None else Position(*greatest),
    )
