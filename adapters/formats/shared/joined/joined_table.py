"""A joined table of a lake and its source tables, read at the commits that a plan names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.shared.joined.joined_sources import SourceReader, state_of
from lakeward.adapters.formats.shared.operations.opened_table import FormatTable
from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.rows.new_rows import rows_to_write
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.system_columns import column_types
from lakeward.adapters.formats.shared.rows.table_rows import TableSnapshot
from lakeward.adapters.formats.shared.side_tables.keys import with_exact_columns
from lakeward.adapters.spark.execution.cached_frames import freed_on_failure
from lakeward.adapters.spark.joined.difference import compare_history, compare_mirror
from lakeward.adapters.spark.joined.joined_rows import find_omitted_rows, join_frames
from lakeward.adapters.spark.joined.source_frames import sources_of
from lakeward.adapters.spark.joined.touched_keys import find_touched_keys
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.plan import JoinPlan, JoinProgress, SourceState
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, TableState
from lakeward.core.progress import Progress


@dataclass(frozen=True, slots=True)
class JoinedLakeTable:
    """A joined table (`table`, called `name` in the lake) and its sources (`of`) by their names."""

    name: str
    joining: JoinDefinition
    table: FormatTable
    of: Mapping[str, FormatTable]
    spark: Callable[[], SparkSession]

    def state(self) -> TableState:
        """Return the state as of its last commit of ours."""
        return self.table.state()

    def sources(self, progress: JoinProgress | None) -> Mapping[str, SourceState]:
        """Return the states of its sources."""
        passed = {} if progress is None else progress.passed
        states = {name: state_of(table, passed.get(name)) for name, table in self.of.items()}
        return {name: state for name, state in states.items() if state is not None}

    def commit(self, merge: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Make rows and progress visible in one commit."""
        return self.table.commit(merge, resolved, progress)

    def resolve(self, plan: JoinPlan, merge: MergePlan) -> MergeResult:
        """Resolve a batch: work out the rows to write and to remove."""
        return self.table.resolve_with(merge, partial(self._resolved, plan, merge))

    def _resolved(
        self, plan: JoinPlan, merge: MergePlan, snapshot: TableSnapshot | None, partitions: Partitions
    ) -> MergeResult:
        sources = sources_of(self.joining).items()
        readers = {name: SourceReader(source, self.of[name], plan) for name, source in sources}
        tables = {name: reader.rows() for name, reader in readers.items()}
        changes = {name: readers[name].changes() for name in plan.since}
        moving = [name for name in plan.since if self.joining.needs_earlier_rows(name)]
        before = {name: readers[name].before(changes[name]) for name in moving}
        touched = find_touched_keys(self.joining, changes, before, tables) if plan.since else None
        stored = self._stored_rows(snapshot, touched)
        compare = compare_mirror if self.joining.joined.history is None else compare_history
        difference = compare(plan, stored, join_frames(self.joining, tables, touched), touched)
        detail = MergeDetail(
            upserts=difference.written, removed=difference.removed, table=snapshot, cached=[difference.cached]
        )
        with freed_on_failure(detail.close):
            resolved = MergeResult(
                counts=Counts(),
                written=difference.written.count(),
                removed=difference.removed.count(),
                current=difference.opened,
                skipped_keys=difference.skipped,
                omitted_rows=find_omitted_rows(self.joining, tables),
                detail=detail,
                close=detail.close,
            )
            partitions.refuse_lossy_texts(merge, rows_to_write(merge, resolved))
        return resolved

    def _stored_rows(self, snapshot: TableSnapshot | None, keys: DataFrame | None) -> DataFrame:
        """Return the stored rows, of these keys or of all."""
        dimension = self.joining.dimension
        if snapshot is None or not snapshot.is_written:
            types = {name: ddl(type_) for name, type_ in column_types(dimension).items()}
            return with_exact_columns(self.spark().range(0).select(), {**types, FILE: "string", POS: "bigint"})
        rows = snapshot.rows()
        key = list(dimension.key)
        return rows if keys is None else rows.join(keys.select(*map(quoted, key)), key, "left_semi")
