"""The error that ended the last run of a table, as the ledger stores it for `lakeward status`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that ended the last run of a table.

    `kind` is the name of its class, and `what`, `found` and `todo` are its three parts. `at` is the time of the
    failure in microseconds since 1970. After a `retryable` error the next run may succeed.
    """

    kind: str
    what: str
    found: str | None
    todo: str | None
    retryable: bool
    at: int
