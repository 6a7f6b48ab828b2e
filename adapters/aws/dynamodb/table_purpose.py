"""What a table of DynamoDB is for: an error names the page, the section and the keys that belong to that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a table is for: `what` it is, the `section` of the settings that names it, its `page`, its `keys`."""

    what: str
    section: str
    page: str
    keys: str


LEASES: Final = Purpose(
    "table of leases",
    "lease",
    "docs/reference/lease.md",
    "Its partition key must be `lease`, a string, and it has no sort key",
)
LEDGER: Final = Purpose(
    "table of a ledger",
    "ledger",
    "docs/reference/ledger.md",
    "Its partition key must be `ledger` and its sort key `item`, both strings, with the local index `by_state`",
)
