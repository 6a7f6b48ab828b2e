"""The instant of an event, and an instant as a column value. Only this module knows units and time zones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from lakeward.core.events import UNSET, Cell, ChangeEvent, Operation
from lakeward.core.history.options import DAYS, TIMES, ByColumn, ByRun, History
from lakeward.core.schema import Type

_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)
_DAY: Final = 86_400_000_000
_CYCLE: Final = 146_097
"""The calendar, and with it the rules of time zones, repeats after this number of days, which are 400 years."""

_FIRST_DAY: Final = date.min.toordinal() - _FIRST.toordinal()
_LAST_DAY: Final = date.max.toordinal() - _FIRST.toordinal()
_MOST: Final = {"date": _LAST_DAY, "int": 2**31 - 1, "bigint": 2**63 - 1, "decimal": 2**63 - 1}
_LEAVES_NO_ROW: Final = (Operation.DELETE, Operation.TRUNCATE)


def instant_of(event: ChangeEvent, history: History, ran: int, *, is_first: bool = False) -> int | None:
    """Return the instant from which an event counts, or None where it has none of its own.

    `ran` is when the batch was begun, in microseconds since 1970; it dates events without a time. An event that
    leaves no row has no validity column: its instant is its source time or that of the run, where instants are
    times or days. Rows of a full load that `is_first` count from `first_load`, as do those of the first epoch.
    """
    if event.is_load and (is_first or event.position.epoch == 1) and history.first_load is not None:
        return history.first_load
    match history.validity:
        case ByRun():
            return instant_of_time(ran, history)
        case ByColumn(column=column):
            value = event.cells.get(column, UNSET)
            if event.operation in _LEAVES_NO_ROW and instant_of_run(history, ran) is not None:
                return instant_of_time(ran if event.time is None else event.time, history)
            return None if value is UNSET or value is None else instant_of_value(value, history)
        case _:
            return instant_of_time(ran if event.time is None else event.time, history)


def undated_detail(event: ChangeEvent, history: History) -> str | None:
    """Return why an event has no usable instant, or None where it has one or needs none.

    An instant at or after the open end is not usable, because a current version would end before it begins; nor is
    one that the validity columns cannot show. An event needs an instant where a column dates versions (`ByColumn`)
    and it leaves a row. It has none where that column is NULL or holds too large a number, and where an insert, a
    read or a key change does not send it. An update of the same key that does not send the column needs none, nor
    does an event that leaves no row: their row exists already (otherwise the update waits for it), and they count
    from the instant that their key has reached.

    Only the event decides, not the stored row: the same events are refused in any order and in any batches.
    """
    if event.instant is not None:
        if event.operation is Operation.TRUNCATE:
            return None
        end, (least, most) = history.validity_columns.open_end, instant_range(history.validity_columns.type)
        if end is not None and event.instant >= end:
            return open_end_detail(history)
        return None if least <= event.instant <= most else out_of_range_detail(history)
    if event.operation in _LEAVES_NO_ROW or not isinstance(history.validity, ByColumn):
        return None
    column = history.validity.column
    value = event.cells.get(column, UNSET)
    if value is None:
        return f"the column {column}, from which versions are dated, is NULL"
    if value is not UNSET:
        return out_of_range_detail(history)
    if event.operation is Operation.UPDATE and event.old_key is None:
        return None
    kind = "a change of the key" if event.operation is Operation.UPDATE else "a new row"
    return f"the column {column}, from which versions are dated, was not sent with {kind}"


def open_end_detail(history: History) -> str:
    """Return why an instant at or after the open end is refused."""
    end = value_of_instant(history.validity_columns.open_end or 0, history.validity_columns.type)
    return f"{_subject(history)} is not before {end}, at which current versions end"


def out_of_range_detail(history: History) -> str:
    """Return why an instant that the validity columns cannot show is refused."""
    return f"{_subject(history)} lies outside of what {history.validity_columns.type.with_article} shows"


def _subject(history: History) -> str:
    column = history.dated_by
    return "it" if column is None else f"the column {column}, from which versions are dated,"


def instant_range(type_: Type) -> tuple[int, int]:
    """Return the least and the greatest instant that validity columns of a type can show.

    Every time can be shown.
    """
    most = _MOST.get(type_.name, 2**63 - 1)
    if type_.name == DAYS:
        return _FIRST_DAY, most
    if type_.name == "decimal":
        most = min(most, 10**type_.precision - 1)
        return -most, most
    return -most - 1, most


def valid_instant_range(history: History) -> tuple[int, int]:
    """Return the first and the last instant at which a version may begin: those shown, before the open end."""
    end, (least, most) = history.validity_columns.open_end, instant_range(history.validity_columns.type)
    return least, most if end is None else min(most, end - 1)


def instant_of_run(history: History, ran: int) -> int | None:
    """Return the instant of a run, or None where instants are neither times nor days."""
    return instant_of_time(ran, history) if history.by_day or history.validity_columns.type.name in TIMES else None


def day_of(micros: int, zone: str) -> int:
    """Return the day of a time in microseconds since 1970, as days since 1970, where clocks show `zone`.

    >>> day_of(23 * 3_600_000_000, "UTC"), day_of(23 * 3_600_000_000, "Europe/Berlin")
    (0, 1)
    """
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # it looks for the system's zones

    cycles = _cycles(micros // _DAY)
    local = (_FIRST + (micros - cycles * _CYCLE * _DAY) * _MICRO).astimezone(ZoneInfo(zone))
    return local.toordinal() - _FIRST.toordinal() + cycles * _CYCLE


def _cycles(day: int) -> int:
    """Return the number of cycles by which a day must be moved to lie within the years of Python: usually 0."""
    above, below = day - _LAST_DAY + 1, _FIRST_DAY + 1 - day
    return -(-above // _CYCLE) if above > 0 else below // -_CYCLE if below > 0 else 0


def value_of_instant(instant: int, type_: Type) -> Cell:
    """Return an instant as a value of the type of the validity columns. A time without zone is in UTC."""
    match type_.name:
        case "date":
            return date.fromordinal(_FIRST.toordinal() + instant)
        case "timestamp":
            return _FIRST + instant * _MICRO
        case "timestamp_ntz":
            return (_FIRST + instant * _MICRO).replace(tzinfo=None)
        case "decimal":
            return Decimal(instant)
        case _:
            return instant


def instant_of_value(value: object, history: History) -> int | None:
    """Return the instant of a value. A time without zone is not converted; a number is its own instant.

    Returns None for a value that is neither a date, a time nor a whole number of 64 bits.
    """
    match value:
        case datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=UTC)
            if history.by_day and value.tzinfo is None:
                return value.toordinal() - _FIRST.toordinal()
            return instant_of_time((moment - _FIRST) // _MICRO, history)
        case date():
            return value.toordinal() - _FIRST.toordinal()
        case int() | Decimal():
            least, most = instant_range(Type("bigint"))
            return int(value) if least <= value <= most else None
        case _:
            return None


def instant_of_time(micros: int, history: History) -> int:
    """Return the instant of a time in microseconds since 1970, where instants are times or days."""
    return day_of(micros, history.zone) if history.by_day else micros
