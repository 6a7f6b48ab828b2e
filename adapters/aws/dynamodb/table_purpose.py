"""The purposes of DynamoDB tables: errors name the page, settings section and keys that belong to each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TablePurpose:
    """The purpose of a table: its name in messages, its settings section, its page, and its required keys."""

    name: str
    section: str
    page: str
    keys: str


LEASES: Final = TablePurpose(
    "table of leases",
    "lease",
    "docs/reference/lease.md",
    "Its partition key must be `lease`, a string, and it has no sort key",
)
LEDGER: Final = TablePurpose(
    "table of a ledger",
    "ledger",
    "docs/reference/ledger.md",
    "Its partition key must be `ledger` and its sort key `item`, both strings, with the local index `by_state`",
)
