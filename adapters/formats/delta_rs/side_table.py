"""Side tables in Delta, written by delta-rs from Arrow columns.

A commit takes a fraction of the time that it takes with Spark. Columns have their own names in the files: delta-rs
cannot write to a table with column mapping, so a rename rewrites the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import deltalake
import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, QueryBuilder, TableFeatures
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.delta_rs import spark_frames
from lakeward.adapters.formats.delta_rs.arrow_rewrite import convert_batch
from lakeward.adapters.formats.delta_rs.columns import columns_in, has_hidden_ntz, to_delta
from lakeward.adapters.formats.delta_rs.commit_failures import committing
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.version_notes import clean_up, noted_versions
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
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.adapters.spark.schema_changes.schema_alignment import rename_columns
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import TableName
from lakeward.core.schema import Type

PROPERTIES: Final = {
    # delta-rs 1.6.6 writes wrong bounds of decimals above 2^63, by which readers leave out files.
    "delta.dataSkippingStatsColumns": names.BATCH,
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 1 day",
}

_AT_ONCE: Final = CommitProperties(max_commit_retries=0)
"""A commit that lost a race is not repeated: the batch is resolved again, since it must not have two records."""

_ONCE: Final = "lakeward.once"
"""The metadata of a column with its earlier names."""

_OF_NOBODY: Final = 24
"""Hours for which a file that the log does not name may belong to a commit in progress."""

_LONG: Final = re.compile(r"(?<![\w'])(-?\d{19,})(?![\w'])")
"""A number with more digits than an integer of SQL."""


class DeltaSideTable(SideTable):
    """A side table: it is named like its table, with a suffix.

    `renames` are the current names of columns by old names. `wanted` returns the columns of the main table that it
    has once it holds rows of them.
    """

    def __init__(
        self,
        places: Places,
        table: TableName,
        spark: Callable[[], SparkSession],
        suffix: str,
        renames: Mapping[str, str],
        wanted: Callable[[], Sequence[str]],
    ) -> None:
        self.places = places
        self.table = table
        self.spark = spark
        self.suffix = suffix
        self.renames = renames
        self.wanted = wanted

    @property
    def name(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.places.name(self.table, self.suffix)

    @property
    def folder(self) -> Folder:
        """Its folder."""
        return self.places.at(self.table, self.suffix)

    def load(self) -> deltalake.DeltaTable | None:
        """Return its current version in delta-rs, or None if it does not exist."""
        return self.places.load(self.table, self.suffix)

    def open_version(self, version: int | None = None) -> deltalake.DeltaTable:
        """Return it, if it exists, at a version or as of now; raises the errors of delta-rs."""
        return self.places.open_version(self.table, self.suffix, version)

    @property
    def columns(self) -> Collection[str]:
        """The names of its columns; none if it does not exist yet."""
        table = self.load()
        return () if table is None else [field.name for field in table.schema().fields]

    @property
    def pending(self) -> Mapping[str, str]:
        """The columns that are still to be renamed, each with its new name.

        Their present name is an old one of the settings, or one that a crash left and that the settings no longer
        have.
        """
        table = self.load()
        names_before = (
            {} if table is None else {field.name: _former_names(field.metadata) for field in table.schema().fields}
        )
        pending = {old: new for old, new in self.renames.items() if old in names_before and new not in names_before}
        wanted = self.wanted()
        for name in wanted if names_before else ():
            if name not in names_before and name not in pending.values():
                all_names = {name, *(old for old, new in self.renames.items() if new == name)}
                present_name = next(
                    (column for column, former in names_before.items() if all_names & {*former}), None
                )
                pending |= {present_name: name} if present_name is not None and present_name not in wanted else {}
        return pending

    def rename(self) -> None:
        """Rename the pending columns, in the struct of an old key as well."""
        self._rename()

    def _rename(self) -> bool:
        """Rename the pending columns; return whether that made a commit."""
        table = self.load()
        if table is None:
            return False
        pending = {**self.pending}
        inner = [
            part.name
            for column in columns_in(table.schema(), str(self.table))
            if column.name == names.OLD
            for part in column.type.parts
        ]
        nested = {old: new for old, new in {**self.renames, **pending}.items() if old in inner}
        if pending or nested:
            self._write_anew(table, pending, nested, {})
        return bool(pending or nested)

    def _write_anew(
        self,
        table: deltalake.DeltaTable,
        renames: Mapping[str, str],
        nested: Mapping[str, str],
        types: Mapping[str, Type],
    ) -> None:
        """Rewrite the table with other names and types of columns, in one commit, batch by batch."""
        with committing(str(self.table)):
            columns = columns_in(table.schema(), str(self.table))
            new_types = {
                renames.get(c.name, c.name): types.get(c.name, _with_new_field_names(c.type, nested, c.name))
                for c in columns
            }
            old_names = {renames.get(name, name): name for name in columns.names}
            names_before = {field.name: _former_names(field.metadata) for field in table.schema().fields}
            former_names = {
                new: [*names_before[name], *([name] if new != name else [])] for new, name in old_names.items()
            }
            plain = pa.schema(to_delta(new_types).to_arrow())
            notes = {name: {_ONCE: json.dumps(former)} for name, former in former_names.items() if former}
            schema = pa.schema([field.with_metadata(notes.get(field.name)) for field in plain])
            reader = pa.RecordBatchReader.from_stream(
                QueryBuilder().register("beside", table).execute("SELECT * FROM beside")
            )
            self.overwrite(
                table, schema, (convert_batch(batch, schema, old_names, {names.OLD: nested}) for batch in reader)
            )

    def overwrite(self, table: deltalake.DeltaTable, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Replace all rows and columns in one commit, batch by batch.

        The new rows come from the table as it was loaded. delta-rs raises an error if another process has written
        since.
        """
        deltalake.write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(schema, batches),
            partition_by=table.metadata().partition_columns,
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=_AT_ONCE,
        )

    def rows(self, condition: str, wanted: Sequence[str]) -> pa.Table:
        """Return these columns of the rows that meet a condition. Spark is not needed."""
        table = self.load()
        if table is None:
            return pa.table({name: [] for name in wanted})
        schema = arrow_of(table)
        columns = [name for name in wanted if name in schema.names]
        listed = ", ".join(map(in_datafusion, columns))
        query = f"SELECT {listed} FROM beside WHERE {_exact(condition)}"
        rows = pa.table(QueryBuilder().register("beside", table).execute(query).read_all())
        return with_schema(rows, pa.schema([schema.field(name) for name in columns]))

    def frame(self, condition: str) -> DataFrame | None:
        """Return the rows that meet a condition as of now, or None if there is no table."""
        table = self.load()
        if table is None:
            return None
        rows = spark_frames.frame_of(self.spark(), self.folder, table, columns_in(table.schema(), str(self.table)))
        return rename_columns(rows.where(condition), {**self.renames, **self.pending})

    def _prepare_table(
        self, columns: Mapping[str, Type], partition_by: str | None, since: int | None
    ) -> deltalake.DeltaTable:
        """Return the table with these columns; it is created, or columns and types are changed, if needed.

        Each alteration is one commit. If there are more commits `since` the version, another process made them.
        """
        table, hidden = self.load(), {name for name, type_ in columns.items() if has_hidden_ntz(type_)}
        refuse_others(self.table, self.name, None if table is None else table.version(), since)
        if table is None:
            self.places.prepare(self.table)
            first = to_delta({name: type_ for name, type_ in columns.items() if name not in hidden})
            table = self.places.create_table(self.table, self.suffix, first, partition_by, PROPERTIES)
            if not hidden:
                return table
        version = table.version()
        if self._rename():
            table, version = self.open_version(), version + 1
        types_now = {column.name: column.type for column in columns_in(table.schema(), str(self.table))}
        changed_types = {name: type_ for name, type_ in columns.items() if types_now.get(name, type_) != type_}
        lacking = [field for field in to_delta(columns).fields if field.name not in types_now]
        if not hidden.isdisjoint([*changed_types, *(field.name for field in lacking)]):
            table.alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)
            table, version = self.open_version(), version + 1
        if changed_types:
            self._write_anew(table, {}, {}, changed_types)
            table, version = self.open_version(), version + 1
        if lacking:
            table.alter.add_columns(lacking)
            version += 1
        refuse_others(self.table, self.name, table.version(), UNKNOWN if since == UNKNOWN else version)
        return table

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
        """Add rows in one commit and return the new version. Missing columns are added first.

        `count` is the number of rows in the frames, `size` the number of bytes of the files that they come from.
        The frames may read the table itself, so they are read before its columns change. Raises CommitConflict if
        another process has written the table `since` a version.
        """
        with committing(str(self.table)):
            is_small = count <= MOST_IN_ARROW and size <= MOST_BYTES
            parts = [to_arrow(frame) for frame in frames] if is_small else []
            parts += [rows] if rows.num_rows else []
            table = self._prepare_table(columns, partition_by, since)
            version = table.version()
            if is_small:
                schema = arrow_of(table)
                rows_to_add = pa.concat_tables([with_schema(part, schema) for part in parts])
                deltalake.write_deltalake(
                    table, _whole_buffers(rows_to_add), mode="append", commit_properties=_AT_ONCE
                )
            else:
                all_frames = [*frames, *([from_arrow(self.spark(), rows)] if rows.num_rows else [])]
                added = spark_frames.write_files(self.folder, table, self._combine(table, all_frames))
                by = table.metadata().partition_columns
                schema = table.schema()
                table.create_write_transaction(list(added), "append", schema, by, commit_properties=_AT_ONCE)
        return version + 1  # commits are not retried, so another one in its place would have raised an error

    def _combine(self, table: deltalake.DeltaTable, frames: Sequence[DataFrame]) -> DataFrame:
        return combine_frames(columns_in(table.schema(), str(self.table)), frames)

    def forget(self, condition: str) -> int | None:
        """Remove the rows that meet a condition, if there are any; return the version afterwards."""
        table = self.load()
        if table is None:
            return None
        version = table.version()
        if not self._has(table, condition):
            return version
        with committing(str(self.table)):
            table.delete(_exact(condition), commit_properties=_AT_ONCE)
        return version + 1

    def _has(self, table: deltalake.DeltaTable, condition: str) -> bool:
        query = f"SELECT 1 AS one FROM beside WHERE {_exact(condition)} LIMIT 1"
        return bool(pa.table(QueryBuilder().register("beside", table).execute(query).read_all()).num_rows)

    @property
    def version(self) -> int | None:
        """The number of its version, or None if it does not exist yet."""
        table = self.load()
        return None if table is None else table.version()

    def replace(self, condition: str, frames: Sequence[DataFrame], since: int | None) -> None:
        """Replace the rows that meet a condition, on whole partitions, in one commit.

        Raises CommitConflict if another process has written the table since the version that the rows were read at.
        What is written after that check stays, since files are replaced by name.
        """
        table = self.load()
        if table is None:
            return
        todo = "The change log is as the other process left it: the next run goes on from there."
        refuse_others(self.table, self.name, table.version(), since, todo)
        with committing(str(self.table)):
            added = spark_frames.write_files(self.folder, table, self._combine(table, frames))
            [by] = table.metadata().partition_columns
            query = f"SELECT DISTINCT {in_datafusion(by)} AS value FROM beside WHERE {_exact(condition)}"
            partitions = pa.table(QueryBuilder().register("beside", table).execute(query).read_all())
            spark_frames.replace_partitions(table, by, partitions["value"].to_pylist(), added)

    def gather(self, condition: str) -> None:  # delta-rs gathers by partition, whatever is in it
        """Compact all partitions, if there are many files."""
        table = self.load()
        if table is not None and len(table.file_uris()) >= MANY_FILES:
            with committing(str(self.table)):
                table.optimize.compact()

    def expire(self) -> None:
        """Remove versions that nobody reads: all but the last, recent and noted ones."""
        table = self.load()
        if table is not None:
            with committing(str(self.table)):
                needed = list(noted_versions(table).values())
                # Files that the log lists as removed, and files that it does not list.
                for hours, is_full in ((HOURS_KEPT, False), (_OF_NOBODY, True)):
                    table.vacuum(
                        hours,
                        dry_run=False,
                        enforce_retention_duration=False,
                        full=is_full,
                        keep_versions=needed,
                    )
                clean_up(self.folder.within("_delta_log"), needed)


