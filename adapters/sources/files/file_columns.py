"""What the beginning of plain files says: their layouts and footers, and the columns that a batch has by them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace

from lakeward.adapters.sources.csv.layout import OP, Layout, find_layout, header_names
from lakeward.adapters.sources.files.named_fields import find_field, lacks_field, refuse_both
from lakeward.adapters.sources.files.paths.filled_columns import columns_with_values
from lakeward.adapters.sources.files.paths.path_columns import (
    hidden_columns,
    in_both,
    only_in_path,
    path_cells,
    path_columns,
    with_path_schema,
    without_path_columns,
)
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.connect_schema import Version, merged
from lakeward.adapters.sources.messages.json.wire_format import EPOCHS
from lakeward.adapters.sources.rows.parquet_footers import Form, footer, refuse_unknown
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.casts import check_pattern, check_text
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.schema import WIDER, Column, Schema, Type, is_within
from lakeward.core.text.suggestions import nearest


@dataclass(frozen=True, slots=True)
class File:
    """A file of a batch, its format, and what its beginning says; of messages, the schemas beside them.

    `forms` say how Parquet has columns whose types do not say so, and `written` what it calls columns that have
    another name here.
    """

    item: SourceObject
    format: str
    layout: Layout | None = None
    schema: Schema | None = None
    versions: tuple[Version, ...] = ()
    forms: tuple[tuple[str, Form], ...] = ()
    written: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> Hashable:
        """What files have in common that are read together."""
        return self.layout or ((self.schema, self.forms, self.written) if self.schema else self.format)


def look_at_each(table: TableFiles, items: Sequence[SourceObject], stands: Schema | None) -> list[File]:
    """Look at the beginning of files, in order.

    A column that is NULL throughout may have no type: then it has that of the table as it `stands`, or of a file
    before it.
    """
    files: list[File] = []
    before = Schema(())
    for item in items:
        files.append(look_at(table, item, stands, before))
        own = files[-1].schema or before
        before = Schema((*own, *(column for column in before if own.find(column.name) is None)))
    return files


def look_at(
    table: TableFiles, item: SourceObject, stands: Schema | None = None, before: Schema | None = None
) -> File:
    """Look at the beginning of a file; `stands` and `before` are as in `look_at_each`.

    Raises SchemaConflict where nothing says the types of its columns, and where its path has one that it lacks.
    """
    path_cells(table, item.name)
    own, hidden = without_path_columns(table), hidden_columns(table, item.name)
    try:
        found = _look_at(own, item, stands, before)
    except SchemaConflict as conflict:
        if hidden:
            raise only_in_path(table, item.name, hidden) from conflict
        if (both := _path_columns_in_header(table, item.name)) is not None:
            raise in_both(table.dimension, item.name, both) from conflict
        raise
    has = columns_with_values(own, item.name, found.schema, found.layout) if hidden else None
    if has is not None and (lacking := [name for name in hidden if name not in has]):
        raise only_in_path(table, item.name, lacking)
    named = () if found.schema is None else [*map(str.lower, _called_now(own, found.schema))]
    for name in table.options.path_columns:
        if name.lower() in named:
            raise in_both(table.dimension, item.name, name)
    return found


def _called_now(table: TableFiles, schema: Schema) -> Sequence[str]:
    return [table.dimension.policies.renames.get(name, name) for name in schema.names]


def _path_columns_in_header(table: TableFiles, name: str) -> str | None:
    """Return the first column that a CSV file's header names though it should be from the path."""
    if not table.options.path_columns or table.format_of(name) != "csv":
        return None
    named = header_names(table.head(name), table.expected)
    return next((column for column in table.options.path_columns if column.lower() in named), None)


def _look_at(table: TableFiles, item: SourceObject, stands: Schema | None, before: Schema | None) -> File:
    form, dimension = table.format_of(item.name), table.dimension
    if form == "parquet":
        with table.folder.open(dimension.source, item.name) as file:
            found = footer(file, str(dimension.name), item.name)
            found = found.with_names(_names_wanted(table, stands))
            found = found.with_known(dimension.schema, stands, before, renames=dimension.policies.renames)
            if stands is None and (dimension.has_column_rules or not dimension.key or len(dimension.schema)):
                # Rules may make the columns of a table that is there, so that its own say nothing here.
                refuse_unknown(found, str(dimension.name), item.name)
            return File(item, form, schema=found.schema, forms=found.forms, written=found.written)
    if table.options.types == "schema":
        _check_formats(table, form)
        return File(item, form)
    if not len(dimension.schema):
        raise _no_types(table, item)
    _check_formats(table, form)
    if form != "csv":
        return File(item, form)
    return File(item, form, find_layout(item.name, table.head(item.name), table.expected, is_load=False))


