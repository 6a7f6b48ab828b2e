"""Times of the source as texts, also times outside the range of Python's `datetime`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE: Final = 400
"""Years after which the calendar repeats, to the day of the week."""
_CYCLE_MICROS: Final = 146_097 * 86_400_000_000


def moment(micros: int) -> datetime | None:
    """Return a time of microseconds since 1970; None before the year 1 or after the year 9999."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def far(micros: int) -> str:
    """Return a time of microseconds since 1970, of any year, in UTC as `0000-01-01T00:00:00Z`.

    >>> far(-62_167_219_200_000_000), far(2**63 - 1)
    ('0000-01-01T00:00:00Z', '294247-01-10T04:00:54.775807Z')
    """
    cycles, rest = divmod(micros, _CYCLE_MICROS)
    time = _EPOCH + timedelta(microseconds=rest)
    year = time.year + _CYCLE * cycles
    return f"{'-' if year < 0 else ''}{abs(year):04}{time.replace(tzinfo=None).isoformat()[4:]}Z"
