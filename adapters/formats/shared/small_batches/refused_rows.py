"""The rows of a small batch that go into quarantine, and the keys that are held afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.change_log.entries import columns_in_part
from lakeward.adapters.formats.shared.small_batches.arrow_values import arrow_type
from lakeward.adapters.formats.shared.small_batches.change_log_entries import Entries
from lakeward.adapters.formats.shared.small_batches.settled_batch import SettledBatch
from lakeward.adapters.spark.frames.event_frame import IS_REJECT
from lakeward.adapters.spark.merge.fold.chain_results import SHIFTED
from lakeward.adapters.spark.merge.resolution import AT_THE_MARK, ID, INCOMPLETE, NO_KEY, as_told
from lakeward.adapters.spark.merge.truncates import in_force
from lakeward.adapters.spark.session.compatibility import from_arrow
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.core.events import Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.quarantine.holds import Waiter, Waiters

_TOLD: Final = {ID: "bigint", "reason": "string", "words": "string"}
_WORDS: Final[Mapping[Reason, str]] = {
    Reason.TOO_LATE: f"its place in the order lies {AT_THE_MARK}",
    Reason.INCOMPLETE_ROW: INCOMPLETE,
    Reason.KEY_SHIFT: SHIFTED,
    Reason.NO_KEY: NO_KEY,
}



def refused_rows(found: SettledBatch, rejects: Sequence[Reject]) -> DataFrame | None:
    """Return the rows that go into quarantine, each with what is wrong with it; None where there are none.

    One that waited, and is none that can be applied, came with an earlier batch.
    """
    if not rejects:
        return None
    spark, had = found.kept.spark(), {reject.position: reject.reason for reject in found.batch.rejects}
    batch, places = _with_waited(found, rejects)
    rows = batch.take(pa.array([places[one.position] for one in rejects], pa.int64()))
    frame = from_arrow(spark, _with_reasons(rows, rejects, had))
    told = [
        (arrival << 2, reject.reason.value, reject.detail or _WORDS[reject.reason])
        for arrival, reject in zip(rows[names.ARRIVAL].to_pylist(), rejects, strict=True)
        if reject.position not in had
    ]
    if told:
        frame = as_told(frame, found.plan, inline(spark, _TOLD, told))
    return frame.where(IS_REJECT)


def _with_waited(found: SettledBatch, rejects: Sequence[Reject]) -> tuple[pa.Table, Mapping[Position, int]]:
    """Return the rows of the batch, and behind them those of events that waited, with the places of both in it."""
    rows, places, changes = found.batch.rows, found.batch.places, found.memory.changes
    waited = [changes[one.position].event for one in rejects if one.position not in places]
    if not waited:
        return rows, places
    entries = Entries(found.plan, found.texts, [])
    entries.add_waiting(waited)
    first = 1 + max(rows[names.ARRIVAL].to_pylist(), default=-1)
    rows_behind = [{**entry, names.ARRIVAL: first + index} for index, entry in enumerate(entries.found)]
    types = {name: arrow_type(type_) for name, type_ in columns_in_part(found.plan.dimension).items()}
    types |= {field.name: field.type for field in rows.schema}
    more = {name: pa.array([entry.get(name) for entry in rows_behind], type_) for name, type_ in types.items()}
    own = {event.position: rows.num_rows + index for index, event in enumerate(waited)}
    return pa.concat_tables([rows, pa.table(more)], promote_options="default"), {**places, **own}


def held_keys(found: SettledBatch) -> set[str]:
    """Return the texts of the keys that are held afterwards."""
    plan, settled = found.plan, found.settled
    stand = [] if plan.replaces else [hold for hold in in_force(plan) if hold.position not in settled.closed]
    held = {str(text) for hold in stand for (text,) in hold.keys}
    held |= {found.texts.text(key) for hold in settled.holds for key in hold.keys}
    return held | _moved(found)


def _moved(found: SettledBatch) -> set[str]:
    """Return the texts of the keys of key changes that wait."""
    plan = found.plan
    waiting = [change.event for change in found.settled.changes if change.waiting]
    moved = Waiters.of(
        Waiter(event.position, tuple(found.texts.text(key) for key in event.keys)) for event in waiting
    ).moved()
    if plan.replaces or not (plan.holds or plan.releases):
        return moved
    own = {place[2:] for place in found.memory.changes}
    return moved | found.kept.change_log.waiters(plan.batch - 1).moved(own)


def _with_reasons(rows: pa.Table, rejects: Sequence[Reject], had: Mapping[Position, Reason]) -> pa.Table:
    """Return rows with the reasons of rejects whose reason is another than the one they `had`, with its words."""
    reasons, details = (rows[name].to_pylist() for name in (names.REASON, names.DETAIL))
    for index, reject in enumerate(rejects):
        if had.get(reject.position, reject.reason) is not reject.reason:
            reasons[index] = reject.reason.value
            details[index] = "; ".join(filter(None, (details[index], _WORDS[reject.reason])))
    for name, values in ((names.REASON, reasons), (names.DETAIL, details)):
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(values, pa.string()))
    return rows
