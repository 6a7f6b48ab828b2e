"""Check the times of a joined table: those that date its versions, and those at which versions are looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.events import Sequences
from lakeward.core.history.options import DAYS, NUMBERS, TIMES, ByColumn, ByRun, ByTime, History, Surrogate
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.joined.errors import Findings, column_type, list_names
from lakeward.core.schema import Type

_CANNOT: Final = "No joined history can: leave it out."


def history_findings(joined: JoinDeclaration, of: Mapping[str, Dimension], dimension: Dimension) -> Findings:
    """Yield why a joined history cannot be kept of the tables of its sources.

    Raises ConfigError for options that no history of these columns can have.
    """
    history = joined.history
    if history is None:
        idle = [name for name, source in joined.sources.items() if source.validity is not None or source.as_now]
        if idle:
            todo = "That is for a joined history: leave it out."
            yield f"{list_names(idle)} has a validity column, or is as_now", todo
        return
    history.check(str(joined.name), dimension.schema, dimension.key)
    if history.is_bitemporal:
        yield "it is to keep versions that are not believed any more (`known`)", _CANNOT
    if history.previous_key:
        yield "it is to say which key a row had before (`previous_key`)", _CANNOT
    if history.validity_columns.surrogate is Surrogate.NUMBER:
        found = 'its versions are made anew, and have no numbers to keep (`surrogate = "number"`)'
        yield found, 'A key and a beginning have one hash: say `surrogate = "hash"`.'
    versioned = {name: own for name in of if (own := of[name].history) and not joined.sources[name].as_now}
    if versioned:
        yield from _over_time_findings(joined, history, versioned)
        yield from _unit_findings({**versioned, str(joined.name): history})
    else:
        yield from _date_findings(joined, history, of)


def _over_time_findings(joined: JoinDeclaration, history: History, versioned: Mapping[str, History]) -> Findings:
    """Find combinations that do not work where some sources are histories whose versions are joined."""
    if mirrors := [name for name, source in joined.sources.items() if name not in versioned and not source.as_now]:
        found = f"{list_names(versioned)} is a history, {list_names(mirrors)} a mirror"
        todo = "Keep all of them as histories, or say as_now of what all versions may show as it is now."
        yield f"{found}, of which nothing tells how it was", todo
    if joined.driving not in versioned:
        yield f"{joined.driving} drives, as it is now", "Versions begin and end with those of a history."
    is_dated = any(source.validity is not None for source in joined.sources.values())
    if is_dated or not isinstance(history.validity, ByTime) or history.first_load is not None:
        found = "its validity or first_load is set, or the validity of a source"
        yield found, "Its versions begin and end as those of its sources do."


def _unit_findings(histories: Mapping[str, History]) -> Findings:
    """Find histories whose instants cannot be compared."""
    if numbers := [name for name, history in histories.items() if history.validity_columns.type.name in NUMBERS]:
        todo = "Only those that are dated by times or days are joined; or take it as_now."
        yield f"versions of {list_names(numbers)} are dated by numbers", todo
    units = {
        name: (one.validity_columns.type.name, one.zone if one.by_day else "") for name, one in histories.items()
    }
    if len(set(units.values())) > 1:
        found = ", ".join(f"{name}: {unit} {zone}".strip() for name, (unit, zone) in units.items())
        yield found, "Give all of them validity columns of one type, and days of one zone."


def _date_findings(joined: JoinDeclaration, history: History, of: Mapping[str, Dimension]) -> Findings:
    """Find mirrors that are `as_now`, which mirrors always are, and those without dates that the table needs."""
    if mirrors := [name for name, source in joined.sources.items() if source.as_now and of[name].history is None]:
        todo = "It is for mirrors beside histories: leave it out."
        yield f"{list_names(mirrors)} is as_now, and a mirror", todo
    if isinstance(history.validity, ByRun):
        if dated := [name for name, source in joined.sources.items() if source.validity is not None]:
            found = f"{list_names(dated)} has a validity column, and versions begin on the day of the run"
            yield found, "Leave one of the two out."
        return
    if isinstance(history.validity, ByColumn):
        todo = "Name the validity column of each source: a version begins at the greatest of them."
        yield f"its versions are dated by its column {history.validity.column}", todo
    for name, source in joined.sources.items():
        if source.validity is not None:
            yield from _validity_findings(history, name, column_type(of[name], source.validity))
        elif of[name].sequences is not Sequences.TIMES:
            todo = "Name its validity column, or date versions by the run."
            yield f"the rows of {name} do not keep when they were changed", todo


def _validity_findings(history: History, name: str, column: Type) -> Findings:
    """Find a validity column whose values are no instants of the joined history."""
    if column.name not in (*TIMES, DAYS) or (column.name == DAYS and not history.by_day):
        own = f"the validity column of {name} is {column.with_article}"
        found = f"{own}, those of the joined table {history.validity_columns.type.with_article}"
        yield found, "A time dates days and times, a date only days."


def lookup_findings(joined: JoinDeclaration, name: str, of: Mapping[str, Dimension]) -> Findings:
    """Yield why a source that is looked up at a time has no single version that is valid then."""
    source, parent, history = joined.sources[name], joined.parent(name), of[name].history
    if source.at is None:
        return
    lookup = f"{name} is looked up at {parent}.{source.at}"
    if joined.history is not None:
        todo = "Only a joined mirror looks versions up yet: make it one, or leave `at` out."
        yield f"{lookup}, and the joined table is a history", todo
    if history is None:
        todo = "Keep that table as a history, or leave `at` out: it is joined as it is now."
        yield f"{lookup}, and {source.table} is a mirror, which forgets how it was", todo
        return
    if source.aggregates:
        todo = "One version is valid at a time: take its columns."
        yield f"{lookup}, and {list_names(source.aggregates)} are made of several rows", todo
    column, (unit, types) = column_type(of[parent], source.at), _unit(history)
    if not _is_comparable(column, types):
        found = f"{parent}.{source.at} is {column.with_article}, and versions of {name} are dated by {unit}"
        yield found, f"It may be {' or '.join(types)}: a rule of its table (cast) makes it one."


def _unit(history: History) -> tuple[str, Sequence[str]]:
    """Return what the versions of a history are dated by, and the types that can be compared with that.

    A time counts as its day, but a day is no time.
    """
    if history.by_day:
        return "days", (*TIMES, DAYS)
    return ("times", TIMES) if history.validity_columns.type.name in TIMES else ("numbers", NUMBERS)


def _is_comparable(column: Type, types: Sequence[str]) -> bool:
    return column.name in types and not column.scale
