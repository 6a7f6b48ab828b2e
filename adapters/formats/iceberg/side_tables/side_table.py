"""Side tables in Iceberg: change log and quarantine. They are small, and written with each batch.

PyIceberg writes them from Arrow columns: a commit takes a fraction of the time that it takes with Spark. Entries
above the table's own batch come from a crash and are ignored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StructType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.formats.iceberg.java import Jvm, committing
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.columns import columns_in, to_iceberg
from lakeward.adapters.formats.iceberg.side_tables.append import append, compact
from lakeward.adapters.formats.shared.side_tables.keys import combine_frames
from lakeward.adapters.formats.shared.side_tables.side_table import (
    HOURS_KEPT,
    MANY_FILES,
    MOST_BYTES,
    MOST_IN_ARROW,
    NOTHING,
    UNKNOWN,
    SideTable,
    refuse_others,
    with_schema,
)
from lakeward.adapters.spark.schema_changes.schema_alignment import rename_columns
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
    # Entries are read once or never. Zstandard and dictionaries of different texts take three times the CPU.
    "write.parquet.compression-codec": "snappy",
    "write.parquet.dict-size-bytes": str(64 * 1024),
    **{f"write.metadata.metrics.column.{name}": "full" for name in (names.EPOCH, names.SEQUENCE, names.BATCH)},
}

_APPEND: Final = "lakeward.append"
"""The snapshot property with the id of the append of Spark that made it."""

_MOST_KEPT: Final = 50
"""The most snapshots to keep: each commit writes all of them again, and each read loads them.

