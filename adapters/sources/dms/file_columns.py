"""The columns of DMS files: those that each file has by its header or footer, compared with those of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakeward.adapters.sources.csv.layout import BEFORE, OP, Layout, has_both, refuse_without_images
from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.landing.places import FileName
from lakeward.adapters.sources.rows.parquet_footers import Footer, PhysicalForm
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.schema import UNDECLARED, WIDER, Column, Schema, Type, is_within
from lakeward.core.schema_changes.evolution import Policy, compare
from lakeward.core.text.suggestions import nearest


@dataclass(frozen=True, slots=True)
class File:
    """A file of a batch with its layout (CSV) or its schema (Parquet).

    `forms` are the forms of Parquet columns, `written` their names as the file has them.
    """

    object: SourceObject
    name: FileName
    layout: Layout | None = None
    schema: Schema | None = None
    forms: tuple[tuple[str, PhysicalForm], ...] = ()
    written: tuple[tuple[str, str], ...] = ()

    def has_op(self, op_column: str) -> bool:
        """Return True if the file has the operation column, which the settings call `op_column`."""
        if self.layout is not None:
            return OP in self.layout.columns
        return self.schema is not None and op_column in self.schema.names


def select_same_columns(dimension: Dimension, files: Sequence[File], options: DmsOptions) -> Sequence[File]:
    """Return the files before the first one whose columns differ from those of the first file."""
    columns = [columns_of(dimension, file, options) for file in files]
    count = next((place for place, own in enumerate(columns) if own != columns[0]), len(files))
    return files[:count]


def different_columns_error(dimension: Dimension, one: File, other: File) -> SchemaConflict:
    """Return the error for two files of one full load that have different columns."""
    return SchemaConflict(
        f"{dimension.name}: the files of its full load have different columns",
        found=f"found {one.object.name} and {other.object.name}",
        todo="Nothing was applied: a full load takes the place of all rows at once, so its files must have the "
        "same columns. Start the load again.",
    )


def columns_of(dimension: Dimension, file: File, options: DmsOptions) -> Mapping[str, Type]:
    """Return the columns of the table that a file has, with their types."""
    if file.layout is None:
        return {c.name: c.type for c in _table_columns(dimension, file, options)}
    declared = {c.name: c.type for c in dimension.schema if c.name in file.layout.columns}
    return {**declared, **dict.fromkeys(file.layout.undeclared(dimension.schema), UNDECLARED)}


def with_schema(dimension: Dimension, files: Sequence[File], options: DmsOptions) -> Dimension:
    """Return the dimension with the columns of the files.

    All files have the columns of the first one. Raises SchemaConflict where its types are wider than the declared
    ones and the policy does not quarantine such values, and where the table lacks a column that the settings name.
    """
    columns = dict(columns_of(dimension, files[0], options))
    has_types = files[0].layout is None
    for declared in dimension.schema:
        if has_types and declared.name in dimension.announced:
            continue  # a footer has the type that DMS converts the catalogue's type to
        file_column = Column(declared.name, columns.get(declared.name, declared.type))
        if is_within(file_column.type, declared.type):
            columns |= {declared.name: declared.type} if declared.name in columns else {}
            continue
        changes = compare(Schema((declared,)), Schema((file_column,)))
        if not all(dimension.policies.of(c.kind, c.names) is Policy.QUARANTINE for c in changes):
            raise SchemaConflict(
                f"{dimension.name}: the columns of {files[0].object.name} are not those of the table",
                found=f"column {declared.name} is {columns[declared.name]}, and declared as {declared.type}",
                todo="Nothing of this batch was applied; other tables go on. Declare the columns under "
                f"[tables] as they are now, or keep the file back. {WIDER}",
            )
    dimension = replace(dimension, schema=Schema(tuple(Column(name, type_) for name, type_ in columns.items())))
    _check_columns(dimension, files[0])
    _check_indicator(dimension, files[0], options.operation_indicator)
    return dimension


def _check_indicator(dimension: Dimension, file: File, indicator: str | None) -> None:
    """Refuse a table without the column `operation_indicator`: its deletes would be read as updates."""
    if indicator is not None and dimension.schema.find(indicator) is None:
        raise SchemaConflict(
            f"{dimension.name}: `operation_indicator` names {indicator}, and the table has no such column",
            found=f"the columns of {file.object.name} are {', '.join(dimension.schema.names)}",
            todo="Nothing was applied. Correct `operation_indicator` under [source], or declare the column. Tables "
            "without it are for a pipeline of their own.",
        )


def _check_columns(dimension: Dimension, file: File) -> None:
    """Refuse columns that the settings would refuse if they were declared: a missing key, or a reserved name."""
    column_names = ", ".join(dimension.schema.names)
    for name in dimension.key:
        if name not in dimension.schema.names:
            raise SchemaConflict(
                f"{dimension.name}: the key names {name!r}, and {file.object.name} has no such column",
                found=f"its columns are {column_names}",
                todo=nearest(name, dimension.schema.names) or "Correct `key` under [tables].",
            )
    for name in dimension.schema.names:
        if name.lower().startswith(names.PREFIX) or not name.isprintable():
            raise SchemaConflict(
                f"{dimension.name}: {file.object.name} has the column {name!r}, and no table may have it",
                todo="Let DMS rename it (a transformation rule `rename-column`). Nothing was applied.",
            )


def _table_columns(dimension: Dimension, file: File, options: DmsOptions) -> Schema:
    file_schema = file.schema or Schema(())
    added = {options.op_column, options.timestamp_column, options.sequence_column}
    missing = [c for c in added if c and c not in file_schema.names]
    if file.name.is_load or options.may_lack_op:
        missing = [c for c in missing if c != options.op_column]
    if missing:
        raise SchemaConflict(
            f"{dimension.name}: {file.object.name} lacks the column {missing[0]}",
            found="its columns are " + ", ".join(file_schema.names),
            todo="Correct `op_column`, `timestamp_column` or `sequence_column` under [source]. "
            "Nothing was applied.",
        )
    prefix = options.before_image_prefix
    if prefix is not None and not file.name.is_load:
        renames = dimension.policies.renames
        images = {
            BEFORE + renames.get(c.name, c.name)
            for c in file_schema
            if file_schema.find(prefix + c.name) is not None
        }
        refuse_without_images(file.object.name, dimension, prefix, file_schema.names, images)
    before = [] if prefix is None else [prefix + c.name for c in file_schema]
    columns = Schema(tuple(c for c in file_schema if c.name not in added and c.name not in before))
    return _rename_columns(dimension, file, columns)


def footer_of(file: File) -> Footer:
    """Return what the footer of a Parquet file states about its columns."""
    return Footer(file.schema or Schema(()), file.forms, file.written)


def old_names(dimension: Dimension, file: File) -> tuple[tuple[str, str], ...]:
    """Return pairs of the old and the new name of each renamed column that a Parquet file has by its old name."""
    has = () if file.schema is None else file.schema.names
    return tuple((old, new) for old, new in dimension.policies.renames.items() if old in has)


def _rename_columns(dimension: Dimension, file: File, own: Schema) -> Schema:
    """Return the columns of a file by their present names.

    Raises SchemaConflict for a column that is there twice.
    """
    names_now = [dimension.policies.renames.get(name, name) for name in own.names]
    for new in set(dimension.policies.renames.values()):
        both = [name for name, now in zip(own.names, names_now, strict=True) if now == new]
        if len(both) > 1:
            raise has_both(dimension, file.object.name, both)
    return Schema(tuple(Column(now, c.type) for now, c in zip(names_now, own, strict=True)))
