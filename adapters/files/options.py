"""The settings of the source `files`."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, PositiveInt, model_validator

from lakeward.adapters.files.names import GROUPS, FileNames
from lakeward.adapters.landed.places import Place
from lakeward.adapters.messages.message import UNAVAILABLE

MESSAGES = ("debezium", "dms-json")
"""Formats whose lines are messages, which say themselves what they do."""


def _folder(value: str | None) -> str | None:
    if value is None:
        return None
    path = PurePosixPath(value)
    fields = re.findall(r"\{[^}]*\}", value)
    if path.is_absolute() or ".." in path.parts or not value.isprintable() or "\\" in value:
        raise ValueError("must be a folder below `path`, as `{schema}/{table}`")
    if sorted(fields) not in ([], ["{schema}", "{table}"]):
        raise ValueError("must have {schema} and {table} in it, once each, or neither")
    return "" if str(path) == "." else str(path)


def _pattern(value: str | None) -> str | None:
    if value is None:
        return None
    try:
        groups = set(re.compile(value).groupindex)
    except re.error as error:
        raise ValueError(f"is no pattern: {error}") from error
    if strange := sorted(groups - set(GROUPS)):
        raise ValueError(f"has a group {strange[0]!r}; there are {', '.join(f'`{group}`' for group in GROUPS)}")
    return value


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError("is no time zone; zones are named as Europe/Berlin or UTC") from error
    return value


def _one_character(value: str) -> str:
    if len(value) != 1 or value in "\r\n\\\0":
        raise ValueError("must be one character, and no line end, backslash or NUL")
    return value


def _one_or_none(value: str) -> str:
    return _one_character(value) if value else value


_PATTERN = (
    "Which files are taken, as a regular expression for the path below the folder; without it, those that end in "
    "csv, json, jsonl, ndjson or parquet. Groups `(?P<time>…)`, `(?P<counter>…)` or `(?P<hex>…)` give their order."
)


class Operations(BaseModel):
    """A column that says what a row does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str = Field(description="What it is called. The table has it only where `columns` names it.")
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
        """What each word means."""
        kinds = ("insert", "update", "delete", "truncate")
        return {word: kind for kind in kinds for word in getattr(self, kind)}


class FilesTableOptions(BaseModel):
    """What is so for the files of one table alone, where it is not as [source] says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: Annotated[str | None, AfterValidator(_folder)] = Field(None, description="Where its files lie.")
    names: Annotated[str | None, AfterValidator(_pattern)] = Field(None, description=_PATTERN)
    order_by: str | None = Field(None, description="The column that orders its rows.")
    time: str | None = Field(None, description="The column with the time of a change.")
    operation: Operations | None = Field(None, description="The column that says what a row does.")


class FilesOptions(BaseModel):
    """Files that something else than DMS wrote: CSV, JSON lines, Parquet, or messages as JSON lines."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(
        description="The landing folder: a path, relative to the settings file where it is not absolute, or "
        "`s3://bucket/prefix`; see docs/s3.md."
    )
    folder: Annotated[str, AfterValidator(_folder)] = Field(
        "{schema}/{table}",
        description="Where the files of a table lie below `path`; `topics/shop.{schema}.{table}` for a topic. "
        "Without {schema} and {table} all tables read one folder, and each takes the messages that name it.",
    )
    names: Annotated[str | None, AfterValidator(_pattern)] = Field(None, description=_PATTERN)
    format: Literal["auto", "csv", "json", "parquet", "debezium", "dms-json"] = Field(
        "auto",
        description="What the files are; `auto` goes by each file's ending. `debezium` and `dms-json` are "
        "messages, one a line.",
    )
    order_by: str | None = Field(
        None,
        description="The column that orders the rows of a key: a time, a date or a whole number. Without it they "
        "count in the order of files and lines.",
    )
    time: str | None = Field(
        None,
        description="The column with the time of a change, by which lateness is judged; without it `order_by`, "
        "where that is a time.",
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
    source_zone: Annotated[str, AfterValidator(_zone)] = Field(
        "UTC", description="The time zone of times that are written without one."
    )
    delimiter: Annotated[str, AfterValidator(_one_character)] = Field(",", description="What parts fields of CSV.")
    quote: Annotated[str, AfterValidator(_one_or_none)] = Field(
        '"', description="What quotes a field of CSV; empty where nothing does."
    )
    null_text: str = Field("", description="An unquoted field of CSV that has this text is NULL.")
    line: Literal["value", "record"] = Field(
        "value",
        description='What a line of messages is: its value alone, or a record `{"key": …, "value": …}` with '
        "`topic`, where it has that.",
    )
    form: Literal["envelope", "flattened"] = Field(
        "envelope", description="With `debezium`: whether ExtractNewRecordState flattened the messages."
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
        "where delete.tombstone.handling.mode is `tombstone`.",
    )
    before_image_prefix: str | None = Field(
        None,
        min_length=1,
        description="With `dms-json`: what the names of columns begin with that are from before a change, as "
        "`BI_`.",
    )
    landing: Literal["kept", "archived"] = Field(
        "kept", description="What becomes of files that are applied: they stay, or go into `archive`."
    )
    archive: str = Field(
        "backup/",
        description="With `archived`: the folder they go into, as `<schema>/<table>/<file>`. It must not lie "
        "within `path`, and is in S3 where that is.",
    )
    max_files: PositiveInt = Field(1000, description="How many files one batch takes at the most.")
    max_bytes: ByteSize = Field(
        ByteSize(256 * 1024 * 1024),
        description="How many bytes of files one batch takes at the most (at least one file), as 256MiB.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Refuse what the format has no use for: it would be passed over."""
        for key in ("order_by", "time", "operation", "absent"):
            if self.format in MESSAGES and getattr(self, key) is not None:
                raise ValueError(f"`{key}` is not for messages: they say themselves what they do, and when")
        for key in ("line", "form", "decimals", "times", "binary", "unavailable_value", "tombstones"):
            if self.format != "debezium" and key in self.model_fields_set - {"line"}:
                raise ValueError(f'`{key}` is for `format = "debezium"` alone')
        if self.format not in MESSAGES and ("line" in self.model_fields_set or "{schema}" not in self.folder):
            raise ValueError("`line`, and a `folder` of many tables, are for messages alone")
        if self.format != "dms-json" and self.before_image_prefix is not None:
            raise ValueError('`before_image_prefix` is for `format = "dms-json"` alone')
        return self

    @property
    def is_messages(self) -> bool:
        """Whether lines are messages."""
        return self.format in MESSAGES

    def of_table(self, own: FilesTableOptions) -> FilesOptions:
        """Return the options with what a table says of itself."""
        said = {key: getattr(own, key) for key in own.model_fields_set}
        return self.model_copy(update={key: value for key, value in said.items() if value is not None})

    def place(self) -> Place:
        """Return where files lie and how they are named."""
        names = FileNames(None if self.names is None else re.compile(self.names), is_messages=self.is_messages)
        return Place(names, self.folder, self.folder)
