"""The quarantine table: rows that could not be applied, as they were written, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.iceberg.beside import Beside
from lakeward.adapters.iceberg.catalog import IcebergCatalog
from lakeward.adapters.iceberg.columns import SYSTEM_COLUMNS
from lakeward.adapters.iceberg.keys import completed, key_text
from lakeward.adapters.spark import names
from lakeward.adapters.spark.events import IS_HOLDING
from lakeward.adapters.spark.inline import inline
from lakeward.adapters.spark.names import column, quoted
from lakeward.adapters.spark.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.events import Position
from lakeward.core.memory import HOLDING, Hold, Reason
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Entry
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Type

SUFFIX: Final = "__quarantine"
STATE: Final = "_lakeward_state"
KEY: Final = "_lakeward_key"
OBJECT_NAME: Final = "_lakeward_object_name"
SINCE: Final = "_lakeward_since"
HELD, BESIDE, FINAL, GIVEN_UP = "held", "held beside", "final", "given up"
"""A key change holds both its keys: a row of it has the other key and is `BESIDE`."""

_TEXT: Final = Type("string")
_COLUMNS: Final[Mapping[str, Type]] = {
    STATE: _TEXT,
    **SYSTEM_COLUMNS,
    names.OPERATION: _TEXT,
    names.TIME: Type("bigint"),
    names.REASON: _TEXT,
    names.DETAIL: _TEXT,
    KEY: _TEXT,
    OBJECT_NAME: _TEXT,
    SINCE: Type("timestamp"),
    names.TEXT: _TEXT,
}
_PLACE: Final = (names.EPOCH, names.SEQUENCE, names.OBJECT, names.ROW)


class IcebergQuarantine:
    """The quarantine of one table."""

    def __init__(self, catalog: IcebergCatalog, dimension: Dimension, spark: Callable[[], SparkSession]) -> None:
        self.dimension = dimension
        self.spark = spark
        self.table = Beside(catalog, dimension.name, SUFFIX, spark)

    def hold(self, plan: MergePlan, rejects: DataFrame | None, *, count: int) -> None:
        """Write so many rejects, and the word that others are given up, in one commit."""
        if rejects is None and not plan.releases and not self.table.exists:
            return
        self.table.forget_above(plan.batch - 1)
        objects = {found.object.order: found.object.name for found in plan.facts.objects}
        frames = [] if rejects is None else [self._rejected(rejects, objects, plan.epoch, plan.batch)]
        given_up = _given_up(plan)
        if frames or given_up.num_rows:
            columns = {c.name: c.type for c in self._columns()}
            self.table.add(columns, frames, given_up, count=count if frames else 0)

    def add_final(self, progress: Progress, rejects: DataFrame, objects: Mapping[int, str]) -> None:
        """Write rejects that are found after their batch was committed, each once; `objects` are named by order."""
        known = {entry.position for entry in self.entries(progress)}
        rows = self._rejected(rejects, objects, progress.epoch, progress.batch)
        found = completed(rows, {c.name: ddl(c.type) for c in self._columns()}).toArrow()
        new = [_place(row) not in known for row in found.select(_PLACE).to_pylist()]
        if any(new):
            self.table.add({c.name: c.type for c in self._columns()}, [], found.filter(new), count=0)

    def _columns(self) -> Sequence[Column]:
        key = [column for column in self.dimension.schema if column.name in self.dimension.key]
        return [*(Column(name, type_) for name, type_ in _COLUMNS.items()), *key]

    def _rejected(self, rejects: DataFrame, objects: Mapping[int, str], epoch: int, batch: int) -> DataFrame:
        key = self.dimension.key
        types = {names.OBJECT: "bigint", OBJECT_NAME: "string"}
        known = inline(self.spark(), types, list(objects.items()))
        state = f"CASE WHEN {IS_HOLDING} THEN '{HELD}' ELSE '{FINAL}' END"
        rejects = rejects.selectExpr("*", f"{state} AS {STATE}")
        if names.OLD in rejects.columns:
            old = {name: column(names.OLD)[name] for name in key}
            moved = rejects.where(f"{IS_HOLDING} AND {names.OLD} IS NOT NULL")
            rejects = rejects.unionByName(moved.withColumns({**old, STATE: F.lit(BESIDE)}))
        return rejects.join(F.broadcast(known), names.OBJECT).selectExpr(
            STATE,
            f"{epoch} AS {names.EPOCH}",
            f"{batch}L AS {names.BATCH}",
            f"{key_text(key)} AS {KEY}",
            f"current_timestamp() AS {SINCE}",
            *(names.SEQUENCE, names.OBJECT, names.ROW, names.OPERATION, names.TIME),
            *(names.REASON, names.DETAIL, names.TEXT, OBJECT_NAME),
            *map(quoted, key),
        )

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return what is in quarantine as of the table's batch, oldest first; no Spark is needed."""
        wanted = tuple(name for name in _COLUMNS if name != names.TIME)
        rows = self.table.rows(f"{names.BATCH} <= {progress.batch}", wanted).to_pylist()
        gone = {_place(row) for row in rows if row[STATE] == GIVEN_UP}
        beside = {_place(row): row[KEY] for row in rows if row[STATE] == BESIDE}
        found = [
            replace(_entry(row), other_key=beside.get(_place(row)))
            for row in rows
            if row[STATE] in (HELD, FINAL) and _place(row) not in gone
        ]
        return sorted(found, key=lambda entry: (entry.batch, entry.order, entry.row))

    def holds(self, progress: Progress) -> tuple[Hold, ...]:
        """Return the keys that wait for a person."""
        return tuple(
            Hold(entry.position, tuple((key,) for key in entry.keys), Reason(entry.reason), entry.batch)
            for entry in self.entries(progress)
            if entry.keys and Reason(entry.reason) in HOLDING
        )

    def keys_of(self, frame: DataFrame) -> set[str]:
        """Return the keys, as texts, that the rejects of a frame hold."""
        holding, keys = frame.where(IS_HOLDING), [key_text(self.dimension.key)]
        if names.OLD in frame.columns:
            keys.append(key_text(self.dimension.key, f"{names.OLD}."))
        rows = holding.selectExpr(f"explode(array({', '.join(keys)})) AS {KEY}").distinct().collect()
        return {row[KEY] for row in rows if row[KEY] is not None}

    def barriers(self, holds: Sequence[Hold]) -> DataFrame:
        """Return key and position of these holds, as a frame."""
        rows = self.table.rows(f"{STATE} in ('{HELD}', '{BESIDE}')", (*self.dimension.key, *_PLACE))
        wanted = pa.table({name: [hold.position[part] for hold in holds] for part, name in enumerate(_PLACE)})
        wanted = wanted.cast(pa.schema([rows.schema.field(name) for name in _PLACE]))
        held = rows.join(wanted, list(_PLACE), join_type="left semi")
        return self.spark().createDataFrame(held.select([*self.dimension.key, *_PLACE[1:]]))


def _place(row: Mapping[str, Any]) -> Position:
    return Position(*[row[name] for name in _PLACE])


def _given_up(plan: MergePlan) -> pa.Table:
    places = sorted(plan.releases)
    columns: dict[str, Any] = {name: [place[part] for place in places] for part, name in enumerate(_PLACE)}
    columns[STATE] = [GIVEN_UP] * len(places)
    columns[names.BATCH] = [plan.batch] * len(places)
    columns[SINCE] = [datetime.now(UTC)] * len(places)
    return pa.table(columns)


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
