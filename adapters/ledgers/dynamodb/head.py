"""The head of a table's ledger: its account, and the object changes of its newest note."""

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
    """The state of the ledger of a table after its newest note.

    - `note`: the number of that note; 0 if there is no note.
    - `by`: its writer, a unique text of each call. `recent`: the writers of earlier notes, newest first.
    - `generation`: the note that began or rebuilt the ledger. Items of other generations do not count.
    - `account`: the account without waiting and checked objects, which are items.
    - `records`, `checked`: object changes of the note that may not be in the items of their objects yet.
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
        """Whether all object changes are in the items of their objects."""
        return not self.records and not self.checked

    def settle(self) -> Head:
        """Return the head without object changes, for the time after they were written into items."""
        return replace(self, records=(), checked={})

    def to_content(self) -> str:
        """Return all but `note`, `by` and `generation` as JSON in ASCII."""
        account = self.account
        return json.dumps(
            {
                "recent": [*self.recent],
                "listed": account.listed,
                "batch": account.batch,
                "alarms": [[alarm.code, alarm.what, alarm.found, alarm.todo] for alarm in account.alarms],
                "acked": {code: sorted(about) for code, about in account.acknowledged.items()},
                "awaited": None if account.awaited is None else asdict(account.awaited),
                "failure": None if account.failure is None else asdict(account.failure),
                "verdict": None if account.verdict is None else account.verdict.to_document(),
                "sent": [asdict(entry) for entry in account.sent],
                "records": [record_to_document(record) for record in self.records],
                "checked": {**self.checked},
            }
        )

    def with_content(self, text: str) -> Head:
        """Return the head with the content of a text of `to_content`."""
        content = json.loads(text)
        awaited, failure, verdict = content["awaited"], content["failure"], content["verdict"]
        account = Account(
            listed=content["listed"],
            batch=content["batch"],
            alarms=tuple(Alarm(*parts) for parts in content["alarms"]),
            acknowledged={code: frozenset(about) for code, about in content["acked"].items()},
            awaited=None if awaited is None else AwaitedLoad(**{**awaited, "lacking": tuple(awaited["lacking"])}),
            failure=None if failure is None else Failure(**failure),
            verdict=None if verdict is None else SourceVerdict.of_document(verdict),
            sent=tuple(SentEntry(**entry) for entry in content.get("sent", ())),  # missing in older versions
        )
        records = tuple(record_of_document(record) for record in content["records"])
        recent = tuple(content["recent"])
        return replace(self, recent=recent, account=account, records=records, checked=content["checked"])


def record_to_document(record: ObjectRecord) -> Mapping[str, Any]:
    """Return the record of an object as a JSON value."""
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


def record_of_document(document: Mapping[str, Any]) -> ObjectRecord:
    """Return the record of a JSON value from `record_to_document`."""
    least, greatest = document["least"], document["greatest"]
    return ObjectRecord(
        object=SourceObject(
            document["name"], document["order"], document["size"], document["modified"], document["etag"]
        ),
        state=ObjectState(document["state"]),
        first_seen=document["first_seen"],
        batch=document["batch"],
        rows=document["rows"],
        least=None if least is None else Position(*least),
        greatest=None if greatest is None else Position(*greatest),
    )
