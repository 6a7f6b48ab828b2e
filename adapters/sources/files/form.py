"""Settings of the form of plain files and messages, for all tables or for one."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from lakeward.adapters.sources.csv.header import HEADER_SETTING, HeaderSetting
from lakeward.adapters.sources.landing.setting_values import one_character, one_or_none, pattern, zone
from lakeward.adapters.sources.messages.message import UNAVAILABLE

MESSAGES: Final = ("debezium", "dms-json")
"""Formats whose lines are messages, which have their own operation."""


def folder_below(value: str | None) -> str | None:
    """Return the normalized path of a folder below the landing folder; raises ValueError if it is not below it."""
    if value is None:
        return None
    path = PurePosixPath(value)
    fields = re.findall(r"\{[^}]*\}", value)
    if path.is_absolute() or ".." in path.parts or not value.isprintable() or "\\" in value:
        raise ValueError("must be a folder below `path`, as `{schema}/{table}`")
    if sorted(fields) not in ([], ["{schema}", "{table}"]):
        raise ValueError("must have {schema} and {table} in it, once each, or neither")
    return "" if str(path) == "." else str(path)


def _names(value: str | None) -> str | None:
    """Return a valid pattern for file names; raises ValueError for a `partition` without exactly a `counter`."""
    valid = pattern(value, "partition")
    groups = set() if valid is None else set(re.compile(valid).groupindex)
    if "partition" in groups and groups != {"partition", "counter"}:
        raise ValueError("has a group 'partition', which goes with `counter`, the offset, and with nothing else")
    return valid


def once_each(value: list[str]) -> list[str]:
    """Return names of columns; raises ValueError if one is repeated, in any case."""
    if len({name.lower() for name in value}) < len(value):
        raise ValueError("names a column twice")
    return value


_PATTERN = (
    "Which files are taken, as a regular expression for the path below the folder; without it, those that end in "
    "csv, json, jsonl, ndjson or parquet. Groups `(?P<time>…)`, `(?P<counter>…)` or `(?P<hex>…)` give their order; "
    "for messages also `(?P<partition>…)` of a topic, with the offset as `counter`."
)


class Operations(BaseModel):
    """A column that says what a row does."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    column: str = Field(
        description="What it is called, or the path of a field in it, as `_cdc.op`. The table has it only where "
        "`columns` names it."
    )
    insert: list[str] = Field(default_factory=list, description="The words of rows that are new.")
    update: list[str] = Field(default_factory=list, description="The words of rows that were there.")
    delete: list[str] = Field(default_factory=list, description="The words of rows that are gone.")
    truncate: list[str] = Field(
        default_factory=list, description="The words of lines at which the table was emptied."
    )

    @model_validator(mode="after")
    def _has_words_apart(self) -> Self:
        every = [*self.insert, *self.update, *self.delete, *self.truncate]
        if len(set(every)) < len(every):
            raise ValueError("one word means two operations")
        return self

    @property
    def meanings(self) -> dict[str, str]:
        """The operation that each word means."""
        kinds = ("insert", "update", "delete", "truncate")
        return {word: kind for kind in kinds for word in getattr(self, kind)}


