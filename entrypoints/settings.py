"""The settings file: one TOML, typed, validated before anything starts.

`docs/settings.md` is generated from these models; a key that none of them knows is an
error that names the nearest one.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    field_validator,
    model_validator,
)

from lakeward.core.catalogue import NOTHING_SAID, Answer, Declared, Said, complete, key_differs
from lakeward.core.dimension import (
    ORDERED,
    Dimension,
    Lateness,
    Ordered,
    Snapshots,
    TableName,
    Tolerance,
    Unbounded,
    Unreadable,
    Within,
)
from lakeward.core.errors import ConfigError
from lakeward.core.events import Sequences
from lakeward.core.evolution import Kind, Policies, Policy
from lakeward.core.nearest import nearest
from lakeward.core.quality import check as check_quality
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.shape import SYSTEM_PREFIX, Shape, shape, source_key, table_key
from lakeward.core.shaping import TableRules
from lakeward.entrypoints.patterns import is_pattern, plain, table_name, with_patterns
from lakeward.entrypoints.quality import QualityRule, quality_rules
from lakeward.entrypoints.rules import ColumnRule, column_rules
from lakeward.plugins.options import validated

FILE: Final = "lakeward.toml"
BESIDE: Final = ("__changes", "__quarantine")
"""What the tables are called that lakeward keeps beside each of its tables."""


class Strict(BaseModel):
    """A table of the settings that knows all its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_DURATION: Final = re.compile(r"([1-9][0-9]*) *(s|m|h|d)")
_MICROS: Final = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def _interval(value: str) -> str:
    if value != "0" and not _DURATION.fullmatch(value):
        raise ValueError('must be a duration such as "1h", "30m" or "1d", or "0"')
    return value


def _pause(value: str) -> str:
    if not _DURATION.fullmatch(value):
        raise ValueError('must be a duration such as "10s", "5m" or "1h"')
    return value


class PipelineSettings(Strict):
    """The pipeline itself."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$", description="What the pipeline is called, in logs and reports.")
    state: str = Field(
        "state/",
        description="The folder for the lock, the ledger and Spark's log; a relative path is relative to this "
        "file. It can be deleted: a restart needs the tables alone.",
    )
    full_listing: Annotated[str, AfterValidator(_interval)] = Field(
        "1h",
        description="How often all files of a table with more than 10,000 are listed, as `1h`, `30m` or `1d`; in "
        "between only those from the mark on are. `0` lists all of them in each run.",
    )
    parallel: PositiveInt = Field(2, description="How many tables are worked on at once.")
    poll: Annotated[str, AfterValidator(_pause)] = Field(
        "10s",
        description="How often `run --follow` looks for something new, as `10s`, `5m` or `1h`. What comes in "
        "between is one batch of its table.",
    )


class CatalogueSettings(BaseModel):
    """What the database of the source says of its tables: columns, types and primary keys need not be declared.

    See docs/catalogue.md. What a kind of catalogue adds stands beside these keys.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str = Field(description="Which catalogue it is. `lakeward plugins` lists what there is.")
    unreachable: Literal["recorded", "stop"] = Field(
        "recorded",
        description="Where it does not answer: what it said in the last run counts, with a warning, or nothing is "
        "run.",
    )
    names: Literal["kept", "lower", "upper"] = Field(
        "kept",
        description="What becomes of the names of its columns: `lower` and `upper` where the task has the rules "
        "convert-lowercase or convert-uppercase.",
    )


class TableCatalogueSettings(Strict):
    """What the catalogue has to do with one table."""

    ask: bool = Field(True, description="Whether it is asked for this table.")
    name: str | None = Field(
        None, description="What it calls the table, as `schema.table`, where the task gives it another name."
    )
    left_out: list[str] = Field(
        default_factory=list, description="Columns that it has and files have not: the task leaves them out."
    )


