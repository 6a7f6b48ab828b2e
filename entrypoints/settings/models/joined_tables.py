"""Settings of joined tables, and their conversion to the core's declarations.

`docs/reference/settings.md` is generated from these models; `docs/explanation/joined.md` explains them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.joined.check import check_key, validate_joined
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, JoinType, Source
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.text.suggestions import nearest
from lakeward.entrypoints.settings.models.history import HistorySettings, Name, Tracked, as_text, history_of
from lakeward.entrypoints.settings.models.maintenance import MaintainSettings
from lakeward.entrypoints.settings.patterns import plain, table_name


def _expand_columns(value: Any) -> Any:
    """Return a list of names as a mapping of each name to itself."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value.values()):
        return value
    raise ValueError('must be names of columns, or `{ new_name = "column" }`')


def _expand_function(value: Any) -> Any:
    return {"function": value} if isinstance(value, str) else value


def _cells_as_text(value: Any) -> Any:
    """Return numbers, dates and booleans of a mapping as text: the type of a column decides how it is read."""
    if isinstance(value, Mapping):
        return {name: as_text(cell) for name, cell in value.items()}
    return value


def _check_source_name(value: str) -> str:
    """Refuse names that cannot be printed."""
    if not value.strip() or not value.isprintable():
        raise ValueError(f"{value!r} cannot name a source")
    return value


SourceName: TypeAlias = Annotated[str, AfterValidator(_check_source_name)]


class AggregateSettings(BaseModel):
    """A value computed from several rows of a source. `"count"` alone counts rows."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    function: Literal["count", "sum", "min", "max", "latest"] = Field(
        description="`count` counts rows, or with `column` its values that are not NULL. `latest` is the value in "
        "the row with the greatest `by`; of rows with equal `by`, in the row with the greatest key."
    )
    column: str | None = Field(None, description="The column of the source that is aggregated.")
    by: str | None = Field(None, description="With `latest`: the column that orders the rows.")


AnAggregate: TypeAlias = Annotated[AggregateSettings, BeforeValidator(_expand_function)]


class JoinedSourceSettings(BaseModel):
    """A source of a joined table. The first source is the driving one: it decides which rows there are."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    table: str = Field(description="The table under `[tables]`, as `schema.table`.")
    columns: Annotated[dict[Name, str], BeforeValidator(_expand_columns)] = Field(
        default_factory=dict,
        description='The columns that are selected: a list of names, or `{ new_name = "column" }` to rename them. '
        "The key of the driving source must be selected.",
    )
    aggregates: dict[Name, AnAggregate] = Field(
        default_factory=dict,
        description='Columns computed from all rows with equal values in `on`: `{ orders = "count", '
        'total = { function = "sum", column = "amount" } }`.',
    )
    on: list[str] = Field(
        default_factory=list,
        description="The columns by which the source is joined. For the driving source: the columns by which its "
        "rows are grouped.",
    )
    to: list[str] | None = Field(
        None,
        description="The columns of the source `beside` that `on` must equal, in the same order. Without it: "
        "columns of the same names.",
    )
    beside: str | None = Field(
        None, description="The earlier source to which this one is joined. Without it: the driving source."
    )
    way: Literal["left", "inner"] = Field(
        "left",
        description="What happens to a row without a match in this source: `left` keeps it, with NULL; `inner` "
        "leaves it out until there is a match.",
    )
    at: str | None = Field(
        None,
        description="For a history in a joined mirror: the column of the source `beside` with the time of the "
        "lookup. The version that was valid at that time is joined, and `columns` may name columns that the "
        "history adds.",
    )
    otherwise: Annotated[dict[str, str], BeforeValidator(_cells_as_text)] = Field(
        default_factory=dict,
        description="Values of the columns from this source in rows without a match: `{ customer_key = -1 }`. "
        "Without it: NULL.",
    )
    validity: str | None = Field(
        None,
        description="In a history of mirrors: the column with the time from which a row is valid. Without it: the "
        "commit time of the last change of the row.",
    )
    as_now: bool = Field(
        False, description="In a history of histories: all versions show the current values of this source."
    )


