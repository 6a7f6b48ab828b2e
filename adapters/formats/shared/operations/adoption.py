"""Taking over a table that another engine wrote: what is asked of its rows Spark computes, and they stay there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log.writer import record_batch
from lakeward.adapters.formats.shared.rows.system_columns import system_columns
from lakeward.adapters.formats.shared.side_tables.keys import key_text
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.session.errors import FAILURES, said
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.errors import CommitConflict, ConfigError, TableError
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, ExternalTable
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import Kind, SchemaChange


class ExternalTableReader(Protocol):
    """A table as it was loaded, whoever wrote it."""

    @property
    def state(self) -> str:
        """Its state, in the format's own terms."""
        ...

    def columns(self) -> Schema:
        """Return its columns; raises TableError for one of a type that lakeward has not."""
        ...

    def refused(self, dimension: Dimension) -> Sequence[str]:
        """Return in words what it has that lakeward cannot write, for a dimension with its columns."""
        ...

    def rows(self) -> DataFrame:
        """Return all rows."""
        ...

    def take_over(self, changes: Sequence[SchemaChange], progress: Progress) -> Commit:
        """Add columns and write the progress, in one commit that is valid on this state alone."""
        ...


class TableAdoption:
    """What takes over one table; `load` gives it as it is now, or None where there is none."""

    def __init__(self, kept: Keeping, load: Callable[[], ExternalTableReader | None]) -> None:
        self.kept = kept
        self.load = load

    def look(self) -> ExternalTable:
        """Look at the table whole, changing nothing."""
        try:
            return self._looked_at(self._loaded())
        except FAILURES as error:
            raise TableError(
                f"{self.kept.dimension.name}: the table cannot be read",
                found=said(error),
                todo="Nothing was changed. Mend that, and ask again.",
            ) from error

    def _looked_at(self, theirs: ExternalTableReader) -> ExternalTable:
        dimension, schema = self.kept.dimension, theirs.columns()
        if set(system_columns(dimension.sequences)) <= set(schema.names):
            raise ConfigError(
                f"{dimension.name} is one of lakeward's tables already",
                todo="`lakeward status` says how far it is. Nothing was changed.",
            )
        self.kept.know(schema)
        rows, refused = theirs.rows(), theirs.refused(self.kept.dimension)
        key = [name for name in dimension.key if schema.find(name) is not None]
        if not key or len(key) < len(dimension.key):
            return ExternalTable(state=theirs.state, schema=schema, rows=rows.count(), refused=refused)
        total, null_keys, twice, example = _counted(rows, self.kept.dimension)
        return ExternalTable(
            state=theirs.state,
            schema=schema,
            rows=total,
            null_keys=null_keys,
            twice=twice,
            example=example,
            refused=refused,
        )

    def adopt(self, foreign: ExternalTable, plan: MergePlan, progress: Progress) -> Commit:
        """Write the record of the plan beside the table, then give it our columns and the progress at once.

        Before it goes what a table of its name left there, as before the first batch of any.
        """
        theirs = self._loaded()
        if theirs.state != foreign.state:
            raise CommitConflict(
                f"{plan.dimension.name}: another writer has just committed to the table",
                todo="Nothing was changed. Stop the other job for good, and ask again.",
            )
        self.kept.know(foreign.schema)
        self.kept.quarantine.hold(plan, None, {}, count=0)
        record_batch(self.kept.change_log, plan, {}, count=0)
        ours = system_columns(plan.dimension.sequences)
        return theirs.take_over(
            [SchemaChange(Kind.ADD, name, None, type_) for name, type_ in ours.items()], progress
        )

    def _loaded(self) -> ExternalTableReader:
        found = self.load()
        if found is None:
            raise ConfigError(
                f"{self.kept.dimension.name}: the lake has no such table",
                todo="`lakeward run` makes it. Where it has another name there, say so by `namespace` under "
                "[target]. Nothing was changed.",
            )
        return found


def _counted(rows: DataFrame, dimension: Dimension) -> tuple[int, int, int, str | None]:
    """Return how many rows there are, how many have NULL in the key, and how many keys stand more than once."""
    of_key = rows.groupBy(*map(quoted, dimension.key)).agg(F.count(F.lit(1)).alias("_lakeward_rows"))
    told = of_key.selectExpr(f"{key_text(dimension)} AS text", "_lakeward_rows AS rows")
    is_twice = "text IS NOT NULL AND rows > 1"
    (row,) = told.selectExpr(
        "coalesce(sum(rows), 0)",
        "coalesce(sum(CASE WHEN text IS NULL THEN rows END), 0)",
        f"count(CASE WHEN {is_twice} THEN 1 END)",
        f"min(CASE WHEN {is_twice} THEN text END)",
    ).collect()
    return int(row[0]), int(row[1]), int(row[2]), row[3]
