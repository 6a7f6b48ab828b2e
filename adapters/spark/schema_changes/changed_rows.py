"""Reject rows that show a change of the columns: `core.schema_changes.changed_rows` for frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from lakeward.adapters.spark.frames.event_frame import IS_EVENT, LEAVES_VALUES
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.events import Operation
from lakeward.core.merge.change_log import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Batch
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import Kind, SchemaChange


def refused(plan: MergePlan, batch: Batch[Frame]) -> Batch[Frame]:
    """Return a batch with the rows that show changes as rejects, and the other rows in the table's columns."""
    changes = plan.evolution.quarantined_changes
    frame = _reject_changed(in_spark(batch.frame), changes)
    counts = frame.where(f"{names.REASON} = '{Reason.SCHEMA.value}'").groupBy(names.OPERATION).count().collect()
    rejected = {Operation(row[names.OPERATION]): row["count"] for row in counts}
    operations = {kind: rows - rejected.get(kind, 0) for kind, rows in batch.facts.operations.items()}
    facts = replace(
        batch.facts,
        operations={kind: rows for kind, rows in operations.items() if rows},
        rejects={**batch.facts.rejects, **({Reason.SCHEMA: sum(rejected.values())} if rejected else {})},
    )
    return Batch(_without_changes(frame, changes, plan.dimension.schema), facts, close=batch.close)


def _reject_changed(frame: DataFrame, changes: Sequence[SchemaChange]) -> DataFrame:
    changes_shown = ", ".join(
        f"CASE WHEN {shows(change, frame.schema)} THEN {text(str(change))} END" for change in changes
    )
    explanations = f"nullif(array_join(array({changes_shown}), '; '), '')"
    explanation = f"CASE WHEN {IS_EVENT} AND {LEAVES_VALUES} THEN {explanations} END"
    changed = {
        names.REASON: f"CASE WHEN {explanation} IS NOT NULL THEN '{Reason.SCHEMA.value}' ELSE {names.REASON} END",
        names.DETAIL: f"coalesce({explanation}, {names.DETAIL})",
    }
    return frame.selectExpr(*[f"{changed[n]} AS {n}" if n in changed else quoted(n) for n in frame.columns])


def shows(change: SchemaChange, columns: spark.StructType) -> str:
    """Return SQL for whether a row with values shows a change; `columns` are those of its frame."""
    path = change.names[:-1] if change.kind is Kind.DROP else change.names
    return _has_field(quoted(path[0]), columns[path[0]].dataType, path[1:]) if path else "true"


def _has_field(value: str, type_: spark.DataType, path: Sequence[str]) -> str:
    if not path:
        return f"{value} IS NOT NULL"
    name, *rest = path
    part = f"x{len(path)}"
    match type_:
        case spark.ArrayType():
            return f"coalesce(exists({value}, {part} -> {_has_field(part, type_.elementType, rest)}), false)"
        case spark.MapType():
            has_value = _has_field(part, type_.valueType, rest)
            return f"coalesce(exists(map_values({value}), {part} -> {has_value}), false)"
        case spark.StructType():
            return _has_field(f"{value}.{quoted(name)}", type_[name].dataType, rest)
        case _:
            raise TypeError(type_.simpleString())


def _without_changes(frame: DataFrame, changes: Sequence[SchemaChange], schema: Schema) -> DataFrame:
    """Return a frame whose columns have the types of a schema; columns that a change retypes are NULL."""
    retyped = {change.names for change in changes if change.kind not in (Kind.ADD, Kind.DROP)}
    added = {change.path for change in changes if change.kind is Kind.ADD and not change.is_nested}
    null_columns = {
        column.name: f"CAST(NULL AS {ddl(column.type)}) AS {quoted(column.name)}"
        for column in schema
        if (column.name,) in retyped
    }
    return fitted(
        frame.selectExpr(*[null_columns.get(name, quoted(name)) for name in frame.columns if name not in added]),
        schema,
        frozenset(retyped),
    )