It is more than are made between two trims.
"""


class IcebergSideTable(SideTable):
    """A side table: it is named like its table, with a suffix.

    `renames` are the current names of columns by old names. `wanted` returns the columns of the main table that it
    has once it holds rows of them.
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
        """The names of its columns; none if it does not exist yet."""
        table = self.load()
        return () if table is None else table.schema().column_names

    @property
    def pending(self) -> Mapping[str, str]:
        """The columns that are still to be renamed, each with its new name."""
        table = self.load()
        return {} if table is None else self._pending(table)

    def load(self) -> Table | None:
        """Return it as PyIceberg loads it, or None if it does not exist."""
        return self.catalog.load(self.table, self.suffix)

    def rows(self, condition: str, wanted: Sequence[str]) -> pa.Table:
        """Return these columns of the rows that meet a condition. Spark reads lists and maps of structs."""
        table = self.load()
        if table is None:
            return pa.table({name: [] for name in wanted})
        columns = columns_in(table.schema(), str(self.table))
        if _loses_nulls(column.type for column in columns if column.name in wanted):
            rows = self._rows_of(table, condition)
            return to_arrow(rows.selectExpr(*[quoted(name) for name in rows.columns if name in wanted]))
        return table.scan(row_filter=condition, selected_fields=tuple(wanted)).to_arrow()

    def frame(self, condition: str) -> DataFrame | None:
        """Return the rows that meet a condition of Spark as of now, or None if there is no table."""
        table = self.load()
        if table is None:
            return None
        return rename_columns(self._rows_of(table, condition), {**self.renames, **self._pending(table)})

    def _rows_of(self, table: Table, condition: str) -> DataFrame:
        """Return the rows of its last snapshot that meet a condition of Spark, with current column names."""
        snapshot, rows = table.current_snapshot(), self.spark().read
        if snapshot is not None:
            # Without a version, Spark would fail if the columns changed while it reads.
            rows = rows.option("versionAsOf", str(snapshot.snapshot_id))
        return rename_columns(rows.table(self._in_spark).where(condition), _renamed_since(table))

    def _prepare_table(self, columns: Mapping[str, Type], partition_by: str | None) -> Table:
        """Return the table with these columns; it is created, or columns are added, if needed."""
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
        types_now = {column.name: column.type for column in columns_in(table.schema(), str(self.table))}
        if any(types_now.get(name) != type_ for name, type_ in columns.items()):
            with table.update_schema() as update:
                update.union_by_name(schema)
        return table

    def _drop_left(self, table: Table, columns: Mapping[str, Type]) -> None:
        """Drop columns without any value whose type cannot be changed to the wanted one.

        They come from a batch that was rolled back, or that a crash kept from its commit.
        """
        columns_now = [column for column in columns_in(table.schema(), str(self.table)) if column.name in columns]
        wanted = Schema(tuple(Column(column.name, columns[column.name]) for column in columns_now))
        changes = compare(Schema(tuple(columns_now)), wanted)
        others = {(c.names or (c.path,))[0] for c in changes if c.kind is Kind.RETYPE}  # a wider one may stay
        unused = [name for name in sorted(others) if self._is_empty(name)]
        if unused:
            with table.update_schema() as update:
                for name in unused:
                    update.delete_column((name,))

    def _is_empty(self, name: str) -> bool:
        rows = self.frame("true")  # by the names that columns have now
        return rows is None or name not in rows.columns or rows.where(f"{quoted(name)} IS NOT NULL").isEmpty()

    def _pending(self, table: Table) -> Mapping[str, str]:
        """Return the columns that are still to be renamed, each with its new name.

        Their present name is an old one of the settings, or one that a crash left and that the settings no longer
        have.
        """
        columns_now, wanted = [field.name for field in table.schema().fields], self.wanted()
        pending = {old: new for old, new in self.renames.items() if old in columns_now and new not in columns_now}
        for name in wanted:
            if name not in columns_now and name not in pending.values():
                names_before = {name, *(old for old, new in self.renames.items() if new == name)}
                present_name = _called_now(table, names_before)
                pending |= {present_name: name} if present_name is not None and present_name not in wanted else {}
        return pending

    def rename(self) -> None:
        """Rename the pending columns, in the struct of an old key as well. No row is written."""
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
        """Add rows in one commit and return the new version. The table is created or gets new columns if needed.

        `count` is the number of rows in the frames, `size` the number of bytes of the files that they come from.
        The frames may read the table itself, so they are read before its columns change. Raises CommitConflict if
        another process has written the table `since` a version.
        """
        with committing(str(self.table)):
            is_small = count <= MOST_IN_ARROW and size <= MOST_BYTES and not _loses_nulls(columns.values())
            parts = [to_arrow(frame) for frame in frames] if is_small else []
            parts += [rows] if rows.num_rows else []
            table = self._prepare_table(columns, partition_by)
            refuse_others(self.table, self.name, _version_of(table), since)
            if is_small:
                schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
                append(table, pa.concat_tables([with_schema(part, schema) for part in parts]))
                return _version_of(table)
            through_spark = [*frames, *([from_arrow(self.spark(), rows)] if rows.num_rows else [])]
            before, by = UNKNOWN if since == UNKNOWN else _version_of(table), uuid4().hex
            writer = self._combine(table, through_spark).writeTo(self._in_spark)
            writer.option(f"snapshot-property.{_APPEND}", by).append()
            return self._appended(by, before)

    def _combine(self, table: Table, frames: Sequence[DataFrame]) -> DataFrame:
        return combine_frames(columns_in(table.schema(), str(self.table)), frames)

    def _appended(self, by: str, before: int | None) -> int:
        """Return the version that an append of Spark has made; `by` is its id.

        Spark appends to the newest state of the table. If that was not version `before` any more, the rows are
        removed again.
        """
        jvm = Jvm(self.spark())
        table = jvm.table(self.catalog.name, *self.name)
        own_snapshot = next(
            snapshot for snapshot in jvm.items(table.snapshots()) if dict(snapshot.summary()).get(_APPEND) == by
        )
        parent = own_snapshot.parentId()
        if before not in (UNKNOWN, parent):
            delete = table.newDelete()
            for file in jvm.items(own_snapshot.addedDataFiles(table.io())):
                delete.deleteFile(file)
            delete.commit()
            refuse_others(self.table, self.name, parent, before)
        return int(own_snapshot.snapshotId())

    def forget(self, condition: str) -> int | None:
        """Remove the rows that meet a condition of Iceberg, if there are any; return the version afterwards."""
        table = self.load()
        if table is None or not table.scan(row_filter=condition, selected_fields=(names.BATCH,)).count():
            return _version_of(table)
        with committing(str(self.table)):
            table.delete(condition)
        return _version_of(table)

    @property
    def version(self) -> int | None:
        """The id of its snapshot, or None if it has none yet."""
        return _version_of(self.load())

    def replace(self, condition: str, frames: Sequence[DataFrame], since: int | None) -> None:
        """Replace the rows that meet a condition of Spark, on whole partitions, in one commit.

        Raises CommitConflict if another process has written the table since the version that the rows were read at.
        """
        table = self.load()
        if table is None or since is None:
            return
        valid = {"isolation-level": "serializable", "validate-from-snapshot-id": str(since)}
        with committing(str(self.table)):
            writer = self._combine(table, frames).writeTo(self._in_spark).options(**valid)
            writer.overwrite(F.expr(condition))

    def gather(self, condition: str) -> None:
        """Compact small files with rows that meet a condition of Iceberg into one, if they are many."""
        table = self.load()
        if table is None:
            return
        if _loses_nulls(column.type for column in columns_in(table.schema(), str(self.table))):
            return
        tasks = _small_files(table.scan(row_filter=condition, selected_fields=(names.BATCH,)).plan_files())
        if len(tasks) >= MANY_FILES:
            with committing(str(self.table)):
                compact(table, tasks)

    def expire(self) -> None:
        """Remove snapshots older than an hour, and all but the newest ones if there are too many."""
        loaded = self.load()
        if loaded is not None:
            times = sorted((snapshot.timestamp_ms for snapshot in loaded.snapshots()), reverse=True)
            oldest = max(
                [time.time_ns() // 1_000_000 - HOURS_KEPT * 3_600_000, *times[_MOST_KEPT - 1 : _MOST_KEPT]]
            )
            with committing(str(self.table)):
                table = Jvm(self.spark()).table(self.catalog.name, *self.name)
                table.expireSnapshots().expireOlderThan(oldest).retainLast(1).commit()


def _version_of(table: Table | None) -> int | None:
    """Return the snapshot id of a table, or None if it has none yet."""
    snapshot = None if table is None else table.current_snapshot()
    return None if snapshot is None else snapshot.snapshot_id


def _small_files(tasks: Iterable[FileScanTask]) -> Sequence[FileScanTask]:
    """Return the tasks of small files, as many as may be read into this process together."""
    result, rows = list[FileScanTask](), 0
    for task in tasks:
        count = task.file.record_count
        if count <= MOST_IN_ARROW // MANY_FILES and rows + count <= MOST_IN_ARROW and not task.delete_files:
            result.append(task)
            rows += count
    return result


def _loses_nulls(types: Iterable[Type]) -> bool:
    """Return whether a type has lists or maps of structs: PyIceberg turns NULL into an empty one there."""
    return any(
        (type_.name in ("list", "map") and type_.parts[-1].type.name == "struct")
        or _loses_nulls(part.type for part in type_.parts)
        for type_ in types
    )


def _set(table: Table, properties: Mapping[str, str]) -> None:
    """Set properties that the table lacks: an older lakeward may have created it."""
    lacking = {name: value for name, value in properties.items() if table.properties.get(name) != value}
    if lacking:
        with table.transaction() as transaction:
            transaction.set_properties(lacking)


def _called_now(table: Table, names_before: Collection[str]) -> str | None:
    """Return the current name of a column that once had one of these names."""
    numbers = {
        field.field_id
        for schema in table.schemas().values()
        for field in schema.fields
        if field.name in names_before
    }
    return next((field.name for field in table.schema().fields if field.field_id in numbers), None)


def _renamed_since(table: Table) -> Mapping[str, str]:
    """Return the columns renamed since the last snapshot: Spark reads that with its own names."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.schema_id is None:
        return {}
    schema = table.schemas()[snapshot.schema_id]
    names_now = {field.field_id: field.name for field in table.schema().fields}
    return {f.name: names_now[f.field_id] for f in schema.fields if names_now.get(f.field_id, f.name) != f.name}
