"""The quarantine table: rows that could not be applied, as they were written, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.iceberg import ddl
from lakeward.adapters.iceberg.catalog import IcebergCatalog
from lakeward.adapters.iceberg.columns import SYSTEM_COLUMNS
from lakeward.adapters.iceberg.java import committing
from lakeward.adapters.iceberg.keys import completed, key_text
from lakeward.adapters.spark import names
from lakeward.adapters.spark.events import IS_HOLDING
from lakeward.adapters.spark.names import quoted
from lakeward.adapters.spark.types import ddl as type_ddl
from lakeward.core.dimension import Dimension
from lakeward.core.events import Position
from lakeward.core.memory import HOLDING, Hold, Reason
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Entry
from lakeward.core.progress import Progress

SUFFIX: Final = "__quarantine"
STATE: Final = "_lakeward_state"
KEY: Final = "_lakeward_key"
OBJECT_NAME: Final = "_lakeward_object_name"
SINCE: Final = "_lakeward_since"
HELD, FINAL, GIVEN_UP = "held", "final", "given up"

_COLUMNS: Final[Mapping[str, str]] = {
    STATE: "string",
    **SYSTEM_COLUMNS,
    names.OPERATION: "string",
    names.TIME: "bigint",
    names.REASON: "string",
    names.DETAIL: "string",
    KEY: "string",
    OBJECT_NAME: "string",
    SINCE: "timestamp",
    names.TEXT: "string",
}
_PLACE: Final = (names.EPOCH, names.SEQUENCE, names.OBJECT, names.ROW)


class IcebergQuarantine:
    """The quarantine of one table."""

    def __init__(self, catalog: IcebergCatalog, dimension: Dimension, spark: Callable[[], SparkSession]) -> None:
        self.catalog = catalog
        self.dimension = dimension
        self.spark = spark

    @property
    def name(self) -> tuple[str, str, str]:
        """The name of the table in Spark."""
        return (self.catalog.name, *self.catalog.identifier(self.dimension.name, SUFFIX))

    def hold(self, plan: MergePlan, rejects: DataFrame | None) -> None:
        """Write rejects, and the word that others are given up, in one commit."""
        exists = self.catalog.load(self.dimension.name, SUFFIX) is not None
        if not exists and rejects is None and not plan.releases:
            return
        with committing(str(self.dimension.name)):
            if not exists:
                self._make()
            elif self._rows(f"{names.BATCH} >= {plan.batch}", (names.BATCH,)).num_rows:
                self.spark().sql(f"DELETE FROM {quoted(*self.name)} WHERE {names.BATCH} >= {plan.batch}")
            parts = [] if rejects is None else [self._complete(self._rejected(rejects, plan))]
            parts += [self._complete(_given_up(self.spark(), plan))] if plan.releases else []
            if parts:
                reduce(DataFrame.unionByName, parts).coalesce(1).writeTo(quoted(*self.name)).append()

    def _make(self) -> None:
        self.catalog.prepare()
        key = [c for c in self.dimension.schema if c.name in self.dimension.key]
        ddl.create(
            self.spark(),
            self.name,
            {**_COLUMNS, **{c.name: type_ddl(c.type) for c in key}},
            location=f"LOCATION {names.text(self.catalog.location(self.dimension.name, SUFFIX))}",
            properties=ddl.tblproperties(ddl.BESIDE),
        )

    def _rejected(self, rejects: DataFrame, plan: MergePlan) -> DataFrame:
        key = self.dimension.key
        by_order = {f.object.order: f.object.name for f in plan.facts.objects}
        known = self.spark().createDataFrame(
            pa.table(
                {
                    names.OBJECT: pa.array(by_order, pa.int64()),
                    OBJECT_NAME: pa.array(by_order.values(), pa.string()),
                }
            )
        )
        return rejects.join(F.broadcast(known), names.OBJECT).selectExpr(
            f"CASE WHEN {IS_HOLDING} THEN '{HELD}' ELSE '{FINAL}' END AS {STATE}",
            f"{plan.epoch} AS {names.EPOCH}",
            f"{plan.batch}L AS {names.BATCH}",
            f"{key_text(key)} AS {KEY}",
            f"current_timestamp() AS {SINCE}",
            *(names.SEQUENCE, names.OBJECT, names.ROW, names.OPERATION, names.TIME),
            *(names.REASON, names.DETAIL, names.TEXT, OBJECT_NAME),
            *map(quoted, key),
        )

    def _complete(self, frame: DataFrame) -> DataFrame:
        key = {c.name: type_ddl(c.type) for c in self.dimension.schema if c.name in self.dimension.key}
        return completed(frame, {**_COLUMNS, **key})

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return what is in quarantine as of the table's batch, oldest first; no Spark is needed."""
        wanted = tuple(name for name in _COLUMNS if name != names.TIME)
        rows = self._rows(f"{names.BATCH} <= {progress.batch}", wanted).to_pylist()
        gone = {_place(row) for row in rows if row[STATE] == GIVEN_UP}
        found = [_entry(row) for row in rows if row[STATE] != GIVEN_UP and _place(row) not in gone]
        return sorted(found, key=lambda entry: (entry.batch, entry.order, entry.row))

    def _rows(self, condition: str, wanted: tuple[str, ...]) -> pa.Table:
        table = self.catalog.load(self.dimension.name, SUFFIX)
        if table is None:
            return pa.table({name: [] for name in wanted})
        return table.scan(row_filter=condition, selected_fields=wanted).to_arrow()

    def holds(self, progress: Progress) -> tuple[Hold, ...]:
        """Return the keys that wait for a person."""
        return tuple(
            Hold(entry.position, ((entry.key,),), Reason(entry.reason), entry.batch)
            for entry in self.entries(progress)
            if entry.key is not None and Reason(entry.reason) in HOLDING
        )

    def keys_of(self, frame: DataFrame) -> set[str]:
        """Return the keys, as texts, that the rejects of a frame hold."""
        rows = frame.where(IS_HOLDING).selectExpr(f"{key_text(self.dimension.key)} AS {KEY}").distinct().collect()
        return {row[KEY] for row in rows}

    def barriers(self, holds: Sequence[Hold]) -> DataFrame:
        """Return key and position of these holds, as a frame."""
        wanted = _place_frame(self.spark(), [hold.position for hold in holds])
        held = self.spark().table(quoted(*self.name)).where(f"{STATE} = '{HELD}'")
        return held.join(F.broadcast(wanted), list(_PLACE), "left_semi").selectExpr(
            *map(quoted, self.dimension.key), *_PLACE[1:]
        )


