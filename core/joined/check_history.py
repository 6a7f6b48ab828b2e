"""Check that the sources of a joined history date their rows, all in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.events import Sequences
from lakeward.core.history.options import DAYS, NUMBERS, TIMES, ByColumn, ByRun, ByTime, History, Surrogate
from lakeward.core.joined.declaration import Joined
from lakeward.core.joined.errors import column_type, declaration_error, list_names
from lakeward.core.schema import Type

_CANNOT: Final = "No joined history can: leave it out."


def check_history(joined: Joined, of: Mapping[str, Dimension], dimension: Dimension) -> None:
    """Raise ConfigError where a joined history cannot be kept of the tables of its sources."""
    history = joined.history
    if history is None:
        idle = [name for name, one in joined.sources.items() if one.validity is not None or one.as_now]
        if idle:
            found = f"{list_names(idle)} has a validity column, or is as_now"
            raise declaration_error(joined, found, "That is for a joined history: leave it out.")
        return
    history.check(str(joined.name), dimension.schema, dimension.key)
    if history.known:
        raise declaration_error(joined, "it is to keep versions that are not believed any more (`known`)", _CANNOT)
    if history.previous_key:
        raise declaration_error(joined, "it is to say which key a row had before (`previous_key`)", _CANNOT)
    if history.shown.surrogate is Surrogate.NUMBER:
        found = 'its versions are made anew, and have no numbers to keep (`surrogate = "number"`)'
        raise declaration_error(joined, found, 'A key and a beginning have one hash: say `surrogate = "hash"`.')
    kept = {name: own for name in of if (own := of[name].history) and not joined.sources[name].as_now}
    if kept:
        _check_over_time(joined, kept)
        _check_units(joined, {**kept, str(joined.name): history})
    else:
        _check_now(joined, of)
        _check_dates(joined, history, of)


def _check_over_time(joined: Joined, kept: Mapping[str, History]) -> None:
    """Refuse combinations that do not work where some sources are histories whose versions are joined."""
    if now := [name for name, one in joined.sources.items() if name not in kept and not one.as_now]:
        raise declaration_error(
            joined,
            f"{list_names(kept)} is a history, {list_names(now)} a mirror, of which nothing tells how it was",
            "Keep all of them as histories, or say as_now of what all versions may show as it is now.",
        )
    if joined.driving not in kept:
        found = f"{joined.driving} drives, as it is now"
        raise declaration_error(joined, found, "Versions begin and end with those of a history.")
    history, is_dated = joined.history, any(one.validity is not None for one in joined.sources.values())
    if is_dated or history is None or not isinstance(history.validity, ByTime) or history.first_load is not None:
        found = "its validity or first_load is set, or the validity of a source"
        raise declaration_error(joined, found, "Its versions begin and end as those of its sources do.")


def _check_now(joined: Joined, of: Mapping[str, Dimension]) -> None:
    """Refuse mirrors that are `as_now` where no source has versions: mirrors always are."""
    if now := [name for name, one in joined.sources.items() if one.as_now and of[name].history is None]:
        raise declaration_error(
            joined,
            f"{list_names(now)} is as_now, and a mirror",
            "It is for mirrors beside histories: leave it out.",
        )


def _check_units(joined: Joined, histories: Mapping[str, History]) -> None:
    """Refuse histories whose instants cannot be compared."""
    if numbers := [name for name, one in histories.items() if one.shown.type.name in NUMBERS]:
        found = f"versions of {list_names(numbers)} are dated by numbers"
        raise declaration_error(
            joined, found, "Only those that are dated by times or days are joined; or take it as_now."
        )
    units = {name: (one.shown.type.name, one.zone if one.by_day else "") for name, one in histories.items()}
    if len(set(units.values())) > 1:
        found = ", ".join(f"{name}: {unit} {zone}".strip() for name, (unit, zone) in units.items())
        raise declaration_error(
            joined, found, "Give all of them validity columns of one type, and days of one zone."
        )


def _check_dates(joined: Joined, history: History, of: Mapping[str, Dimension]) -> None:
    """Refuse mirrors that do not date their changes, where the joined table needs dates."""
    if isinstance(history.validity, ByRun):
        if dated := [name for name, one in joined.sources.items() if one.validity is not None]:
            found = f"{list_names(dated)} has a validity column, and versions begin on the day of the run"
            raise declaration_error(joined, found, "Leave one of the two out.")
        return
    if isinstance(history.validity, ByColumn):
        raise declaration_error(
            joined,
            f"its versions are dated by its column {history.validity.column}",
            "Name the validity column of each source: a version begins at the greatest of them.",
        )
    for name, source in joined.sources.items():
        if source.validity is None and of[name].sequences is not Sequences.TIMES:
            found = f"the rows of {name} do not keep when they were changed"
            raise declaration_error(joined, found, "Name its validity column, or date versions by the run.")
        if source.validity is not None:
            _check_unit(joined, history, name, column_type(of[name], source.validity))


def _check_unit(joined: Joined, history: History, name: str, column: Type) -> None:
    """Refuse a validity column whose values are no instants of the joined history."""
    shown = history.shown.type
    if column.name not in (*TIMES, DAYS) or (column.name == DAYS and not history.by_day):
        own = f"the validity column of {name} is {column.with_article}"
        found = f"{own}, those of the joined table {shown.with_article}"
        raise declaration_error(joined, found, "A time dates days and times, a date only days.")
