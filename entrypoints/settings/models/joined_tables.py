"""Joined tables as the settings write them; the core's own declarations are made of them.

`docs/reference/settings.md` is generated from these models, and `docs/explanation/joined.md` explains them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.joined.check import check_key, validate_joined
from lakeward.core.joined.declaration import Aggregate, Function, Joined, JoinType, Source
from lakeward.core.joined.joining import Joining
from lakeward.core.text.suggestions import nearest
from lakeward.entrypoints.settings.models.history import HistorySettings, Name, Tracked, history_of, written
from lakeward.entrypoints.settings.models.maintenance import MaintainSettings
from lakeward.entrypoints.settings.patterns import plain, table_name


def _columns(value: Any) -> Any:
    """Take a list of names for columns that keep theirs."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value.values()):
        return value
    raise ValueError('must be names of columns, or `{ new_name = "column" }`')


def _function_alone(value: Any) -> Any:
    return {"function": value} if isinstance(value, str) else value


def _texts(value: Any) -> Any:
    """Take numbers, dates and truths of TOML for the texts that write them: their types are those of columns."""
    if isinstance(value, Mapping):
        return {name: written(cell) for name, cell in value.items()}
    return value


def _source_name(value: str) -> str:
    """Refuse names that no sentence could show."""
    if not value.strip() or not value.isprintable():
        raise ValueError(f"{value!r} cannot name a source")
    return value


SourceName: TypeAlias = Annotated[str, AfterValidator(_source_name)]


class AggregateSettings(BaseModel):
    """What is made of several rows of a source; `count` may be given as its name alone, and counts rows then."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    function: Literal["count", "sum", "min", "max", "latest"] = Field(
        description="`count` counts rows, or values of the column that are not NULL; `latest` is the value in the "
        "row with the greatest `by`, and of equal ones in that with the greatest key."
    )
    column: str | None = Field(None, description="The column of the source that it is made of.")
    by: str | None = Field(None, description="With `latest`: the column that rows are ordered by.")


AnAggregate: TypeAlias = Annotated[AggregateSettings, BeforeValidator(_function_alone)]


class JoinedSourceSettings(BaseModel):
    """A table that a joined table is made of, and what is taken of it. The first one drives."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    table: str = Field(description="The table under `[tables]`, as `schema.table`.")
    columns: Annotated[dict[Name, str], BeforeValidator(_columns)] = Field(
        default_factory=dict,
        description='Columns that are taken: their names, or `{ new_name = "column" }` where they get others. The '
        "key of the driving source has to be among them.",
    )
    aggregates: dict[Name, AnAggregate] = Field(
        default_factory=dict,
        description='What is made of all rows that are equal `on` these columns: `{ orders = "count", '
        'total = { function = "sum", column = "amount" } }`.',
    )
    on: list[str] = Field(
        default_factory=list,
        description="The columns that it is joined on. Of the driving source: those that its groups are equal in.",
    )
    to: list[str] | None = Field(
        None,
        description="What they equal: columns of the source `beside`, in that order. Without it: those of the same "
        "names.",
    )
    beside: str | None = Field(
        None, description="The source that it is joined to, one before it. Without it: the driving one."
    )
    way: Literal["left", "inner"] = Field(
        "left", description="A row that finds none of it stays, with NULL, or waits until it finds one."
    )
    at: str | None = Field(
        None,
        description="Of a history, in a joined mirror: the column of the source `beside` that says as of when it "
        "is looked up. The version is taken that was valid then, and `columns` may be those that its history adds.",
    )
    otherwise: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(
        default_factory=dict,
        description="What columns of the joined table that come of it have where a row finds none: "
        "`{ customer_key = -1 }`. Without it: NULL.",
    )
    validity: str | None = Field(
        None,
        description="In a history of mirrors: the column that says from when a row of it counts. Without it: the "
        "commit time of its last change.",
    )
    as_now: bool = Field(
        False, description="In a history of histories: all versions show what this source has now."
    )


