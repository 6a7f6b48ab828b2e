"""The plain files of one table, and how they are read by its settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.sql import SparkSession

from lakeward.adapters.sources.csv.layout import ExpectedLayout
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.files.column_mapping import writings
from lakeward.adapters.sources.files.named_fields import fields_of, find_field
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import format_of
from lakeward.adapters.sources.messages.connect_schema import SchemaColumn
from lakeward.adapters.sources.messages.debezium import Debezium
from lakeward.adapters.sources.messages.dms import DmsMessages
from lakeward.adapters.sources.messages.json.wire_format import EPOCHS
from lakeward.adapters.sources.messages.mongodb import MongoMessages
from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.adapters.spark.frames.source_rows import TRANSACTION_TEXT
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, Ordered
from lakeward.core.merge.facts import PARTIAL, Capability

NO_COLUMN: Final = "\0none"
"""The name of no column, for settings that must name one."""

_ITS_SOURCE: Final = 'its source; `places = "arrival"` goes without such places'
"""What orders messages, in the words for a quarantined row without a valid position."""

_WORDS: Final = {word: word for word in ("insert", "update", "delete", "read", "truncate")}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """The files of a table: their folder, the settings for them, and what earlier reads showed.

    `patterns` are the formats of columns. With `has_torn_rows` rows may span several lines. With `links` inserts
    are linked with deletes before them that are the same key change. `partitions` are the partitions of a topic by
    the paths of files below the landing folder. `has_own_folder` says that the table's folder must have no messages
    of other tables. If tables share a folder, `must_name` has which of `schema` and `table` a message must name.
    `earlier` returns the names in the headers of the table's CSV files. With `are_one` all files of messages have
    the schemas of all of them. With `are_many` Arrow decodes messages of the usual form, and `has_others` says that
    there are other messages, which SQL decodes. `described` are the columns as the schemas of all messages describe
    them, if schemas are not read with each message.
    """

    spark: Callable[[], SparkSession]
    folder: Folder
    dimension: Dimension
    options: FilesOptions
    patterns: Mapping[str, str] = field(default_factory=dict)
    has_torn_rows: bool = False
    links: bool = False
    partitions: Mapping[str, int] = field(default_factory=dict)
    has_own_folder: bool = True
    must_name: frozenset[str] = frozenset()
    earlier: Callable[[], Collection[str]] = frozenset
    are_one: bool = False
    are_many: bool = False
    has_others: bool = False
    described: Mapping[str, SchemaColumn] = field(default_factory=dict)

    def format_of(self, name: str) -> str:
        """Return the format of a file."""
        return format_of(name) if self.options.format == "auto" else self.options.format

    def path_of(self, name: str) -> str:
        """Return the path of a file."""
        return self.folder.landing_path(self.dimension.source, name)

    @property
    def is_snapshot(self) -> bool:
        """Whether files are snapshots, each of which replaces all rows."""
        return self.dimension.snapshots is not None

    @property
    def dates_snapshots(self) -> bool:
        """Whether rows get the time in the name of their snapshot; only a history needs it."""
        return self.is_snapshot and self.dimension.history is not None and self.options.dates_snapshots

    @property
    def has_op(self) -> bool:
        """Whether rows have an operation; those of a snapshot have none."""
        return not self.is_snapshot and (self.options.is_messages or self.options.operation is not None)

    @property
    def operation_column(self) -> str | None:
        """The column with the operation, if it is no column of the table."""
        operation, schema = self.options.operation, self.dimension.schema
        return None if operation is None or find_field(schema, operation.column) else operation.column

    @property
    def named_fields(self) -> Mapping[str, str]:
        """The columns or paths that settings name, by setting; without the operation for snapshots."""
        named = fields_of(self.options)
        return {name: field for name, field in named.items() if name != "operation" or self.has_op}

    @property
    def expected(self) -> ExpectedLayout:
        """The layout that CSV files should have; files of a snapshot may lack the operation."""
        operation = self.operation_column
        dialect = self.reading.dialect
        is_path = operation is not None and "." in operation
        hint = "Or does `operation` name another column?" + (" CSV has no fields in a column." if is_path else "")
        return ExpectedLayout(
            *(self.dimension, dialect, operation, None),
            header_may_lack_op=self.is_snapshot,
            no_op=hint,
            header=self.options.header,
            earlier=self.earlier,
        )

    def head(self, name: str) -> str:
        """Return the beginning of a CSV file; raises SourceError where it cannot be read."""
        return self.folder.head(self.dimension.source, name, quote=self.options.quote)

    @property
    def reading(self) -> Reading:
        """How the files are read, for the readers of all formats."""
        o = self.options
        operation = o.operation
        names_all = operation is not None and bool(operation.insert or operation.update)
        return Reading(
            dimension=self.dimension,
            dialect=Dialect(o.delimiter, o.quote, o.null_text),
            op_column=operation.column if operation else NO_COLUMN,
            operations=_WORDS if o.is_messages else operation.meanings if operation else {},
            takes_other_words=operation is not None and not names_all,
            sequence_column=_ITS_SOURCE if o.is_messages else o.order_by,
            source_zone=o.source_zone,
            patterns={name: pattern for name, pattern in self.patterns.items() if pattern not in EPOCHS},
            base=self.folder.base,
            is_any_number=True,
            may_need=self._may_need(),
            transaction=TRANSACTION_TEXT if o.is_messages else f"string({names.TIME})",
            written=(
                {} if o.format in ("csv", "parquet") else writings(o, self.dimension, self.patterns, self.described)
            ),
        )

    def of_partitions(self, names: Sequence[str]) -> TableFiles:
        """Return the table with the partitions of the named files, as far as their names have one."""
        file_names = self.folder.places.of(self.dimension.source).names
        start = len(self.folder.base.rstrip("/")) + 1
        partitions = {self.path_of(name)[start:]: file_names.partition(name) for name in names}
        return replace(self, partitions={path: int(one) for path, one in partitions.items() if one is not None})

    @property
    def decoder(self) -> Debezium | DmsMessages:
        """The decoder of the table's messages."""
        o = self.options
        if o.format == "dms-json":
            return DmsMessages(before_prefix=o.before_image_prefix, must_name=self.must_name)
        return Debezium(
            form=o.form,
            unavailable=o.unavailable_value,
            tombstones=o.tombstones,
            has_places=o.has_places,
            links_all=not isinstance(self.dimension.lateness, Ordered),
            key=self.dimension.key,
            before_images=o.before_images,
            partitions=self.partitions,
            must_name=self.must_name,
            documents=o.documents and MongoMessages(o.documents, (*self.dimension.schema.names,)),
        )

    def _may_need(self) -> frozenset[Capability]:
        if self.options.is_messages:
            return PARTIAL
        return frozenset({Capability.UNSET} if self.options.absent == "unset" else ())
