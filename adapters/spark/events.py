"""The frame of a batch: one row an event or a reject, in columns that sources and tables agree on.

Beside the table's own columns it has

- `_lakeward_operation`: insert, update, delete, truncate or read; NULL where it is none;
- `_lakeward_sequence`, `_lakeward_object`, `_lakeward_row`: the position, its epoch being the plan's;
- `_lakeward_arrival`: a number that orders the batch by arrival, below 2^61;
- `_lakeward_time`: source time in microseconds since 1970, NULL where unknown;
- `_lakeward_reason`: why the row cannot be applied (NULL where it can), or `skipped`;
- `_lakeward_detail`, `_lakeward_text`: of a reject, in words, and as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lakeward.adapters.spark import names
from lakeward.adapters.spark.names import quoted
from lakeward.adapters.spark.types import bound_of
from lakeward.core.dimension import Dimension
from lakeward.core.events import Operation, Position
from lakeward.core.ledger import SourceObject
from lakeward.core.memory import HOLDING, Reason
from lakeward.core.plan import BatchFacts, Capability, ObjectFacts
from lakeward.core.schema import Schema

SKIPPED: Final = "skipped"

EVENT_COLUMNS: Final = (
    names.OPERATION,
    names.SEQUENCE,
    names.OBJECT,
    names.ROW,
    names.ARRIVAL,
    names.TIME,
    names.REASON,
    names.DETAIL,
    names.TEXT,
)

IS_EVENT: Final = f"{names.REASON} IS NULL"
"""Whether a row of the frame can be applied, as SQL."""

IS_REJECT: Final = f"{names.REASON} != '{SKIPPED}'"
"""Whether a row of the frame belongs into quarantine, as SQL."""

IS_HOLDING: Final = f"{names.REASON} IN ({', '.join(repr(r.value) for r in sorted(HOLDING, key=str))})"
"""Whether a row of the frame holds its key, as SQL."""


def survey(frame: DataFrame, dimension: Dimension, **conditions: str) -> Sequence[Row]:
    """Return one row an object, with everything that `facts` makes of it, in one pass.

    `conditions` are counted too, under their names.
    """
    counted = {f"reason_{r.value}": f"{names.REASON} = '{r.value}'" for r in Reason}
    counted |= {f"operation_{o.value}": f"{IS_EVENT} AND {names.OPERATION} = '{o.value}'" for o in Operation}
    counted |= {SKIPPED: f"{names.REASON} = '{SKIPPED}'", **conditions}
    found = [F.expr(f"count_if({condition}) AS {name}") for name, condition in counted.items()]
    found.append(F.expr("count(*) AS rows"))
    for place in (names.SEQUENCE, names.ROW, names.TIME):
        found += [F.expr(f"min({place}) AS least{place}"), F.expr(f"max({place}) AS most{place}")]
    for index, name in enumerate(dimension.key):
        key = dimension.schema.find(name)
        bound = None if key is None else bound_of(quoted(name), key.type)
        if bound is not None:
            value = f"CASE WHEN {IS_EVENT} THEN {bound} END"
            found += [
                F.expr(f"min({value}) AS key_least_{index}"),
                F.expr(f"max({value}) AS key_most_{index}"),
            ]
    return frame.groupBy(names.OBJECT).agg(*found).collect()


def facts(
    found: Sequence[Row],
    dimension: Dimension,
    schema: Schema,
    objects: Sequence[SourceObject],
    epoch: int,
) -> BatchFacts:
    """Return what the core needs to know, from the rows of a `survey`."""
    by_order: Mapping[int, Row] = {row[names.OBJECT]: row for row in found}
    per_object = tuple(_object_facts(item, by_order.get(item.order), epoch) for item in objects)
    bounds = [_bounds(row, epoch) for row in found]
    operations = _totals(found, "operation_", Operation)
    times = [row[f"most{names.TIME}"] for row in found if row[f"most{names.TIME}"] is not None]
    return BatchFacts(
        schema=schema,
        objects=per_object,
        operations=operations,
        rejects=_totals(found, "reason_", Reason),
        skipped=sum(row[SKIPPED] for row in found),
        least=min((least for least, _ in bounds), default=None),
        greatest=max((greatest for _, greatest in bounds), default=None),
        time=max(times, default=None),
        key_range=tuple(_key_range(found, index) for index in range(len(dimension.key))),
        needs=frozenset({Capability.TRUNCATE} if operations.get(Operation.TRUNCATE) else ()),
    )


def _totals(found: Sequence[Row], prefix: str, kinds: Any) -> Any:
    totals = {kind: sum(row[prefix + kind.value] for row in found) for kind in kinds}
    return {kind: total for kind, total in totals.items() if total}


def _object_facts(item: SourceObject, row: Row | None, epoch: int) -> ObjectFacts:
    if row is None:
        return ObjectFacts(item, 0)
    return ObjectFacts(item, row["rows"], *_bounds(row, epoch), row[f"reason_{Reason.UNREADABLE.value}"])


def _bounds(row: Row, epoch: int) -> tuple[Position, Position]:
    """Return a position below all of an object, and one above: part by part, so perhaps of no event."""
    least, most = (
        Position(epoch, row[bound + names.SEQUENCE], row[names.OBJECT], row[bound + names.ROW])
        for bound in ("least", "most")
    )
    return least, most


def _key_range(found: Sequence[Row], index: int) -> tuple[object, object] | None:
    if not found or f"key_least_{index}" not in found[0]:
        return None
    least = [row[f"key_least_{index}"] for row in found if row[f"key_least_{index}"] is not None]
    most = [row[f"key_most_{index}"] for row in found if row[f"key_most_{index}"] is not None]
    return (min(least), max(most)) if least else None