def _names_wanted(table: TableFiles, stands: Schema | None) -> Sequence[str]:
    """Return what the settings and the table call columns, which Parquet files may have in another case."""
    options, dimension = table.options, table.dimension
    operation = None if options.operation is None else options.operation.column
    said = (*dimension.schema.names, *dimension.key, *dimension.policies.renames, options.order_by, options.time)
    return [*filter(None, (*said, operation)), *(() if stands is None else stands.names)]


def _no_types(table: TableFiles, item: SourceObject) -> SchemaConflict:
    name = table.dimension.name
    beside = ', or set `types = "schema"` where a schema stands beside each message'
    return SchemaConflict(
        f"{name}: the types of its columns are not declared",
        found=f"{item.name} has no types that a table could have, and lakeward never guesses them",
        todo=f'Declare them under [tables."{name}".columns]'
        f"{beside if table.options.format == 'debezium' else ''}. Other tables go on.",
    )


def _check_formats(table: TableFiles, form: str) -> None:
    """Refuse formats that a column cannot have."""
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
    """Return whether a map in a type has other keys than texts."""
    own = type_.name == "map" and type_.parts[0].type.name != "string"
    return own or any(_has_other_keys(part.type) for part in type_.parts)


def alike(files: Sequence[File]) -> Sequence[File]:
    """Return the files up to the first that has other columns than the one before it."""
    columns = [_columns(file) for file in files]
    return files[: next((place for place, own in enumerate(columns) if own != columns[0]), len(files))]


def _columns(file: File) -> frozenset[str] | dict[str, Type] | None:
    if file.layout is not None:
        return frozenset(file.layout.columns) - {OP}
    return None if file.schema is None else {c.name: c.type for c in file.schema}


def with_schema(table: TableFiles, files: Sequence[File]) -> Dimension:
    """Return the dimension with the columns that its files have; a footer's are those of Parquet."""
    found = _with_columns(without_path_columns(table), files[0])
    return with_path_schema(found, table.dimension.schema, path_columns(table))


def _with_columns(table: TableFiles, first: File) -> Dimension:
    dimension = table.dimension
    if first.layout is not None:
        strange_columns = first.layout.undeclared(dimension.schema)
        if strange_columns:
            raise not_declared(dimension, first.item.name, strange_columns)
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
        found = find_field(Schema(tuple(own)), operation.column)
        refuse_both(dimension, first.item.name, Schema(tuple(own)), operation.column)
        if found is None and table.has_op:
            raise lacks_field(dimension, first.item.name, "operation", operation.column)
        is_plain = found is not None and not found[1].type.is_nested  # else `check_mapping` refuses it
        if declared.find(operation.column) is None and is_plain:
            own = [c for c in own if c.name != operation.column]
    for item in own:
        said_so = declared.find(item.name)
        if said_so is not None and not is_within(item.type, said_so.type):
            raise SchemaConflict(
                f"{dimension.name}: the columns of {first.item.name} are not those of the table",
                found=f"column {item.name} is {item.type}, and declared as {said_so.type}",
                todo="Nothing of this batch was applied; other tables go on. Declare them as they are now. "
                f"{WIDER}",
            )
    own = [declared.find(item.name) or item for item in own]
    _check_names(dimension, first, own, table.options.path_columns)
    return replace(dimension, schema=Schema(tuple(own)))


def described_by(table: TableFiles, file: File, versions: Sequence[Version]) -> File:
    """Return a file of messages with the columns that their schemas describe; what is declared says more.

    Raises SchemaConflict where no type of a table holds a column.
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
    columns = {c.name: c for c in merged(own, conflict)}
    said = [item.name for version in versions for item in version.columns]
    every = [columns.get(name) or declared.find(name) for name in dict.fromkeys((*said, *declared.names))]
    schema = Schema(tuple(column for column in every if column is not None))
    return replace(file, schema=schema, versions=tuple(versions))


def not_declared(dimension: Dimension, name: str, listed: Sequence[str]) -> SchemaConflict:
    """Say that a file has columns that nobody declared."""
    return SchemaConflict(
        f"{dimension.name}: {name} has columns that are not declared",
        found="they are " + ", ".join(column or "one without a name" for column in listed),
        todo=f'Declare them under [tables."{dimension.name}".columns], or set `schema.add = "ignore"`. '
        "Nothing of this batch was applied; other tables go on.",
    )


def _check_names(dimension: Dimension, file: File, own: Sequence[Column], of_path: Collection[str]) -> None:
    """Refuse what the settings would have refused, had the columns been declared there."""
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
