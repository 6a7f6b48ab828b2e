"""Whether the sources of a joined history say, all in one way, from when their rows are valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.events import Sequences
from lakeward.core.history.options import DAYS, NUMBERS, TIMES, ByColumn, ByRun, ByTime, History, Surrogate
from lakeward.core.joined.declared import Joined
from lakeward.core.joined.words import listed, type_in, wrong
from lakeward.core.schema import Type

_CANNOT: Final = "No joined history can: leave it out."


def check_history(joined: Joined, of: Mapping[str, Dimension], dimension: Dimension) -> None:
    """Raise ConfigError where the history of a joined table cannot be kept of the tables of its sources."""
    history = joined.history
    if history is None:
        idle = [name for name, one in joined.sources.items() if one.validity is not None or one.as_now]
        if idle:
            found = f"{listed(idle)} has a validity column, or is as_now"
            raise wrong(joined, found, "That is for a joined history: leave it out.")
        return
    history.check(str(joined.name), dimension.schema, dimension.key)
    if history.known:
        raise wrong(joined, "it is to keep versions that are not believed any more (`known`)", _CANNOT)
    if history.previous_key:
        raise wrong(joined, "it is to say which key a row had before (`previous_key`)", _CANNOT)
    if history.shown.surrogate is Surrogate.NUMBER:
        found = 'its versions are made anew, and have no numbers to keep (`surrogate = "number"`)'
        raise wrong(joined, found, 'A key and a beginning have one hash: say `surrogate = "hash"`.')
    kept = {name: own for name in of if (own := of[name].history) and not joined.sources[name].as_now}
    if kept:
        _check_over_time(joined, kept)
        _check_units(joined, {**kept, str(joined.name): history})
    else:
        _check_now(joined, of)
        _check_dates(joined, history, of)


def _check_over_time(joined: Joined, kept: Mapping[str, History]) -> None:
    """Refuse what does not go together where some sources are histories, whose versions are joined."""
    if now := [name for name, one in joined.sources.items() if name not in kept and not one.as_now]:
        raise wrong(
            joined,
            f"{listed(kept)} is a history, {listed(now)} a mirror, of which nothing tells how it was",
            "Keep all of them as histories, or say as_now of what all versions may show as it is now.",
        )
    if joined.driving not in kept:
        found = f"{joined.driving} drives, as it is now"
        raise wrong(joined, found, "Versions begin and end with those of a history.")
    history, is_dated = joined.history, any(one.validity is not None for one in joined.sources.values())
    if is_dated or history is None or not isinstance(history.validity, ByTime) or history.first_load is not None:
        found = "its validity or first_load is set, or the validity of a source"
        raise wrong(joined, found, "Its versions begin and end as those of its sources do.")


def _check_now(joined: Joined, of: Mapping[str, Dimension]) -> None:
    """Refuse mirrors that are `as_now` where no other source has versions: they are nothing else."""
    if now := [name for name, one in joined.sources.items() if one.as_now and of[name].history is None]:
        raise wrong(
            joined, f"{listed(now)} is as_now, and a mirror", "It is for mirrors beside histories: leave it out."
        )


def _check_units(joined: Joined, histories: Mapping[str, History]) -> None:
    """Refuse histories whose instants do not compare."""
    if numbers := [name for name, one in histories.items() if one.shown.type.name in NUMBERS]:
        found = f"versions of {listed(numbers)} are dated by numbers"
        raise wrong(joined, found, "Only those that are dated by times or days are joined; or take it as_now.")
    units = {name: (one.shown.type.name, one.zone if one.by_day else "") for name, one in histories.items()}
    if len(set(units.values())) > 1:
        found = ", ".join(f"{name}: {unit} {zone}".strip() for name, (unit, zone) in units.items())
        raise wrong(joined, found, "Give all of them validity columns of one type, and days of one zone.")


def _check_dates(joined: Joined, history: History, of: Mapping[str, Dimension]) -> None:
    """Refuse mirrors that do not say when their rows were changed, where the joined table asks."""
    if isinstance(history.validity, ByRun):
        if dated := [name for name, one in joined.sources.items() if one.validity is not None]:
            found = f"{listed(dated)} has a validity column, and versions begin on the day of the run"
            raise wrong(joined, found, "Leave one of the two out.")
        return
    if isinstance(history.validity, ByColumn):
        raise wrong(
            joined,
            f"its versions are dated by its column {history.validity.column}",
            "Name the validity column of each source: a version begins at the greatest of them.",
        )
    for name, source in joined.sources.items():
        if source.validity is None and of[name].sequences is not Sequences.TIMES:
            found = f"the rows of {name} do not keep when they were changed"
            raise wrong(joined, found, "Name its validity column, or date versions by the run.")
        if source.validity is not None:
            _check_unit(joined, history, name, type_in(of[name], source.validity))


def _check_unit(joined: Joined, history: History, name: str, column: Type) -> None:
    """Refuse a validity column that is no instant of the joined history."""
    shown = history.shown.type
    if column.name not in (*TIMES, DAYS) or (column.name == DAYS and not history.by_day):
        own = f"the validity column of {name} is {column.with_article}"
        found = f"{own}, those of the joined table {shown.with_article}"
        raise wrong(joined, found, "A time dates days and times, a date only days.")
