"""The tables that stand beside a table of ours, companion and quarantine: small, and written with each batch.

They are written through PyIceberg, from Arrow columns: a commit takes a fraction of what
it takes through Spark. What is stamped above the table's own batch was left by a crash
and does not exist.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StructType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.formats.iceberg.java import Jvm, committing
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.columns import columns_in, to_iceberg
from lakeward.adapters.formats.iceberg.side_tables.append import append
from lakeward.adapters.formats.shared.side_tables.keys import whole
from lakeward.adapters.formats.shared.side_tables.side_table import (
    HOURS_KEPT,
    MANY_FILES,
    MOST_BYTES,
    MOST_IN_ARROW,
    NOTHING,
    UNKNOWN,
    Beside,
    refuse_others,
    shaped,
)
from lakeward.adapters.spark.schema_changes.schema_alignment import called_now
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import TableName
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import Kind, compare

PROPERTIES: Final[Mapping[str, str]] = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
    # Who lost a race works his batch out anew: of one batch there must not be two records.
    "commit.retry.num-retries": "0",
    # Of the end of a long text PyIceberg makes a bound that is no text where it is cut off at U+D7FF (0.12).
    "write.metadata.metrics.default": "counts",
    **{f"write.metadata.metrics.column.{name}": "full" for name in (names.EPOCH, names.SEQUENCE, names.BATCH)},
}

_APPEND: Final = "lakeward.append"
"""The property of a snapshot that says which append of Spark has made it."""

_MOST_KEPT: Final = 50
"""So many snapshots stay at most: each commit writes all of them down anew, and each look reads them. It is more
than come between two trimmings."""


class IcebergBeside(Beside):
    """A table named like another, with a suffix.

    `renames` says by old names what columns are called now, `wanted` which of the other's
    columns it has, once it has rows of them.
    """

    def __init__(
        self,
        catalog: IcebergCatalog,
        table: TableName,
        spark: Callable[[], SparkSession],
        suffix: str,
        renames: Mapping[str, str],
        wanted: Callable[[], Sequence[str]],
    ) -> None:
        self.catalog = catalog
        self.table = table
        self.renames = renames
        self.wanted = wanted
        self.suffix = suffix
        self.spark = spark

    @property
    def name(self) -> tuple[str, str]:
        """Its name in the catalog."""
        return self.catalog.identifier(self.table, self.suffix)

    @property
    def _in_spark(self) -> str:
        return quoted(self.catalog.name, *self.name)

    @property
    def columns(self) -> Collection[str]:
        """The names of its columns; none where it was not made yet."""
        table = self.load()
        return () if table is None else table.schema().column_names

    @property
    def pending(self) -> Mapping[str, str]:
        """The columns that have another name than they should, with that one."""
        table = self.load()
        return {} if table is None else self._pending(table)

    def load(self) -> Table | None:
        """Return it as PyIceberg knows it, or None where there is none."""
        return self.catalog.load(self.table, self.suffix)

    def rows(self, condition: str, wanted: Sequence[str]) -> pa.Table:
        """Return these columns of the rows that meet a condition; of lists of structs Spark reads them."""
        table = self.load()
        if table is None:
            return pa.table({name: [] for name in wanted})
        columns = columns_in(table.schema(), str(self.table))
        if _loses_nulls(column.type for column in columns if column.name in wanted):
            found = self._rows_of(table, condition)
            return to_arrow(found.selectExpr(*[quoted(name) for name in found.columns if name in wanted]))
        return table.scan(row_filter=condition, selected_fields=tuple(wanted)).to_arrow()

    def frame(self, condition: str) -> DataFrame | None:
        """Return the rows that meet a condition of Spark, as they are now, or None where there is no table."""
        table = self.load()
        if table is None:
            return None
        return called_now(self._rows_of(table, condition), {**self.renames, **self._pending(table)})

    def _rows_of(self, table: Table, condition: str) -> DataFrame:
        """Return the rows of its last snapshot that meet a condition of Spark, by the names that columns have."""
        snapshot, rows = table.current_snapshot(), self.spark().read
        if snapshot is not None:
            # Should the columns change meanwhile, Spark would not go on with what it has read without a version.
            rows = rows.option("versionAsOf", str(snapshot.snapshot_id))
        return called_now(rows.table(self._in_spark).where(condition), _renamed_since(table))

    def _made(self, columns: Mapping[str, Type], partition_by: str | None) -> Table:
        """Return the table, made where it is not there, and with the columns that it lacked."""
        schema = to_iceberg(Schema(tuple(Column(name, type_) for name, type_ in columns.items())))
        table = self.load()
        if table is None:
            self.catalog.prepare(self.table)
            spec = PartitionSpec()
            if partition_by is not None:
                source = schema.find_field(partition_by).field_id
                spec = PartitionSpec(PartitionField(source, 1000, IdentityTransform(), partition_by))
            return self.catalog.create(self.table, self.suffix, schema, spec, {"format-version": "2", **PROPERTIES})
        _set(table, PROPERTIES)
        self._rename(table)
        self._drop_left(table, columns)
        has = {column.name: column.type for column in columns_in(table.schema(), str(self.table))}
        if any(has.get(name) != type_ for name, type_ in columns.items()):
            with table.update_schema() as update:
                update.union_by_name(schema)
        return table

    def _drop_left(self, table: Table, columns: Mapping[str, Type]) -> None:
        """Drop columns without a value whose type cannot become what it should be.

        A batch left them that was rolled back, or that a crash kept from its commit.
        """
        has = [column for column in columns_in(table.schema(), str(self.table)) if column.name in columns]
        wanted = Schema(tuple(Column(column.name, columns[column.name]) for column in has))
        changes = compare(Schema(tuple(has)), wanted)
        others = {(c.names or (c.path,))[0] for c in changes if c.kind is Kind.RETYPE}  # a wider one may stay
        left = [name for name in sorted(others) if self._is_empty(name)]
        if left:
            with table.update_schema() as update:
                for name in left:
                    update.delete_column((name,))

    def _is_empty(self, name: str) -> bool:
        found = self.frame("true")  # by the names that columns have now
        return found is None or name not in found.columns or found.where(f"{quoted(name)} IS NOT NULL").isEmpty()

    def _pending(self, table: Table) -> Mapping[str, str]:
        """Return the columns that have another name than they should, with that one.

        It is an old name, or one that a crash left here and that the settings have no more.
        """
        has, wanted = [field.name for field in table.schema().fields], self.wanted()
        found = {old: new for old, new in self.renames.items() if old in has and new not in has}
        for name in wanted:
            if name not in has and name not in found.values():
                once = {name, *(old for old, new in self.renames.items() if new == name)}
                now = _called_now(table, once)
                found |= {now: name} if now is not None and now not in wanted else {}
        return found

    def rename(self) -> None:
        """Give columns their new names, in the struct of an old key, too; no row is written."""
        table = self.load()
        if table is not None:
            self._rename(table)

    def _rename(self, table: Table) -> None:
        fields = {field.name: field.field_type for field in table.schema().fields}
        old_key = fields.get(names.OLD)
        inner = [field.name for field in old_key.fields] if isinstance(old_key, StructType) else []
        pending = self._pending(table)
        nested = {old: new for old, new in {**self.renames, **pending}.items() if old in inner}
        if not (pending or nested):
            return
        with table.update_schema() as update:
            for old, new in pending.items():
                update.rename_column(old, new)
            for old, new in nested.items():
                update.rename_column((names.OLD, old), new)

    def add(
        self,
        columns: Mapping[str, Type],
        frames: Sequence[DataFrame],
        rows: pa.Table = NOTHING,
        *,
        count: int,
        size: int = 0,
        partition_by: str | None = None,
        since: int | None = UNKNOWN,
    ) -> int | None:
        """Add rows in one commit, to a table with these columns; return its version.

        `count` says how many rows the frames have, `size` how many bytes the files have that
        they are from. The frames may read the table itself, so they are read before its
        columns change. Raises CommitConflict where another process has written `since` a version.
        """
        with committing(str(self.table)):
            is_small = count <= MOST_IN_ARROW and size <= MOST_BYTES and not _loses_nulls(columns.values())
            parts = [to_arrow(frame) for frame in frames] if is_small else []
            parts += [rows] if rows.num_rows else []
            table = self._made(columns, partition_by)
            refuse_others(self.table, self.name, _version_of(table), since)
            if is_small:
                schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
                append(table, pa.concat_tables([shaped(part, schema) for part in parts]))
                return _version_of(table)
            through_spark = [*frames, *([from_arrow(self.spark(), rows)] if rows.num_rows else [])]
            before, by = UNKNOWN if since == UNKNOWN else _version_of(table), uuid4().hex
            writer = self._whole(table, through_spark).writeTo(self._in_spark)
            writer.option(f"snapshot-property.{_APPEND}", by).append()
            return self._appended(by, before)

    def _whole(self, table: Table, frames: Sequence[DataFrame]) -> DataFrame:
        return whole(columns_in(table.schema(), str(self.table)), frames)

    def _appended(self, by: str, before: int | None) -> int:
        """Return the version that an append of Spark has made, which is `by` this process.

        Spark appends to whatever the table is by then. Where it was not at `before` any more, the rows go again.
        """
        jvm = Jvm(self.spark())
        table = jvm.table(self.catalog.name, *self.name)
        own = next(one for one in jvm.items(table.snapshots()) if dict(one.summary()).get(_APPEND) == by)
        parent = own.parentId()
        if before not in (UNKNOWN, parent):
            delete = table.newDelete()
            for file in jvm.items(own.addedDataFiles(table.io())):
                delete.deleteFile(file)
            delete.commit()
            refuse_others(self.table, self.name, parent, before)
        return int(own.snapshotId())

    def forget(self, condition: str) -> int | None:
        """Remove the rows that meet a condition of Iceberg, if there are any; return the version then."""
        table = self.load()
        if table is None or not table.scan(row_filter=condition, selected_fields=(names.BATCH,)).count():
            return _version_of(table)
        with committing(str(self.table)):
            table.delete(condition)
        return _version_of(table)

    @property
    def version(self) -> int | None:
        """The number of its snapshot, or None where it has none yet."""
        return _version_of(self.load())

    def replace(self, condition: str, frames: Sequence[DataFrame], since: int | None) -> None:
        """Put rows in the place of those that meet a condition of Spark, on whole partitions, in one commit.

        Raises CommitConflict where another process has written since the version that they were worked out of.
        """
        table = self.load()
        if table is None or since is None:
            return
        valid = {"isolation-level": "serializable", "validate-from-snapshot-id": str(since)}
        with committing(str(self.table)):
            writer = self._whole(table, frames).writeTo(self._in_spark).options(**valid)
            writer.overwrite(F.expr(condition))

    def gather(self, condition: str) -> None:
        """Put the rows that meet a condition of Iceberg into one file, where they are few and their files many."""
        table = self.load()
        if table is None:
            return
        if _loses_nulls(column.type for column in columns_in(table.schema(), str(self.table))):
            return
        tasks = list(table.scan(row_filter=condition, selected_fields=(names.BATCH,)).plan_files())
        rows = sum(task.file.record_count for task in tasks)
        if len(tasks) < MANY_FILES or rows > MOST_IN_ARROW:
            return
        with committing(str(self.table)):
            table.overwrite(table.scan(row_filter=condition).to_arrow(), overwrite_filter=condition)

    def expire(self) -> None:
        """Remove the snapshots that nobody reads: the last is asked, and of those of late the newest are read."""
        found = self.load()
        if found is not None:
            times = sorted((snapshot.timestamp_ms for snapshot in found.snapshots()), reverse=True)
            until = max([time.time_ns() // 1_000_000 - HOURS_KEPT * 3_600_000, *times[_MOST_KEPT - 1 : _MOST_KEPT]])
            with committing(str(self.table)):
                table = Jvm(self.spark()).table(self.catalog.name, *self.name)
                table.expireSnapshots().expireOlderThan(until).retainLast(1).commit()


def _version_of(table: Table | None) -> int | None:
    """Return the number of the snapshot of a table, None where it has none yet."""
    snapshot = None if table is None else table.current_snapshot()
    return None if snapshot is None else snapshot.snapshot_id


def _loses_nulls(types: Iterable[Type]) -> bool:
    """Whether some type has lists or maps of structs: PyIceberg makes an empty one of one that is NULL."""
    return any(
        (type_.name in ("list", "map") and type_.parts[-1].type.name == "struct")
        or _loses_nulls(part.type for part in type_.parts)
        for type_ in types
    )


def _set(table: Table, properties: Mapping[str, str]) -> None:
    """Give a table the properties that it lacks: an older lakeward may have made it."""
    lacking = {name: value for name, value in properties.items() if table.properties.get(name) != value}
    if lacking:
        with table.transaction() as transaction:
            transaction.set_properties(lacking)


def _called_now(table: Table, once: Collection[str]) -> str | None:
    """Return what a column is called that had one of these names once."""
    numbers = {field.field_id for then in table.schemas().values() for field in then.fields if field.name in once}
    return next((field.name for field in table.schema().fields if field.field_id in numbers), None)


def _renamed_since(table: Table) -> Mapping[str, str]:
    """Return the columns that were renamed after the last snapshot: Spark reads it by its own names."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.schema_id is None:
        return {}
    then = table.schemas()[snapshot.schema_id]
    names_now = {field.field_id: field.name for field in table.schema().fields}
    return {f.name: names_now[f.field_id] for f in then.fields if names_now.get(f.field_id, f.name) != f.name}
