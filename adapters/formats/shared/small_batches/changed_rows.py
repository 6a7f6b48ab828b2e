"""The rows that a small batch writes, and the stored rows that it removes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.formats.shared.rows.system_columns import row_columns
from lakeward.adapters.formats.shared.rows.unset_cells import without_unset
from lakeward.adapters.formats.shared.side_tables.keys import identity_columns
from lakeward.adapters.formats.shared.small_batches.keys import key_rows
from lakeward.adapters.formats.shared.small_batches.settled_batch import SettledBatch, folded_dimension
from lakeward.adapters.formats.shared.small_batches.version_rows import VersionReader, VersionWriter
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.merge.truncates import literal, place_of
from lakeward.adapters.spark.session.compatibility import from_arrow
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import DELETED
from lakeward.core.events import Cell, Key, canonical
from lakeward.core.history.options import History
from lakeward.core.history.surrogate_numbers import Numbers, assign_numbers
from lakeward.core.history.versions import Versions
from lakeward.core.merge.fold import Row, columns_of
from lakeward.core.plan import MergePlan


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The rows that a batch writes and removes.

    `new_rows` are the rows to write, `removed` the indices of the stored rows to remove. `numbered` is the number
    of versions that got a surrogate number.
    """

    new_rows: Sequence[Mapping[str, Cell]]
    removed: Sequence[int]
    numbered: int = 0

    @classmethod
    def of(cls, batch: SettledBatch) -> Self:
        """Return the rows that a settled batch changes."""
        plan, history = batch.plan, batch.plan.dimension.history
        if history is None:
            return cls(*_of_rows(batch))
        numbers = _numbers(batch, history)
        writer = VersionWriter(folded_dimension(plan), history, plan.batch, numbers)
        numbered = sum(number > plan.numbered for number in numbers.values())
        return cls(*_of_versions(batch, writer), numbered)

    def written(self, plan: MergePlan) -> pa.Table:
        """Return the rows to write, with the system columns."""
        types = {c.name: c.type for c in plan.stored.schema if c.name not in plan.recomputed.columns}
        types |= {name: type_ for name, type_ in row_columns(plan.dimension).items() if name != names.BATCH}
        columns = {
            name: pa.array([without_unset(row.get(name)) for row in self.new_rows], arrow_type(type_))
            for name, type_ in types.items()
            if name != names.SEQUENCE
        }
        sequences = pa.array([row[names.SEQUENCE] for row in self.new_rows], pa.decimal128(38, 0))
        columns[names.SEQUENCE] = sequences.cast(arrow_type(types[names.SEQUENCE]))
        return pa.table(columns)

    def places(self, batch: SettledBatch) -> pa.Table | None:
        """Return file, row number and identity columns of the stored rows to remove; None if there are none."""
        if not self.removed:
            return None
        rows = batch.stored.table.take(pa.array(self.removed, pa.int64()))
        columns = [name for name in identity_columns(batch.plan.stored) if name in rows.column_names]
        return rows.select([*columns, FILE, POS])


def removed_rows(batch: SettledBatch, places: pa.Table | None) -> tuple[Frame | None, int]:
    """Return the rows to remove and their number: those at `places`, and those below a truncate."""
    if batch.drops_all:
        return None, batch.rows.count()
    own_rows = None if places is None else LocalFrame(places, batch.side_tables.spark)
    if not batch.truncates_others:
        return own_rows, 0 if places is None else places.num_rows
    others = _truncated(batch)
    frame = others if own_rows is None else own_rows.in_spark().unionByName(others, allowMissingColumns=True)
    return frame, frame.count()


def _truncated(batch: SettledBatch) -> DataFrame:
    """Return the rows of other keys below the newest truncate."""
    plan, key = batch.plan, list(batch.plan.dimension.key)
    below = batch.rows.all().where(f"{place_of(names.EPOCH)} < {literal(plan, plan.truncates.all[-1])}")
    batch_keys = from_arrow(batch.side_tables.spark(), key_rows(batch.keys, plan.dimension))
    return below.selectExpr(*map(quoted, key), FILE, POS).join(F.broadcast(batch_keys), key, "left_anti")


def count_current(batch: SettledBatch) -> int:
    """Return how many more rows or versions are current afterwards, in tables that keep ended ones."""
    if not batch.plan.dimension.keeps_ended:
        return 0
    rows = batch.settled.rows.items()
    return sum(_count_current(row) - _count_current(batch.stored.by_key.get(key)) for key, row in rows)


def _of_rows(batch: SettledBatch) -> tuple[list[Mapping[str, Cell]], list[int]]:
    """Return the changed rows of a mirror, and the indices of the rows that they replace."""
    before = batch.stored
    rows: Mapping[Key, Row | None] = batch.settled.rows
    if batch.drops_all:
        rows = {**before.by_key, **rows}
    changed = {key: row for key, row in rows.items() if batch.drops_all or row != before.by_key.get(key)}
    new_rows = [_mirror_row(row) for row in changed.values() if row is not None]
    return new_rows, [index for key in changed for index in before.indices.get(key, ())]


def _of_versions(batch: SettledBatch, writer: VersionWriter) -> tuple[list[Mapping[str, Cell]], list[int]]:
    """Return the new rows of a history, and the indices of the rows that they replace."""
    new_rows, removed = list[Mapping[str, Cell]](), list[int]()
    for key, row in batch.settled.rows.items():
        indices, stored = batch.stored.indices.get(key, ()), batch.stored.of(key)
        after = list(writer.rows(key, _versions(row), stored))
        for index, stored_row in zip(indices, stored, strict=True):
            same = next((other for other in after if _is_same(other, stored_row)), None)
            if same is None:
                removed.append(index)
            else:
                after.remove(same)
        new_rows += after
    return new_rows, removed


def _numbers(batch: SettledBatch, history: History) -> Numbers:
    """Return the surrogate numbers of the versions after the batch, if versions have numbers."""
    plan, stored = batch.plan, batch.stored
    columns, reader = columns_of(folded_dimension(plan)), VersionReader.of(plan.dimension, plan.folded)
    if columns is None or reader is None or not history.has_numbers:
        return {}
    name = history.validity_columns.surrogate_column
    numbers_before = {(key, reader.begin(row)): row[name] for key in batch.settled.rows for row in stored.of(key)}
    before = {key: _versions(stored.by_key.get(key)) for key in batch.settled.rows}
    after = {key: _versions(row) for key, row in batch.settled.rows.items()}
    return assign_numbers(columns, numbers_before, before, after, plan.numbered)


def _count_current(row: Row | None) -> int:
    """Return how many versions of a key are current, or 1 if the row of a mirror is live."""
    if row is None or not row.versions:
        return int(row is not None and not row.deleted)
    return sum(version.is_current for version in row.versions)


def _versions(row: Row | None) -> Versions:
    return () if row is None else row.versions


def _mirror_row(row: Row) -> Mapping[str, Cell]:
    """Return a row of a mirror with its position, as its table stores it."""
    return {**row.cells, **dict(zip(names.POSITION, row.position, strict=True)), DELETED: row.deleted}


def _is_same(row: Mapping[str, Cell], stored: Mapping[str, Cell]) -> bool:
    return all(canonical(value) == canonical(stored.get(name)) for name, value in row.items())
