"""Adopt a table that another engine wrote. Spark counts its rows; they stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log.writer import record_batch
from lakeward.adapters.formats.shared.operations.commit_failures import table_changed
from lakeward.adapters.formats.shared.rows.system_columns import system_columns
from lakeward.adapters.formats.shared.side_tables.keys import key_text
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.session.errors import FAILURES, short_message
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, ExternalTable
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import Kind, SchemaChange


class ExternalTableReader(Protocol):
    """A table at the state that it was loaded at, whoever wrote it."""

    @property
    def state(self) -> str:
        """Its state, in the format's own terms."""
        ...

    def columns(self) -> Schema:
        """Return its columns. Raises TableError for a type that lakeward does not have."""
        ...

    def refused(self, dimension: Dimension) -> Sequence[str]:
        """Return messages about features that lakeward cannot write, for a dimension with its columns."""
        ...

    def rows(self) -> DataFrame:
        """Return all rows."""
        ...

    def take_over(self, changes: Sequence[SchemaChange], progress: Progress) -> Commit:
        """Add columns and write the progress, in one commit that is valid on this state only."""
        ...


class TableAdoption:
    """Adopts one table. `load` returns its current state, or None if there is no table."""

    def __init__(self, side_tables: SideTables, load: Callable[[], ExternalTableReader | None]) -> None:
        self.side_tables = side_tables
        self.load = load

    def inspect(self) -> ExternalTable:
        """Describe the table without changing anything. Raises TableError if it cannot be read."""
        try:
            return self._described(self._loaded())
        except FAILURES as error:
            raise TableError(
                f"{self.side_tables.dimension.name}: the table cannot be read",
                found=short_message(error),
                todo="Nothing was changed. Mend that, and ask again.",
            ) from error

    def _described(self, table: ExternalTableReader) -> ExternalTable:
        dimension, schema = self.side_tables.dimension, table.columns()
        if set(system_columns(dimension.sequences)) <= set(schema.names):
            raise ConfigError(
                f"{dimension.name} is one of lakeward's tables already",
                todo="`lakeward status` says how far it is. Nothing was changed.",
            )
        self.side_tables.set_schema(schema)
        rows, refused = table.rows(), table.refused(self.side_tables.dimension)
        key = [name for name in dimension.key if schema.find(name) is not None]
        if not key or len(key) < len(dimension.key):
            return ExternalTable(state=table.state, schema=schema, rows=rows.count(), refused=refused)
        total, null_keys, twice, example = _count_rows(rows, self.side_tables.dimension)
        return ExternalTable(
            state=table.state,
            schema=schema,
            rows=total,
            null_keys=null_keys,
            duplicate_keys=twice,
            example=example,
            refused=refused,
        )

    def adopt(self, external: ExternalTable, plan: MergePlan, progress: Progress) -> Commit:
        """Write the plan's record to the change log, then add system columns and progress in one commit.

        Side tables left by an earlier table of this name are cleared, as before any first batch.
        """
        table = self._loaded()
        if table.state != external.state:
            todo = "Nothing was changed. Stop the other job for good, and ask again."
            raise table_changed(str(plan.dimension.name), todo)
        self.side_tables.set_schema(external.schema)
        self.side_tables.quarantine.hold(plan, None, {}, count=0)
        record_batch(self.side_tables.change_log, plan, {}, count=0)
        columns = system_columns(plan.dimension.sequences)
        return table.take_over(
            [SchemaChange(Kind.ADD, name, None, type_) for name, type_ in columns.items()], progress
        )

    def _loaded(self) -> ExternalTableReader:
        table = self.load()
        if table is None:
            raise ConfigError(
                f"{self.side_tables.dimension.name}: the lake has no such table",
                todo="`lakeward run` makes it. Where it has another name there, say so by `namespace` under "
                "[target]. Nothing was changed.",
            )
        return table


def refused_null(kind: str, path: str, requirement: str) -> str:
    """Return the message for a column or a field (`kind`) that cannot be NULL, in the words of its format."""
    return (
        f"its {kind} {path} is {requirement}, and the source may send NULL "
        f"(`ALTER TABLE … ALTER COLUMN {path} DROP NOT NULL`)"
    )


def _count_rows(rows: DataFrame, dimension: Dimension) -> tuple[int, int, int, str | None]:
    """Return the numbers of rows, of rows with NULL in the key, and of repeated keys, and one repeated key."""
    of_key = rows.groupBy(*map(quoted, dimension.key)).agg(F.count(F.lit(1)).alias("_lakeward_rows"))
    keys = of_key.selectExpr(f"{key_text(dimension)} AS text", "_lakeward_rows AS rows")
    is_repeated = "text IS NOT NULL AND rows > 1"
    (row,) = keys.selectExpr(
        "coalesce(sum(rows), 0)",
        "coalesce(sum(CASE WHEN text IS NULL THEN rows END), 0)",
        f"count(CASE WHEN {is_repeated} THEN 1 END)",
        f"min(CASE WHEN {is_repeated} THEN text END)",
    ).collect()
    return int(row[0]), int(row[1]), int(row[2]), row[3]