class JoinedSettings(BaseModel):
    """A table that is made of others. What the table format adds (`partition_by`, …) stands beside these keys."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    sources: dict[SourceName, JoinedSourceSettings] = Field(
        description="The tables that it is made of, by names of their own, the driving one first; the others are "
        "joined in their order."
    )
    mode: Literal["mirror", "history"] = Field(
        "mirror", description="How its rows are kept: as they are now, or every version."
    )
    track: Tracked = Field(
        default_factory=lambda: ["*"],
        description="In a history: its columns of which a change opens a version, as of any other history.",
    )
    history: HistorySettings = Field(
        default_factory=HistorySettings,
        description='In a history: how versions are dated and shown. `validity = { column = "…" }` is said of each '
        "source instead.",
    )
    unknown: Annotated[bool | dict[str, str], BeforeValidator(_texts)] = Field(
        False,
        description="Whether it has a row that stands for whatever has none: -1 in its key, NULL elsewhere, or "
        'what is given by column: `{ name = "unknown" }`.',
    )

    maintain: MaintainSettings = Field(
        default_factory=MaintainSettings, description="What `lakeward maintain` does to it, as to any other table."
    )

    @model_validator(mode="after")
    def _is_a_history(self) -> JoinedSettings:
        said = [key for key in ("track", "history") if key in self.model_fields_set]
        if said and self.mode == "mirror":
            raise ValueError(f'`{said[0]}` is for a history: say `mode = "history"`, too, or leave it out')
        return self


def joined_of(
    name: TableName,
    said: JoinedSettings,
    tables: Mapping[TableName, str],
    joined: Collection[TableName],
    zone: str,
    *,
    may_come: bool,
) -> Joined:
    """Return the declaration of a joined table, whose days are cut in the zone of its sources.

    Its sources are found among the `tables`, each with its zone, in any case; others are an error, unless a pattern
    may bring them. Those that are `joined` themselves are an error in any case. What has no days is of the `zone`
    of [source].
    """
    if chained := [
        one.table for one in said.sources.values() if plain(table_name(one.table)) in map(plain, joined)
    ]:
        raise ConfigError(
            f"{name}: it cannot be joined like this",
            found=f"{chained[0]} is a joined table itself",
            todo="Name the tables that it is made of: those that a source feeds can be joined.",
        )
    unknown: Mapping[str, str] | None = said.unknown if isinstance(said.unknown, Mapping) else None
    sources = {
        own: _source(name, own, one, tables, drives=place == 0, may_come=may_come)
        for place, (own, one) in enumerate(said.sources.items())
    }
    history = history_of(said.track, said.history, zone) if said.mode == "history" else None
    if history is not None and history.by_day:
        history = replace(history, zone=_zone(name, sources, tables, zone))
    return Joined(name=name, sources=sources, history=history, unknown={} if said.unknown is True else unknown)


def _zone(name: TableName, sources: Mapping[str, Source], tables: Mapping[TableName, str], zone: str) -> str:
    """Return the zone in which a joined history cuts its days: that of its sources, whose times these are.

    What all versions show as it is now dates none of them. Raises ConfigError where the others have several.
    """
    of = {own: tables[one.table] for own, one in sources.items() if one.table in tables and not one.as_now}
    if len({*of.values()}) > 1:
        raise ConfigError(
            f"{name}: it cannot be joined like this",
            found="the times of its sources are of several zones, and it is to have days of one: "
            + ", ".join(f"{own} {one}" for own, one in of.items()),
            todo="Let `source_zone` be the same in all of them, or date it by times, which need no zone: leave "
            '`type = "date"`, `closed` and `validity = "run"` out.',
        )
    return next(iter(of.values()), zone)


def _source(
    name: TableName,
    own: str,
    said: JoinedSourceSettings,
    tables: Collection[TableName],
    *,
    drives: bool,
    may_come: bool,
) -> Source:
    table = table_name(said.table)
    found = {plain(one): one for one in tables}.get(plain(table))
    if found is None and not may_come:
        listed = ", ".join(map(str, tables)) or "none"
        raise ConfigError(
            f"{name}: it cannot be joined like this",
            found=f"{own} is made of {table}, which is not under [tables]; there are {listed}",
            todo=nearest(str(table), map(str, tables)) or "Name one of them, or write a section for it.",
        )
    return Source(
        table=found or table,
        columns=said.columns,
        aggregates={column: _aggregate(one) for column, one in said.aggregates.items()},
        on=tuple(said.on),
        to=tuple(([] if drives else said.on) if said.to is None else said.to),
        beside=said.beside,
        way=JoinType(said.way),
        validity=said.validity,
        as_now=said.as_now,
        at=said.at,
        otherwise=said.otherwise,
    )


def _aggregate(said: AggregateSettings) -> Aggregate:
    return Aggregate(Function(said.function), said.column, said.by)


def check_joined(
    joined: Joined, dimensions: Mapping[TableName, Dimension], keyless: Collection[TableName]
) -> Joining | None:
    """Return a declaration with its tables, once the columns and keys of all of them are known.

    Raises ConfigError for what does not fit them, and for a source of which it is known that it will have no key.
    """
    for source in joined.sources.values():
        if source.table in keyless:
            check_key(joined, dimensions[source.table])
    known = {name: one for name, one in dimensions.items() if len(one.schema) and one.key}
    is_known = all(source.table in known for source in joined.sources.values())
    return validate_joined(joined, known) if is_known else None
