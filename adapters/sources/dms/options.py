"""The settings of the source `dms`."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, PositiveInt, model_validator

from lakeward.adapters.sources.csv.header import HEADER_SETTING, HeaderSetting
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.dms.paths.date_folders import FORMS
from lakeward.adapters.sources.dms.paths.file_names import Names
from lakeward.adapters.sources.landing.places import OWN_FOLDER, Place
from lakeward.adapters.sources.landing.setting_values import one_character, optional_character, pattern, zone
from lakeward.adapters.sources.staging.location import SETTING, staging_url


def _row_end(value: str) -> str:
    if not value or "\0" in value or "\ue005" in value:
        raise ValueError("must be what ends a row, as \\n or \\r\\n")
    return value


def _text(value: str | None) -> str | None:
    if value is not None and not (value and value.isprintable()):
        raise ValueError("must be a text that can be seen")
    return value


def _folder(value: str | None) -> str | None:
    if value is None:
        return None
    path = PurePosixPath(value)
    if not path.parts or path.is_absolute() or ".." in path.parts or not value.isprintable() or "\\" in value:
        raise ValueError("must be a folder below the landing folder, as `cdc/{schema}/{table}`")
    return str(path)


def _folder_of_one(value: str | None) -> str | None:
    """Return the folder of one table, which may be the landing folder itself: `.`."""
    return "" if value is not None and str(PurePosixPath(value)) == "." else _folder(value)


def _folder_of_any(value: str) -> str:
    fields = re.findall(r"\{[^}]*\}", value)
    if sorted(fields) != ["{schema}", "{table}"]:
        raise ValueError("must have {schema} and {table} in it, once each")
    return str(_folder(value))


def _dates(value: str) -> str:
    if value not in ("auto", *FORMS):
        raise ValueError("must be `auto`, or what a folder looks like: one of " + ", ".join(FORMS))
    return value


def _ordered_pattern(value: str | None) -> str | None:
    if value is not None and not set(re.compile(str(pattern(value))).groupindex):
        raise ValueError(
            "must have a group that gives the order of the files: (?P<time>…), (?P<counter>…) or (?P<hex>…)"
        )
    return value


_LOAD_NAMES = (
    "The names of full-load files that are not named by DMS: a regular expression for the path below "
    "the folder. A group `(?P<counter>\\d+)`, or `hex`, orders them."
)
_CHANGE_NAMES = (
    "The same for files of changes. A group `(?P<time>…)` with year, month, day and so on to the millisecond, or "
    "`counter` or `hex`, or both, orders them."
)


class DmsTableOptions(BaseModel):
    """Folders and names of one table's files, where they differ from those of [source]."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    load: Annotated[str | None, AfterValidator(_folder_of_one)] = Field(
        None,
        description="The folder of its full load, below `path`, or `.` for `path` itself; `{schema}` and `{table}` "
        "are replaced by its name.",
    )
    changes: Annotated[str | None, AfterValidator(_folder_of_one)] = Field(
        None, description="The folder of its changes, in the same way."
    )
    load_names: Annotated[str | None, AfterValidator(pattern)] = Field(None, description=_LOAD_NAMES)
    change_names: Annotated[str | None, AfterValidator(_ordered_pattern)] = Field(None, description=_CHANGE_NAMES)


