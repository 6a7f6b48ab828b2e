"""The quarantine table: rows that could not be applied, as they were written, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.rows.system_columns import position_of, system_columns
from lakeward.adapters.formats.shared.side_tables.keys import key_text, with_exact_columns
from lakeward.adapters.formats.shared.side_tables.repaired_rows import read_repair, repair_text
from lakeward.adapters.formats.shared.side_tables.side_table import QUARANTINE, OpenSideTable
from lakeward.adapters.spark.frames.event_frame import IS_HOLDING
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.adapters.spark.sql.names import column, quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.events import Position, Sequences
from lakeward.core.merge.change_log import HOLDING, Hold, Reason
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Entry, RepairedRow
from lakeward.core.progress import Progress
from lakeward.core.quarantine.repair import check_same_keys
from lakeward.core.schema import Column, Type

STATE: Final = "_lakeward_state"
KEY: Final = "_lakeward_key"
OLD_KEY: Final = "_lakeward_old_key"
OBJECT_NAME: Final = "_lakeward_object_name"
SINCE: Final = "_lakeward_since"
HELD, HELD_OTHER_KEY, FINAL = "held", "held beside", "final"
REPAIRED, REPLAYED, GIVEN_UP = "mended", "replayed", "given up"
REFUSED, SETTLED = (HELD, HELD_OTHER_KEY, FINAL), (REPLAYED, GIVEN_UP)
"""The states of a row: refused, repaired by an operator, or settled.

