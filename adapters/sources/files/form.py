"""Settings of the form of plain files and messages, for all tables or for one."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from lakeward.adapters.sources.csv.header import HEADER_SETTING, HeaderSetting
from lakeward.adapters.sources.landing.setting_values import one_character, optional_character, pattern, zone
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
    "Which files are read, as a regular expression for the path below the folder; without it, those that end in "
    "csv, json, jsonl, ndjson or parquet. Groups `(?P<time>…)`, `(?P<counter>…)` or `(?P<hex>…)` give their order; "
    "for messages also `(?P<partition>…)` of a topic, with the offset as `counter`."
)


class Operations(BaseModel):
    """The column with the operation of a row, and the meaning of its words."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    column: str = Field(
        description="The name of the column, or the path of a field in it, as `_cdc.op`. The table has the column "
        "only if `columns` names it."
    )
    insert: list[str] = Field(default_factory=list, description="The words for an insert.")
    update: list[str] = Field(default_factory=list, description="The words for an update.")
    delete: list[str] = Field(default_factory=list, description="The words for a delete.")
    truncate: list[str] = Field(default_factory=list, description="The words for a truncate of the table.")

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
    """The form of messages, by the settings of their connector and its converters."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    source_zone: Annotated[str, AfterValidator(zone)] = Field(
        "UTC", description="The time zone of times without one, and of the days of a history."
    )
    types: Literal["declared", "schema"] = Field(
        "declared",
        description="Where the types of columns are from: `columns` of the table alone, or the schema in each "
        "message of Debezium (schemas.enable=true); declared types take precedence.",
    )
    form: Literal["envelope", "flattened"] = Field(
        "envelope", description="With `debezium`: whether ExtractNewRecordState flattened the messages."
    )
    documents: Literal["columns", "document"] | None = Field(
        None,
        description="With `debezium`: messages are of the connector for MongoDB, whose rows are documents. Their "
        "fields are columns of the table, or the column `document` has the whole document as JSON, in addition to "
        "`_id`. `decimals`, `times` and `binary` are ignored then.",
    )
    decimals: Literal["precise", "string", "double", "numeric"] = Field(
        "precise",
        description="The connector's decimal.handling.mode; `numeric` if the converter has decimal.format=NUMERIC.",
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
        description="The connector's unavailable.value.placeholder: such a column keeps its stored value.",
    )
    tombstones: Literal["skip", "delete"] = Field(
        "skip",
        description="What a message without a value does: nothing, or it deletes the row of its key, as it must if "
        'delete.tombstone.handling.mode is `tombstone`. Deleting requires `line = "record"` and '
        '`places = "arrival"`.',
    )
    places: Literal["source", "arrival"] = Field(
        "source",
        description="What orders the changes of a key: their positions in the log of the source, or their arrival "
        "alone, which is right if the partitions of a topic go by key.",
    )
    before_images: Literal["key", "whole"] = Field(
        "key",
        description="For which columns the before image of a delete has true values: for the key of its message "
        "alone, or for all, as with REPLICA IDENTITY FULL. It matters if `key` has a column that the message's key "
        "does not have.",
    )
    before_image_prefix: str | None = Field(
        None,
        min_length=1,
        description="With `dms-json`: the prefix of columns with values before a change, as `BI_`.",
    )


class Form(MessageForm):
    """The form of files and of their rows."""

    names: Annotated[str | None, AfterValidator(_names)] = Field(None, description=_PATTERN)
    format: Literal["auto", "csv", "json", "parquet", "debezium", "dms-json"] = Field(
        "auto",
        description="The format of the files; `auto` goes by each file's ending. `debezium` and `dms-json` are "
        "messages, one in each line.",
    )
    order_by: str | None = Field(
        None,
        description="The column, or the path of a field in it, that orders the rows of a key: a time, a date or a "
        "whole number. Without it rows are in the order of files and lines.",
    )
    time: str | None = Field(
        None,
        description="The column with the time of a change, or the path of a field in it, by which lateness is "
        "measured; without it `order_by`, if that is a time.",
    )
    operation: Operations | None = Field(
        None,
        description='The column with the operation of a row, as `{ column = "status", delete = ["D"] }`. A word '
        "that is not named writes the row, unless `insert` or `update` are named: then it is an error. Without "
        "this setting every row is written.",
    )
    absent: Literal["null", "unset"] | None = Field(
        None,
        description="What a key that a JSON object lacks means: NULL, or that it was not sent, so that the row "
        "keeps its stored value. The default is `null`.",
    )
    path_columns: Annotated[list[str], AfterValidator(once_each)] = Field(
        default_factory=list,
        description="Declared columns whose values are in the path of each file, as folders `name=value`: "
        '`["dt"]` for `dt=2026-11-21/part-0.csv`.',
    )
    delimiter: Annotated[str, AfterValidator(one_character)] = Field(",", description="The CSV delimiter.")
    quote: Annotated[str, AfterValidator(optional_character)] = Field(
        '"', description="The quote of CSV fields; empty if there are no quotes."
    )
    null_text: str = Field("", description="An unquoted CSV field with this text is NULL.")
    header: HeaderSetting = Field("auto", description=HEADER_SETTING)
    line: Literal["value", "record"] = Field(
        "value",
        description='What a line of messages is: the value alone, or a record `{"key": …, "value": …}`, which may '
        "have a `topic`.",
    )
    snapshots: Literal["file", "folder", "rewritten"] = Field(
        "file",
        description='With `full_loads = "snapshot"`: what a whole snapshot of the table is. Each file, each folder '
        "below that of the table, or all files together, which are rewritten under the same names.",
    )
