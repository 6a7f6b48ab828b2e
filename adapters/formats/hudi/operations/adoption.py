"""Adopt a Hudi table that another job wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pyspark.sql import DataFrame

from lakeward.adapters.formats.hudi.checks import check_table
from lakeward.adapters.formats.hudi.java import Jvm
from lakeward.adapters.formats.hudi.metadata.columns import META_COLUMNS, schema_of
from lakeward.adapters.formats.hudi.metadata.log_files import groups_of
from lakeward.adapters.formats.hudi.metadata.timeline import Instant
from lakeward.adapters.formats.hudi.operations.layout import INDEX, Layout
from lakeward.adapters.formats.hudi.operations.unsupported_features import MERGE_PROPERTIES, Features
from lakeward.adapters.formats.hudi.session import reader, ready
from lakeward.adapters.formats.hudi.writes import write_options
from lakeward.adapters.formats.hudi.writes.change import Change
from lakeward.adapters.formats.shared.operations.commit_failures import discarding_on_failure, table_changed
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.errors import TableError
from lakeward.core.ports import Commit
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import SchemaChange

if TYPE_CHECKING:
    from lakeward.adapters.formats.hudi.table import HudiTable

_BUCKET: Final = re.compile(r"00000\d{3}-.+")
"""The prefix of file names in a table whose rows are hashed into buckets, a thousand at most."""

_COMPACT: Final = (
    "compact it first, in Spark: `CALL run_compaction(op => 'run', path => '…', "
    "options => 'hoodie.compact.inline.max.delta.commits=1')`"
)
_HASHED: Final = "org.apache.hudi.index.bucket.BucketIdentifier"


@dataclass(frozen=True, slots=True)
class HudiExternalTable:
    """A table of any writer as it was loaded: its properties and its newest instant."""

    table: HudiTable
    features: Features
    instant: Instant | None

    @property
    def state(self) -> str:
        """The completion time of its newest instant."""
        return "" if self.instant is None else self.instant.completed

    def columns(self) -> Schema:
        """Return its columns. Raises TableError if the table is too old for them to be read."""
        created = self.features.properties.get("hoodie.table.create.schema")
        schema = self.table.timeline.schema() or created
        if schema is None:
            dimension = self.table.dimension
            raise TableError(
                f"{dimension.name} cannot be adopted as it is",
                found="; ".join(self.features.refused(dimension, self.table.options)) or "nobody ever wrote to it",
                todo="Nothing was changed. Mend that and ask again: docs/how-to/adopt.md#what-is-refused",
            )
        return schema_of(schema, str(self.table.dimension.name))

    def refused(self, dimension: Dimension) -> Sequence[str]:
        """Return messages about features that lakeward cannot write."""
        messages = list(self.features.refused(dimension, self.table.options))
        meta_columns = [name for name in dimension.schema.names if name.startswith("_hoodie_")]
        if meta_columns:
            return [*messages, f"its column {meta_columns[0]} says to Hudi what became of a row"]
        check_table(dimension, self.table.options)
        messages += self._refused_logs()
        if not messages:
            messages += [*self._refused_keys(), *self._misplaced_rows()]
        return messages

    def _refused_logs(self) -> Iterator[str]:
        groups = groups_of(self.table.timeline.instants())
        otherwise = self.features.other_merge_properties
        if otherwise and any(group.logs for group in groups):
            yield f"it has logs, and Hudi merges their rows by `{otherwise[0]}`: {_COMPACT}"
        elif not self._has_buckets and any(group.logs and not group.rows for group in groups):
            yield f"it has rows in logs alone, where Hudi's indexes look for none: {_COMPACT}"

    @property
    def _has_buckets(self) -> bool:
        """Whether its rows are hashed into buckets, by the names of its files."""
        groups = groups_of(self.table.timeline.instants())
        return bool(groups) and all(_BUCKET.fullmatch(group.name) for group in groups)

    def _read(self) -> DataFrame:
        return reader(self.table.spark()).load(self.table.path)

    def rows(self) -> DataFrame:
        """Return all rows."""
        return self._read().drop(*META_COLUMNS)

    def _refused_keys(self) -> Iterator[str]:
        """Yield a message if record keys are not the texts of their columns, or rows are in other buckets."""
        key, rows = self.features.record_key, self._read()
        if not key:
            return
        expected = _record_key(key) if self.features.is_complex else f"string({quoted(key[0])})"
        differing = rows.where(f"NOT (_hoodie_record_key <=> {expected})")
        for row in differing.selectExpr("_hoodie_record_key", f"{expected} AS expected").take(1):
            yield f"a row has the record key {row[0]!r}, and its columns say {row[1]!r}"
        if self._has_buckets:
            buckets = self.table.options.buckets
            hashed = f"reflect('{_HASHED}', 'getBucketId', _hoodie_record_key, {text(','.join(key))}, {buckets})"
            bucket_sql = "CAST(substr(_hoodie_file_name, 1, 8) AS int)"
            if rows.where(f"NOT ({bucket_sql} <=> CAST({hashed} AS int))").take(1):
                yield f"its rows are hashed into other buckets than {buckets}: say how many by `buckets`"

    def _misplaced_rows(self) -> Iterator[str]:
        """Yield a message if rows are in another partition than their columns say."""
        features = self.features
        if not features.partitions:
            return
        parts = [
            f"concat({text(features.prefix(name))}, coalesce(string({quoted(name)}), '__HIVE_DEFAULT_PARTITION__'))"
            for name in features.partitions
        ]
        places = self._read().selectExpr("_hoodie_partition_path", f"concat_ws('/', {', '.join(parts)})")
        for path, expected in places.distinct().toLocalIterator():
            if expected != (unquote(path) if features.is_encoded else path):
                yield f"a row lies in the partition {path!r}, and its columns say {expected!r}"
                return

    def take_over(self, changes: Sequence[SchemaChange], progress: Progress) -> Commit:
        """Commit an instant without rows, with more columns and the progress.

        The properties of the table are set first: they say how lakeward wants rows merged.
        """
        table, table_name = self.table, str(self.table.dimension.name)
        with table.committing(), table.alone():
            if table.timeline.newest() != self.instant:
                raise table_changed(table_name)
            layout = self._layout()
            self._set_merge_properties()
            no_rows = self._empty_frame(changes)
            options = {
                **write_options.options_of(table.dimension, table.options, layout.theirs),
                "hoodie.datasource.write.operation": "upsert" if self.features.record_key else "insert",
                **write_options.commit_metadata(progress, layout),
            }
            with discarding_on_failure(table_name, Change(table.timeline, progress.batch), "Hudi"):
                no_rows.write.format("hudi").options(**options).mode("append").save(table.path)
            return Commit(table.instant_of_batch(progress.batch), 0, 0)

    def _empty_frame(self, changes: Sequence[SchemaChange]) -> DataFrame:
        """Return a frame without rows that has the columns of the table and the new ones."""
        columns = {column.name: column.type for column in self.table.dimension.schema}
        columns |= {change.names[0]: change.after for change in changes if change.after is not None}
        spark = ready(self.table.spark())
        nulls = [f"CAST(NULL AS {ddl(type_)}) AS {quoted(name)}" for name, type_ in columns.items()]
        return spark.range(0).selectExpr(*nulls)

    def _layout(self) -> Layout:
        """Return the layout of the table."""
        options = self.table.options
        index: Mapping[str, str] = {INDEX: "SIMPLE"}
        if self._has_buckets:
            index = {
                INDEX: "BUCKET",
                "hoodie.bucket.index.hash.field": ",".join(self.features.record_key),
                "hoodie.bucket.index.num.buckets": str(options.buckets),
            }
        external_options = self.features.write_options(index)
        return Layout(self.features.partitions, self.features.write_mode, options.buckets, external_options)

    def _set_merge_properties(self) -> None:
        """Set its properties so that the row written last counts."""
        wanted = {**MERGE_PROPERTIES, "hoodie.table.timeline.timezone": "UTC"}
        jvm = Jvm(ready(self.table.spark()))
        unwanted = [name for name in self.features.other_merge_properties if name not in wanted]
        jvm.set_properties(self.table.path, wanted, unwanted)


def _record_key(columns: Sequence[str]) -> str:
    """Return SQL for a record key of several columns; Hudi has a placeholder for the empty text."""
    parts = [
        f"concat({text(f'{name}:')}, CASE WHEN string({quoted(name)}) = '' THEN '__empty__' "
        f"ELSE string({quoted(name)}) END)"
        for name in columns
    ]
    return f"concat_ws(',', {', '.join(parts)})"