def _place(row: Mapping[str, Any]) -> Position:
    return Position(*[row[name] for name in _PLACE])


def _place_frame(spark: SparkSession, places: Sequence[Position]) -> DataFrame:
    columns_ = zip(_PLACE, zip(*places, strict=True), strict=True)
    types = {names.EPOCH: pa.int32()}
    return spark.createDataFrame(
        pa.table({name: pa.array(values, types.get(name, pa.int64())) for name, values in columns_})
    )


def _given_up(spark: SparkSession, plan: MergePlan) -> DataFrame:
    return _place_frame(spark, sorted(plan.releases)).selectExpr(
        *_PLACE,
        f"'{GIVEN_UP}' AS {STATE}",
        f"{plan.batch}L AS {names.BATCH}",
        f"current_timestamp() AS {SINCE}",
    )


def _entry(row: Mapping[str, Any]) -> Entry:
    return Entry(
        key=row[KEY],
        reason=row[names.REASON],
        detail=row[names.DETAIL] or "",
        object=row[OBJECT_NAME],
        row=row[names.ROW],
        operation=row[names.OPERATION],
        epoch=row[names.EPOCH],
        sequence=row[names.SEQUENCE],
        order=row[names.OBJECT],
        batch=row[names.BATCH],
        since=int(row[SINCE].timestamp() * 1_000_000),
        text=row[names.TEXT] or "",
    )
