"""The settings file as a model, with its sections about the pipeline and its services.

`docs/reference/settings.md` is generated from these models. An unknown key is an error that names the nearest
known one.
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
    model_validator,
)

from lakeward.core.pipeline.job import ATTEMPTS
from lakeward.entrypoints.settings.models.joined_tables import JoinedSettings
from lakeward.entrypoints.settings.models.tables import TableSettings
from lakeward.entrypoints.settings.models.values import Interval, Pause, Strict
from lakeward.plugins.options import keys_of
from lakeward.plugins.registry import SMALL_BATCH


class PipelineSettings(Strict):
    """The pipeline itself."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$", description="The name of the pipeline in logs and reports.")
    state: str = Field(
        "state/",
        description="The folder of the lock, of Spark's log, and of the ledger unless `[ledger]` stores it "
        "elsewhere. A relative path is relative to this file. The folder may be deleted: a restart needs only the "
        "tables.",
    )
    full_listing: Interval = Field(
        "1h",
        description="The time between two full listings of a table with more than 10,000 files, such as `1h`, "
        "`30m` or `1d`. Runs in between list only the files from the low watermark on. `0` lists all files in each "
        "run.",
    )
    commit_attempts: PositiveInt = Field(
        ATTEMPTS,
        description="The number of attempts to commit a batch if other writers commit to the table in between. "
        "After the last one the table fails for this run (exit code 75).",
    )
    parallel: PositiveInt = Field(2, description="The number of tables that are processed at the same time.")
    poll: Pause = Field(
        "10s",
        description="The time between two polls of `run --follow`, such as `10s`, `5m` or `1h`. All that arrives "
        "between two polls is one batch of its table.",
    )


RESERVED_QUEUE_KEYS: Final = ("tables", "tables_at")
"""Keys that lakeward itself adds to the options of a queue."""


class QueueSettings(BaseModel):
    """The queue that says which tables to examine; see docs/reference/queues.md. Each kind adds keys of its own."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    kind: str = Field(
        description="The kind of queue. `poll` examines every configured table in each run, and has no other keys."
    )
    look_at_all_every: Interval = Field(
        "1h",
        description="The time after which all tables are examined, even if the queue has no notice for them, such "
        "as `1h`, `30m` or `1d`. `0` examines all tables each time.",
    )

    @model_validator(mode="after")
    def _has_no_foreign_keys(self) -> QueueSettings:
        own = self.model_extra or {}
        if unknown := [key for key in own if self.kind == "poll" or key in RESERVED_QUEUE_KEYS]:
            raise ValueError(
                f"there is no key `{unknown[0]}`: leave it out; docs/reference/queues.md lists what there is"
            )
        return self


class CatalogueSettings(BaseModel):
    """The catalogue of the source database. Its columns, types and primary keys need not be declared.

    See docs/reference/catalogue.md. Each kind of catalogue adds keys of its own.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    kind: str = Field(description="The kind of catalogue. `lakeward plugins` lists all kinds.")
    unreachable: Literal["recorded", "stop"] = Field(
        "recorded",
        description="What happens if the catalogue does not answer: `recorded` uses its last answers, with a "
        "warning; `stop` runs nothing.",
    )
    names: Literal["kept", "lower", "upper"] = Field(
        "kept",
        description="The case of its column names: `lower` or `upper` if the task has the rule convert-lowercase "
        "or convert-uppercase.",
    )


