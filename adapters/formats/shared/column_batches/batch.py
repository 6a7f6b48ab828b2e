"""Which batches are resolved in Arrow columns, and their events in the order in which they apply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.formats.shared.resolution.strategies.whole_rows import whole_rows_suffice
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.formats.shared.small_batches.change_log_reader import needs_change_log
from lakeward.adapters.spark.frames.local_casts import SparkNeeded, are_whole, compares_alike
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.events import UNORDERED
from lakeward.core.merge.facts import PARTIAL
from lakeward.core.plan import MergePlan

INDEX: Final = "_lakeward_index"
"""Column of an event: its index in the order in which the events of the batch apply."""

MANY_REMEMBERED: Final = 10_000
"""From this number of remembered events on, a small batch that needs them is resolved in columns where possible.

The core reads all entries of the change log with each batch. Columns read none.
"""


def remembers_many(side_tables: SideTables, plan: MergePlan) -> bool:
    """Return whether the core would have to read a long change log to resolve a small batch of flat rows."""
    if not needs_change_log(plan) or any(column.type.is_nested for column in plan.dimension.schema):
        return False
    count, low_watermark = plan.facts.read, plan.low_watermark
    for batch in side_tables.change_log.batches.records.values():
        record = batch.record
        if batch.epoch != plan.epoch or record is None:
            continue
        if low_watermark is None or record.greatest.source_order > low_watermark:
            count += sum(item.rows for item in batch.facts)
    return count >= MANY_REMEMBERED


def why_not_resolved(side_tables: SideTables, plan: MergePlan) -> str | None:
    """Return in words why a batch cannot be resolved in columns; None if it can, as far as its plan says.

    Each event must be newer than all that the table has applied and leave a whole row or none, in a mirror.
    """
    reason = next((words for is_so, words in _reasons(plan) if is_so), None)
    if reason is None and plan.folds and not whole_rows_suffice(side_tables, plan, has_late=False):
        return "the table remembers changes that its rows do not show"
    return reason


def _reasons(plan: MergePlan) -> Iterator[tuple[object, str]]:
    """Yield the conditions under which a batch cannot be resolved in columns, each with its words."""
    dimension, facts, evolution = plan.dimension, plan.facts, plan.evolution
    key_types = [column.type for column in dimension.schema if column.name in dimension.key]
    yield plan.appends, "the table has no key"
    yield dimension.keeps_ended, "the table keeps ended rows"
    yield dimension.unique_sequences, "each change has a unique sequence, which is compared with known ones"
    yield not all(map(compares_alike, key_types)), _ODD_KEY
    yield any(name.startswith(".") for name in dimension.key), _PATH
    yield not facts.operations, "it has no event"
    yield facts.rejects, "some of its rows go into quarantine"
    yield facts.has_loads or plan.replaces, "it has rows of a full load"
    yield plan.recalls or plan.has_late, "some of its events may be older than those of the table"
    yield plan.suspect_objects, "some of its changes may step back in the log"
    yield plan.copies, "some of its objects were delivered before"
    yield plan.truncates.all, "a truncate of the table is remembered, or arrives"
    yield plan.holds or plan.releases, "a key of the table is held, or released"
    yield plan.changes, "it changes the columns of the table"
    yield evolution.lacks_columns or PARTIAL & facts.needs, "some of its rows are partial"
    yield plan.recomputed, "columns are computed again from its rows"


_ODD_KEY: Final = "its key has floats, bytes or nested values"
_PATH: Final = "the name of a key column begins with a dot, so that Arrow reads it as a path"


@dataclass(frozen=True, slots=True)
class ColumnBatch:
    """The events of a batch, in the order in which they apply; the column `INDEX` has their place in it."""

    events: pa.Table

    @classmethod
    def of(cls, rows: pa.Table) -> Self:
        """Return the events of an event frame; skipped rows are left out."""
        is_event = rows[names.REASON].is_null()
        events = rows if pc.all(is_event).as_py() else rows.filter(is_event)
        if not _rises(events[names.ARRIVAL]) or not _rises(events[names.SEQUENCE]):
            order = [(names.SEQUENCE, "ascending"), (names.ARRIVAL, "ascending")]
            events = events.take(pc.sort_indices(events, sort_keys=order))
        index = pa.array(np.arange(events.num_rows), pa.int64())
        return cls(events.append_column(INDEX, index).combine_chunks())

    def refuse_odd_keys(self, dimension: Dimension) -> None:
        """Raise SparkNeeded for keys with floating numbers that only Spark compares and writes."""
        doubles = [c.name for c in dimension.schema if c.name in dimension.key and c.type.name == "double"]
        if not all(are_whole(self.events[name]) for name in doubles):
            raise SparkNeeded("a key has a floating-point number that is 0, not whole, or too great")

    def refuse_ties(self, key: Sequence[str]) -> None:
        """Raise SparkNeeded if two events of a key have the same place in the source's order: they may be tied."""
        sequences = self.events[names.SEQUENCE].combine_chunks()
        unordered = pa.array(sorted(UNORDERED)).cast(sequences.type)
        has_order = pc.invert(pc.is_in(sequences, unordered))
        is_equal = pc.equal(sequences[1:], sequences[:-1])
        if not pc.any(pc.and_(is_equal, has_order[1:])).as_py():
            return
        places = self.events.filter(has_order).group_by([*key, names.SEQUENCE]).aggregate([([], "count_all")])
        if pc.max(places["count_all"]).as_py() > 1:
            raise SparkNeeded("two events of a key have the same place in the order of the source")


def _rises(values: pa.ChunkedArray) -> bool:
    """Return whether no value is less than the one before it."""
    values = values.combine_chunks()
    return not pc.any(pc.less(values[1:], values[:-1])).as_py()
