"""The rows of a table that a batch meets; nothing is written.

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
    POS,
    SMALL,
    STANDS,
    WHOLES,
    standing,
)
from lakeward.adapters.spark.merge.truncates import literal, place_of
from lakeward.adapters.spark.schema_changes.schema_alignment import called_now, fitted, kept_as, with_kept
from lakeward.adapters.spark.shaping.recomputed_columns import remade
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl as type_ddl
from lakeward.adapters.spark.sql.types import from_bound, is_bounded
from lakeward.core.dimension import DELETED
from lakeward.core.events import LOAD_SEQUENCE, Position
from lakeward.core.plan import MergePlan

_PLACE: Final = "_lakeward_place"


class Loaded(Protocol):
    """A table as it was loaded, at one version of it."""

    @property
    def is_written(self) -> bool:
        """Whether it was ever written to."""
        ...

    def rows(self) -> DataFrame:
        """Return all rows, with `FILE` and `POS`."""
        ...

    def find(self, keys: pa.Table, wanted: Sequence[str]) -> pa.Table | None:
        """Return these columns of the rows with some keys, with `FILE` and `POS`, as this process reads them.

        Names that it does not have are passed over. Returns None where only Spark can read the rows.
        """
        ...


def placed(rows: DataFrame) -> DataFrame:
    """Return the rows of a table; those that were there before lakeward are older than all others."""
    types = dict(rows.dtypes)
    said = {name: f"coalesce({name}, CAST('{value}' AS {types[name]}))" for name, value in BEFORE.items()}
    return rows.selectExpr(*[f"{said[name]} AS {name}" if name in said else quoted(name) for name in rows.columns])


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table as it was loaded, for the plan of one batch; `table` is None where there is none yet."""

    plan: MergePlan
    table: Loaded | None
    spark: Callable[[], SparkSession]

    @property
    def are_there(self) -> bool:
        """Whether the table has ever been written to."""
        return self.table is not None and self.table.is_written

    def of(self, keys: DataFrame) -> DataFrame:
        """Return the rows of these keys as they stand, and where they lie; of a history one row a key."""
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
        stands = [f"{name} AS {standing(name)}" for name in names.POSITION]
        has = [name for name in (*plan.evolution.schema.names, DELETED) if name in rows.columns]
        return rows.selectExpr(*map(quoted, has), *stands, FILE, POS)

    @property
    def history(self) -> VersionRows | None:
        """What shows versions as rows, of a table that keeps them."""
        plan = self.plan
        return VersionRows.of(plan.whole, plan.folded, plan.epoch, plan.batch)

    def lacking(self, others: DataFrame) -> DataFrame:
        """Return the rows of the table whose keys others have not, as rows that went with a full load."""
        if not self.are_there:
            return others.limit(0)
        rows = self._gone_with_load(self.all()).join(others, list(self.plan.dimension.key), "left_anti")
        return rows.selectExpr(*[quoted(name) for name in others.columns if name in rows.columns])

    def _gone_with_load(self, rows: DataFrame) -> DataFrame:
        """Say of rows that they went before those of a full load."""
        place = {names.EPOCH: self.plan.epoch, names.SEQUENCE: LOAD_SEQUENCE, names.OBJECT: 0, names.ROW: 0}
        types = dict(rows.dtypes)
        said = {name: f"CAST({value} AS {types[name]})" for name, value in place.items()} | {DELETED: "true"}
        return rows.withColumns({name: F.expr(sql) for name, sql in said.items()})

    def live(self, below: Position | None = None) -> DataFrame | None:
        """Return the keys of the rows that have not ended, or of those below a place alone.

        It is None where the table has none, or keeps nothing that ended.
        """
        if not self.are_there or not self.plan.dimension.keeps_ended:
            return None
        rows = self.all()
        rows = rows.where(STANDS) if self.history is None else self.history.read(rows).where(f"{ENDS} IS NULL")
        if below is not None:
            rows = rows.where(f"{place_of(names.EPOCH)} < {literal(self.plan, below)}")
        return rows.selectExpr(*map(quoted, self.plan.dimension.key))

    def with_truncated(self, stood: DataFrame) -> DataFrame:
        """Return, beside the rows that stood of the batch's keys, those that a truncate of it removes."""
        plan = self.plan
        limit, newest = plan.truncates.removes_below, plan.truncates.newest
        is_new = limit is not None and (newest is None or limit > newest)
        if limit is None or not is_new or not self.are_there:
            return stood
        rows = self.all().where(f"{place_of(names.EPOCH)} < {literal(plan, limit)}")
        key = list(plan.dimension.key)
        others = rows.selectExpr(*map(quoted, key), FILE, POS)
        others = others.join(stood.selectExpr(*map(quoted, key)), key, "left_anti")
        return stood.unionByName(others, allowMissingColumns=True)

    def found(self, events: DataFrame, gone: DataFrame | None) -> DataFrame:
        """Return what stands of the batch's keys: rows, and where there is none, a remembered delete (of `gone`).

        The table's keys and positions are streamed past the keys of the batch; where those
        lie in a range, the files outside of it are not read.
        """
        plan, key = self.plan, list(self.plan.dimension.key)
        target = self.all(plan.facts.key_range)
        wanted = events.selectExpr(*map(quoted, key))
        if plan.facts.read <= SMALL:
            wanted = F.broadcast(wanted)
        found = target.selectExpr(
            *map(quoted, key),
            *[f"{name} AS {standing(name)}" for name in names.POSITION],
            f"true AS {IS_LIVE}",
            *(FILE, POS),
        ).join(wanted, key, "left_semi")
        if gone is None:
            return found
        place = f"max(struct({', '.join(names.POSITION)})) AS {_PLACE}"
        newest = gone.join(wanted, key, "left_semi").groupBy(*map(quoted, key)).agg(F.expr(place))
        remembered = newest.join(found.selectExpr(*map(quoted, key)), key, "left_anti").selectExpr(
            *map(quoted, key),
            *[f"{_PLACE}.{name} AS {standing(name)}" for name in names.POSITION],
            f"false AS {IS_LIVE}",
        )
        return found.unionByName(remembered, allowMissingColumns=True)

    def all(self, key_range: KeyRange = ()) -> DataFrame:
        """Return the rows in a range of keys, with the columns that the plan gives the table.

        Of a history that keeps what was believed when, it is what is believed.
        """
        plan, target = self.plan, self._as_loaded()
        if plan.changes:
            target = fitted(called_now(target, plan.renames), plan.stored.schema)
        target = target if self.history is None else self.history.believed(target)
        for name, bounds in zip(plan.dimension.key, key_range, strict=False):
            item = plan.dimension.schema.find(name)
            if bounds is not None and item is not None and is_bounded(item.type):
                least, most = (from_bound(bound, item.type) for bound in bounds)
                target = target.where(f"{quoted(name)} BETWEEN {least} AND {most}")
        return target

    def all_as_after(self) -> DataFrame:
        """Return all rows, with NULL in the columns that the table gets with the batch."""
        found = self.all()
        new = [column for column in self.plan.evolution.schema if column.name not in found.columns]
        return found.selectExpr("*", *[f"CAST(NULL AS {type_ddl(c.type)}) AS {quoted(c.name)}" for c in new])

    def count(self) -> int:
        """Return how many rows the table has."""
        return self._as_loaded().count() if self.are_there else 0

    def _as_loaded(self) -> DataFrame:
        if self.table is None:
            raise LookupError("a table that is not there has no rows")
        return placed(self.table.rows())

    def kept(self, upserts: DataFrame, judged: DataFrame) -> DataFrame:
        """Give updated rows what stands in columns and fields that the batch has not; a new row has NULL there."""
        evolution, key = self.plan.evolution, list(self.plan.dimension.key)
        if not evolution.lacks or not self.are_there:
            return upserts
        parts = sorted({names[0] for names in evolution.lacking})
        rows = self.all(self.plan.facts.key_range).selectExpr(
            *map(quoted, [*key, *evolution.absent]), *[f"{quoted(name)} AS {kept_as(name)}" for name in parts]
        )
        updated = judged.where(f"{IS_LIVE} AND {DELETES} = 0 AND {WHOLES} = 0").selectExpr(ID)
        kept = upserts.join(updated, ID, "left_semi").join(rows, key, "left")
        kept = with_kept(kept, evolution.schema, evolution.lacking)
        every = kept.unionByName(upserts.join(updated, ID, "left_anti"), allowMissingColumns=True)
        return remade(every, self.plan.recomputed)