class SparkSettings(Strict):
    """The Spark that lakeward starts. Where a platform has started one, that is used as it is."""

    master: str = Field("local[*]", description="Where Spark runs: `local[*]` is this machine, with all its cores.")
    memory: str = Field("1g", pattern=r"^\d+[kmgKMG]$", description="The heap of the driver, as 4g.")
    settings: dict[str, str] = Field(default_factory=dict, description="Any other setting of Spark, by its name.")


class ColumnSettings(Strict):
    """A column; one whose text has no format of its own may be given as its type alone."""

    type: str = Field(description="The type; see docs/types.md.")
    format: str | None = Field(
        None,
        description="How the text is written: a pattern as `d-MMM-yy` for dates and times; `hex`, `base64` or "
        "`utf-8` for binary.",
    )

    @model_validator(mode="before")
    @classmethod
    def _type_alone(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value

    @field_validator("type")
    @classmethod
    def _is_a_type(cls, value: str) -> str:
        try:
            parse_type(value)
        except ConfigError as error:
            raise ValueError(f"{error.what}. {error.todo}") from error
        return value


def _may_name(name: str) -> bool:
    """Whether a column may be called so."""
    return bool(name) and name.isprintable() and not name.startswith(SYSTEM_PREFIX)


def _lateness(value: str | None) -> str | None:
    if value not in (None, "ordered", "unbounded") and not _DURATION.fullmatch(str(value)):
        raise ValueError('must be a duration such as "24h", "30m" or "7d", or "ordered", or "unbounded"')
    return value


class PathSettings(Strict):
    """What becomes of a change of one column or field, and of what is in it, where it is not what `schema` says."""

    add: Literal["evolve", "ignore", "quarantine", "fail"] | None = Field(None, description="It is new.")
    drop: Literal["evolve", "quarantine", "fail"] | None = Field(None, description="It is missing.")
    widen: Literal["evolve", "quarantine", "fail"] | None = Field(None, description="Its type becomes wider.")
    narrow: Literal["evolve", "quarantine", "fail"] | None = Field(None, description="Its type becomes narrower.")
    incompatible: Literal["quarantine", "fail"] | None = Field(None, description="Its type becomes another.")


class SchemaSettings(Strict):
    """What becomes of a change of the columns.

    With `quarantine` the rows that show it go into quarantine, and the table goes on.
    """

    add: Literal["evolve", "ignore", "quarantine", "fail"] = Field(
        "evolve", description="A new column: the table gets it, does without it or without its rows, or stops."
    )
    drop: Literal["evolve", "quarantine", "fail"] = Field(
        "evolve", description="A column that is missing: it stays, with its values, or the table stops."
    )
    widen: Literal["evolve", "quarantine", "fail"] = Field(
        "evolve", description="A wider type (int to bigint, float to double, a decimal of more digits)."
    )
    narrow: Literal["evolve", "quarantine", "fail"] = Field(
        "fail", description="A narrower type: the table keeps its own, or stops."
    )
    incompatible: Literal["quarantine", "fail"] = Field("fail", description="Any other type: no table follows it.")
    columns: dict[str, PathSettings] = Field(
        default_factory=dict,
        description="The same for one column, or for a field within one by its path, as `address.city`, "
        "`items.element.price`, `attributes.value.unit`; the nearest path counts.",
    )
    rename: dict[str, str] = Field(
        default_factory=dict,
        description='Columns that are called by another name now: `{ old_name = "new_name" }`. The table follows, '
        "and files may have either name.",
    )

    @field_validator("rename")
    @classmethod
    def _is_no_chain(cls, value: dict[str, str]) -> dict[str, str]:
        for old, new in value.items():
            if old == new:
                raise ValueError(f"{old!r} is its new name, too")
            if new in value:
                raise ValueError(f"{new!r} is renamed itself: give each old name the name that is used now")
            if not _may_name(new):
                raise ValueError(f"{new!r} cannot name a column")
        return value


class QuarantineSettings(Strict):
    """How much of a batch may go into quarantine. Above either limit the table stops, with nothing applied."""

    max_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="The share of the rows read, between 0 and 1; counted in batches of at least 100 rows.",
    )
    max_rows: NonNegativeInt = Field(10_000, description="The number of rows; `0` stops at the first.")
    unreadable: Literal["inexact", "stop"] = Field(
        "inexact",
        description="A row whose key cannot be read: the table goes on and is inexact from then on, or it stops.",
    )