class MessageForm(BaseModel):
    """How messages are written, by what their connector and its converters are set to."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    source_zone: Annotated[str, AfterValidator(zone)] = Field(
        "UTC", description="The time zone of times that are written without one, and of the days of a history."
    )
    types: Literal["declared", "schema"] = Field(
        "declared",
        description="Where the types of columns are from: `columns` of the table alone, or the schema that stands "
        "beside each message of Debezium (schemas.enable=true); what is declared says more than that.",
    )
    form: Literal["envelope", "flattened"] = Field(
        "envelope", description="With `debezium`: whether ExtractNewRecordState flattened the messages."
    )
    documents: Literal["columns", "document"] | None = Field(
        None,
        description="With `debezium`: that messages are of the connector for MongoDB, whose rows are documents. "
        "Their fields are columns of the table, or the column `document` has the whole one as JSON, beside `_id`. "
        "`decimals`, `times` and `binary` do not count then.",
    )
    decimals: Literal["precise", "string", "double", "numeric"] = Field(
        "precise",
        description="The connector's decimal.handling.mode; `numeric` where the converter has "
        "decimal.format=NUMERIC.",
    )
    times: Literal[
        "adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"
    ] = Field(
        "adaptive",
        description="The connector's time.precision.mode. With the first two a time without a schema needs its "
        "unit as the `format` of its column.",
    )
    binary: Literal["bytes", "base64", "base64-url-safe", "hex"] = Field(
        "bytes", description="The connector's binary.handling.mode."
    )
    unavailable_value: str = Field(
        UNAVAILABLE,
        min_length=1,
        description="The connector's unavailable.value.placeholder: the row keeps what it has there.",
    )
    tombstones: Literal["skip", "delete"] = Field(
        "skip",
        description="What a message without a value does: nothing, or it deletes the row of its key, as it must "
        'where delete.tombstone.handling.mode is `tombstone`. To delete, it takes `line = "record"` and '
        '`places = "arrival"`.',
    )
    places: Literal["source", "arrival"] = Field(
        "source",
        description="What orders the changes of a key: their places in the log of the source, or their arrival "
        "alone, which is right where the partitions of a topic go by key.",
    )
    before_images: Literal["key", "whole"] = Field(
        "key",
        description="Of which columns the image before a delete has the true values: of the key of its message "
        "alone, or of all, as with REPLICA IDENTITY FULL. It matters where `key` has a column that the message's "
        "key has not.",
    )
    before_image_prefix: str | None = Field(
        None,
        min_length=1,
        description="With `dms-json`: what the names of columns begin with that are from before a change, as "
        "`BI_`.",
    )


class Form(MessageForm):
    """What files look like, and what their rows say."""

    names: Annotated[str | None, AfterValidator(_names)] = Field(None, description=_PATTERN)
    format: Literal["auto", "csv", "json", "parquet", "debezium", "dms-json"] = Field(
        "auto",
        description="What the files are; `auto` goes by each file's ending. `debezium` and `dms-json` are "
        "messages, one a line.",
    )
    order_by: str | None = Field(
        None,
        description="The column, or the path of a field in it, that orders the rows of a key: a time, a date or a "
        "whole number. Without it they count in the order of files and lines.",
    )
    time: str | None = Field(
        None,
        description="The column with the time of a change, or the path of a field in it, by which lateness is "
        "judged; without it `order_by`, where that is a time.",
    )
    operation: Operations | None = Field(
        None,
        description='The column that says what a row does, as `{ column = "status", delete = ["D"] }`. A word '
        "that is not named leaves the row, unless `insert` or `update` are named: then it is an error. Without "
        "it every row leaves itself.",
    )
    absent: Literal["null", "unset"] | None = Field(
        None,
        description="What a key that a JSON object lacks means: NULL, or that it was not sent, so that the row "
        "keeps what it has there. `null` unless it is said.",
    )
    path_columns: Annotated[list[str], AfterValidator(once_each)] = Field(
        default_factory=list,
        description="Declared columns whose values are in the path of each file, as folders `name=value`: "
        '`["dt"]` for `dt=2026-11-21/part-0.csv`.',
    )
    delimiter: Annotated[str, AfterValidator(one_character)] = Field(",", description="What parts fields of CSV.")
    quote: Annotated[str, AfterValidator(one_or_none)] = Field(
        '"', description="What quotes a field of CSV; empty where nothing does."
    )
    null_text: str = Field("", description="An unquoted field of CSV that has this text is NULL.")
    header: HeaderSetting = Field("auto", description=HEADER_SETTING)
    line: Literal["value", "record"] = Field(
        "value",
        description='What a line of messages is: its value alone, or a record `{"key": …, "value": …}` with '
        "`topic`, where it has that.",
    )
    snapshots: Literal["file", "folder", "rewritten"] = Field(
        "file",
        description='With `full_loads = "snapshot"`: what is a whole snapshot of the table. Each file, each folder '
        "below that of the table, or all files together, which are written again under the same names.",
    )