class RegistrationSettings(BaseModel):
    """The catalog in which tables of the lake are registered, so that engines find them by name.

    See docs/how-to/aws/catalogs.md. Without this section no table is registered. Each kind of registration adds
    keys of its own.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    kind: str = Field(
        description="The kind of registration, such as `glue`. `lakeward plugins` lists all kinds."
    )
    quarantine: bool = Field(
        False,
        description="Also register the quarantine of each table, as `<table>__quarantine`. It contains rows as the "
        "source wrote them, before any column rule.",
    )
    raw: str | None = Field(
        None,
        min_length=1,
        description="The namespace in which the folders of the source's files are registered, such as "
        "`{schema}_raw`; `{schema}` is replaced by the schema of a table. Without it they are not registered.",
    )

    def raw_namespace(self, schema: str) -> str:
        """Return the namespace for the source files of the tables of a schema."""
        return (self.raw or "").replace("{schema}", schema)


class StoresSettings(Strict):
    """Settings stores that add to this file; docs/how-to/aws/settings.md has examples."""

    stores: list[dict[str, Any]] = Field(
        default_factory=list,
        description="Settings stores, each a table with its `kind` and the keys of that kind. A later store "
        "overrides earlier ones, and all stores override this file.",
    )
    read_every: Pause = Field(
        "1m",
        description="The time after which `run --follow` reads the stores again, such as `30s`, `1m` or `1h`.",
    )


def _as_list(value: Any) -> Any:
    """Return a list of one for a single table: `[notify]` means the same as `[[notify]]`."""
    return [value] if isinstance(value, Mapping) else value


class SparkSettings(Strict):
    """The Spark that lakeward starts. On a platform that has started Spark, lakeward uses that one unchanged."""

    master: str = Field("local[*]", description="The master URL of Spark. `local[*]` is all cores of this machine.")
    memory: str = Field("1g", pattern=r"^\d+[kmgKMG]$", description="The heap of the driver, such as `4g`.")
    settings: dict[str, str] = Field(
        default_factory=dict,
        description='Other settings of Spark, such as `{ "spark.sql.shuffle.partitions" = "64" }`.',
    )
    small_batch: NonNegativeInt = Field(
        SMALL_BATCH,
        description="The number of rows up to which lakeward processes a batch itself, without Spark jobs where "
        "that is possible. Larger batches of Debezium envelopes are also processed without Spark jobs where each "
        "message is a whole row. `0` processes every batch with Spark. The resulting tables are the same.",
    )


def _check_namespace(value: str) -> str:
    """Refuse a namespace that CloudWatch's `PutMetricData` refuses, and those of AWS itself."""
    if not re.fullmatch(r"[A-Za-z0-9._#/-][A-Za-z0-9._#/:-]{0,254}", value) or value.startswith("AWS/"):
        raise ValueError('must be up to 255 letters, digits and ._-/#:, not beginning with "AWS/" or ":"')
    return value


class MetricsSettings(Strict):
    """Metrics of runs, for monitoring; see docs/reference/metrics.md."""

    format: Literal["cloudwatch"] | None = Field(
        None,
        description="`cloudwatch` writes metrics to standard error, after each run and after each batch of "
        "`run --follow`, as JSON lines from which CloudWatch Logs creates metrics.",
    )
    namespace: Annotated[str, AfterValidator(_check_namespace)] = Field(
        "lakeward",
        description="With `cloudwatch`: the namespace of the metrics.",
    )
    per_table: bool = Field(
        True,
        description="With `cloudwatch`: write metrics of each table in addition to those of the pipeline. "
        "CloudWatch charges for each metric.",
    )
    address: str = Field(
        "127.0.0.1",
        min_length=1,
        description="With `run --follow --metrics PORT`: the address at which Prometheus reads the metrics. Anyone "
        "who can reach it can read them; `0.0.0.0` is all addresses of the machine.",
    )


def _check_joined_keys(joined: JoinedSettings) -> JoinedSettings:
    """Refuse keys of `[tables]` in a joined table; the table format would report them as its own unknown keys."""
    if foreign := [key for key in joined.model_extra or {} if key in keys_of(TableSettings)]:
        raise ValueError(
            f"`{foreign[0]}` is a key of tables that a source feeds, and a joined table has no such key: leave it "
            "out, or set it under [tables], for the tables that are joined"
        )
    return joined


class Settings(Strict):
    """The whole file. The adapter that `kind` names validates `source`, `target` and the other services."""

    pipeline: PipelineSettings
    settings: StoresSettings = StoresSettings()
    source: dict[str, Any]
    target: dict[str, Any]
    queue: QueueSettings = QueueSettings(kind="poll")
    ledger: dict[str, Any] = Field(default_factory=lambda: {"kind": "sqlite"})
    lease: dict[str, Any] | None = None
    statistics: dict[str, Any] | None = None
    notify: Annotated[list[dict[str, Any]], BeforeValidator(_as_list)] = Field(default_factory=list)
    registration: RegistrationSettings | None = None
    catalogue: CatalogueSettings | None = None
    metrics: MetricsSettings = MetricsSettings()
    spark: SparkSettings = SparkSettings()
    defaults: dict[str, Any] = Field(default_factory=dict)
    tables: dict[str, TableSettings] = Field(default_factory=dict)
    joined: dict[str, Annotated[JoinedSettings, AfterValidator(_check_joined_keys)]] = Field(default_factory=dict)
