"""The rows of a small batch that go into quarantine, and the keys that are held afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.change_log.entries import columns_in_part
from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.formats.shared.small_batches.change_log_entries import Entries
from lakeward.adapters.formats.shared.small_batches.settled_batch import SettledBatch
from lakeward.adapters.spark.frames.event_frame import IS_REJECT
from lakeward.adapters.spark.merge.fold.chain_results import SHIFTED
from lakeward.adapters.spark.merge.resolution import BELOW_WATERMARK, ID, INCOMPLETE, NO_KEY, reject_each
from lakeward.adapters.spark.merge.truncates import in_force
from lakeward.adapters.spark.session.compatibility import from_arrow
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.core.events import Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.quarantine.holds import Waiter, Waiters

_REASON_TYPES: Final = {ID: "bigint", "reason": "string", "message": "string"}
_MESSAGES: Final[Mapping[Reason, str]] = {
    Reason.TOO_LATE: f"its place in the order lies {BELOW_WATERMARK}",
    Reason.INCOMPLETE_ROW: INCOMPLETE,
    Reason.KEY_SHIFT: SHIFTED,
    Reason.NO_KEY: NO_KEY,
}


def refused_rows(settled: SettledBatch, rejects: Sequence[Reject]) -> DataFrame | None:
    """Return the rows for the quarantine, each with reason and message; None if there are none.

    A waiting event that turns out not to be applicable comes from an earlier batch.
    """
    if not rejects:
        return None
    spark = settled.side_tables.spark()
    earlier_reasons = {reject.position: reject.reason for reject in settled.batch.rejects}
    all_rows, places = _with_waiting_rows(settled, rejects)
    rows = all_rows.take(pa.array([places[reject.position] for reject in rejects], pa.int64()))
    frame = from_arrow(spark, _with_reasons(rows, rejects, earlier_reasons))
    messages = [
        (arrival << 2, reject.reason.value, reject.detail or _MESSAGES[reject.reason])
        for arrival, reject in zip(rows[names.ARRIVAL].to_pylist(), rejects, strict=True)
        if reject.position not in earlier_reasons
    ]
    if messages:
        frame = reject_each(frame, settled.plan, inline(spark, _REASON_TYPES, messages))
    return frame.where(IS_REJECT)


def _with_waiting_rows(settled: SettledBatch, rejects: Sequence[Reject]) -> tuple[pa.Table, Mapping[Position, int]]:
    """Return the rows of the batch, followed by those of waiting events, and the index of each by its position."""
    rows, places, changes = settled.batch.rows, settled.batch.places, settled.change_log.changes
    waiting = [changes[reject.position].event for reject in rejects if reject.position not in places]
    if not waiting:
        return rows, places
    entries = Entries(settled.plan, settled.texts, [])
    entries.add_waiting(waiting)
    first = 1 + max(rows[names.ARRIVAL].to_pylist(), default=-1)
    waiting_rows = [{**entry, names.ARRIVAL: first + index} for index, entry in enumerate(entries.entries)]
    types = {name: arrow_type(type_) for name, type_ in columns_in_part(settled.plan.dimension).items()}
    types |= {field.name: field.type for field in rows.schema}
    columns = {name: pa.array([entry.get(name) for entry in waiting_rows], type_) for name, type_ in types.items()}
    waiting_places = {event.position: rows.num_rows + index for index, event in enumerate(waiting)}
    return pa.concat_tables([rows, pa.table(columns)], promote_options="default"), {**places, **waiting_places}


def held_keys(batch: SettledBatch) -> set[str]:
    """Return the texts of the keys that are held afterwards."""
    plan, settled = batch.plan, batch.settled
    holds = [] if plan.replaces else [hold for hold in in_force(plan) if hold.position not in settled.closed]
    texts = {str(text) for hold in holds for (text,) in hold.keys}
    texts |= {batch.texts.text(key) for hold in settled.holds for key in hold.keys}
    return texts | _keys_of_waiting_changes(batch)


def _keys_of_waiting_changes(batch: SettledBatch) -> set[str]:
    """Return the texts of the keys of waiting key changes."""
    plan = batch.plan
    waiting = [change.event for change in batch.settled.changes if change.waiting]
    texts = Waiters.of(
        Waiter(event.position, tuple(batch.texts.text(key) for key in event.keys)) for event in waiting
    ).moved()
    if plan.replaces or not (plan.holds or plan.releases):
        return texts
    known_places = {place[2:] for place in batch.change_log.changes}
    return texts | batch.side_tables.change_log.waiters(plan.batch - 1).moved(known_places)


def _with_reasons(
    rows: pa.Table, rejects: Sequence[Reject], earlier_reasons: Mapping[Position, Reason]
) -> pa.Table:
    """Return rows with reason and message of the rejects whose reason differs from their earlier one."""
    reasons, details = (rows[name].to_pylist() for name in (names.REASON, names.DETAIL))
    for index, reject in enumerate(rejects):
        if earlier_reasons.get(reject.position, reject.reason) is not reject.reason:
            reasons[index] = reject.reason.value
            details[index] = "; ".join(filter(None, (details[index], _MESSAGES[reject.reason])))
    for name, values in ((names.REASON, reasons), (names.DETAIL, details)):
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(values, pa.string()))
    return rows
