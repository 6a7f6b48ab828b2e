"""Check that the version of a source can be looked up that was valid at a time of another row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakeward.core.dimension import Dimension
from lakeward.core.history.options import DAYS, NUMBERS, TIMES, History
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.joined.errors import Findings, column_type, list_names
from lakeward.core.schema import Type


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
