"""The Delta tables that stand beside a table of ours, written by delta-rs from Arrow columns.

A commit takes a fraction of what it takes through Spark. Their columns are called by their names in
the files: delta-rs writes to no table that maps them, so a rename writes the table anew.
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
from lakeward.adapters.formats.delta_rs.arrow_rewrite import rewritten
from lakeward.adapters.formats.delta_rs.columns import columns_in, has_hidden_ntz, to_delta
from lakeward.adapters.formats.delta_rs.commit_failures import committing
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.version_notes import clean_up, noted
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
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.adapters.spark.schema_changes.schema_alignment import called_now
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
"""Who lost a race works his batch out anew: of one batch there must not be two records."""

_ONCE: Final = "lakeward.once"
"""Which names a column had before, as metadata of the column."""

_OF_NOBODY: Final = 24
"""Hours in which a file that the log does not name may be of a commit that is being made."""

_LONG: Final = re.compile(r"(?<![\w'])(-?\d{19,})(?![\w'])")
"""A number with more digits than SQL takes for a whole one."""


class DeltaBeside(Beside):
    """A table named like another, with a suffix.

    `renames` says by old names what columns are called now, `wanted` which of the other's
    columns it has, once it has rows of them.
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
        """Where it lies."""
        return self.places.at(self.table, self.suffix)

    def load(self) -> deltalake.DeltaTable | None:
        """Return it as delta-rs knows it, or None where there is none."""
        return self.places.load(self.table, self.suffix)

    def opened(self, version: int | None = None) -> deltalake.DeltaTable:
        """Return it, which is there, as of a version or as it is now; raises what delta-rs says."""
        return self.places.opened(self.table, self.suffix, version)

    @property
    def columns(self) -> Collection[str]:
        """The names of its columns; none where it was not made yet."""
        table = self.load()
        return () if table is None else [field.name for field in table.schema().fields]

    @property
    def pending(self) -> Mapping[str, str]:
        """The columns that have another name than they should, with that one.

        It is an old name, or one that a crash left here and that the settings have no more.
        """
        table = self.load()
        once = {} if table is None else {field.name: _once(field.metadata) for field in table.schema().fields}
        found = {old: new for old, new in self.renames.items() if old in once and new not in once}
        wanted = self.wanted()
        for name in wanted if once else ():
            if name not in once and name not in found.values():
                known = {name, *(old for old, new in self.renames.items() if new == name)}
                now = next((column for column, had in once.items() if known & {*had}), None)
                found |= {now: name} if now is not None and now not in wanted else {}
        return found

    def rename(self) -> None:
        """Give columns their new names, in the struct of an old key, too."""
        self._rename()

    def _rename(self) -> bool:
        """Give columns their new names; return whether that was a commit."""
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
        """Write the table with other names and types of columns, in one commit, a batch at a time."""
        with committing(str(self.table)):
            shape = columns_in(table.schema(), str(self.table))
            now = {renames.get(c.name, c.name): types.get(c.name, _called(c.type, nested, c.name)) for c in shape}
            old = {renames.get(name, name): name for name in shape.names}
            once = {field.name: _once(field.metadata) for field in table.schema().fields}
            said = {new: [*once[name], *([name] if new != name else [])] for new, name in old.items()}
            plain = pa.schema(to_delta(now).to_arrow())
            notes = {name: {_ONCE: json.dumps(had)} for name, had in said.items() if had}
            schema = pa.schema([field.with_metadata(notes.get(field.name)) for field in plain])
            reader = pa.RecordBatchReader.from_stream(
                QueryBuilder().register("beside", table).execute("SELECT * FROM beside")
            )
            self.overwrite(table, schema, (rewritten(batch, schema, old, {names.OLD: nested}) for batch in reader))

    def overwrite(self, table: deltalake.DeltaTable, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Put other rows, with other columns, in the place of all, in one commit, a batch at a time.

        They are worked out of the table as it was loaded: delta-rs says where another process has written since.
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
        """Return these columns of the rows that meet a condition; no Spark is needed."""
        table = self.load()
        if table is None:
            return pa.table({name: [] for name in wanted})
        schema = arrow_of(table)
        has = [name for name in wanted if name in schema.names]
        listed = ", ".join(map(in_datafusion, has))
        query = f"SELECT {listed} FROM beside WHERE {_exact(condition)}"
        found = pa.table(QueryBuilder().register("beside", table).execute(query).read_all())
        return shaped(found, pa.schema([schema.field(name) for name in has]))

    def frame(self, condition: str) -> DataFrame | None:
        """Return the rows that meet a condition, as they are now, or None where there is no table."""
        table = self.load()
        if table is None:
            return None
        rows = spark_frames.frame_of(self.spark(), self.folder, table, columns_in(table.schema(), str(self.table)))
        return called_now(rows.where(condition), {**self.renames, **self.pending})

    def _made(
        self, columns: Mapping[str, Type], partition_by: str | None, since: int | None
    ) -> deltalake.DeltaTable:
        """Return the table, made where it is not there, and with the types that it lacked.

        Each alteration is one commit: where there were more `since` the version, another process made them.
        """
        table, hidden = self.load(), {name for name, type_ in columns.items() if has_hidden_ntz(type_)}
        refuse_others(self.table, self.name, None if table is None else table.version(), since)
        if table is None:
            self.places.prepare(self.table)
            first = to_delta({name: type_ for name, type_ in columns.items() if name not in hidden})
            table = self.places.made(self.table, self.suffix, first, partition_by, PROPERTIES)
            if not hidden:
                return table
        version = table.version()
        if self._rename():
            table, version = self.opened(), version + 1
        has = {column.name: column.type for column in columns_in(table.schema(), str(self.table))}
        other = {name: type_ for name, type_ in columns.items() if has.get(name, type_) != type_}
        lacking = [field for field in to_delta(columns).fields if field.name not in has]
        if not hidden.isdisjoint([*other, *(field.name for field in lacking)]):
            table.alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)
            table, version = self.opened(), version + 1
        if other:
            self._write_anew(table, {}, {}, other)
            table, version = self.opened(), version + 1
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
        """Add rows in one commit, to a table with these columns; return its version. What lacks is added first.

        `count` says how many rows the frames have, `size` how many bytes the files have that
        they are from. The frames may read the table itself, so they are read before its
        columns change. Raises CommitConflict where another process has written `since` a version.
        """
        with committing(str(self.table)):
            is_small = count <= MOST_IN_ARROW and size <= MOST_BYTES
            parts = [to_arrow(frame) for frame in frames] if is_small else []
            parts += [rows] if rows.num_rows else []
            table = self._made(columns, partition_by, since)
            version = table.version()
            if is_small:
                schema = arrow_of(table)
                whole = pa.concat_tables([shaped(part, schema) for part in parts])
                deltalake.write_deltalake(table, _whole_buffers(whole), mode="append", commit_properties=_AT_ONCE)
            else:
                every = [*frames, *([from_arrow(self.spark(), rows)] if rows.num_rows else [])]
                added = spark_frames.written(self.folder, table, self._whole(table, every))
                by = table.metadata().partition_columns
                schema = table.schema()
                table.create_write_transaction(list(added), "append", schema, by, commit_properties=_AT_ONCE)
        return version + 1  # a commit in its place would have been told: it is not tried again

    def _whole(self, table: deltalake.DeltaTable, frames: Sequence[DataFrame]) -> DataFrame:
        return whole(columns_in(table.schema(), str(self.table)), frames)

    def forget(self, condition: str) -> int | None:
        """Remove the rows that meet a condition, if there are any; return the version then."""
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
        """The number of its version, or None where it was not made yet."""
        table = self.load()
        return None if table is None else table.version()

    def replace(self, condition: str, frames: Sequence[DataFrame], since: int | None) -> None:
        """Put rows in the place of those that meet a condition, on whole partitions, in one commit.

        Raises CommitConflict where another process has written since the version that they were worked out of.
        What is written after that stays: files go by their names.
        """
        table = self.load()
        if table is None:
            return
        todo = "What is remembered is as the other left it: the next run goes on from there."
        refuse_others(self.table, self.name, table.version(), since, todo)
        with committing(str(self.table)):
            added = spark_frames.written(self.folder, table, self._whole(table, frames))
            [by] = table.metadata().partition_columns
            query = f"SELECT DISTINCT {in_datafusion(by)} AS value FROM beside WHERE {_exact(condition)}"
            found = pa.table(QueryBuilder().register("beside", table).execute(query).read_all())
            spark_frames.replaced(table, by, found["value"].to_pylist(), added)

    def gather(self, condition: str) -> None:  # delta-rs gathers by partition, whatever is in it
        """Put the rows of each kind into one file, where the files are many: for all kinds at once."""
        table = self.load()
        if table is not None and len(table.file_uris()) >= MANY_FILES:
            with committing(str(self.table)):
                table.optimize.compact()

    def expire(self) -> None:
        """Remove the versions that nobody reads: the last is asked, those of late are read, and some are noted."""
        table = self.load()
        if table is not None:
            with committing(str(self.table)):
                needed = list(noted(table).values())
                # The files that the log says are removed, and those it forgot.
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

    Of inner texts and lists of which there are none Spark sends no offsets, as Arrow's format allows
    (arrow.apache.org/docs/format/Columnar.html); delta-rs 1.6 reads one all the same, and panics at what it finds.
    """
    is_nested = any(pa.types.is_nested(field.type) for field in rows.schema)
    return rows.take(pa.array(np.arange(rows.num_rows))) if is_nested else rows


def _called(type_: Type, renames: Mapping[str, str], column: str) -> Type:
    """Return the type of a column; the fields of an old key are called by these new names."""
    if column != names.OLD:
        return type_
    return replace(type_, parts=tuple(replace(p, name=renames.get(p.name, p.name)) for p in type_.parts))


def arrow_of(table: deltalake.DeltaTable) -> pa.Schema:
    """Return the columns of a table as Arrow has them."""
    return pa.schema(table.schema().to_arrow())


def _once(metadata: Mapping[str, Any]) -> Collection[str]:
    said = metadata.get(_ONCE)
    return json.loads(said) if isinstance(said, str) else ()


def in_datafusion(name: str) -> str:
    """Return the name of a column as DataFusion writes it."""
    return '"' + name.replace('"', '""') + '"'


def _exact(condition: str) -> str:
    """Return a condition whose long numbers are decimals: DataFusion would read them as floating ones."""
    return _LONG.sub(r"CAST('\1' AS DECIMAL(38,0))", condition)