class TableSettings(BaseModel):
    """One table. What the table format adds (`partition_by`, …) stands beside these keys."""

    model_config = ConfigDict(extra="allow", frozen=True)

    key: list[str] = Field(
        default_factory=list,
        description="The columns of the primary key, as the rules leave them; where it is left out, that of the "
        "catalogue. Without a key the table is append-only.",
    )
    columns: dict[str, ColumnSettings] = Field(
        default_factory=dict,
        description="Columns of the source and their types, in the order of the files. CSV needs them, unless the "
        "catalogue has them: then only those that differ from it. Parquet brings them.",
    )
    mode: Literal["mirror"] = Field("mirror", description="How rows are kept: `mirror` equals the source table.")
    lateness: Annotated[str | None, AfterValidator(_lateness)] = Field(
        None,
        description="How late changes may come, by their commit times: a duration such as `24h`, `30m` or `7d`, "
        "`unbounded`, or `ordered` where files come in order. Without it: `24h` where there is a "
        "`timestamp_column`, else `ordered`.",
    )
    schema_: SchemaSettings = Field(
        default_factory=SchemaSettings, alias="schema", description="What becomes of a change of the columns."
    )
    quarantine: QuarantineSettings = Field(
        default_factory=QuarantineSettings, description="How much of a batch may go into quarantine."
    )
    full_loads: Literal["once", "snapshot"] = Field(
        "once",
        description="`once`: a full load is the beginning, and changes follow. `snapshot`: a task loads the table "
        "again and again, and each complete load takes the place of all rows; see docs/nightly-full-loads.md.",
    )
    load_settles: Annotated[str, AfterValidator(_interval)] = Field(
        "1h",
        description="With `snapshot`: how long nothing of a load may change until it is taken for complete, as "
        "`1h` or `30m`.",
    )
    least_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="With `snapshot`: the share of the rows of the table that a load must have; with fewer the "
        "table stops (LOAD-001).",
    )
    rules: list[ColumnRule] = Field(
        default_factory=list,
        description="What the columns become on their way into the table, in order; see docs/column-rules.md.",
    )
    quality: list[QualityRule] = Field(
        default_factory=list,
        description="What must hold for its rows and files; see docs/quality-rules.md.",
    )
    source: dict[str, Any] = Field(
        default_factory=dict,
        description="What its source must know of this table alone; the keys are the source's.",
    )
    catalogue: TableCatalogueSettings = Field(
        default_factory=TableCatalogueSettings, description="What the source's catalogue has to do with it."
    )
    skip: bool = Field(False, description="It is not read: one of those that a pattern would take.")
    redelivery: PositiveInt = Field(
        1000,
        description="With `ordered`: how many of the last files may be delivered again; deletes are "
        "remembered for so long.",
    )


class Settings(Strict):
    """Everything in the file. `source` and `target` are validated by the adapter that `kind` names."""

    pipeline: PipelineSettings
    source: dict[str, Any]
    target: dict[str, Any]
    queue: dict[str, Any] = Field(default_factory=lambda: {"kind": "poll"})
    ledger: dict[str, Any] = Field(default_factory=lambda: {"kind": "sqlite"})
    statistics: dict[str, Any] | None = None
    catalogue: CatalogueSettings | None = None
    spark: SparkSettings = SparkSettings()
    defaults: dict[str, Any] = Field(default_factory=dict)
    tables: dict[str, TableSettings] = Field(default_factory=dict)


