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
from lakeward.adapters.spark.types import has_cheap_bounds
from lakeward.core.dimension import Dimension
from lakeward.core.events import Operation, Position
from lakeward.core.ledger import SourceObject
from lakeward.core.memory import HOLDING, Reason
from lakeward.core.plan import BatchFacts, ObjectFacts
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
        if key is not None and has_cheap_bounds(key):
            value = f"CASE WHEN {IS_EVENT} THEN {quoted(name)} END"
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
    least = [o.least for o in per_object if o.least is not None]
    greatest = [o.greatest for o in per_object if o.greatest is not None]
    times = [row[f"most{names.TIME}"] for row in found if row[f"most{names.TIME}"] is not None]
    return BatchFacts(
        schema=schema,
        objects=per_object,
        operations=_totals(found, "operation_", Operation),
        rejects=_totals(found, "reason_", Reason),
        skipped=sum(row[SKIPPED] for row in found),
        least=min(least, default=None),
        greatest=max(greatest, default=None),
        time=max(times, default=None),
        key_range=tuple(_key_range(found, index) for index in range(len(dimension.key))),
    )


def _totals(found: Sequence[Row], prefix: str, kinds: Any) -> Any:
    totals = {kind: sum(row[prefix + kind.value] for row in found) for kind in kinds}
    return {kind: total for kind, total in totals.items() if total}


def _object_facts(item: SourceObject, row: Row | None, epoch: int) -> ObjectFacts:
    if row is None:
        return ObjectFacts(item, 0)
    least, most = ((row[bound + names.SEQUENCE], row[bound + names.ROW]) for bound in ("least", "most"))
    return ObjectFacts(
        item,
        row["rows"],
        Position(epoch, least[0], item.order, least[1]),
        Position(epoch, most[0], item.order, most[1]),
        row[f"reason_{Reason.UNREADABLE.value}"],
    )


def _key_range(found: Sequence[Row], index: int) -> tuple[object, object] | None:
    if not found or f"key_least_{index}" not in found[0]:
        return None
    least = [row[f"key_least_{index}"] for row in found if row[f"key_least_{index}"] is not None]
    most = [row[f"key_most_{index}"] for row in found if row[f"key_most_{index}"] is not None]
    return (min(least), max(most)) if least else None
