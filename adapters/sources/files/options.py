"""The settings of the source `files`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, PositiveInt, model_validator

from lakeward.adapters.sources.files.form import MESSAGES, Form, folder_below
from lakeward.adapters.sources.files.paths.file_names import FileNames
from lakeward.adapters.sources.landing.places import Place

_OF_DEBEZIUM: Final = (
    *("types", "form", "documents", "decimals", "times", "binary"),
    *("unavailable_value", "tombstones", "places", "before_images"),
)
_OF_MESSAGES: Final = ("line", *_OF_DEBEZIUM, "before_image_prefix")
_OF_ROWS: Final = ("order_by", "time", "operation", "absent", "path_columns")
"""Keys that have no meaning for files of another kind."""


class _Where(BaseModel):
    """Where files lie; the table of settings begins with it."""

    path: str = Field(
        description="The landing folder: a path, relative to the settings file where it is not absolute, or "
        "`s3://bucket/prefix`; see docs/reference/s3.md."
    )
    folder: Annotated[str, AfterValidator(folder_below)] = Field(
        "{schema}/{table}",
        description="Where the files of a table lie below `path`; `topics/shop.{schema}.{table}` for a topic. "
        "Without {schema} and {table} all tables read one folder, and each takes the messages that name it, "
        "and, where it is the only table, those that name none.",
    )


class FilesTableOptions(Form):
    """What is so for the files of one table alone, where it is not as [source] says."""

    folder: Annotated[str | None, AfterValidator(folder_below)] = Field(None, description="Where its files lie.")


class FilesOptions(Form, _Where):
    """Files that something else than DMS wrote: CSV, JSON lines, Parquet, or messages as JSON lines."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

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
        said = self.model_fields_set
        for key in _OF_ROWS:
            if self.is_messages and getattr(self, key) not in (None, []):
                raise ValueError(f"`{key}` is not for messages: they say themselves what they do, and when")
        for key in _OF_DEBEZIUM:
            if self.format != "debezium" and key in said:
                raise ValueError(f'`{key}` is for `format = "debezium"` alone')
        if not self.is_messages and ("line" in said or "{schema}" not in self.folder):
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
        """Whether the schema of a key tells how it is written in a tombstone, which deletes a row.

        Not with `types = "schema"`: the schema of a key would be taken for the columns of the table. No schema
        tells anything of `documents`.
        """
        has_schemas = self.types != "schema" and self.documents is None
        return self.tombstones == "delete" and self.line == "record" and has_schemas

    @property
    def is_messages(self) -> bool:
        """Whether lines are messages."""
        return self.format in MESSAGES

    def with_own(self, own: FilesTableOptions) -> Mapping[str, Any]:
        """Return what holds for a table that says something of itself, as settings, to be validated.

        A table of messages has no use for what [source] says of rows, nor one of rows for what it says of messages.
        Of messages of another form it has none for what is said of their form.
        """
        said = {key: getattr(self, key) for key in self.model_fields_set}
        if own.format != self.format and "format" in own.model_fields_set:
            useless = (*_OF_ROWS, *_OF_MESSAGES) if own.format in MESSAGES else _OF_MESSAGES
            said = {key: value for key, value in said.items() if key not in useless}
        mine = {key: getattr(own, key) for key in own.model_fields_set}
        if mine.pop("folder", None) is not None:
            said.pop("folder", None)
        return {**said, **{key: value for key, value in mine.items() if value is not None}}

    @property
    def orders_rows(self) -> bool:
        """Whether rows of a key have an order beside that of files and lines, or, of snapshots, need none."""
        return self.is_messages or self.order_by is not None or "snapshots" in self.model_fields_set

    @property
    def has_places(self) -> bool:
        """Whether messages should tell their places in the log of their source."""
        return self.format == "debezium" and self.places == "source"

    def message_cautions(self) -> Sequence[str]:
        """Return what a person should know of messages without places in the log of their source."""
        if not self.is_messages or self.has_places:
            return ()
        return ["Only their arrival orders the messages of a key; a snapshot row never replaces a change."]

    @property
    def dates_rows(self) -> bool:
        """Whether a column says of each row of which time it is."""
        return self.time is not None or self.order_by is not None

    @property
    def dates_snapshots(self) -> bool:
        """Whether the name of a snapshot says of which time all of its rows are; no column does."""
        told = {} if self.names is None else re.compile(self.names).groupindex
        return "time" in told and not self.dates_rows

    def place(self, *, snapshots: bool = False) -> Place:
        """Return where files lie and how they are named; each is of a full load where they are `snapshots`."""
        pattern = None if self.names is None else re.compile(self.names)
        in_folders = snapshots and self.snapshots == "folder"
        names = FileNames(pattern, is_messages=self.is_messages, snapshots=snapshots, in_folders=in_folders)
        return Place(names, self.folder, self.folder)
