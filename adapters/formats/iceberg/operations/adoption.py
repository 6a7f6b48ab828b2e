"""Adopt an Iceberg table that another engine wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.table import Table
from pyiceberg.types import IcebergType, ListType, MapType, StructType
from pyspark.sql import DataFrame

from lakeward.adapters.formats.iceberg import ddl
from lakeward.adapters.formats.iceberg.java import Jvm, committing
from lakeward.adapters.formats.iceberg.metadata.columns import columns_in
from lakeward.adapters.formats.iceberg.writes.change import Change, number_of
from lakeward.adapters.formats.shared.operations.adoption import refused_null
from lakeward.adapters.formats.shared.operations.commit_failures import discarding_on_failure, table_changed
from lakeward.adapters.formats.shared.rows.system_columns import check_names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ports import Commit
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import SchemaChange

_READ: Final = ("PARQUET", "PUFFIN")
"""The formats of position delete files that lakeward reads; it must, to write the next ones."""


@dataclass(frozen=True, slots=True)
class IcebergExternalTable:
    """A table of any writer as it was loaded; `path` is its name in Spark."""

    jvm: Jvm
    name: TableName
    path: Sequence[str]
    table: Table

    @property
    def state(self) -> str:
        """The id of its snapshot."""
        return str(self.table.metadata.current_snapshot_id)

    def columns(self) -> Schema:
        """Return its columns."""
        return columns_in(self.table.schema(), str(self.name))

    def refused(self, dimension: Dimension) -> Sequence[str]:
        """Return messages about features that lakeward cannot write."""
        check_names(dimension, ddl.RESERVED, "Iceberg")
        return list(self._refused(dimension))

    def _refused(self, dimension: Dimension) -> Iterator[str]:
        if self.table.format_version < 2:
            yield (
                "it is of format 1, which deletes no rows (`ALTER TABLE … SET TBLPROPERTIES "
                "('format-version' = '2')` in Spark mends it)"
            )
        for field in self.table.schema().fields:
            if field.required and field.name not in dimension.key:
                yield refused_null("column", field.name, "required")
            for path in _required(field.field_type, field.name):
                yield refused_null("field", path, "required")
        files = self.jvm.spark.table(f"{quoted(*self.path)}.delete_files").where("content = 1")
        forms = {str(row[0]) for row in files.select("file_format").distinct().collect()}
        for form in sorted(forms.difference(_READ)):
            yield f"it has deleted positions in the format {form} (`CALL system.rewrite_position_delete_files`)"

    def rows(self) -> DataFrame:
        """Return all rows."""
        return self.jvm.spark.table(quoted(*self.path))

    def take_over(self, changes: Sequence[SchemaChange], progress: Progress) -> Commit:
        """Commit a snapshot of the same files with more columns, the progress and our tag."""
        with committing(str(self.name)):
            table: Any = self.jvm.table(*self.path)
            snapshot = table.currentSnapshot()
            if number_of(snapshot) != self.table.metadata.current_snapshot_id:
                raise table_changed(str(self.name))
            change = Change(self.jvm, table, self.table.io, snapshot)
            with discarding_on_failure(str(self.name), change, "the catalog"):
                change.evolve(changes)
                return change.commit(progress, 0, 0)


def _required(type_: IcebergType, path: str) -> Iterator[str]:
    """Yield the paths of required fields within a type. The key of a map is always required and is left out."""
    match type_:
        case StructType(fields=fields):
            inner = fields
        case ListType():
            inner = (type_.element_field,)
        case MapType():
            inner = (type_.value_field,)
        case _:
            inner = ()
    for field in inner:
        if field.required:
            yield f"{path}.{field.name}"
        yield from _required(field.field_type, f"{path}.{field.name}")
