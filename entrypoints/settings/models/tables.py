"""Settings of one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

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

from lakeward.core.dimension import DELETED
from lakeward.core.errors import ConfigError
from lakeward.core.schema import parse_type
from lakeward.core.text.durations import DURATION
from lakeward.entrypoints.settings.models.column_rules import ColumnRule
from lakeward.entrypoints.settings.models.history import HistorySettings, Tracked, may_name
from lakeward.entrypoints.settings.models.maintenance import MaintainSettings
from lakeward.entrypoints.settings.models.quality_rules import QualityRule
from lakeward.entrypoints.settings.models.values import Interval, Strict
from lakeward.entrypoints.settings.patterns import OF_SNAPSHOTS


class TableCatalogueSettings(Strict):
    """How the catalogue of the source is used for one table."""

    ask: bool = Field(True, description="Query the catalogue for this table.")
    name: str | None = Field(
        None,
        description="The name of the table in the catalogue, as `schema.table`, if the task gives it another name.",
    )
    left_out: list[str] = Field(
        default_factory=list,
        description="Columns that are in the catalogue and not in the files, because the task leaves them out.",
    )


class ColumnSettings(Strict):
    """A column. A column without a `format` may be written as its type alone: `id = "bigint"`."""

    type: str = Field(description="The type; see docs/reference/types.md.")
    format: str | None = Field(
        None,
        description="How the text of a value is written: a pattern such as `d-MMM-yy` for dates and times; `hex`, "
        "`base64` or `utf-8` for binary.",
    )

    @model_validator(mode="before")
    @classmethod
    def _expand_type(cls, value: Any) -> Any:
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


def _check_lateness(value: str | None) -> str | None:
    if value not in (None, "ordered", "unbounded") and not DURATION.fullmatch(str(value)):
        raise ValueError('must be a duration such as "24h", "30m" or "7d", or "ordered", or "unbounded"')
    return value


class PathSettings(Strict):
    """The policies for changes of one column or nested field, in place of those of `schema`."""

    add: Literal["evolve", "ignore", "quarantine", "fail"] | None = Field(None, description="It is new.")
    drop: Literal["evolve", "quarantine", "fail"] | None = Field(None, description="It is missing.")
    widen: Literal["evolve", "quarantine", "fail"] | None = Field(None, description="Its type becomes wider.")
    narrow: Literal["evolve", "quarantine", "fail"] | None = Field(None, description="Its type becomes narrower.")
    incompatible: Literal["quarantine", "fail"] | None = Field(
        None, description="Its type changes in any other way."
    )


class SchemaSettings(Strict):
    """The policies for changes of the columns.

    `evolve` changes the table, `fail` stops it before anything of the batch is applied, and `quarantine` puts the
    rows with the changed column into quarantine and applies the others.
    """

    add: Literal["evolve", "ignore", "quarantine", "fail"] = Field(
        "evolve", description="A new column. `ignore` leaves the column out of the table."
    )
    drop: Literal["evolve", "quarantine", "fail"] = Field(
        "evolve", description="A missing column. With `evolve` it stays in the table, with its values."
    )
    widen: Literal["evolve", "quarantine", "fail"] = Field(
        "evolve", description="A wider type: int to bigint, float to double, or a decimal of more digits."
    )
    narrow: Literal["evolve", "quarantine", "fail"] = Field(
        "fail", description="A narrower type. With `evolve` the table keeps its own type."
    )
    incompatible: Literal["quarantine", "fail"] = Field(
        "fail", description="Any other change of a type. No table can follow it."
    )
    columns: dict[str, PathSettings] = Field(
        default_factory=dict,
        description="The same policies for one column, or for a nested field by its path, such as `address.city`, "
        "`items.element.price` or `attributes.value.unit`. The longest matching path counts.",
    )
    rename: dict[str, str] = Field(
        default_factory=dict,
        description='Columns that have a new name: `{ old_name = "new_name" }`. The table is changed to the new '
        "name, and files may have either name.",
    )

    @field_validator("rename")
    @classmethod
    def _is_no_chain(cls, value: dict[str, str]) -> dict[str, str]:
        for old, new in value.items():
            if old == new:
                raise ValueError(f"{old!r} is renamed to itself")
            if new in value:
                raise ValueError(f"{new!r} is renamed itself: map each old name to the name that is used now")
            if not may_name(new):
                raise ValueError(f"{new!r} cannot name a column")
        return value


class QuarantineSettings(Strict):
    """How much of a batch may go into quarantine. Above either limit the table stops, and nothing is applied."""

    max_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="The share of the rows read, from 0 to 1. It is checked for batches of at least 100 rows. "
        "`1` also accepts files of which no row can be read (QUARANTINE-001).",
    )
    max_rows: NonNegativeInt = Field(10_000, description="The number of rows. `0` stops at the first one.")
    unreadable: Literal["inexact", "stop"] = Field(
        "inexact",
        description="What happens at a row whose key cannot be read: `inexact` goes on, and marks the table as "
        "inexact from then on; `stop` stops the table.",
    )


class TableSettings(BaseModel):
    """One table. Each table format adds keys of its own, such as `partition_by`."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    key: list[str] = Field(
        default_factory=list,
        description="The columns of the primary key, by their names after the column rules. If it is left out, the "
        "catalogue's key is used. A table without a key is append-only.",
    )
    match: Literal["image"] | None = Field(
        None,
        description="For a table without a key. `image`: updates and deletes find their row by its whole before "
        'image, which the source must send. It needs `lateness = "ordered"`, and cannot be changed once the table '
        "has rows; see docs/explanation/semantics.md. Without it, updates and deletes go into quarantine "
        "(`no_key`).",
    )
    columns: dict[str, ColumnSettings] = Field(
        default_factory=dict,
        description="The columns of the source with their types, in the order of the files. CSV needs them. With a "
        "catalogue, only columns that differ from it are needed. Parquet files contain their own.",
    )
    mode: Literal["mirror", "history"] = Field(
        "mirror",
        description="How rows are kept: a `mirror` has the newest row of each key, a `history` has every version "
        'of a row with its validity, and `["mirror", "history"]` makes a table of each; see '
        "docs/explanation/history.md.",
    )
    history_table: str | None = Field(
        None,
        min_length=1,
        description='With `mode = ["mirror", "history"]`: the name of the history, without its schema, which is '
        "that of the mirror. Without it: the name of the mirror with `_history` appended.",
    )
    reads: str | None = Field(
        None,
        min_length=1,
        description="The name of the source table if it differs from the name of this table, such as "
        "`shop.customer`. Two tables may read the same source table, each with settings of its own.",
    )
    track: Tracked = Field(
        default_factory=lambda: ["*"],
        description="In a history: the columns whose changes open a new version. All (`*`), a list, or "
        '`{ all_but = ["seen_at"] }`. A change of another column overwrites the current version.',
    )
    history: HistorySettings = Field(
        default_factory=HistorySettings, description="In a history: how versions are dated and shown."
    )
    deletes: Literal["hard", "soft"] = Field(
        "hard",
        description="In a mirror: what a delete does. `hard` removes the row. `soft` keeps its last values and "
        "sets "
        f"`{DELETED}` to true; see docs/explanation/semantics.md.",
    )
    lateness: Annotated[str | None, AfterValidator(_check_lateness)] = Field(
        None,
        description="How late changes may arrive, by their commit times: a duration such as `24h`, `30m` or `7d`; "
        "`unbounded`; or `ordered` if files arrive in order. Without it: `24h` with a `timestamp_column`, else "
        "`ordered`.",
    )
    ties: Literal["arrival", "quarantine", "fail"] = Field(
        "arrival",
        description="What happens to different changes of one key with equal order in the source: the later row "
        "wins (`arrival`), it goes into quarantine and the key is held (`quarantine`), or the table stops "
        "(`fail`).",
    )
    schema_: SchemaSettings = Field(
        default_factory=SchemaSettings, alias="schema", description="The policies for changes of the columns."
    )
    quarantine: QuarantineSettings = Field(
        default_factory=QuarantineSettings, description="How much of a batch may go into quarantine."
    )
    maintain: MaintainSettings = Field(
        default_factory=MaintainSettings, description="What `lakeward maintain` does to the table."
    )
    full_loads: Literal["once", "snapshot"] = Field(
        "once",
        description="`once`: the table begins with one full load, and changes follow. `snapshot`: full loads are "
        "repeated, and each complete one replaces all rows; see docs/how-to/nightly-full-loads.md.",
    )
    load_settles: Interval = Field(
        "1h",
        description="With `snapshot`: the time without any change of its files after which a load is complete, "
        "such as `1h` or `30m`. With `0` a load is complete when a run first finds it.",
    )
    least_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="With `snapshot`: the least number of rows of a load, as a share of the rows of the table, "
        "from 0 to 1. With fewer rows the table stops (LOAD-001).",
    )
    older_snapshots: Literal["splice", "skip", "stop"] | None = Field(
        None,
        description="With `snapshot`: what happens to a load that is older than the last one applied. `splice` "
        "inserts it into the history at the time in its name, `skip` ignores it, `stop` raises the alarm "
        "LEDGER-001. Without it: `splice` if the table is a history that supports it, else `stop`; see "
        "docs/reference/plain-files.md.",
    )
    rules: list[ColumnRule] = Field(
        default_factory=list,
        description="Column rules, which are applied to each row in order; see docs/reference/column-rules.md.",
    )
    quality: list[QualityRule] = Field(
        default_factory=list,
        description="Quality rules for the rows and files of the table; see docs/reference/quality-rules.md.",
    )
    source: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of the source for this table alone. Each source has keys of its own.",
    )
    catalogue: TableCatalogueSettings = Field(
        default_factory=TableCatalogueSettings,
        description="How the catalogue of the source is used for this table.",
    )
    skip: bool = Field(False, description="Leave this table out, for example one that a pattern matches.")
    redelivery: PositiveInt = Field(
        1000,
        description="With `ordered`: the number of last files that may be delivered again. Deletes are remembered "
        "for as many files.",
    )

    @model_validator(mode="after")
    def _is_a_history(self) -> TableSettings:
        if self.history_table is not None:
            raise ValueError('`history_table` names a table beside a mirror: say `mode = ["mirror", "history"]`')
        named = [key for key in ("track", "history") if key in self.model_fields_set]
        if named and self.mode == "mirror":
            raise ValueError(f'`{named[0]}` is for a history: say `mode = "history"`, too, or leave it out')
        if self.mode == "history" and self.deletes == "soft":
            raise ValueError("`deletes` is for a mirror: a history keeps deleted rows anyway; leave it out")
        return self

    @model_validator(mode="after")
    def _has_snapshots(self) -> TableSettings:
        named = [key for key in OF_SNAPSHOTS if key in self.model_fields_set]
        if named and self.full_loads == "once":
            raise ValueError(f'`{named[0]}` is for snapshots: say `full_loads = "snapshot"`, too, or leave it out')
        return self