class DmsOptions(BaseModel):
    """Files that AWS DMS writes: `<path>/<schema>/<table>/LOAD00000001.csv`, `20141029-113401000.csv`, …"""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    path: str = Field(
        description="The landing folder: a path, relative to the settings file where it is not absolute, or "
        "`s3://bucket/prefix`; see docs/reference/s3.md."
    )
    landing: Literal["kept", "archived"] = Field(
        "kept",
        description="Whether applied files stay where they are (`kept`) or are moved into `archive` (`archived`).",
    )
    archive: str = Field(
        "backup/",
        description="With `archived`: the folder that they are moved into, as `<schema>/<table>/<file>`; a "
        "relative path is relative to the settings file. It must not lie within `path`, and must be in S3 if "
        "`path` is.",
    )
    load: Annotated[str, AfterValidator(_folder_of_any)] = Field(
        OWN_FOLDER,
        description="The folder of a table's full load, below `path`, where the full load and the changes lie "
        "apart, as `full/{schema}/{table}`.",
    )
    changes: Annotated[str, AfterValidator(_folder_of_any)] = Field(
        OWN_FOLDER, description="The folder of a table's changes, as `cdc/{schema}/{table}`."
    )
    date_folders: Annotated[str, AfterValidator(_dates)] = Field(
        "auto",
        description="With DatePartitionEnabled: the form of the date folders, as `YYYY/MM/DD`, `DD-MM-YYYY` or "
        "`YYYYMMDDHH`. `auto` accepts every form of DMS; no folder has two forms.",
    )
    cdc_path: Annotated[str | None, AfterValidator(_folder)] = Field(
        None,
        description="The endpoint's CdcPath, with PreserveTransactions: the folder below `path` with files "
        "`CDC_TXN-…` that hold the changes of all tables, in the order of transactions.",
    )
    staging: Annotated[str | None, AfterValidator(staging_url)] = Field(
        None, description=f"Used with `cdc_path`. {SETTING}"
    )
    load_names: Annotated[str | None, AfterValidator(pattern)] = Field(None, description=_LOAD_NAMES)
    change_names: Annotated[str | None, AfterValidator(_ordered_pattern)] = Field(None, description=_CHANGE_NAMES)
    format: Literal["auto", "csv", "parquet"] = Field(
        "auto", description="The format of the files. `auto` uses each file's ending."
    )
    timestamp_column: str | None = Field(
        None,
        description="The endpoint's TimestampColumnName: the column with the commit time. It orders the "
        "changes; without it, the order of files and rows does.",
    )
    sequence_column: Annotated[str | None, AfterValidator(_text)] = Field(
        None,
        description="The column of a transformation rule `add-column` that has the position of each change in the "
        "source's own order. It orders the changes instead of the commit time, which remains their time.",
    )
    sequence_kind: Literal["$AR_H_CHANGE_SEQ", "$AR_H_STREAM_POSITION"] = Field(
        "$AR_H_CHANGE_SEQ",
        description="The expression of that rule. A change sequence identifies one change, so that a copy of it is "
        "recognised under any file name; a stream position does not, and must be a number, as an SCN of Oracle.",
    )
    source_zone: Annotated[str, AfterValidator(zone)] = Field(
        "UTC",
        description="The time zone of times in the table's columns that are written without one. Commit times "
        "are in UTC.",
    )
    op_column: str = Field("Op", description="The name of the operation column in files with headers.")
    delimiter: Annotated[str, AfterValidator(one_character)] = Field(
        ",", description="The endpoint's CsvDelimiter."
    )
    quote: Annotated[str, AfterValidator(optional_character)] = Field(
        '"', description="The quote of fields; empty if the endpoint has Rfc4180=false, which writes no quotes."
    )
    null_text: str = Field(
        "NULL", description="The endpoint's CsvNullValue: an unquoted field of this text is NULL."
    )
    header: HeaderSetting = Field("auto", description=HEADER_SETTING)
    row_delimiter: Annotated[str, AfterValidator(_row_end)] = Field(
        "\n", description="The endpoint's CsvRowDelimiter. With a line feed, rows may end in CR LF as well."
    )
    trim_padding: bool = Field(
        False,
        description="The endpoint has AddTrailingPaddingCharacter: blanks at the end of texts are left out, so "
        "that keys match.",
    )
    operations: Literal["all", "inserts", "inserts_and_updates"] = Field(
        "all",
        description="The operations that the endpoint writes: `inserts` with CdcInsertsOnly, `inserts_and_updates` "
        "with CdcInsertsAndUpdates. Change files then need no Op, and deletes are lost.",
    )
    operation_indicator: str | None = Field(
        None,
        description="A column that a rule `add-column` fills by `operation_indicator('D', 'U', 'I')`. A row that "
        "it calls deleted is deleted, whatever Op says.",
    )
    operation_indicator_values: list[str] = Field(
        ["D", "U", "I"],
        min_length=3,
        max_length=3,
        description="The values of that column for a delete, an update and an insert.",
    )
    no_sup_value: Annotated[str | None, AfterValidator(_text)] = Field(
        None,
        description="The endpoint's CsvNoSupValue, if UseCsvNoSupValue is on: an unquoted field of this text was "
        "not sent, and the row keeps its stored value.",
    )
    before_image_prefix: Annotated[str | None, AfterValidator(_text)] = Field(
        None,
        description="The `column-prefix` of the task's rule `add-before-image-columns`, as `BI_`. With it, an "
        "update that changes the key moves the row.",
    )
    max_files: PositiveInt = Field(1000, description="The most files of one batch.")
    max_bytes: ByteSize = Field(
        ByteSize(256 * 1024 * 1024),
        description="The most bytes of files of one batch, which has at least one file, as 256MiB.",
    )

    @model_validator(mode="after")
    def _has_columns_apart(self) -> Self:
        """Refuse a column that two keys name, and a `sequence_kind` without a `sequence_column`."""
        if self.sequence_column is None and "sequence_kind" in self.model_fields_set:
            raise ValueError("`sequence_kind` says what `sequence_column` is, and there is none")
        if self.sequence_column in (self.op_column, self.timestamp_column) and self.sequence_column is not None:
            raise ValueError(f"two keys name the column {self.sequence_column!r}")
        return self

    @property
    def dialect(self) -> Dialect:
        """The CSV dialect of the endpoint."""
        return Dialect(self.delimiter, self.quote, self.null_text, self.no_sup_value, self.row_delimiter)

    @property
    def may_lack_op(self) -> bool:
        """True if change files may have no Op: a column has the operation, or there are no deletes."""
        return self.operations != "all" or self.operation_indicator is not None


def place(options: DmsOptions, own: DmsTableOptions | None = None) -> Place:
    """Return where a table's files lie and how they are named, by its own options or those of the source."""
    own = own or DmsTableOptions.model_validate({})
    load, changes = own.load_names or options.load_names, own.change_names or options.change_names
    names = Names(
        None if options.date_folders == "auto" else options.date_folders,
        None if load is None else re.compile(load),
        None if changes is None else re.compile(changes),
    )
    load_folder, change_folder = (
        own_folder if own_folder is not None else source_folder
        for own_folder, source_folder in ((own.load, options.load), (own.changes, options.changes))
    )
    return Place(names, load_folder, change_folder, options.cdc_path)
