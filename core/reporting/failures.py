"""The error that ended the last run of a table, as the ledger keeps it for `status`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that ended the last run of a table.

    `kind` is the name of its class; `what`, `found` and `todo` are its three parts. `at` is when the table failed,
    in microseconds since 1970. A `retryable` one may be gone with the next run.
    """

    kind: str
    what: str
    found: str | None
    todo: str | None
    retryable: bool
    at: int
