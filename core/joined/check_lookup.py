"""Check that the version of a source can be looked up that was valid at a time of another row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakeward.core.dimension import Dimension
from lakeward.core.history.options import DAYS, NUMBERS, TIMES, History
from lakeward.core.joined.declaration import Joined, Source
from lakeward.core.joined.errors import column_type, declaration_error, list_names


def check_lookup(joined: Joined, name: str, source: Source, of: Mapping[str, Dimension]) -> None:
    """Raise ConfigError where a source is to be looked up at a time and has no single version valid then."""
    if source.at is None:
        return
    parent = joined.parent(name)
    asks = f"{name} is looked up at {parent}.{source.at}"
    if joined.history is not None:
        found = f"{asks}, and the joined table is a history"
        raise declaration_error(
            joined, found, "Only a joined mirror looks versions up yet: make it one, or leave `at` out."
        )
    history = of[name].history
    if history is None:
        found = f"{asks}, and {source.table} is a mirror, which forgets how it was"
        raise declaration_error(
            joined, found, "Keep that table as a history, or leave `at` out: it is joined as it is now."
        )
    if source.aggregates:
        found = f"{asks}, and {list_names(source.aggregates)} are made of several rows"
        raise declaration_error(joined, found, "One version is valid at a time: take its columns.")
    column = column_type(of[parent], source.at)
    allowed = _dating(history)
    if column.name not in allowed or column.scale:
        own = f"{parent}.{source.at} is {column.with_article}"
        found = f"{own}, and versions of {name} are dated by {_unit(history)}"
        raise declaration_error(
            joined, found, f"It may be {' or '.join(allowed)}: a rule of its table (cast) makes it one."
        )


def _dating(history: History) -> Sequence[str]:
    """Return the types of values that can be compared with the instants of a history. A day is no time."""
    if history.by_day:
        return (*TIMES, DAYS)
    return TIMES if history.shown.type.name in TIMES else NUMBERS


def _unit(history: History) -> str:
    if history.by_day:
        return "days"
    return "times" if history.shown.type.name in TIMES else "numbers"
