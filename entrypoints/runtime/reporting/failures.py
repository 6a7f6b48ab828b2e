"""Keep the error that ended the last run of a table in the ledger, for `status`."""

from __future__ import annotations

from typing import Any, Final

import structlog

from lakeward.core.errors import AlarmRaised, SetupError
from lakeward.core.ledger.objects import Notes
from lakeward.core.reporting.failures import Failure
from lakeward.entrypoints.views import documents

log = structlog.get_logger()

_PARTS: Final = ("what", "found", "todo")
_LONGEST: Final = 4000
"""Characters of a part that are kept: an error of Java has its whole stack trace as its text."""


def failure_of(error: BaseException, at: int) -> Failure:
    """Return an error as the ledger keeps it, at a time in microseconds since 1970.

    >>> failure_of(KeyError("id"), 0).what
    "'id'"
    """
    parts = documents.error(error)
    what, found, todo = (None if parts[name] is None else parts[name][:_LONGEST] for name in _PARTS)
    return Failure(parts["kind"], what or "", found, todo, parts["retryable"], at)


def keep_failure(container: Any, table: str, error: BaseException) -> None:
    """Write down that a table failed.

    An alarm has its own place in the ledger, and takes the place of an earlier failure. What the machine lacks
    (SetupError) ends the whole run and is no table's. A ledger that cannot be written is logged: the run tells of
    the failure all the same.
    """
    if isinstance(error, SetupError):
        return
    failure = None if isinstance(error, AlarmRaised) else failure_of(error, container.runtime().now())
    try:
        container.ledger().write(table, Notes(has_ended=True, failure=failure))
    except Exception as lost:  # noqa: BLE001  # whatever a ledger raises hides no failure
        log.debug("failure not kept", error=repr(lost))


def forget_failure(container: Any, table: str) -> None:
    """Write down that a run of a table ended without an error."""
    container.ledger().write(table, Notes(has_ended=True))