class JoinedSettings(BaseModel):
    """A table joined from others. Each table format adds keys of its own, such as `partition_by`."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    sources: dict[SourceName, JoinedSourceSettings] = Field(
        description="The tables that are joined, each under a name of its own. The first one is the driving "
        "source; the others are joined in this order."
    )
    mode: Literal["mirror", "history"] = Field(
        "mirror", description="How rows are kept: the newest row of each key, or every version of it."
    )
    track: Tracked = Field(
        default_factory=lambda: ["*"],
        description="In a history: the columns whose changes open a new version, as for any other history.",
    )
    history: HistorySettings = Field(
        default_factory=HistorySettings,
        description="In a history: how versions are dated and shown. In place of "
        '`validity = { column = "…" }`, each source has a `validity` of its own.',
    )
    unknown: Annotated[bool | dict[str, str], BeforeValidator(_cells_as_text)] = Field(
        False,
        description="Add a row for unknown keys (an unknown member): -1 in its key and NULL elsewhere. A table "
        'gives other values by column: `{ name = "unknown" }`.',
    )

    maintain: MaintainSettings = Field(
        default_factory=MaintainSettings, description="What `lakeward maintain` does to the table."
    )

    @model_validator(mode="after")
    def _is_a_history(self) -> JoinedSettings:
        named = [key for key in ("track", "history") if key in self.model_fields_set]
        if named and self.mode == "mirror":
            raise ValueError(f'`{named[0]}` is for a history: say `mode = "history"`, too, or leave it out')
        return self


def joined_of(
    name: TableName,
    settings: JoinedSettings,
    tables: Mapping[TableName, str],
    joined: Collection[TableName],
    zone: str,
    *,
    may_come: bool,
) -> JoinDeclaration:
    """Return the declaration of a joined table.

    `tables` maps the configured tables to their time zones. The days of a joined history begin in the zone of its
    sources, or in `zone`, that of [source], if none is known. Raises ConfigError for a source that is a joined
    table itself, or is not configured; with `may_come` a pattern may still add the latter.
    """
    own_tables = [source.table for source in settings.sources.values()]
    if joined_sources := [table for table in own_tables if plain(table_name(table)) in map(plain, joined)]:
        raise ConfigError(
            f"{name}: it cannot be joined like this",
            found=f"{joined_sources[0]} is a joined table itself",
            todo="Name the tables that it is made of: those that a source feeds can be joined.",
        )
    unknown: Mapping[str, str] | None = settings.unknown if isinstance(settings.unknown, Mapping) else None
    sources = {
        own: _source(name, own, source, tables, drives=place == 0, may_come=may_come)
        for place, (own, source) in enumerate(settings.sources.items())
    }
    history = history_of(settings.track, settings.history, zone) if settings.mode == "history" else None
    if history is not None and history.by_day:
        history = replace(history, zone=_zone(name, sources, tables, zone))
    return JoinDeclaration(
        name=name, sources=sources, history=history, unknown={} if settings.unknown is True else unknown
    )


def _zone(name: TableName, sources: Mapping[str, Source], tables: Mapping[TableName, str], zone: str) -> str:
    """Return the time zone in which the days of a joined history begin: that of its sources.

    Sources with `as_now` date no version and are ignored. Raises ConfigError if the others have several zones.
    """
    zones = {
        own: tables[source.table] for own, source in sources.items() if source.table in tables and not source.as_now
    }
    if len({*zones.values()}) > 1:
        raise ConfigError(
            f"{name}: it cannot be joined like this",
            found="its sources have times in different zones, and its days are of one zone: "
            + ", ".join(f"{own} {own_zone}" for own, own_zone in zones.items()),
            todo="Set the same `source_zone` for all of them. Or date versions by times, which need no zone: leave "
            '`type = "date"`, `closed` and `validity = "run"` out.',
        )
    return next(iter(zones.values()), zone)


def _source(
    name: TableName,
    own: str,
    settings: JoinedSourceSettings,
    tables: Collection[TableName],
    *,
    drives: bool,
    may_come: bool,
) -> Source:
    table = table_name(settings.table)
    configured = {plain(other): other for other in tables}.get(plain(table))
    if configured is None and not may_come:
        listed = ", ".join(map(str, tables)) or "none"
        raise ConfigError(
            f"{name}: it cannot be joined like this",
            found=f"{own} is made of {table}, which is not under [tables]; the tables are {listed}",
            todo=nearest(str(table), map(str, tables)) or "Name one of them, or write a section for it.",
        )
    return Source(
        table=configured or table,
        columns=settings.columns,
        aggregates={column: _aggregate(own_settings) for column, own_settings in settings.aggregates.items()},
        on=tuple(settings.on),
        to=tuple(([] if drives else settings.on) if settings.to is None else settings.to),
        beside=settings.beside,
        way=JoinType(settings.way),
        validity=settings.validity,
        as_now=settings.as_now,
        at=settings.at,
        otherwise=settings.otherwise,
    )


def _aggregate(settings: AggregateSettings) -> Aggregate:
    return Aggregate(Function(settings.function), settings.column, settings.by)


def check_joined(
    joined: JoinDeclaration, dimensions: Mapping[TableName, Dimension], keyless: Collection[TableName]
) -> JoinDefinition | None:
    """Check a declaration against its sources; returns None while columns or keys of a source are unknown.

    Raises ConfigError if the declaration does not fit its sources, or if a source has no key (`keyless`).
    """
    for source in joined.sources.values():
        if source.table in keyless:
            check_key(joined, dimensions[source.table])
    complete = {name: table for name, table in dimensions.items() if len(table.schema) and table.key}
    is_complete = all(source.table in complete for source in joined.sources.values())
    return validate_joined(joined, complete) if is_complete else None
