"""The settings of the source `jdbc`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, model_validator

from lakeward.adapters.aws.s3.access import is_url
from lakeward.adapters.catalogues.connection import ConnectionOptions
from lakeward.adapters.sources.landing.setting_values import zone
from lakeward.adapters.sources.staging.location import SETTING, staging_url
from lakeward.core.text.durations import DURATION


def _interval(value: str) -> str:
    if not DURATION.fullmatch(value):
        raise ValueError('must be a duration such as "12h", "30m" or "7d"')
    return value


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _overlap(value: str | None) -> str | None:
    if value is not None and not value.isdecimal() and not DURATION.fullmatch(value):
        raise ValueError('must be a duration such as "10m" for a time, or a whole number such as 1000 for a number')
    return value


def _on_a_disk(value: str) -> str:
    if is_url(value):
        raise ValueError("must be a folder on a disk; `staging` names a prefix of a bucket")
    return value


class TableReadOptions(BaseModel):
    """How one table is read, where that differs from [source]."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    cursor: str | None = Field(
        None,
        min_length=1,
        description="The column by which changed rows are found: a time or a whole number that rises with each "
        "insert and each update. Without it the whole table is read each time.",
    )
    overlap: Annotated[str | None, BeforeValidator(_as_text), AfterValidator(_overlap)] = Field(
        None,
        description="How far below the highest applied cursor each query begins, for transactions that commit "
        "late: a duration for a time (without it `10m`), a whole number for a number (without it `1000`).",
    )
    source_zone: Annotated[str, AfterValidator(zone)] = Field(
        "UTC", description="The time zone of a cursor without one, and of the days of a history."
    )
    every: Annotated[str, AfterValidator(_interval)] = Field(
        "12h",
        description='With `full_loads = "snapshot"`: the age of the last snapshot after which a run reads the '
        "whole table again. Set it shorter than the time between two runs that should read it.",
    )
    partitions: PositiveInt | None = Field(
        None,
        description="The most ranges of the key in which a snapshot is read in parallel. Without it: 4 for "
        "PostgreSQL, whose readers share one snapshot, and 1 for any other database.",
    )
    without: list[str] = Field(
        [], description="For single tables only: columns that are not read, as the database spells them."
    )


_OF_CURSORS: Final = frozenset({"cursor", "overlap", "source_zone", "every"})


class JdbcSourceOptions(TableReadOptions, ConnectionOptions):
    """Tables of a live database, read by its own driver."""

    user: str | None = Field(None, description="The user of the database; it needs only SELECT on the tables.")
    path: Annotated[str, AfterValidator(_on_a_disk)] = Field(
        "",
        description="The folder of rows that were read and are not applied yet; all of Spark's workers must see "
        "it. Without it: `staged` in the folder `state` of the pipeline. It is not used with `staging`.",
    )
    staging: Annotated[str | None, AfterValidator(staging_url)] = Field(None, description=SETTING)
    fetch_size: PositiveInt = Field(
        10_000,
        description="The number of rows that the driver fetches at once; MySQL's own driver fetches one at a time.",
    )

    then: Literal["kafka"] | None = Field(
        None,
        description="The source of changes after one snapshot of a table: messages of a broker, as set in "
        "[source.kafka]. Without it tables are read repeatedly.",
    )
    kafka: dict[str, Any] | None = Field(
        None, description="With `then`: the settings of the [source `kafka`](#source-kafka), but `start`."
    )

    @model_validator(mode="after")
    def _goes_on(self) -> Self:
        if "without" in self.model_fields_set:
            raise ValueError("`without` is of one table: say it in its own `source`")
        if (self.then is None) != (self.kafka is None):
            raise ValueError('`then = "kafka"` and [source.kafka] go together')
        if self.then is not None and (read_again := sorted(self.model_fields_set & _OF_CURSORS)):
            raise ValueError(f"`{read_again[0]}` does not go with `then`: the feed brings the changes")
        if self.kafka is not None and "start" in self.kafka:
            raise ValueError("`start` has no place in [source.kafka]: the snapshot says where the feed begins")
        return self

    def of_table(self, own: TableReadOptions) -> JdbcSourceOptions:
        """Return these options with those that a table overrides."""
        values: dict[str, Any] = {name: getattr(own, name) for name in own.model_fields_set}
        return self.model_copy(update=values)
