"""The settings of the source `files`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, PositiveInt, model_validator

from lakeward.adapters.sources.files.form import MESSAGES, Form, folder_below
from lakeward.adapters.sources.files.paths.file_names import FileNames
from lakeward.adapters.sources.landing.places import Place

_DEBEZIUM_KEYS: Final = (
    *("types", "form", "documents", "decimals", "times", "binary"),
    *("unavailable_value", "tombstones", "places", "before_images"),
)
_MESSAGE_KEYS: Final = ("line", *_DEBEZIUM_KEYS, "before_image_prefix")
_ROW_KEYS: Final = ("order_by", "time", "operation", "absent", "path_columns")
"""Keys that apply only to Debezium, to messages, or to rows; they are refused for other formats."""


class _Location(BaseModel):
    """Where files are; these settings come first."""

    path: str = Field(
        description="The landing folder: a path, relative to the settings file unless it is absolute, or "
        "`s3://bucket/prefix`; see docs/reference/s3.md."
    )
    folder: Annotated[str, AfterValidator(folder_below)] = Field(
        "{schema}/{table}",
        description="The folder of a table's files below `path`; `topics/shop.{schema}.{table}` for a topic. "
        "Without {schema} and {table} all tables read one folder, and each takes the messages that name it. If "
        "there is only one table, it also takes the messages that name none.",
    )


class FilesTableOptions(Form):
    """Settings of one table that override those of [source]."""

    folder: Annotated[str | None, AfterValidator(folder_below)] = Field(None, description="Its folder of files.")


class FilesOptions(Form, _Location):
    """Files of any writer but DMS: CSV, JSON lines, Parquet, or messages as JSON lines."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    landing: Literal["kept", "archived"] = Field(
        "kept", description="What happens to applied files: they stay, or go into `archive`."
    )
    archive: str = Field(
        "backup/",
        description="With `archived`: the folder they go into, as `<schema>/<table>/<file>`. It must not lie "
        "within `path`, and is in S3 where that is.",
    )
    max_files: PositiveInt = Field(1000, description="The most files in one batch.")
    max_bytes: ByteSize = Field(
        ByteSize(256 * 1024 * 1024),
        description="The most bytes of files in one batch (which has at least one file), as 256MiB.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Refuse settings that do not apply to the format, since they would be ignored silently."""
        given_keys = self.model_fields_set
        for key in _ROW_KEYS:
            if self.is_messages and getattr(self, key) not in (None, []):
                raise ValueError(f"`{key}` is not for messages: they have their own operation, order and time")
        for key in _DEBEZIUM_KEYS:
            if self.format != "debezium" and key in given_keys:
                raise ValueError(f'`{key}` is for `format = "debezium"` alone')
        if not self.is_messages and ("line" in given_keys or "{schema}" not in self.folder):
            raise ValueError("`line`, and a `folder` of many tables, are for messages alone")
        if not self.is_messages and "partition" in re.compile(self.names or "").groupindex:
            raise ValueError("`names` has a group 'partition', which is for messages alone")
        if self.format != "dms-json" and self.before_image_prefix is not None:
            raise ValueError('`before_image_prefix` is for `format = "dms-json"` alone')
        if self.documents is not None and (self.form, self.types) != ("envelope", "declared"):
            raise ValueError(
                "`documents` is for the envelope of Debezium's connector for MongoDB, whose columns are declared: "
                '`form = "flattened"` and `types = "schema"` are for others'
            )
        if self.tombstones == "delete" and (self.line, self.places) != ("record", "arrival"):
            raise ValueError(
                '`tombstones = "delete"` takes `line = "record"` and `places = "arrival"`: a tombstone has a key '
                "alone, and no place in the log of the source"
            )
        return self

    @property
    def reads_keys(self) -> bool:
        """Whether the schema of a key says how the key of a tombstone that deletes a row is written.

        Not with `types = "schema"`: the columns of the table would be taken from the schema of the key. Nor with
        `documents`, whose values no schema describes.
        """
        has_schemas = self.types != "schema" and self.documents is None
        return self.tombstones == "delete" and self.line == "record" and has_schemas

    @property
    def is_messages(self) -> bool:
        """Whether lines are messages."""
        return self.format in MESSAGES

    def with_own(self, own: FilesTableOptions) -> Mapping[str, Any]:
        """Return the settings of a table that overrides some, to be validated.

        Settings of [source] are left out if they do not apply to the format of the table: those of rows for
        messages, and those of messages for rows or for messages of another format.
        """
        settings = {key: getattr(self, key) for key in self.model_fields_set}
        if own.format != self.format and "format" in own.model_fields_set:
            useless = (*_ROW_KEYS, *_MESSAGE_KEYS) if own.format in MESSAGES else _MESSAGE_KEYS
            settings = {key: value for key, value in settings.items() if key not in useless}
        overrides = {key: getattr(own, key) for key in own.model_fields_set}
        if overrides.pop("folder", None) is not None:
            settings.pop("folder", None)
        return {**settings, **{key: value for key, value in overrides.items() if value is not None}}

    @property
    def orders_rows(self) -> bool:
        """Whether rows of a key have an order other than that of files and lines, or are of snapshots."""
        return self.is_messages or self.order_by is not None or "snapshots" in self.model_fields_set

    @property
    def has_places(self) -> bool:
        """Whether messages must have their position in the log of their source."""
        return self.format == "debezium" and self.places == "source"

    def message_cautions(self) -> Sequence[str]:
        """Return a warning for messages without positions in the log of their source."""
        if not self.is_messages or self.has_places:
            return ()
        return ["Only their arrival orders the messages of a key; a snapshot row never replaces a change."]

    @property
    def dates_rows(self) -> bool:
        """Whether a column has the time of each row."""
        return self.time is not None or self.order_by is not None

    @property
    def dates_snapshots(self) -> bool:
        """Whether the name of a snapshot has the time of all its rows, and no column has it."""
        groups = {} if self.names is None else re.compile(self.names).groupindex
        return "time" in groups and not self.dates_rows

    def place(self, *, snapshots: bool = False) -> Place:
        """Return the folder and the names of files; with `snapshots` each file is of a full load."""
        pattern = None if self.names is None else re.compile(self.names)
        in_folders = snapshots and self.snapshots == "folder"
        names = FileNames(pattern, is_messages=self.is_messages, snapshots=snapshots, in_folders=in_folders)
        return Place(names, self.folder, self.folder)
