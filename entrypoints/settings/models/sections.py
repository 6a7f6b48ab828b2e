"""The sections of the settings file as models, and what the core calls what they say.

`docs/reference/settings.md` is generated from these; a key that none of them knows is an error that
names the nearest one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    field_validator,
    model_validator,
)

from lakeward.core.dimension import (
    DELETED,
    Lateness,
    Older,
    Ordered,
    Snapshots,
    TableName,
    Tolerance,
    Unbounded,
    Unreadable,
    Within,
)
from lakeward.core.errors import ConfigError
from lakeward.core.history.options import History
from lakeward.core.pipeline.job import ATTEMPTS
from lakeward.core.schema import parse_type
from lakeward.core.schema_changes.evolution import Kind, Policies, Policy
from lakeward.entrypoints.settings.models.column_rules import ColumnRule
from lakeward.entrypoints.settings.models.history import HistorySettings, Tracked, may_name
from lakeward.entrypoints.settings.models.joined_tables import JoinedSettings
from lakeward.entrypoints.settings.models.maintenance import DURATION, MaintainSettings, Strict, micros
from lakeward.entrypoints.settings.models.quality_rules import QualityRule
from lakeward.entrypoints.settings.patterns import OF_SNAPSHOTS
from lakeward.plugins.options import keys_of
from lakeward.plugins.registry import SMALL_BATCH


def _interval(value: str) -> str:
    if value != "0" and not DURATION.fullmatch(value):
        raise ValueError('must be a duration such as "1h", "30m" or "1d", or "0"')
    return value


def _pause(value: str) -> str:
    if not DURATION.fullmatch(value):
        raise ValueError('must be a duration such as "10s", "5m" or "1h"')
    return value


class PipelineSettings(Strict):
    """The pipeline itself."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$", description="What the pipeline is called, in logs and reports.")
    state: str = Field(
        "state/",
        description="The folder for the lock, the ledger (if `[ledger]` names no other place) and Spark's log; a "
        "relative path is relative to this file. It can be deleted: a restart needs the tables alone.",
    )
    full_listing: Annotated[str, AfterValidator(_interval)] = Field(
        "1h",
        description="How often all files of a table with more than 10,000 are listed, as `1h`, `30m` or `1d`; in "
        "between only those from the mark on are. `0` lists all of them in each run.",
    )
    commit_attempts: PositiveInt = Field(
        ATTEMPTS,
        description="How often a batch is worked out, in all, where another writer commits in between. "
        "Then the table gives up for now (exit code 75).",
    )
    parallel: PositiveInt = Field(2, description="How many tables are worked on at once.")
    poll: Annotated[str, AfterValidator(_pause)] = Field(
        "10s",
        description="How often `run --follow` looks for something new, as `10s`, `5m` or `1h`. What comes in "
        "between is one batch of its table.",
    )


ADDED_TO_QUEUES: Final = ("tables", "tables_at")
"""What lakeward itself hands to a queue beside the keys of the settings."""


class QueueSettings(BaseModel):
    """What says which tables to look at; see docs/reference/queues.md. The keys of a kind stand beside these."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    kind: str = Field(
        description="Which queue it is. `poll` tells of every configured table in each run, and has no other keys."
    )
    look_at_all_every: Annotated[str, AfterValidator(_interval)] = Field(
        "1h",
        description="How often all tables are looked at, whatever the queue tells, as `1h`, `30m` or `1d`; with "
        "`0` each time.",
    )

    @model_validator(mode="after")
    def _has_no_keys_of_others(self) -> QueueSettings:
        own = self.model_extra or {}
        if unknown := [key for key in own if self.kind == "poll" or key in ADDED_TO_QUEUES]:
            raise ValueError(
                f"there is no key `{unknown[0]}`: leave it out; docs/reference/queues.md lists what there is"
            )
        return self


class CatalogueSettings(BaseModel):
    """What the database of the source says of its tables: columns, types and primary keys need not be declared.

    See docs/reference/catalogue.md. What a kind of catalogue adds stands beside these keys.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

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


