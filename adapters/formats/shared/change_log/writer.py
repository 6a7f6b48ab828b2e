"""Write into the change log: a batch with its record and entries, or an operator decision."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.change_log import batch_record
from lakeward.adapters.formats.shared.change_log.entries import (
    BASE,
    BATCH,
    DECISIONS,
    EVENT,
    KIND,
    OLD_RECORD,
    RECORD,
    WAITING,
    columns_in_part,
    columns_of,
)
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.side_tables.keys import key_text
from lakeward.adapters.formats.shared.side_tables.side_table import NOTHING, UNKNOWN
from lakeward.adapters.spark.history.version_rows import remembered_types
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.merge.facts import PARTIAL
from lakeward.core.plan import MergePlan
from lakeward.core.ports import OperatorDecision


def record_batch(
    change_log: ChangeLogTable,
    plan: MergePlan,
    entries: Mapping[str, DataFrame | None],
    rows: pa.Table = NOTHING,
    *,
    count: int,
) -> None:
    """Write the record of a batch and its entries in one commit.

    `entries` are frames by kind (as SQL), with `count` rows together; `rows` are entries in Arrow. Raises
    CommitConflict if another process writes a batch of the table at the same time.
    """
    dimension, batches = change_log.dimension, change_log.batches
    if batches.has_leftovers:
        batches.refuse_others()
        batches.version, batches.has_leftovers = change_log.table.forget_above(plan.batch - 1), False
    columns = {**columns_of(dimension.sequences), **{c.name: c.type for c in dimension.schema}}
    if PARTIAL & plan.facts.may_need and dimension.key:
        columns |= columns_in_part(dimension)
    columns |= remembered_types(dimension)
    frames = [entries_of(dimension, frame, kind, plan) for kind, frame in entries.items() if frame is not None]
    size = sum(item.object.size for item in plan.facts.objects)
    row = pa.table({KIND: [BATCH], names.BATCH: [plan.batch], RECORD: [batch_record.record_text(plan)]})
    own = rows.select([name for name in rows.column_names if name in columns])
    rows = pa.concat_tables([row, own], promote_options="permissive")
    count, size = (count, size) if frames else (0, 0)
    with batches.recording_conflict():
        version = change_log.table.add(
            columns, frames, rows, count=count, size=size, partition_by=KIND, since=batches.version
        )
    batches.newest_written = plan.batch
    has_old_keys = OLD_RECORD in rows.column_names and rows[OLD_RECORD].null_count < rows.num_rows
    change_log.set_version(version, may_have_key_changes=bool(frames) or has_old_keys)


def entries_of(dimension: Dimension, frame: DataFrame, kind: str, plan: MergePlan) -> DataFrame:
    """Return the entries that events of a batch make, of one kind (as SQL)."""
    has_cells = kind in (f"'{WAITING}'", f"'{BASE}'", EVENT)
    wanted = dimension.schema.names if has_cells else dimension.key
    wanted = (*wanted, names.UNSET, names.OLD, names.TRANSACTION, *remembered_types(dimension))
    own = [name for name in wanted if name in frame.columns]
    if names.OLD in frame.columns:
        old = key_text(dimension, f"{names.OLD}.")
        frame = frame.selectExpr("*", f"CASE WHEN {names.OLD} IS NOT NULL THEN {old} END AS {OLD_RECORD}")
        own.append(OLD_RECORD)
    return frame.selectExpr(
        f"{kind} AS {KIND}",
        f"{plan.epoch} AS {names.EPOCH}",
        *(names.SEQUENCE, names.OBJECT, names.ROW, names.OPERATION, names.TIME),
        f"{plan.batch}L AS {names.BATCH}",
        f"{key_text(dimension)} AS {RECORD}",
        *map(quoted, own),
    )


def record_decision(change_log: ChangeLogTable, upto: int, decision: OperatorDecision) -> None:
    """Write an operator decision at batch `upto`; the change log is created if it does not exist."""
    dimension = change_log.dimension
    columns = {**columns_of(dimension.sequences), **{c.name: c.type for c in dimension.schema}}
    kind = next(kind for kind, type_ in DECISIONS.items() if isinstance(decision, type_))
    row = pa.table({KIND: [kind], names.BATCH: [upto], RECORD: [batch_record.decision_text(decision)]})
    change_log.table.add(columns, [], row, count=0, partition_by=KIND)
    change_log.batches.decisions.append(decision)
    change_log.batches.version = UNKNOWN
