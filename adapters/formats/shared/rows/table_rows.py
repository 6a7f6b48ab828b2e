"""The stored rows that a batch meets. Nothing is written.

The table's keys and positions are streamed past those of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.rows.system_columns import BEFORE, row_columns
from lakeward.adapters.spark.frames.event_frame import KeyRange, range_of
from lakeward.adapters.spark.history.version_rows import ENDS, VersionRows
from lakeward.adapters.spark.merge.resolution import (
    DELETES,
    FILE,
    ID,
    IS_LIVE,
    IS_NOT_DELETED,
    POS,
    SMALL,
    WHOLES,
    stored_column,
)
from lakeward.adapters.spark.merge.truncates import literal, place_of
from lakeward.adapters.spark.schema_changes.schema_alignment import (
    complete_structs,
    fitted,
    rename_columns,
    stored_value_column,
)
from lakeward.adapters.spark.shaping.recomputed_columns import recompute
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl as type_ddl
from lakeward.adapters.spark.sql.types import from_bound, is_bounded
from lakeward.core.dimension import DELETED
from lakeward.core.events import LOAD_SEQUENCE, Position
from lakeward.core.plan import MergePlan

_PLACE: Final = "_lakeward_place"


class TableSnapshot(Protocol):
    """A table at one version."""

    @property
    def is_written(self) -> bool:
        """Whether it was ever written to."""
        ...

    def rows(self) -> DataFrame:
        """Return all rows, with `FILE` and `POS`."""
        ...

    def find(self, keys: pa.Table, wanted: Sequence[str]) -> pa.Table | None:
        """Return the wanted columns of the rows with some keys, with `FILE` and `POS`, read in this process.

        Columns that the table does not have are left out. Returns None if only Spark can read the rows.
        """
        ...


def with_default_positions(rows: DataFrame) -> DataFrame:
    """Return rows with default positions in place of NULL: rows from before lakeward are older than every event."""
    types = dict(rows.dtypes)
    defaults = {name: f"coalesce({name}, CAST('{value}' AS {types[name]}))" for name, value in BEFORE.items()}
    return rows.selectExpr(
        *[f"{defaults[name]} AS {name}" if name in defaults else quoted(name) for name in rows.columns]
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """The stored rows for the plan of one batch. `table` is None if there is no table yet."""

    plan: MergePlan
    table: TableSnapshot | None
    spark: Callable[[], SparkSession]

    @property
    def are_there(self) -> bool:
        """Whether the table was ever written to."""
        return self.table is not None and self.table.is_written

    def of(self, keys: DataFrame) -> DataFrame:
        """Return the rows of these keys and their places in files; of a history, one row for each key."""
        plan = self.plan
        if not self.are_there:
            types = {c.name: type_ddl(c.type) for c in plan.stored.schema}
            types |= {name: type_ddl(type_) for name, type_ in row_columns(plan.dimension).items()}
            nulls = [f"CAST(NULL AS {type_}) AS {quoted(name)}" for name, type_ in {**types, POS: "bigint"}.items()]
            rows = self.spark().range(0).selectExpr(*nulls, f"'' AS {FILE}")
        else:
            rows = self.all(range_of(keys, plan.dimension)).join(keys, list(plan.dimension.key), "left_semi")
        if self.history is not None:
            return self.history.stored(rows)
        if plan.replaces and plan.dimension.is_soft:
            rows = self._gone_with_load(rows)
        places = [f"{name} AS {stored_column(name)}" for name in names.POSITION]
        has = [name for name in (*plan.evolution.schema.names, DELETED) if name in rows.columns]
        return rows.selectExpr(*map(quoted, has), *places, FILE, POS)

    @property
    def history(self) -> VersionRows | None:
        """What reads and writes versions, if the table is a history."""
        plan = self.plan
        return VersionRows.of(plan.with_all_columns, plan.folded, plan.epoch, plan.batch)

    def lacking(self, others: DataFrame) -> DataFrame:
        """Return the rows whose keys `others` do not have, as rows deleted by a full load."""
        if not self.are_there:
            return others.limit(0)
        rows = self._gone_with_load(self.all()).join(others, list(self.plan.dimension.key), "left_anti")
        return rows.selectExpr(*[quoted(name) for name in others.columns if name in rows.columns])

    def _gone_with_load(self, rows: DataFrame) -> DataFrame:
        """Mark rows as deleted, at a position before all rows of the full load."""
        place = {names.EPOCH: self.plan.epoch, names.SEQUENCE: LOAD_SEQUENCE, names.OBJECT: 0, names.ROW: 0}
        types = dict(rows.dtypes)
        values = {name: f"CAST({value} AS {types[name]})" for name, value in place.items()} | {DELETED: "true"}
        return rows.withColumns({name: F.expr(sql) for name, sql in values.items()})

    def live(self, below: Position | None = None) -> DataFrame | None:
        """Return the keys of the rows that have not ended, or only of those below a position.

        None if the table has no rows, or does not keep ended ones.
        """
        if not self.are_there or not self.plan.dimension.keeps_ended:
            return None
        rows = self.all()
        rows = (
            rows.where(IS_NOT_DELETED) if self.history is None else self.history.read(rows).where(f"{ENDS} IS NULL")
        )
        if below is not None:
            rows = rows.where(f"{place_of(names.EPOCH)} < {literal(self.plan, below)}")
        return rows.selectExpr(*map(quoted, self.plan.dimension.key))

    def with_truncated(self, removed: DataFrame) -> DataFrame:
        """Return the rows of the batch's keys that go, and all other rows that a truncate of the batch removes."""
        plan = self.plan
        limit, newest = plan.truncates.removes_below, plan.truncates.newest
        is_new = limit is not None and (newest is None or limit > newest)
        if limit is None or not is_new or not self.are_there:
            return removed
        rows = self.all().where(f"{place_of(names.EPOCH)} < {literal(plan, limit)}")
        key = list(plan.dimension.key)
        others = rows.selectExpr(*map(quoted, key), FILE, POS)
        others = others.join(removed.selectExpr(*map(quoted, key)), key, "left_anti")
        return removed.unionByName(others, allowMissingColumns=True)

    def find_stored(self, events: DataFrame, deletes: DataFrame | None) -> DataFrame:
        """Return the stored rows of the batch's keys, and for keys without a row the newest remembered delete.

        `deletes` are the remembered deletes. The keys and positions of the table are streamed past the keys of the
        batch. Files outside the key range of the batch are not read.
        """
        plan, key = self.plan, list(self.plan.dimension.key)
        target = self.all(plan.facts.key_range)
        wanted = events.selectExpr(*map(quoted, key))
        if plan.facts.read <= SMALL:
            wanted = F.broadcast(wanted)
        stored = target.selectExpr(
            *map(quoted, key),
            *[f"{name} AS {stored_column(name)}" for name in names.POSITION],
            f"true AS {IS_LIVE}",
            *(FILE, POS),
        ).join(wanted, key, "left_semi")
        if deletes is None:
            return stored
        place = f"max(struct({', '.join(names.POSITION)})) AS {_PLACE}"
        newest = deletes.join(wanted, key, "left_semi").groupBy(*map(quoted, key)).agg(F.expr(place))
        remembered = newest.join(stored.selectExpr(*map(quoted, key)), key, "left_anti").selectExpr(
            *map(quoted, key),
            *[f"{_PLACE}.{name} AS {stored_column(name)}" for name in names.POSITION],
            f"false AS {IS_LIVE}",
        )
        return stored.unionByName(remembered, allowMissingColumns=True)

    def all(self, key_range: KeyRange = ()) -> DataFrame:
        """Return the rows in a range of keys, with the columns that the plan gives the table.

        Of a bitemporal history, these are the versions that are believed now.
        """
        plan, target = self.plan, self._as_loaded()
        if plan.changes:
            target = fitted(rename_columns(target, plan.renames), plan.stored.schema)
        target = target if self.history is None else self.history.believed(target)
        for name, bounds in zip(plan.dimension.key, key_range, strict=False):
            item = plan.dimension.schema.find(name)
            if bounds is not None and item is not None and is_bounded(item.type):
                least, most = (from_bound(bound, item.type) for bound in bounds)
                target = target.where(f"{quoted(name)} BETWEEN {least} AND {most}")
        return target

    def all_as_after(self) -> DataFrame:
        """Return all rows, with NULL in the columns that the table gets with the batch."""
        rows = self.all()
        new = [column for column in self.plan.evolution.schema if column.name not in rows.columns]
        return rows.selectExpr("*", *[f"CAST(NULL AS {type_ddl(c.type)}) AS {quoted(c.name)}" for c in new])

    def count(self) -> int:
        """Return the number of rows in the table."""
        return self._as_loaded().count() if self.are_there else 0

    def _as_loaded(self) -> DataFrame:
        if self.table is None:
            raise LookupError("a table that is not there has no rows")
        return with_default_positions(self.table.rows())

    def with_stored_values(self, upserts: DataFrame, row_verdicts: DataFrame) -> DataFrame:
        """Give updated rows the stored values of columns and fields that the batch lacks; new rows get NULL."""
        evolution, key = self.plan.evolution, list(self.plan.dimension.key)
        if not evolution.lacks_columns or not self.are_there:
            return upserts
        parts = sorted({names[0] for names in evolution.lacking})
        rows = self.all(self.plan.facts.key_range).selectExpr(
            *map(quoted, [*key, *evolution.absent]),
            *[f"{quoted(name)} AS {stored_value_column(name)}" for name in parts],
        )
        updated = row_verdicts.where(f"{IS_LIVE} AND {DELETES} = 0 AND {WHOLES} = 0").selectExpr(ID)
        completed = upserts.join(updated, ID, "left_semi").join(rows, key, "left")
        completed = complete_structs(completed, evolution.schema, evolution.lacking)
        all_rows = completed.unionByName(upserts.join(updated, ID, "left_anti"), allowMissingColumns=True)
        return recompute(all_rows, self.plan.recomputed)
