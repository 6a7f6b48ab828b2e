"""The verdict on each key of a batch in Arrow columns: its newest event, the stored row, and counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.formats.shared.column_batches.batch import INDEX, ColumnBatch
from lakeward.adapters.formats.shared.rows.system_columns import fill_positions
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql import names
from lakeward.core.events import LOAD_SEQUENCE, Operation
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan

_FIRST, _LAST = f"{INDEX}_min", f"{INDEX}_max"
_IS_INSERT, _IS_DELETE = "_lakeward_is_insert", "_lakeward_is_delete"
_INSERTS, _DELETES = f"{_IS_INSERT}_sum", f"{_IS_DELETE}_sum"
_IS_LIVE: Final = "_lakeward_is_live"


@dataclass(frozen=True)
class KeyVerdicts:
    """The verdicts on the keys of a batch: `keys` has one row for each key.

    `stored_rows` are the rows of these keys in the table. The columns of `keys` are the key, how many inserts and
    deletes it has, the index of its first event and of its last one, and whether the table has a row of it.
    """

    plan: MergePlan
    batch: ColumnBatch
    keys: pa.Table
    stored_rows: pa.Table

    @classmethod
    def of(cls, plan: MergePlan, batch: ColumnBatch, rows: Rows) -> Self:
        """Return the verdicts; raises SparkNeeded if only Spark can read the stored rows, or a key has several."""
        key, operations = list(plan.dimension.key), batch.events[names.OPERATION]
        flags = {
            _IS_INSERT: pc.equal(operations, Operation.INSERT.value),
            _IS_DELETE: pc.equal(operations, Operation.DELETE.value),
        }
        event_keys = batch.events.select([*key, INDEX])
        for name, values in flags.items():
            event_keys = event_keys.append_column(name, values.cast(pa.int64()))
        totals = [(INDEX, "min"), (INDEX, "max"), (_IS_INSERT, "sum"), (_IS_DELETE, "sum")]
        keys = event_keys.group_by(key).aggregate(totals)
        stored_rows = _stored_rows(plan, rows, keys.select(key))
        is_live = stored_rows.select(key).append_column(_IS_LIVE, pa.repeat(pa.scalar(True), stored_rows.num_rows))
        keys = (
            keys.join(is_live, key)
            if stored_rows.num_rows
            else keys.append_column(_IS_LIVE, pa.nulls(keys.num_rows, pa.bool_()))
        )
        return cls(plan, batch, keys.combine_chunks(), stored_rows)

    @cached_property
    def is_live(self) -> pa.ChunkedArray:
        """Whether the table has a row of each key."""
        return pc.fill_null(self.keys[_IS_LIVE], False)

    @property
    def newest(self) -> pa.Table:
        """The newest event of each key that has a row after the batch, in the order of the events."""
        return self._last_events(pc.not_equal)

    @property
    def deletes(self) -> pa.Table:
        """The newest event of each key that has no row after the batch, in the order of the events."""
        return self._last_events(pc.equal)

    def _last_events(self, compares_to_delete: Callable[[pa.ChunkedArray, str], pa.ChunkedArray]) -> pa.Table:
        indices = self.keys[_LAST]
        operations = pc.take(self.batch.events[names.OPERATION], indices)
        event_indices = indices.filter(compares_to_delete(operations, Operation.DELETE.value))
        return self.batch.events.take(event_indices.take(pc.sort_indices(event_indices)))

    @property
    def places(self) -> pa.Table:
        """The places of the stored rows, which are all removed, with their keys."""
        return self.stored_rows.select([*self.plan.dimension.key, FILE, POS])

    @property
    def counts(self) -> Counts:
        """The counts of the events: each is newer than the stored row of its key."""
        events = self.batch.events.num_rows
        inserts_on_existing, updates_on_missing = self._odd_counts()
        return Counts(
            superseded=events - self.keys.num_rows,
            applied=self.keys.num_rows,
            insert_on_existing=inserts_on_existing,
            update_on_missing=updates_on_missing,
        )

    def _odd_counts(self) -> tuple[int, int]:
        """Return how many inserts meet a row, and how many updates meet none."""
        operations = self.batch.events[names.OPERATION]
        first, last = (pc.take(operations, self.keys[name]) for name in (_FIRST, _LAST))
        ends_with_delete = pc.equal(last, Operation.DELETE.value).cast(pa.int64())
        is_mixed = pc.greater(self.keys[_DELETES], ends_with_delete)
        meets_none = pc.and_(pc.invert(self.is_live), pc.invert(is_mixed))
        is_new = pc.and_(meets_none, pc.equal(first, Operation.INSERT.value))
        inserts = pc.sum(pc.if_else(is_mixed, 0, self.keys[_INSERTS])).as_py() or 0
        inserts_on_existing = inserts - pc.sum(is_new.cast(pa.int64())).as_py()
        updates_on_missing = pc.sum(
            pc.and_(meets_none, pc.equal(first, Operation.UPDATE.value)).cast(pa.int64())
        ).as_py()
        more_existing, more_missing = self._odd_counts_in_order(is_mixed)
        return inserts_on_existing + more_existing, updates_on_missing + more_missing

    def _odd_counts_in_order(self, is_mixed: pa.ChunkedArray) -> tuple[int, int]:
        """Return the same counts for the keys that have events after a delete."""
        mixed_keys = self.keys.filter(is_mixed)
        if not mixed_keys.num_rows:
            return 0, 0
        key = list(self.plan.dimension.key)
        events = self.batch.events.select([*key, INDEX, names.OPERATION])
        events = events.join(mixed_keys.select([*key, _FIRST, _IS_LIVE]), key, join_type="inner")
        events = events.sort_by([*((name, "ascending") for name in key), (INDEX, "ascending")]).combine_chunks()
        operations = events[names.OPERATION].combine_chunks()
        before = pa.concat_arrays([pa.nulls(1, operations.type), operations[:-1]])
        is_first, is_live = pc.equal(events[INDEX], events[_FIRST]), pc.fill_null(events[_IS_LIVE], False)
        has_row = pc.if_else(is_first, is_live, pc.not_equal(before, Operation.DELETE.value))
        meets_row = pc.and_(has_row, pc.equal(operations, Operation.INSERT.value))
        meets_none = pc.and_(pc.invert(has_row), pc.equal(operations, Operation.UPDATE.value))
        return pc.sum(meets_row.cast(pa.int64())).as_py(), pc.sum(meets_none.cast(pa.int64())).as_py()

    def base_keys(self) -> pa.Table:
        """Return the keys whose stored rows become base rows, because the change log has no event of these rows.

        It has the event that wrote a row above the low watermark, unless a full load wrote the row.
        """
        stored_rows, plan = fill_positions(self.stored_rows), self.plan
        epoch, sequence = stored_rows[names.EPOCH], stored_rows[names.SEQUENCE]
        load = pa.scalar(LOAD_SEQUENCE).cast(sequence.type)
        is_remembered = pc.and_(pc.equal(epoch, plan.epoch), pc.not_equal(sequence, load))
        if plan.low_watermark is not None:
            mark = pa.scalar(plan.low_watermark.sequence, pa.decimal128(38, 0)).cast(sequence.type)
            is_remembered = pc.and_(is_remembered, pc.greater(sequence, mark))
        return stored_rows.select(list(plan.dimension.key)).filter(pc.invert(is_remembered))


def _stored_rows(plan: MergePlan, rows: Rows, keys: pa.Table) -> pa.Table:
    """Return key, epoch, sequence and place of the stored rows of some keys."""
    column_names = [*plan.dimension.key, names.EPOCH, names.SEQUENCE]
    if rows.table is None or not rows.are_there:
        return pa.table({name: pa.nulls(0) for name in (*column_names, FILE, POS)})
    stored_rows = rows.table.find(keys, column_names)
    if stored_rows is None:
        raise SparkNeeded("only Spark can read the stored rows of its keys")
    distinct_keys = stored_rows.group_by(list(plan.dimension.key)).aggregate([])
    if distinct_keys.num_rows < stored_rows.num_rows:
        raise SparkNeeded("a key has several stored rows")
    return stored_rows
