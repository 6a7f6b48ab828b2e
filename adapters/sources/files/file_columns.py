"""The columns of plain files, found from CSV layouts, Parquet footers and message schemas, and those of a batch."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace

from lakeward.adapters.sources.csv.layout import OP, Layout, find_layout, header_names
from lakeward.adapters.sources.files.named_fields import find_field, lacks_field, refuse_both
from lakeward.adapters.sources.files.paths.filled_columns import columns_with_values
from lakeward.adapters.sources.files.paths.path_columns import (
    column_in_file_and_path,
    column_only_in_path,
    hidden_columns,
    path_cells,
    path_columns,
    with_path_schema,
    without_path_columns,
)
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.connect_schema import Version, merge_columns
from lakeward.adapters.sources.messages.json.wire_format import EPOCHS
from lakeward.adapters.sources.rows.parquet_footers import PhysicalForm, read_footer, refuse_unknown
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.casts import check_pattern, check_text
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.schema import WIDER, Column, Schema, Type, is_within
from lakeward.core.text.suggestions import nearest


@dataclass(frozen=True, slots=True)
class File:
    """A file of a batch with its format and its columns.

    A CSV file has a `layout`, a Parquet file a `schema`, and a file of messages with schemas a `schema` and its
    `versions`. `forms` are the stored forms of Parquet columns, `written` the names in the file of columns that
    have another name here (see `Footer`).
    """

    item: SourceObject
    format: str
    layout: Layout | None = None
    schema: Schema | None = None
    versions: tuple[Version, ...] = ()
    forms: tuple[tuple[str, PhysicalForm], ...] = ()
    written: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> Hashable:
        """The key by which files are grouped that Spark reads at once."""
        return self.layout or ((self.schema, self.forms, self.written) if self.schema else self.format)


def inspect_files(table: TableFiles, items: Sequence[SourceObject], stored: Schema | None) -> list[File]:
    """Find the columns of files, in order; `stored` are those of the table as it is, None without a table.

    A Parquet column that is NULL in every row may have no type. It gets that of the table or of an earlier file.
    """
    files: list[File] = []
    before = Schema(())
    for item in items:
        files.append(inspect_file(table, item, stored, before))
        own = files[-1].schema or before
        before = Schema((*own, *(column for column in before if own.find(column.name) is None)))
    return files


def inspect_file(
    table: TableFiles, item: SourceObject, stored: Schema | None = None, before: Schema | None = None
) -> File:
    """Find the columns of a file; `stored` are those of the table, `before` those of the files before it.

    Raises SchemaConflict if the types of its columns are not known, and if a column is in both the file and its
    path, or is in the path only and `path_columns` does not name it.
    """
    path_cells(table, item.name)
    own, hidden = without_path_columns(table), hidden_columns(table, item.name)
    try:
        file = _inspect(own, item, stored, before)
    except SchemaConflict as conflict:
        if hidden:
            raise column_only_in_path(table, item.name, hidden) from conflict
        if (both := _path_columns_in_header(table, item.name)) is not None:
            raise column_in_file_and_path(table.dimension, item.name, both) from conflict
        raise
    has = columns_with_values(own, item.name, file.schema, file.layout) if hidden else None
    if has is not None and (lacking := [name for name in hidden if name not in has]):
        raise column_only_in_path(table, item.name, lacking)
    named = () if file.schema is None else [*map(str.lower, _present_names(own, file.schema))]
    for name in table.options.path_columns:
        if name.lower() in named:
            raise column_in_file_and_path(table.dimension, item.name, name)
    return file


def _present_names(table: TableFiles, schema: Schema) -> Sequence[str]:
    return [table.dimension.policies.renames.get(name, name) for name in schema.names]


def _path_columns_in_header(table: TableFiles, name: str) -> str | None:
    """Return the first of `path_columns` that the header of a CSV file names; None for any other file."""
    if not table.options.path_columns or table.format_of(name) != "csv":
        return None
    named = header_names(table.head(name), table.expected)
    return next((column for column in table.options.path_columns if column.lower() in named), None)


def _inspect(table: TableFiles, item: SourceObject, stored: Schema | None, before: Schema | None) -> File:
    form, dimension = table.format_of(item.name), table.dimension
    if form == "parquet":
        with table.folder.open(dimension.source, item.name) as file:
            footer_ = read_footer(file, str(dimension.name), item.name)
            footer_ = footer_.with_names(_expected_names(table, stored))
            footer_ = footer_.with_types(dimension.schema, stored, before, renames=dimension.policies.renames)
            if stored is None and (dimension.has_column_rules or not dimension.key or len(dimension.schema)):
                # Column rules may make the columns of a table, so that its stored columns say nothing of its files.
                refuse_unknown(footer_, str(dimension.name), item.name)
            return File(item, form, schema=footer_.schema, forms=footer_.forms, written=footer_.written)
    if table.options.types == "schema":
        _check_formats(table, form)
        return File(item, form)
    if not len(dimension.schema):
        raise _no_types(table, item)
    _check_formats(table, form)
    if form != "csv":
        return File(item, form)
    return File(item, form, find_layout(item.name, table.head(item.name), table.expected, is_load=False))


def _expected_names(table: TableFiles, stored: Schema | None) -> Sequence[str]:
    """Return the names of columns in the settings and the table, which Parquet files may have in another case."""
    options, dimension = table.options, table.dimension
    operation = None if options.operation is None else options.operation.column
    columns = (*dimension.schema.names, *dimension.key, *dimension.policies.renames, options.order_by, options.time)
    return [*filter(None, (*columns, operation)), *(() if stored is None else stored.names)]


def _no_types(table: TableFiles, item: SourceObject) -> SchemaConflict:
    name = table.dimension.name
    hint = ', or set `types = "schema"` if each message has a schema'
    return SchemaConflict(
        f"{name}: the types of its columns are not declared",
        found=f"{item.name} has no types that a table could have, and lakeward never guesses them",
        todo=f'Declare them under [tables."{name}".columns]'
        f"{hint if table.options.format == 'debezium' else ''}. Other tables go on.",
    )


def _check_formats(table: TableFiles, form: str) -> None:
    """Raise ConfigError for a column whose type or format files of the format `form` cannot have."""
    where = str(table.dimension.name)
    for item in table.dimension.schema:
        if form not in ("csv", "parquet") and _has_other_keys(item.type):
            raise ConfigError(
                f"{where}: the column {item.name} is declared as {item.type}, and names in JSON are texts",
                todo="Declare the keys of its maps as `string`.",
            )
        pattern = table.patterns.get(item.name)
        if form == "csv" and pattern in EPOCHS:
            raise ConfigError(
                f"{where}: the column {item.name} has the format {pattern}, and its files are CSV",
                todo="Numbers since 1970 are read from JSON and messages alone: let the writer of the files write "
                "times, or declare the column as `bigint`.",
            )
        if form == "csv" or pattern is not None:
            is_epoch = pattern in EPOCHS and item.type.name in ("timestamp", "timestamp_ntz") and form != "csv"
            check_text(item, None if is_epoch else pattern, where)
            if pattern is not None and not is_epoch and item.type.name != "binary":
                check_pattern(table.spark(), item, pattern, where)


def _has_other_keys(type_: Type) -> bool:
    """Return whether a type is, or contains, a map whose keys are no texts."""
    own = type_.name == "map" and type_.parts[0].type.name != "string"
    return own or any(_has_other_keys(part.type) for part in type_.parts)


def leading_alike(files: Sequence[File]) -> Sequence[File]:
    """Return the leading files that have the columns of the first one."""
    columns = [_columns(file) for file in files]
    return files[: next((place for place, own in enumerate(columns) if own != columns[0]), len(files))]


def _columns(file: File) -> frozenset[str] | dict[str, Type] | None:
    if file.layout is not None:
        return frozenset(file.layout.columns) - {OP}
    return None if file.schema is None else {c.name: c.type for c in file.schema}


def with_schema(table: TableFiles, files: Sequence[File]) -> Dimension:
    """Return the dimension with the columns that its files have, those from their paths included.

    Raises SchemaConflict if columns are not declared, or do not fit what is declared.
    """
    dimension = _with_columns(without_path_columns(table), files[0])
    return with_path_schema(dimension, table.dimension.schema, path_columns(table))


def _with_columns(table: TableFiles, first: File) -> Dimension:
    dimension = table.dimension
    if first.layout is not None:
        undeclared = first.layout.undeclared(dimension.schema)
        if undeclared:
            raise undeclared_columns(dimension, first.item.name, undeclared)
        has = first.layout.columns
        return replace(dimension, schema=Schema(tuple(c for c in dimension.schema if c.name in has)))
    if first.schema is None:
        return dimension
    return _with_footer(table, first, first.schema)


def _with_footer(table: TableFiles, first: File, schema: Schema) -> Dimension:
    dimension, operation = table.dimension, table.options.operation
    declared, renames = dimension.schema, {} if first.versions else dimension.policies.renames
    own = [Column(renames.get(c.name, c.name), c.type) for c in schema]
    if operation is not None:
        field = find_field(Schema(tuple(own)), operation.column)
        refuse_both(dimension, first.item.name, Schema(tuple(own)), operation.column)
        if field is None and table.has_op:
            raise lacks_field(dimension, first.item.name, "operation", operation.column)
        is_plain = field is not None and not field[1].type.is_nested  # `check_mapping` refuses a nested one
        if declared.find(operation.column) is None and is_plain:
            own = [c for c in own if c.name != operation.column]
    for item in own:
        declared_column = declared.find(item.name)
        if declared_column is not None and not is_within(item.type, declared_column.type):
            raise SchemaConflict(
                f"{dimension.name}: the columns of {first.item.name} are not those of the table",
                found=f"column {item.name} is {item.type}, and declared as {declared_column.type}",
                todo="Nothing of this batch was applied; other tables go on. Declare them as they are now. "
                f"{WIDER}",
            )
    own = [declared.find(item.name) or item for item in own]
    _check_names(dimension, first, own, table.options.path_columns)
    return replace(dimension, schema=Schema(tuple(own)))


def described_by(table: TableFiles, file: File, versions: Sequence[Version]) -> File:
    """Return a file of messages with the columns of its schemas; declared types take precedence.

    Raises SchemaConflict for a column that has two types without a common wider one, or none that a table can hold.
    """
    where, declared = f"{table.dimension.name}: {file.item.name}", table.dimension.schema

    def conflict(name: str, one: Type, other: Type) -> SchemaConflict:
        return SchemaConflict(
            f"{where} has a column of two types",
            found=f"{name} is {one.with_article} in some of its messages, and {other.with_article} in others",
            todo="Nothing of this batch was applied; other tables go on. Declare the column under [tables] as a "
            "type that holds both, or keep the file back.",
        )

    own = [Version(v.digest, tuple(c for c in v.columns if declared.find(c.name) is None)) for v in versions]
    for item in (item for version in own for item in version.columns if item.type is None):
        raise SchemaConflict(
            f"{where} has a column that no type of a table holds",
            found=f"the schema of {item.name} has no type for it, or one of more than 38 digits",
            todo=f'Declare it under [tables."{table.dimension.name}".columns], as a decimal or a string.',
        )
    columns = {c.name: c for c in merge_columns(own, conflict)}
    described = [item.name for version in versions for item in version.columns]
    every = [columns.get(name) or declared.find(name) for name in dict.fromkeys((*described, *declared.names))]
    schema = Schema(tuple(column for column in every if column is not None))
    return replace(file, schema=schema, versions=tuple(versions))


def undeclared_columns(dimension: Dimension, name: str, listed: Sequence[str]) -> SchemaConflict:
    """Return the error for a file with undeclared columns."""
    return SchemaConflict(
        f"{dimension.name}: {name} has columns that are not declared",
        found="they are " + ", ".join(column or "one without a name" for column in listed),
        todo=f'Declare them under [tables."{dimension.name}".columns], or set `schema.add = "ignore"`. '
        "Nothing of this batch was applied; other tables go on.",
    )


def _check_names(dimension: Dimension, file: File, own: Sequence[Column], of_path: Collection[str]) -> None:
    """Raise SchemaConflict for columns that the settings would refuse if they were declared there.

    The key must be among them, and a name must be unique, printable, and without lakeward's prefix.
    """
    listed = [c.name for c in own]
    for name in dimension.key:
        if name not in listed and name not in of_path:
            raise SchemaConflict(
                f"{dimension.name}: the key names {name!r}, and {file.item.name} has no such column",
                found="its columns are " + ", ".join(listed),
                todo=nearest(name, listed) or "Correct `key` under [tables].",
            )
    for name in listed:
        if name.lower().startswith(names.PREFIX) or not name.isprintable() or listed.count(name) > 1:
            raise SchemaConflict(
                f"{dimension.name}: {file.item.name} has the column {name!r}, and no table may have it so",
                todo="Let the writer of the file rename it. Nothing was applied.",
            )