class Configured:
    """Settings that hold together, and the file they are from."""

    def __init__(
        self,
        settings: Settings,
        file: Path,
        content: Mapping[str, Any] = MappingProxyType({}),
        said: Said = NOTHING_SAID,
    ) -> None:
        self.settings = settings
        self.file = file
        self.base = file.absolute().parent
        self.content = content
        self.said = said
        self.patterns = [name for name in settings.tables if is_pattern(name)]
        named = {name: table for name, table in settings.tables.items() if name not in self.patterns}
        every = {table_name(name): table for name, table in named.items()}
        self.tables = {name: table for name, table in every.items() if not table.skip}
        self.skipped = every.keys() - self.tables.keys()
        if len({plain(name) for name in self.tables}) < len(named) - len(self.skipped):
            raise ConfigError(
                f"{file}: two names under [tables] are of the same table, or differ only in case",
                found=", ".join(named),
                todo="The lake has one table of that name. Say `skip = true` of the other.",
            )
        made = {name: self._complete(name, table) for name, table in self.tables.items()}
        self.tables = {name: one.table for name, one in made.items()}
        self._made = made
        _check_names(self.tables)

    def _complete(self, name: TableName, table: TableSettings) -> Made:
        """Return a table with what the catalogue adds; where there is one, a wrong table stops itself alone."""
        try:
            return with_catalogue(name, table, self.said.answers.get(name, ()))
        except ConfigError as error:
            if not self.asks(name):
                raise
            return Made(table=table, rules=_rules_of(table), shape=shape((), Schema(())), error=error)

    @property
    def state(self) -> Path:
        """The folder of the lock and the ledger."""
        return self.base / self.settings.pipeline.state

    @property
    def full_listing(self) -> int:
        """How long a listing of all objects is good for, in microseconds."""
        found = _DURATION.fullmatch(self.settings.pipeline.full_listing)
        return 0 if found is None else int(found[1]) * _MICROS[found[2]]

    @property
    def poll(self) -> float:
        """How long one that follows waits until it looks again, in seconds."""
        number, unit = _DURATION.fullmatch(self.settings.pipeline.poll).groups()  # type: ignore[union-attr]
        return int(number) * _MICROS[unit] / 1_000_000

    def dimension(
        self, name: TableName, lateness: Lateness = ORDERED, sequences: Sequences = Sequences.TIMES
    ) -> Dimension:
        """Return the dimension of a table; `lateness` is for one that says nothing of its own."""
        table, made = self.tables[name], self._made[name]
        if made.error is not None:
            raise made.error
        policies = _policies_of(table.schema_)
        return Dimension(
            name=name,
            schema=made.shape.schema,
            key=tuple(table.key),
            lateness=_lateness_of(table, lateness),
            sequences=sequences,
            tolerance=_tolerance_of(table.quarantine),
            policies=policies,
            keeps_text=policies.may_refuse,
            orders=made.orders,
            announced=made.announced,
            snapshots=_snapshots_of(table),
        )

    def cautions(self, name: TableName) -> Sequence[str]:
        """Return what a person should know of what the catalogue says of a table."""
        return (*self.said.changes.get(name, ()), *self._made[name].cautions)

    def rules(self, name: TableName) -> TableRules:
        """Return the rules of a table, and the columns that its source is declared to have."""
        return self._made[name].rules

    def formats(self) -> Mapping[TableName, Mapping[str, str]]:
        """Return the formats of columns that have one, by table."""
        return {
            name: {column: c.format for column, c in table.columns.items() if c.format is not None}
            for name, table in self.tables.items()
        }

    def source_options(self) -> Mapping[TableName, Mapping[str, Any]]:
        """Return what each table says to its source alone."""
        return {name: table.source for name, table in self.tables.items()}

    def with_found(self, found: Iterable[TableName]) -> Configured:
        """Return the settings with the tables that its patterns take of those that the source has."""
        return validate(self.content, self.file, tuple(found))

    def asks(self, name: TableName) -> bool:
        """Whether the catalogue is asked for a table."""
        return self.settings.catalogue is not None and self.tables[name].catalogue.ask

    def with_said(self, said: Said) -> Configured:
        """Return the settings with what the catalogue says of the tables."""
        return Configured(self.settings, self.file, self.content, said)

    def format_options(self) -> Mapping[TableName, Mapping[str, Any]]:
        """Return what each table says beside the keys of its own: the table format's share."""
        return {name: table.model_extra or {} for name, table in self.tables.items()}

    def choose(self, wanted: Iterable[str]) -> list[TableName]:
        """Return the tables of these names, or all; raises ConfigError for one that is not configured."""
        if not self.tables and not self.patterns:
            raise ConfigError(f"{self.file}: no table is configured", todo="Name them under [tables].")
        known = {plain(name): name for name in self.tables}
        names = [known.get(plain(name), name) for name in map(table_name, wanted)]
        for name in names:
            if name not in self.tables:
                raise ConfigError(
                    f"{name} is not configured",
                    found="the tables are " + (", ".join(map(str, self.tables)) or "none"),
                    todo=nearest(str(name), map(str, self.tables)),
                )
        return names or list(self.tables)