A key change holds both its keys. It has a second row with the other key, whose state is `HELD_OTHER_KEY`.
"""

_TEXT: Final = Type("string")
_PLACE: Final = names.POSITION


class QuarantineTable:
    """The quarantine of one table."""

    def __init__(
        self, dimension: Dimension, open_side_table: OpenSideTable, spark: Callable[[], SparkSession]
    ) -> None:
        self.dimension = dimension
        self.spark = spark
        self.table = open_side_table(QUARANTINE, dimension.policies.renames, lambda: self.dimension.key)

    def hold(self, plan: MergePlan, rejects: DataFrame | None, objects: Mapping[int, str], *, count: int) -> None:
        """Write `count` rejects, and the settlement of replayed and discarded rows, in one commit.

        `objects` has the names of the rejects' source objects, by their order.
        """
        if rejects is None and not plan.releases and not self.table.columns:
            return
        self.table.forget_above(plan.batch - 1)
        self.table.rename()
        frames = [] if rejects is None else [self._rejected(rejects, objects, plan.epoch, plan.batch)]
        settled = _settled(plan)
        if frames or settled.num_rows:
            columns = {c.name: c.type for c in self._columns()}
            self.table.add(columns, frames, settled, count=count if frames else 0)

    def add_final(self, progress: Progress, rejects: DataFrame, objects: Mapping[int, str]) -> None:
        """Write rejects found after their batch was committed, each once.

        `objects` has the names of their source objects, by order.
        """
        rows = self._rejected(rejects, objects, progress.epoch, progress.batch)
        rows_to_add = to_arrow(with_exact_columns(rows, {c.name: ddl(c.type) for c in self._columns()}))
        if not rows_to_add.num_rows:
            return
        present = {position_of(row) for row in self._unsettled(progress, (HELD, FINAL)).to_pylist()}
        new = [position_of(row) not in present for row in rows_to_add.select(_PLACE).to_pylist()]
        if any(new):
            self.table.add({c.name: c.type for c in self._columns()}, [], rows_to_add.filter(new), count=0)

    def _columns(self) -> Sequence[Column]:
        key = [column for column in self.dimension.schema if column.name in self.dimension.key]
        return [*(Column(name, type_) for name, type_ in _columns(self.dimension.sequences).items()), *key]

    def _rejected(self, rejects: DataFrame, objects: Mapping[int, str], epoch: int, batch: int) -> DataFrame:
        key = self.dimension.key
        types = {names.OBJECT: "bigint", OBJECT_NAME: "string"}
        object_names = inline(self.spark(), types, list(objects.items()))
        state = f"CASE WHEN {IS_HOLDING} THEN '{HELD}' ELSE '{FINAL}' END"
        rejects = rejects.selectExpr("*", f"{state} AS {STATE}")
        if names.OLD in rejects.columns:
            old = {name: column(names.OLD)[name] for name in key}
            moved = rejects.where(f"{IS_HOLDING} AND {names.OLD} IS NOT NULL")
            rejects = rejects.unionByName(moved.withColumns({**old, STATE: F.lit(HELD_OTHER_KEY)}))
        return rejects.join(F.broadcast(object_names), names.OBJECT).selectExpr(
            STATE,
            f"{epoch} AS {names.EPOCH}",
            f"{batch}L AS {names.BATCH}",
            f"{key_text(self.dimension)} AS {KEY}",
            f"current_timestamp() AS {SINCE}",
            *(names.SEQUENCE, names.OBJECT, names.ROW, names.OPERATION, names.TIME),
            *(names.REASON, names.DETAIL, names.TEXT, OBJECT_NAME),
            *map(quoted, key),
        )

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return the quarantined rows as of the table's batch and epoch, oldest first. Spark is not needed."""
        wanted = tuple(_columns(self.dimension.sequences))
        rows = self.table.rows(f"{names.BATCH} <= {progress.batch}", wanted).to_pylist()
        settled = {position_of(row) for row in rows if row[STATE] in SETTLED}
        repair_rows = sorted((row for row in rows if row[STATE] == REPAIRED), key=lambda row: row[SINCE])
        repaired = {position_of(row): read_repair(row, self.table.renames) for row in repair_rows}
        other_keys = {position_of(row): row[KEY] for row in rows if row[STATE] == HELD_OTHER_KEY}
        entries = [
            replace(_entry(row, repaired.get(position_of(row))), other_key=other_keys.get(position_of(row)))
            for row in rows
            if row[STATE] in (HELD, FINAL)
            and position_of(row) not in settled
            and row[names.EPOCH] == progress.epoch
        ]
        return sorted(entries, key=lambda entry: (entry.batch, entry.order, entry.row))

    def repair_row(self, progress: Progress, entries: Sequence[Entry], events: DataFrame) -> None:
        """Write the repairs of an operator in one commit. The newest repair of a row counts."""
        keys = [f"{key_text(self.dimension)} AS {KEY}"]
        if names.OLD in events.columns:
            old = key_text(self.dimension, f"{names.OLD}.")
            keys.append(f"CASE WHEN {names.OLD} IS NOT NULL THEN {old} END AS {OLD_KEY}")
        rows = [row.asDict() for row in events.selectExpr(names.OBJECT, names.ROW, *keys).collect()]
        keys_by_place = {(row[names.OBJECT], row[names.ROW]): (row[KEY], row.get(OLD_KEY)) for row in rows}
        for entry in entries:
            check_same_keys(self.dimension, entry, *keys_by_place[entry.order, entry.row])
        columns = _columns(self.dimension.sequences)
        self.table.add(columns, [], _repair_rows(entries, progress.batch), count=0)

    def holds(self, progress: Progress) -> tuple[Hold, ...]:
        """Return the keys that wait for an operator.

        It is called for every batch. Nothing is read where no key is held. Else a few columns are read, without
        texts, of the rows that hold a key or are settled. Only rows that hold become Python values:
        `quarantine.max_rows` bounds their number in a batch.
        """
        if not progress.held:
            return ()
        rows = self._unsettled(progress, (HELD, HELD_OTHER_KEY), KEY, names.REASON, names.BATCH).to_pylist()
        other_keys = {position_of(row): row[KEY] for row in rows if row[STATE] == HELD_OTHER_KEY}
        holds = [
            Hold(place, tuple((key,) for key in (row[KEY], other_keys.get(place)) if key), reason, row[names.BATCH])
            for row in rows
            if row[STATE] == HELD and (reason := Reason(row[names.REASON])) in HOLDING
            for place in (position_of(row),)
        ]
        return tuple(sorted((h for h in holds if h.keys), key=lambda h: (h.batch, h.position[2:])))

    def held_among(self, epoch: int, upto: int, objects: Collection[int]) -> Sequence[tuple[int, int]]:
        """Return object and row number of all rows of these objects that hold their key or held it.

        `upto` is the batch of the table.
        """
        listed = ", ".join(map(str, sorted(objects)))
        condition = (
            f"{names.BATCH} <= {upto} AND {names.EPOCH} = {epoch} AND {STATE} IN ('{HELD}') "
            f"AND {names.OBJECT} IN ({listed})"
        )
        rows = self.table.rows(condition, (names.OBJECT, names.ROW)).to_pylist()
        return [(row[names.OBJECT], row[names.ROW]) for row in rows]

    def _unsettled(self, progress: Progress, states: Collection[str], *more: str) -> pa.Table:
        """Return state, position and the columns `more` of the rows in these states that are not settled."""
        wanted = ", ".join(f"'{state}'" for state in (*states, *SETTLED))
        condition = (
            f"{names.BATCH} <= {progress.batch} AND {names.EPOCH} = {progress.epoch} AND {STATE} IN ({wanted})"
        )
        rows = self.table.rows(condition, (STATE, *_PLACE, *more))
        if not rows.num_rows:
            return rows
        is_settled = pc.is_in(rows[STATE], pa.array(SETTLED, rows.schema.field(STATE).type))
        settled = rows.filter(is_settled).select(_PLACE)
        return rows.filter(pc.invert(is_settled)).join(settled, list(_PLACE), join_type="left anti")

    def keys_of(self, frame: DataFrame) -> set[str]:
        """Return the texts of the keys of events or rejects. A key change has two."""
        keys = [key_text(self.dimension)]
        if names.OLD in frame.columns:
            keys.append(key_text(self.dimension, f"{names.OLD}."))
        rows = frame.selectExpr(f"explode(array({', '.join(keys)})) AS {KEY}").distinct().collect()
        return {row[KEY] for row in rows if row[KEY] is not None}

    def barriers(self, holds: Sequence[Hold]) -> DataFrame:
        """Return key and position of these holds, as a frame."""
        pending = {new: old for old, new in self.table.pending.items()}
        key = [pending.get(name, name) for name in self.dimension.key]
        rows = self.table.rows(f"{STATE} in ('{HELD}', '{HELD_OTHER_KEY}')", (*key, *_PLACE))
        rows = rows.rename_columns({old: new for new, old in pending.items() if old in key})
        wanted = pa.table(_places([hold.position for hold in holds]))
        wanted = wanted.cast(pa.schema([rows.schema.field(name) for name in _PLACE]))
        held = rows.join(wanted, list(_PLACE), join_type="left semi")
        return from_arrow(self.spark(), held.select([*self.dimension.key, *_PLACE[1:]]))


