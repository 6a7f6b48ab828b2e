"""The layout of an Iceberg table compared with its settings. Changes write no row.

A new partitioning or sort order applies to files written from then on
(iceberg.apache.org/docs/latest/evolution/#partition-evolution). Existing files keep theirs until they are
rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.partitioning import PartitionField
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortDirection, SortField
from pyiceberg.transforms import IdentityTransform, VoidTransform

from lakeward.adapters.formats.iceberg import ddl
from lakeward.adapters.formats.iceberg.checks import MODES, plain_transform, sort_field, transform_parts
from lakeward.adapters.formats.iceberg.java import Jvm, committing
from lakeward.adapters.formats.iceberg.metadata.columns import columns_of
from lakeward.adapters.formats.iceberg.options import TableOptions
from lakeward.adapters.formats.shared.options.option_text import option_text
from lakeward.core.dimension import Dimension
from lakeward.core.ports import LayoutChange

if TYPE_CHECKING:
    from lakeward.adapters.formats.iceberg.table import IcebergTable

DEFAULT_MODE: Final = "copy-on-write"
"""The mode of a table without that property (iceberg.apache.org/docs/latest/configuration/#write-properties)."""

OPTIONS: Final = frozenset({"partition_by", "sort_by", "format_version", "write_mode"})
"""Options of a table; every other difference is a property."""

_NEW_FILES: Final = (
    "of files that are written from now on; those that stand keep theirs until they are written anew"
)


class IcebergLayout:
    """The layout of one table."""

    def __init__(self, table: IcebergTable) -> None:
        self.table = table

    def differences(self) -> Sequence[LayoutChange]:
        """Return the options of its settings that the table has otherwise."""
        dimension = self.table.dimension
        table = self.table.catalog.load(dimension.name)
        if table is None:
            return ()
        columns = columns_of(table.schema(), str(dimension.name))
        return tuple(_differences(table, self.table.options, replace(dimension, schema=columns)))

    def change(self, changes: Sequence[LayoutChange]) -> None:
        """Change the table to its settings, in one transaction."""
        dimension, options = self.table.dimension.stored, self.table.options
        jvm, options_to_change = Jvm(self.table.spark()), {change.option for change in changes}
        ddl.check_all_options(jvm, dimension, options)
        with committing(str(dimension.name)):
            transaction = jvm.table(*self.table.name).newTransaction()
            if properties := {change.option: change.after for change in changes if change.option not in OPTIONS}:
                _set(transaction, properties)
            if "format_version" in options_to_change:
                _set(transaction, {"format-version": str(options.format_version)})
            if "write_mode" in options_to_change:
                _set(transaction, dict.fromkeys(MODES, options.write_mode))
            if "partition_by" in options_to_change:
                _part(jvm, transaction, dimension, options.partition_by)
            if "sort_by" in options_to_change:
                ddl.order(jvm, transaction, dimension, options.sort_by)
            transaction.commitTransaction()


def _differences(table: Table, options: TableOptions, dimension: Dimension) -> Iterator[LayoutChange]:
    options_set = options.model_fields_set
    schema, version = table.schema(), table.format_version
    parts = [_part_words(field, schema.find_column_name(field.source_id) or "") for field in _fields(table)]
    wanted = [plain_transform(item, dimension) for item in options.partition_by]
    if "partition_by" in options_set and wanted != parts:
        yield LayoutChange(
            option="partition_by", before=option_text(parts), after=option_text(wanted), how=_NEW_FILES
        )
    order = [
        _sort_words(field, schema.find_column_name(field.source_id) or "") for field in table.sort_order().fields
    ]
    wanted_order = [_order_words(*sort_field(item, dimension)) for item in options.sort_by]
    if "sort_by" in options_set and wanted_order != order:
        yield LayoutChange(
            option="sort_by", before=option_text(order), after=option_text(wanted_order), how=_NEW_FILES
        )
    if "format_version" in options_set and options.format_version != version:
        yield _version(version, options.format_version)
    modes = {table.properties.get(name, DEFAULT_MODE) for name in MODES}
    if "write_mode" in options_set and modes != {options.write_mode}:
        how = "what other engines that write to it are told; lakeward goes by its settings"
        yield LayoutChange(option="write_mode", before=", ".join(sorted(modes)), after=options.write_mode, how=how)
    for name, value in options.properties.items():
        if table.properties.get(name) != value:
            before = table.properties.get(name, "not set")
            yield LayoutChange(option=name, before=before, after=value, how="a property of the table")


def _version(before: int, after: int) -> LayoutChange:
    if after > before:
        how = "for good: every engine that reads or writes it must know that version"
        return LayoutChange(option="format_version", before=str(before), after=str(after), how=how)
    return LayoutChange(
        option="format_version",
        before=str(before),
        after=str(after),
        refused="No table of Iceberg goes back to an older version of the format.",
        todo=f"Write format_version = {before}, or drop the table to load it anew.",
    )


def _fields(table: Table) -> Sequence[PartitionField]:
    """Return the current partition fields. Tables of format 1 keep removed ones as `void`."""
    return [field for field in table.spec().fields if not isinstance(field.transform, VoidTransform)]


def _part_words(field: PartitionField, column: str) -> str:
    """Return a partition field as the settings write it.

    >>> from pyiceberg.transforms import BucketTransform, DayTransform
    >>> _part_words(PartitionField(1, 1000, BucketTransform(16), "x"), "id")
    'bucket(16, id)'
    >>> _part_words(PartitionField(1, 1000, DayTransform(), "x"), "at")
    'day(at)'
    """
    if isinstance(field.transform, IdentityTransform):
        return column
    name, _, number = str(field.transform).removesuffix("]").partition("[")
    return f"{name}({number}, {column})" if number else f"{name}({column})"


def _sort_words(field: SortField, column: str) -> str:
    name = column if isinstance(field.transform, IdentityTransform) else f"{field.transform}({column})"
    return _order_words(name, field.direction is SortDirection.DESC)


def _order_words(column: str, descends: bool) -> str:
    return f"{column} desc" if descends else column


def _set(transaction: Any, properties: dict[str, str]) -> None:
    update = transaction.updateProperties()
    for name, value in properties.items():
        update.set(name, value)
    update.commit()


def _part(jvm: Jvm, transaction: Any, dimension: Dimension, items: Sequence[str]) -> None:
    """Replace all partition fields. Iceberg recognises one that it had before."""
    update, terms = transaction.updateSpec(), jvm.iceberg.expressions.Expressions
    for field in transaction.table().spec().fields():
        if not field.transform().isVoid():
            update.removeField(field.name())
    for item in items:
        name, number, column = transform_parts(item, dimension)
        if name == "identity":
            update.addField(terms.ref(column))
        elif number is None:
            update.addField(getattr(terms, name)(column))
        elif name == "bucket":
            update.addField(terms.bucket(column, number))
        else:
            update.addField(terms.truncate(column, number))
    update.commit()