def _lateness_of(table: TableSettings, default: Lateness) -> Lateness:
    said = table.lateness
    if said == "unbounded":
        return Unbounded()
    if said == "ordered" or (said is None and isinstance(default, Ordered)):
        return Ordered(table.redelivery)
    duration = _DURATION.fullmatch(said or "")
    return default if duration is None else Within(int(duration[1]) * _MICROS[duration[2]])


def _snapshots_of(table: TableSettings) -> Snapshots | None:
    if table.full_loads == "once":
        return None
    found = _DURATION.fullmatch(table.load_settles)
    settles = 0 if found is None else int(found[1]) * _MICROS[found[2]]
    return Snapshots(settles=settles, least_share=table.least_share)


def _tolerance_of(said: QuarantineSettings) -> Tolerance:
    return Tolerance(max_share=said.max_share, max_rows=said.max_rows, unreadable=Unreadable(said.unreadable))


def _policies_of(said: SchemaSettings) -> Policies:
    return Policies(
        add=Policy(said.add),
        drop=Policy(said.drop),
        widen=Policy(said.widen),
        narrow=Policy(said.narrow),
        incompatible=Policy(said.incompatible),
        paths={
            path: {Kind(kind): Policy(word) for kind, word in of.model_dump(exclude_none=True).items()}
            for path, of in said.columns.items()
        },
        renames=said.rename,
    )


def load(file: Path) -> Configured:
    """Read a settings file; raises ConfigError, saying where and what, for anything wrong with it."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{file} does not exist",
            todo="Write one (docs/tutorial.md begins with it), or name another with --config.",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read", found=str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is no TOML", found=str(error), todo="https://toml.io/en/v1.0.0") from error
    return validate(content, file)


def validate(content: Mapping[str, Any], file: Path, found: Collection[TableName] = ()) -> Configured:
    """Check the content of a settings file, with [defaults] and patterns put under each table.

    `found` are the tables that the source has: patterns take theirs of them.
    """
    defaults, tables = content.get("defaults", {}), content.get("tables", {})
    if isinstance(defaults, Mapping) and isinstance(tables, Mapping):
        tables = with_patterns(tables, defaults, found)
    settings = validated(Settings, {**content, "tables": tables}, str(file))
    for part in ("source", "target", "queue", "ledger", "statistics"):
        said = getattr(settings, part)
        if said is not None and "kind" not in said:
            raise ConfigError(f"{file}: [{part}] has no `kind`", todo="`lakeward plugins` lists what there is.")
    return Configured(settings, file, content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A table as settings and catalogue make it together; or the `error` that says why they do not."""

    table: TableSettings
    rules: TableRules
    shape: Shape
    orders: tuple[tuple[str, ...], ...] = ()
    announced: frozenset[str] = frozenset()
    cautions: tuple[str, ...] = ()
    error: ConfigError | None = None


