"""The inspection of files of DMS before they are read: their names, layouts and schemas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import SparkSession

from lakeward.adapters.sources.csv.earlier_headers import names_in_headers
from lakeward.adapters.sources.csv.layout import OPERATIONS, ExpectedLayout, find_layout
from lakeward.adapters.sources.dms.file_columns import File
from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.dms.transactions.layout import find_layout as find_shared_layout
from lakeward.adapters.sources.dms.transactions.shared_files import SharedFiles
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import FileName
from lakeward.adapters.sources.rows.parquet_footers import OF_DMS, read_footer, refuse_unknown
from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.adapters.spark.sql.casts import check_pattern, check_text
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SchemaConflict
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.schema import Schema


@dataclass(slots=True)
class FileInspector:
    """Inspects the files of a landing folder, by the options of the source.

    The names in headers of a table are kept until `forget_headers`; declared formats are checked once a table.
    """

    options: DmsOptions
    folder: Folder
    spark: Callable[[], SparkSession]
    patterns: Mapping[TableName, Mapping[str, str]]
    shared: SharedFiles | None
    _headers: dict[TableName, Collection[str]] = field(default_factory=dict)
    _checked: set[TableName] = field(default_factory=set)

    def forget_headers(self, table: TableName) -> None:
        """Forget the names in the headers of a table, so that the next batch reads them."""
        self._headers.pop(table, None)

    def inspect_all(self, dimension: Dimension, selection: ObjectSelection) -> Sequence[File]:
        """Return the files with their layouts or schemas.

        A Parquet column without a type has the type that the table, or a file before it, has.
        """
        files: list[File] = []
        known_columns = Schema(()) if selection.columns is None else selection.columns
        for item in selection.objects:
            files.append(self.inspect(dimension, item, known_columns, is_there=selection.columns is not None))
            schema = files[-1].schema or Schema(())
            known_columns = Schema(
                (*known_columns, *(column for column in schema if known_columns.find(column.name) is None))
            )
        return files

    def inspect(self, dimension: Dimension, item: SourceObject, known_columns: Schema, *, is_there: bool) -> File:
        """Return a file with its layout or schema; `is_there` says that the table has rows, and so types.

        Raises SchemaConflict for a CSV file of a table without declared columns, and for a file that does not fit.
        """
        name = self.file_name(dimension.source, item.name)
        if name.format == "parquet":
            with self.folder.open(dimension.source, item.name) as file:
                parquet_footer = read_footer(file, str(dimension.name), item.name, OF_DMS)
            renames, declared = dimension.policies.renames, dimension.schema
            parquet_footer = parquet_footer.with_names(
                [*self._names_of_endpoint(dimension), *declared.names, *renames, *known_columns.names]
            )
            parquet_footer = parquet_footer.with_types(declared, known_columns, renames=renames)
            if not is_there and (dimension.has_column_rules or not dimension.key or len(declared)):
                refuse_unknown(parquet_footer, str(dimension.name), item.name)
            return File(
                item, name, schema=parquet_footer.schema, forms=parquet_footer.forms, written=parquet_footer.written
            )
        if not len(dimension.schema):
            raise SchemaConflict(
                f"{dimension.name}: the types of its columns are not declared",
                found=f"{item.name} is CSV, which has no types, and lakeward never guesses them",
                todo=f'Declare them under [tables."{dimension.name}".columns]. Other tables go on.',
            )
        self._check_formats(dimension)
        if self.shared is not None and name.is_shared:
            width = self.shared.share(dimension.source, item.name).width
            return File(item, name, layout=find_shared_layout(item.name, width, self.expected_layout(dimension)))
        head = self.head(dimension.source, item.name)
        layout = find_layout(item.name, head, self.expected_layout(dimension), is_load=name.is_load)
        return File(item, name, layout=layout)

    def expected_layout(self, dimension: Dimension) -> ExpectedLayout:
        """Return what the settings say of the layout of a table's CSV files."""
        o = self.options
        dialect = self.reading(dimension).dialect
        added = (o.op_column, o.timestamp_column, o.before_image_prefix, o.sequence_column)
        expected = ExpectedLayout(dimension, dialect, *added, may_lack_op=o.may_lack_op, header=o.header)
        return replace(expected, earlier=partial(self._names_in_earlier_headers, expected))

    def reading(self, dimension: Dimension) -> Reading:
        """Return how the rows of a table are read, by the settings of the source."""
        o = self.options
        return Reading(
            dimension=dimension,
            dialect=o.dialect,
            op_column=o.op_column,
            operations=OPERATIONS,
            timestamp_column=o.timestamp_column,
            source_zone=o.source_zone,
            patterns=self.patterns.get(dimension.source, {}),
            before_prefix=o.before_image_prefix,
            sequence_column=o.sequence_column,
            base=self.folder.base,
            is_padded=o.trim_padding,
            without_op="insert" if o.operations == "inserts" else "read",
            indicator=o.operation_indicator,
            indicator_values=o.operation_indicator_values,
        )

    def file_name(self, table: TableName, name: str) -> FileName:
        """Return the parsed name of a file that was listed or applied."""
        return self.folder.places.of(table).known(table, name)

    def head(self, table: TableName, name: str) -> str:
        """Return the beginning of a CSV file, with its complete first row."""
        return self.folder.head(table, name, self.options.row_delimiter, self.options.quote)

    def _names_of_endpoint(self, dimension: Dimension) -> Sequence[str]:
        """Return the column names that the settings give: those that the endpoint adds, the key, the indicator."""
        o = self.options
        names = (o.op_column, o.timestamp_column, o.sequence_column, o.operation_indicator, *dimension.key)
        prefix = o.before_image_prefix
        before = () if prefix is None else (prefix + name for name in (*dimension.key, *dimension.schema.names))
        return [*filter(None, names), *before]

    def _names_in_earlier_headers(self, expected: ExpectedLayout) -> Collection[str]:
        """Return the names in the headers of a table's files, which are read once for each batch."""
        table = expected.dimension.source
        header_names = self._headers.get(table)
        if header_names is None:
            header_names = names_in_headers(self.folder, table, expected, partial(self.head, table))
            self._headers[table] = header_names
        return header_names

    def _check_formats(self, dimension: Dimension) -> None:
        """Refuse formats that a column cannot have; it is done once for each table."""
        if dimension.name in self._checked:
            return
        patterns, table = self.patterns.get(dimension.source, {}), str(dimension.name)
        for item in dimension.schema:
            pattern = patterns.get(item.name)
            check_text(item, pattern, table)
            if pattern is not None and item.type.name != "binary":
                check_pattern(self.spark(), item, pattern, table)
        self._checked.add(dimension.name)
