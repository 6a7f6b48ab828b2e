"""A joined table of a lake and the tables that it is made of, read at the commits that a plan names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.shared.joined.joined_sources import Readable, Reader, state_of
from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.resolution.resolver import Work
from lakeward.adapters.formats.shared.rows.new_rows import written
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.system_columns import row_columns
from lakeward.adapters.formats.shared.rows.table_rows import Loaded
from lakeward.adapters.spark.execution.cached_frames import freed_on_failure
from lakeward.adapters.spark.joined.difference import mirrored, versioned
from lakeward.adapters.spark.joined.joined_rows import made
from lakeward.adapters.spark.joined.sides import sides
from lakeward.adapters.spark.joined.touched_rows import touched
from lakeward.adapters.spark.joined.unshown_rows import unshown
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.plan import JoinPlan, JoinProgress, SourceState
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, TableState
from lakeward.core.progress import Progress


class Writable(Protocol):
    """A table whose rows are worked out in another way than from events."""

    def standing(self) -> TableState:
        """Return what its last commit of ours says."""
        ...

    def work_out(self, plan: MergePlan, work: Work) -> MergeResult:
        """Work out rows of the table as it is; nothing is written."""
        ...

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Make rows and progress visible in one commit."""
        ...


@dataclass(frozen=True, slots=True)
class Joint:
    """A joined table, which is `table`, by its `name` in the lake, and its sources by their names."""

    name: str
    joining: Joining
    table: Writable
    of: Mapping[str, Readable]
    spark: Callable[[], SparkSession]

    def standing(self) -> TableState:
        """Return what its last commit of ours says."""
        return self.table.standing()

    def sources(self, progress: JoinProgress | None) -> Mapping[str, SourceState]:
        """Return its sources as they are."""
        known = {} if progress is None else {name: progress.known(name) for name in self.of}
        found = {name: state_of(table, known.get(name, ())) for name, table in self.of.items()}
        return {name: state for name, state in found.items() if state is not None}

    def commit(self, merge: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Make rows and progress visible in one commit."""
        return self.table.commit(merge, resolved, progress)

    def resolve(self, plan: JoinPlan, merge: MergePlan) -> MergeResult:
        """Work out what has to be written and removed."""
        return self.table.work_out(merge, partial(self._resolved, plan, merge))

    def _resolved(
        self, plan: JoinPlan, merge: MergePlan, loaded: Loaded | None, partitions: Partitions
    ) -> MergeResult:
        readers = {name: Reader(side, self.of[name], plan) for name, side in sides(self.joining).items()}
        tables = {name: reader.rows() for name, reader in readers.items()}
        changes = {name: readers[name].changes() for name in plan.since}
        before = {name: readers[name].before(changes[name]) for name in plan.before}
        reached = touched(self.joining, changes, before, tables) if self._needs_changes(plan) else None
        reached = None if reached is None else reached.localCheckpoint()
        asked = None if plan.whole else reached
        stands = self._stands(loaded, asked)
        compare = mirrored if self.joining.joined.history is None else versioned
        found = compare(plan, stands, made(self.joining, tables, asked), reached)
        outcome = Outcome(upserts=found.written, removed=found.removed, table=loaded, cached=[found.cached])
        with freed_on_failure(outcome.close):
            resolved = MergeResult(
                counts=Counts(),
                written=found.written.count(),
                removed=found.removed.count(),
                current=found.opened,
                left=found.left,
                unshown=unshown(self.joining, tables),
                detail=outcome,
                close=outcome.close,
            )
            partitions.refuse_unkept(merge, written(merge, resolved))
        return resolved

    def _needs_changes(self, plan: JoinPlan) -> bool:
        """Whether what was touched matters: where all is made anew, it may date what changed, and no more."""
        is_dated = self.joining.joined.history is not None and not self.joining.over_time
        return bool(plan.since) and (not plan.whole or is_dated)

    def _stands(self, loaded: Loaded | None, asked: DataFrame | None) -> DataFrame:
        """Return the rows that stand, of these keys or of all."""
        dimension = self.joining.dimension
        if loaded is None or not loaded.is_written:
            types = {c.name: ddl(c.type) for c in dimension.stored.schema}
            types |= {name: ddl(type_) for name, type_ in row_columns(dimension).items()}
            types |= {FILE: "string", POS: "bigint"}
            nulls = [f"CAST(NULL AS {type_}) AS {quoted(name)}" for name, type_ in types.items()]
            return self.spark().range(0).selectExpr(*nulls)
        rows = loaded.rows()
        key = list(dimension.key)
        return rows if asked is None else rows.join(asked.select(*map(quoted, key)), key, "left_semi")