def with_catalogue(name: TableName, table: TableSettings, answers: Sequence[Answer]) -> Made:
    """Fill in what the settings of a table leave out; raises ConfigError for what does not hold together."""
    if not answers or not table.catalogue.ask:
        rules = _rules_of(table)
        return Made(table=table, rules=rules, shape=_check_table(name, table, rules))
    declared = Declared(
        columns=_rules_of(table).source,
        key=tuple(table.key),
        left_out=tuple(table.catalogue.left_out),
        renames=table.schema_.rename,
    )
    found = complete(declared, answers)
    columns = {c.name: table.columns.get(c.name) or ColumnSettings(type=str(c.type)) for c in found.schema}
    table = table.model_copy(update={"columns": columns})
    rules, cautions = _rules_of(table), found.cautions
    if "key" not in table.model_fields_set:
        table = table.model_copy(update={"key": [*_of_table(name, shape(rules.columns, rules.source), found.key)]})
        made = _check_table(name, table, rules)
    else:
        made = _check_table(name, table, rules)
        differs = key_differs(source_key(made, table.key), found.key)
        cautions = (*cautions, differs) if differs else cautions
    return Made(
        table=table,
        rules=rules,
        shape=made,
        orders=found.orders,
        announced=found.announced,
        cautions=cautions,
    )


def _of_table(name: TableName, made: Shape, key: Sequence[str]) -> tuple[str, ...]:
    try:
        return table_key(made, key)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error.what}", found=error.found, todo=error.todo) from error


def _rules_of(table: TableSettings) -> TableRules:
    declared = [Column(column, parse_type(c.type)) for column, c in table.columns.items()]
    return TableRules(
        columns=column_rules(table.rules),
        quality=quality_rules(table.quality),
        source=Schema(tuple(declared)),
    )


def _check_table(name: TableName, table: TableSettings, rules: TableRules) -> Shape:
    """Return what becomes of the columns of a table, as far as they are declared."""
    for part in name:
        if ".." in part or any(c in "/\\" or unicodedata.category(c) == "Cc" for c in part):
            raise ConfigError(
                f"{name}: {part!r} cannot name a table",
                todo="Control characters, path separators and `..` are not taken in names.",
            )
    for column in table.columns:
        if not column or any(unicodedata.category(c) == "Cc" for c in column):
            raise ConfigError(f"{name}: {column!r} cannot name a column")
        if column.startswith(SYSTEM_PREFIX):
            raise ConfigError(
                f"{name}: the column {column!r} begins with {SYSTEM_PREFIX}",
                todo="lakeward adds columns of such names. Let DMS rename it.",
            )
    _check_case(name, table.columns)
    _check_renames(name, table)
    if len(set(table.key)) < len(table.key):
        raise ConfigError(f"{name}: the key names a column twice", found=", ".join(table.key))
    if not table.columns:
        return shape((), rules.source)
    try:
        made = shape(rules.columns, rules.source)
        source_key(made, table.key)
        check_quality(rules.quality, made.schema, table.key)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error.what}", found=error.found, todo=error.todo) from error
    return made


def _check_case(name: TableName, columns: Iterable[str]) -> None:
    """Refuse columns whose names differ only in case: a header is read in any, and most readers see one."""
    known: dict[str, str] = {}
    for column in columns:
        other = known.setdefault(column.lower(), column)
        if other != column:
            raise ConfigError(
                f"{name}: two columns differ only in case",
                found=f"found {other} and {column}",
                todo="Let DMS rename one (a transformation rule `rename-column`).",
            )


def _check_renames(name: TableName, table: TableSettings) -> None:
    """Refuse settings that call a column by a name that it has no more."""
    for old, new in table.schema_.rename.items():
        for where, named in (("key", table.key), ("columns", table.columns)):
            if old in named:
                raise ConfigError(
                    f"{name}: `{where}` names {old!r}, which is called {new!r} now, as `schema.rename` says",
                    todo=f"Name it {new!r} there, too; or take it out of `rename`, if {old!r} is another column.",
                )


def _check_names(tables: Mapping[TableName, TableSettings]) -> None:
    for name in tables:
        for suffix in BESIDE:
            other = TableName(name.schema, name.table.removesuffix(suffix))
            if name.table.endswith(suffix) and other in tables:
                raise ConfigError(
                    f"{name}: the name is taken by what lakeward keeps beside {other}",
                    todo="Keep the two in lakes of their own, with a settings file each.",
                )
