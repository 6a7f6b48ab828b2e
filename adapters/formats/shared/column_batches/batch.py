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
from lakeward.adapters.formats.shared.small_batches.batch import NotSmall
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.adapters.spark.sql import names
from lakeward.core.events import UNORDERED
from lakeward.core.merge.facts import PARTIAL
from lakeward.core.plan import MergePlan

INDEX: Final = "_lakeward_index"
"""Column of an event: its index in the order in which the events of the batch apply."""


def why_not_columns(side_tables: SideTables, plan: MergePlan, frame: Frame) -> str | None:
    """Return in words why a batch cannot be resolved in columns; None if it can, as far as its plan says.

    Each event must be newer than all that the table has applied and leave a whole row or none, in a mirror.
    """
    if not isinstance(frame, LocalFrame):
        return "its rows are in Spark"
    return next(_reasons(side_tables, plan), None)


def _reasons(side_tables: SideTables, plan: MergePlan) -> Iterator[str]:
    dimension, facts = plan.dimension, plan.facts
    if plan.appends or dimension.keeps_ended or dimension.unique_sequences:
        yield "its table has no key, keeps ended rows, or has a source with unique sequences"
    if not facts.operations:
        yield "it has no event"
    if facts.rejects or plan.has_late or plan.suspect_objects or plan.copies or plan.truncates.all:
        yield "some of its rows are refused, late, copies or truncates"
    if plan.recalls or plan.replaces or plan.releases or plan.holds or plan.recomputed or facts.has_loads:
        yield "its events are not all newer than those of the table"
    if plan.changes or plan.evolution.lacks_columns or PARTIAL & facts.needs:
        yield "its columns are not those of the table, or some of its rows are partial"
    key_types = [column.type for column in dimension.schema if column.name in dimension.key]
    if any(type_.is_floating or type_.is_nested or type_.name == "binary" for type_ in key_types):
        yield "its key has floating numbers or bytes"
    if plan.folds and not whole_rows_suffice(side_tables, plan, has_late=False):
        yield "the table remembers changes that its rows do not show"


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

    def refuse_ties(self, key: Sequence[str]) -> None:
        """Raise NotSmall if two events of a key have the same place in the source's order: they may be tied."""
        sequences = self.events[names.SEQUENCE].combine_chunks()
        unordered = pa.array(sorted(UNORDERED)).cast(sequences.type)
        has_order = pc.invert(pc.is_in(sequences, unordered))
        is_equal = pc.equal(sequences[1:], sequences[:-1])
        if not pc.any(pc.and_(is_equal, has_order[1:])).as_py():
            return
        places = self.events.filter(has_order).group_by([*key, names.SEQUENCE]).aggregate([([], "count_all")])
        if pc.max(places["count_all"]).as_py() > 1:
            raise NotSmall("two events of a key have the same place in the order of the source")


def _rises(values: pa.ChunkedArray) -> bool:
    """Return whether no value is less than the one before it."""
    values = values.combine_chunks()
    return not pc.any(pc.less(values[1:], values[:-1])).as_py()
