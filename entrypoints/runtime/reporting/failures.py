"""Store the error that ended the last run of a table in the ledger, for `lakeward status`."""

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
"""Greatest number of stored characters of a part: the text of a Java error is its whole stack trace."""


def failure_of(error: BaseException, at: int) -> Failure:
    """Return an error as the ledger stores it; `at` is in microseconds since 1970.

    >>> failure_of(KeyError("id"), 0).what
    "'id'"
    """
    parts = documents.error(error)
    what, found, todo = (None if parts[name] is None else parts[name][:_LONGEST] for name in _PARTS)
    return Failure(parts["kind"], what or "", found, todo, parts["retryable"], at)


def keep_failure(container: Any, table: str, error: BaseException) -> None:
    """Store the failure of a table in the ledger.

    An alarm is stored elsewhere in the ledger, and clears an earlier failure. A SetupError ends the whole run and
    is not stored for a table. If the ledger cannot be written, that is logged; the run reports the failure anyway.
    """
    if isinstance(error, SetupError):
        return
    failure = None if isinstance(error, AlarmRaised) else failure_of(error, container.runtime().now())
    try:
        container.ledger().write(table, Notes(has_ended=True, failure=failure))
    except Exception as lost:  # noqa: BLE001  # an error of the ledger must not hide the failure
        log.debug("failure not kept", error=repr(lost))


def forget_failure(container: Any, table: str) -> None:
    """Record in the ledger that a run of a table ended without an error."""
    container.ledger().write(table, Notes(has_ended=True))