def _columns(sequences: Sequences) -> Mapping[str, Type]:
    """Return the columns of the quarantine without those of the key."""
    return {
        STATE: _TEXT,
        **system_columns(sequences),
        names.OPERATION: _TEXT,
        names.TIME: Type("bigint"),
        names.REASON: _TEXT,
        names.DETAIL: _TEXT,
        KEY: _TEXT,
        OBJECT_NAME: _TEXT,
        SINCE: Type("timestamp"),
        names.TEXT: _TEXT,
    }


def _settled(plan: MergePlan) -> pa.Table:
    places = sorted(plan.releases)
    columns = _position_columns(places, plan.batch)
    columns[STATE] = [REPLAYED if place in plan.repaired else GIVEN_UP for place in places]
    return pa.table(columns)


def _repair_rows(entries: Sequence[Entry], batch: int) -> pa.Table:
    repaired = [entry.repaired for entry in entries if entry.repaired is not None]
    columns = _position_columns([entry.position for entry in entries], batch)
    columns[STATE] = [REPAIRED] * len(entries)
    columns[names.OPERATION] = [repair.operation.value for repair in repaired]
    columns[names.TEXT] = [repair_text(repair) for repair in repaired]
    return pa.table(columns)


def _position_columns(places: Sequence[Position], batch: int) -> dict[str, Any]:
    columns = _places(places)
    columns[names.BATCH] = [batch] * len(places)
    columns[SINCE] = [datetime.now(UTC)] * len(places)
    return columns


def _places(places: Sequence[Position]) -> dict[str, Any]:
    """Return positions as columns. Sequences are decimals: they may be too large for an Arrow integer."""
    columns: dict[str, Any] = {name: [place[part] for place in places] for part, name in enumerate(_PLACE)}
    columns[names.SEQUENCE] = pa.array([Decimal(place.sequence) for place in places], pa.decimal128(38, 0))
    return columns


def _entry(row: Mapping[str, Any], repaired: RepairedRow | None) -> Entry:
    return Entry(
        key=row[KEY],
        reason=row[names.REASON],
        detail=row[names.DETAIL] or "",
        object=row[OBJECT_NAME],
        row=row[names.ROW],
        operation=row[names.OPERATION],
        epoch=row[names.EPOCH],
        sequence=int(row[names.SEQUENCE]),
        order=row[names.OBJECT],
        batch=row[names.BATCH],
        since=int(row[SINCE].timestamp() * 1_000_000),
        text=row[names.TEXT] or "",
        time=row[names.TIME],
        repaired=repaired,
    )