def _whole_buffers(rows: pa.Table) -> pa.Table:
    """Return rows whose nested values have all their buffers.

    For empty inner texts and lists Spark sends no offsets, as Arrow's format allows
    (arrow.apache.org/docs/format/Columnar.html); delta-rs 1.6 reads one all the same, and panics.
    """
    is_nested = any(pa.types.is_nested(field.type) for field in rows.schema)
    return rows.take(pa.array(np.arange(rows.num_rows))) if is_nested else rows


def _with_new_field_names(type_: Type, renames: Mapping[str, str], column: str) -> Type:
    """Return the type of a column; the fields of an old key get their new names."""
    if column != names.OLD:
        return type_
    return replace(type_, parts=tuple(replace(p, name=renames.get(p.name, p.name)) for p in type_.parts))


def arrow_of(table: deltalake.DeltaTable) -> pa.Schema:
    """Return the Arrow schema of a table."""
    return pa.schema(table.schema().to_arrow())


def _former_names(metadata: Mapping[str, Any]) -> Collection[str]:
    value = metadata.get(_ONCE)
    return json.loads(value) if isinstance(value, str) else ()


def in_datafusion(name: str) -> str:
    """Return the name of a column in the SQL of DataFusion."""
    return '"' + name.replace('"', '""') + '"'


def _exact(condition: str) -> str:
    """Return a condition with long numbers as decimals: DataFusion would read them as floating numbers."""
    return _LONG.sub(r"CAST('\1' AS DECIMAL(38,0))", condition)