class RegistrationSettings(BaseModel):
    """Where tables of the lake are registered, so that engines find them by name; see docs/how-to/aws/catalogs.md.

    The section may be left out: then none is. What a kind of registration adds stands beside these keys.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    kind: str = Field(description="Which registration it is: `glue`. `lakeward plugins` lists what there is.")
    quarantine: bool = Field(
        False,
        description="Whether what stands in quarantine is registered beside each table, as `<table>__quarantine`. "
        "It has rows as they were written, before any rule.",
    )
    raw: str | None = Field(
        None,
        min_length=1,
        description="The namespace in which the folders of the source's files are registered, as `{schema}_raw`; "
        "`{schema}` stands for the schema of a table. Without it they are not.",
    )

    def raw_namespace(self, schema: str) -> str:
        """Return the namespace of the files of a table of this schema."""
        return (self.raw or "").replace("{schema}", schema)


class StoresSettings(Strict):
    """Where settings are kept beside this file; docs/how-to/aws/settings.md has examples."""

    stores: list[dict[str, Any]] = Field(
        default_factory=list,
        description="Settings stores, each a table with its `kind` and the keys of that kind. A later one counts "
        "more than those before it, and all of them more than this file.",
    )
    read_every: Annotated[str, AfterValidator(_pause)] = Field(
        "1m",
        description="How often `run --follow` reads settings again which are in stores, as `30s`, `1m` or `1h`.",
    )


def _several(value: Any) -> Any:
    """Take one table, `[notify]`, for a list of one, `[[notify]]`."""
    return [value] if isinstance(value, Mapping) else value


class SparkSettings(Strict):
    """The Spark that lakeward starts. Where a platform has started one, that is used as it is."""

    master: str = Field("local[*]", description="Where Spark runs: `local[*]` is this machine, with all its cores.")
    memory: str = Field("1g", pattern=r"^\d+[kmgKMG]$", description="The heap of the driver, as 4g.")
    settings: dict[str, str] = Field(default_factory=dict, description="Any other setting of Spark, by its name.")
    small_batch: NonNegativeInt = Field(
        SMALL_BATCH,
        description="A batch of at most so many rows is read and worked out by lakeward itself, without jobs of "
        "Spark where that is possible. `0`: no batch is. The tables become the same either way.",
    )


def _namespace(value: str) -> str:
    """Refuse what is no namespace, as the reference of `PutMetricData` says; those of AWS are not for others."""
    if not re.fullmatch(r"[A-Za-z0-9._#/-][A-Za-z0-9._#/:-]{0,254}", value) or value.startswith("AWS/"):
        raise ValueError('must be up to 255 letters, digits and ._-/#:, not beginning with "AWS/" or ":"')
    return value


class MetricsSettings(Strict):
    """Figures of runs, for whatever watches them; see docs/reference/metrics.md."""

    format: Literal["cloudwatch"] | None = Field(
        None,
        description="`cloudwatch`: each run writes its figures to standard error, as lines of JSON of which "
        "CloudWatch Logs makes metrics; one that follows does so with each batch.",
    )
    namespace: Annotated[str, AfterValidator(_namespace)] = Field(
        "lakeward",
        description="With `cloudwatch`: the namespace of the metrics.",
    )
    per_table: bool = Field(
        True,
        description="With `cloudwatch`: whether each table has metrics of its own, beside those of the pipeline. "
        "CloudWatch charges for each.",
    )
    address: str = Field(
        "127.0.0.1",
        min_length=1,
        description="With `run --follow --metrics PORT`: the address at which Prometheus reads the figures. Who "
        "reaches it can read them; `0.0.0.0` is all addresses of the machine.",
    )


class ColumnSettings(Strict):
    """A column; one whose text has no format of its own may be given as its type alone."""

    type: str = Field(description="The type; see docs/reference/types.md.")
    format: str | None = Field(
        None,
        description="How the text is written: a pattern as `d-MMM-yy` for dates and times; `hex`, `base64` or "
        "`utf-8` for binary.",
    )

    @model_validator(mode="before")
    @classmethod
    def _type_alone(cls, value: Any) -> Any:
        if not isinstance(value, str | Mapping):
            raise ValueError('must be a type such as "bigint", or a table with `type` and `format`')
        return {"type": value} if isinstance(value, str) else value

    @field_validator("type")
    @classmethod
    def _is_a_type(cls, value: str) -> str:
        try:
            parse_type(value)
        except ConfigError as error:
            raise ValueError(f"{error.what}. {error.todo}") from error
        return value


def _lateness(value: str | None) -> str | None:
    if value not in (None, "ordered", "unbounded") and not DURATION.fullmatch(str(value)):
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
            if not may_name(new):
                raise ValueError(f"{new!r} cannot name a column")
        return value


class QuarantineSettings(Strict):
    """How much of a batch may go into quarantine. Above either limit the table stops, with nothing applied."""

    max_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="The share of the rows read, between 0 and 1; counted in batches of at least 100 rows. "
        "`1` also lets files pass of which no row can be read (QUARANTINE-001).",
    )
    max_rows: NonNegativeInt = Field(10_000, description="The number of rows; `0` stops at the first.")
    unreadable: Literal["inexact", "stop"] = Field(
        "inexact",
        description="A row whose key cannot be read: the table goes on and is inexact from then on, or it stops.",
    )


class TableSettings(BaseModel):
    """One table. What the table format adds (`partition_by`, …) stands beside these keys."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    key: list[str] = Field(
        default_factory=list,
        description="The columns of the primary key, as the rules leave them; where it is left out, that of the "
        "catalogue. Without a key the table is append-only.",
    )
    match: Literal["image"] | None = Field(
        None,
        description="Of a table without a key: `image` has updates and deletes find their row by all that it was "
        'before the change, which the source must send; it takes `lateness = "ordered"`, and a table with data '
        "keeps it; see docs/explanation/semantics.md. Without it they go into quarantine (`no_key`).",
    )
    columns: dict[str, ColumnSettings] = Field(
        default_factory=dict,
        description="Columns of the source and their types, in the order of the files. CSV needs them, unless the "
        "catalogue has them: then only those that differ from it. Parquet brings them.",
    )
    mode: Literal["mirror", "history"] = Field(
        "mirror",
        description="How rows are kept: a `mirror` equals the source table, a `history` has every version of a "
        'row, with the time in which it was valid, and `["mirror", "history"]` is both; see '
        "docs/explanation/history.md.",
    )
    history_table: str | None = Field(
        None,
        min_length=1,
        description='With `mode = ["mirror", "history"]`: what the table with the history is called, in the same '
        "schema. Without it: as the mirror, with `_history` behind it.",
    )
    reads: str | None = Field(
        None,
        min_length=1,
        description="What its source calls it, where that is another name, as `shop.customer`: so two tables are "
        "made of one of the source, each with settings of its own.",
    )
    track: Tracked = Field(
        default_factory=lambda: ["*"],
        description="In a history: the columns of which a change opens a version. All, those named, or "
        '`{ all_but = ["seen_at"] }`; a change of another overwrites the version.',
    )
    history: HistorySettings = Field(
        default_factory=HistorySettings, description="In a history: how versions are dated and shown."
    )
    deletes: Literal["hard", "soft"] = Field(
        "hard",
        description="In a mirror: what a delete leaves. `hard`: nothing. `soft`: the last values of the row, with "
        f"`{DELETED}` true; see docs/explanation/semantics.md.",
    )
    lateness: Annotated[str | None, AfterValidator(_lateness)] = Field(
        None,
        description="How late changes may come, by their commit times: a duration such as `24h`, `30m` or `7d`, "
        "`unbounded`, or `ordered` where files come in order. Without it: `24h` where there is a "
        "`timestamp_column`, else `ordered`.",
    )
    ties: Literal["arrival", "quarantine", "fail"] = Field(
        "arrival",
        description="Changes of one key that have one place in the order of the source, and do not say the same: "
        "the later row wins (`arrival`), it goes into `quarantine` and the key is held, or the table stops "
        "(`fail`).",
    )
    schema_: SchemaSettings = Field(
        default_factory=SchemaSettings, alias="schema", description="What becomes of a change of the columns."
    )
    quarantine: QuarantineSettings = Field(
        default_factory=QuarantineSettings, description="How much of a batch may go into quarantine."
    )
    maintain: MaintainSettings = Field(
        default_factory=MaintainSettings, description="What `lakeward maintain` does to the table."
    )
    full_loads: Literal["once", "snapshot"] = Field(
        "once",
        description="`once`: a full load is the beginning, and changes follow. `snapshot`: a task loads the table "
        "again and again, and each complete load takes the place of all rows; see "
        "docs/how-to/nightly-full-loads.md.",
    )
    load_settles: Annotated[str, AfterValidator(_interval)] = Field(
        "1h",
        description="With `snapshot`: how long nothing of a load may change until it is taken for complete, as "
        "`1h` or `30m`. `0` takes it with the first run that finds it.",
    )
    least_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="With `snapshot`: the share of the rows of the table that a load must have; with fewer the "
        "table stops (LOAD-001).",
    )
    older_snapshots: Literal["splice", "skip", "stop"] | None = Field(
        None,
        description="With `snapshot`: what becomes of one that is older than what the table shows. `splice` puts "
        "it into the history at the time in its name, `skip` leaves it out, `stop` is the alarm LEDGER-001. "
        "Without it: `splice` where the table is a history that allows it, else `stop`; see "
        "docs/reference/plain-files.md.",
    )
    rules: list[ColumnRule] = Field(
        default_factory=list,
        description="What the columns become on their way into the table, in order; see "
        "docs/reference/column-rules.md.",
    )
    quality: list[QualityRule] = Field(
        default_factory=list,
        description="What must hold for its rows and files; see docs/reference/quality-rules.md.",
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

    @model_validator(mode="after")
    def _is_a_history(self) -> TableSettings:
        if self.history_table is not None:
            raise ValueError('`history_table` names a table beside a mirror: say `mode = ["mirror", "history"]`')
        said = [key for key in ("track", "history") if key in self.model_fields_set]
        if said and self.mode == "mirror":
            raise ValueError(f'`{said[0]}` is for a history: say `mode = "history"`, too, or leave it out')
        if self.mode == "history" and self.deletes == "soft":
            raise ValueError("`deletes` is for a mirror: a history keeps what ended anyway; leave it out")
        return self

    @model_validator(mode="after")
    def _has_snapshots(self) -> TableSettings:
        said = [key for key in OF_SNAPSHOTS if key in self.model_fields_set]
        if said and self.full_loads == "once":
            raise ValueError(f'`{said[0]}` is for snapshots: say `full_loads = "snapshot"`, too, or leave it out')
        return self


def _without_keys_of_a_source(joined: JoinedSettings) -> JoinedSettings:
    """Refuse keys of tables that a source feeds, which the table format would not know under their names."""
    if said := [key for key in joined.model_extra or {} if key in keys_of(TableSettings)]:
        raise ValueError(
            f"`{said[0]}` is a key of tables that a source feeds, and a joined table has no such key: leave it "
            "out, or say it under [tables], of those that it is made of"
        )
    return joined


class Settings(Strict):
    """Everything in the file. `source` and `target` are validated by the adapter that `kind` names."""

    pipeline: PipelineSettings
    settings: StoresSettings = StoresSettings()
    source: dict[str, Any]
    target: dict[str, Any]
    queue: QueueSettings = QueueSettings(kind="poll")
    ledger: dict[str, Any] = Field(default_factory=lambda: {"kind": "sqlite"})
    lease: dict[str, Any] | None = None
    statistics: dict[str, Any] | None = None
    notify: Annotated[list[dict[str, Any]], BeforeValidator(_several)] = Field(default_factory=list)
    registration: RegistrationSettings | None = None
    catalogue: CatalogueSettings | None = None
    metrics: MetricsSettings = MetricsSettings()
    spark: SparkSettings = SparkSettings()
    defaults: dict[str, Any] = Field(default_factory=dict)
    tables: dict[str, TableSettings] = Field(default_factory=dict)
    joined: dict[str, Annotated[JoinedSettings, AfterValidator(_without_keys_of_a_source)]] = Field(
        default_factory=dict
    )


def lateness_of(table: TableSettings, default: Lateness) -> Lateness:
    """Return how late changes of a table may come; the default is that of its source."""
    said = table.lateness
    if said == "unbounded":
        return Unbounded()
    if said == "ordered" or (said is None and isinstance(default, Ordered)):
        return Ordered(table.redelivery)
    return default if said is None else Within(micros(said))


def snapshots_of(name: TableName, table: TableSettings, history: History | None) -> Snapshots | None:
    """Return when full loads are snapshots, and what becomes of them; None where they are none.

    Raises ConfigError where an older one is to be spliced in, and the table cannot.
    """
    if table.full_loads == "once":
        return None
    may_splice = history is not None and history.takes_snapshots_between and table.lateness in (None, "ordered")
    if table.older_snapshots == "splice" and not may_splice:
        raise ConfigError(
            f'{name}: `older_snapshots = "splice"` is for histories that are dated by the time of a snapshot',
            found="the table is a mirror"
            if history is None
            else 'its `validity` is not "time", columns are of kind 0 or 3, or its `lateness` is not "ordered"',
            todo='Set it to `skip` or `stop`, or leave it out; or keep it with `mode = "history"` and '
            '`validity = "time"`, without those kinds.',
        )
    older = Older.SPLICE if may_splice else Older.STOP
    return Snapshots(
        settles=micros(table.load_settles),
        least_share=table.least_share,
        older=older if table.older_snapshots is None else Older(table.older_snapshots),
    )


def tolerance_of(said: QuarantineSettings) -> Tolerance:
    """Return how much of a batch may go into quarantine."""
    return Tolerance(max_share=said.max_share, max_rows=said.max_rows, unreadable=Unreadable(said.unreadable))


def policies_of(said: SchemaSettings) -> Policies:
    """Return what a table does when the columns of its source change."""
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
