"""The settings of the source `dms`."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, PositiveInt, model_validator


def _one_character(value: str) -> str:
    if len(value) != 1 or value in "\r\n\\\0":
        raise ValueError("must be one character, and no line end, backslash or NUL")
    return value


def _one_or_none(value: str) -> str:
    return _one_character(value) if value else value


def _text(value: str | None) -> str | None:
    if value is not None and not (value and value.isprintable()):
        raise ValueError("must be a text that can be seen")
    return value


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError("is no time zone; zones are named as Europe/Berlin or UTC") from error
    return value


class DmsOptions(BaseModel):
    """Files that AWS DMS writes: `<path>/<schema>/<table>/LOAD00000001.csv`, `20141029-113401000.csv`, …"""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(description="The landing folder; a relative path is relative to the settings file.")
    landing: Literal["kept", "archived"] = Field(
        "kept",
        description="What becomes of files that are applied: they stay where they are, or go into `archive`.",
    )
    archive: str = Field(
        "backup/",
        description="With `archived`: the folder they go into, as `<schema>/<table>/<file>`; a relative path is "
        "relative to the settings file. It must not lie within `path`.",
    )
    format: Literal["auto", "csv", "parquet"] = Field(
        "auto", description="What the files are. `auto` goes by each file's ending."
    )
    timestamp_column: str | None = Field(
        None,
        description="The endpoint's TimestampColumnName: the column with the commit time. It orders the "
        "changes; without it, the order of files and rows does.",
    )
    sequence_column: Annotated[str | None, AfterValidator(_text)] = Field(
        None,
        description="The column of a transformation rule `add-column` that has the place of each change in the "
        "source's own order. It orders the changes in place of the commit time, which stays their time.",
    )
    sequence_kind: Literal["$AR_H_CHANGE_SEQ", "$AR_H_STREAM_POSITION"] = Field(
        "$AR_H_CHANGE_SEQ",
        description="The expression of that rule. A change sequence is of one change alone, so that a copy of it "
        "is known under any name; a stream position is not, and must be a number, as an SCN of Oracle.",
    )
    source_zone: Annotated[str, AfterValidator(_zone)] = Field(
        "UTC",
        description="The time zone of times in the table's columns that are written without one. Commit times "
        "are in UTC.",
    )
    op_column: str = Field("Op", description="What the operation's column is called where files have headers.")
    delimiter: Annotated[str, AfterValidator(_one_character)] = Field(
        ",", description="The endpoint's CsvDelimiter."
    )
    quote: Annotated[str, AfterValidator(_one_or_none)] = Field(
        '"', description="What quotes a field; empty where the endpoint has Rfc4180=false: then nothing does."
    )
    null_text: str = Field(
        "NULL", description="The endpoint's CsvNullValue: an unquoted field of this text is NULL."
    )
    no_sup_value: Annotated[str | None, AfterValidator(_text)] = Field(
        None,
        description="The endpoint's CsvNoSupValue, where UseCsvNoSupValue is on: an unquoted field of this text "
        "was not sent, and the row keeps what it has there.",
    )
    before_image_prefix: Annotated[str | None, AfterValidator(_text)] = Field(
        None,
        description="The `column-prefix` of the task's rule `add-before-image-columns`, as `BI_`: an update whose "
        "key was another before is a key change, and the row moves.",
    )
    max_files: PositiveInt = Field(1000, description="How many files one batch takes at the most.")
    max_bytes: ByteSize = Field(
        ByteSize(256 * 1024 * 1024),
        description="How many bytes of files one batch takes at the most (at least one file), as 256MiB.",
    )

    @model_validator(mode="after")
    def _has_columns_apart(self) -> Self:
        """Refuse a column that is named for two things, and a kind of nothing."""
        if self.sequence_column is None and "sequence_kind" in self.model_fields_set:
            raise ValueError("`sequence_kind` says what `sequence_column` is, and there is none")
        if self.sequence_column in (self.op_column, self.timestamp_column) and self.sequence_column is not None:
            raise ValueError(f"two keys name the column {self.sequence_column!r}")
        return self
