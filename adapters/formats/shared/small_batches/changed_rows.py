"""The rows that a small batch writes, and the stored rows that go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.rows.system_columns import row_columns
from lakeward.adapters.formats.shared.side_tables.keys import told_apart_by
from lakeward.adapters.formats.shared.small_batches.arrow_values import arrow_type, key_rows
from lakeward.adapters.formats.shared.small_batches.change_log_entries import plain
from lakeward.adapters.formats.shared.small_batches.settled_batch import SettledBatch, folded_dimension
from lakeward.adapters.formats.shared.small_batches.version_rows import ShownVersions, VersionReader
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
    """The `fresh` rows that are written, and the indices of the stored rows that are `gone`.

    So many versions are `numbered` that had no surrogate number.
    """

    fresh: Sequence[Mapping[str, Cell]]
    gone: Sequence[int]
    numbered: int = 0

    @classmethod
    def of(cls, found: SettledBatch) -> Self:
        """Return what a batch changes of the rows of its table."""
        plan, history = found.plan, found.plan.dimension.history
        if history is None:
            return cls(*_of_rows(found))
        numbers = _numbers(found, history)
        shown = ShownVersions(folded_dimension(plan), history, plan.batch, numbers)
        given = sum(number > plan.numbered for number in numbers.values())
        return cls(*_of_versions(found, shown), given)

    def written(self, plan: MergePlan) -> pa.Table:
        """Return the rows to be written, with the columns that tell how each came about."""
        types = {c.name: c.type for c in plan.stored.schema if c.name not in plan.recomputed.columns}
        types |= {name: type_ for name, type_ in row_columns(plan.dimension).items() if name != names.BATCH}
        columns = {
            name: pa.array([plain(row.get(name)) for row in self.fresh], arrow_type(type_))
            for name, type_ in types.items()
            if name != names.SEQUENCE
        }
        sequences = pa.array([row[names.SEQUENCE] for row in self.fresh], pa.decimal128(38, 0))
        columns[names.SEQUENCE] = sequences.cast(arrow_type(types[names.SEQUENCE]))
        return pa.table(columns)

    def places(self, found: SettledBatch) -> pa.Table | None:
        """Return where the stored rows lie that go, and what tells them from all others; None of no row."""
        if not self.gone:
            return None
        rows = found.stored.table.take(pa.array(self.gone, pa.int64()))
        own = [name for name in told_apart_by(found.plan.stored) if name in rows.column_names]
        return rows.select([*own, FILE, POS])


def removed_rows(found: SettledBatch, places: pa.Table | None) -> tuple[Frame | None, int]:
    """Return the rows that go, and how many they are: those at `places`, and what lies below a truncate."""
    if found.drops_all:
        return None, found.rows.count()
    own = None if places is None else LocalFrame(places, found.kept.spark)
    if not found.truncates_others:
        return own, 0 if places is None else places.num_rows
    others = _truncated(found)
    frame = others if own is None else own.in_spark().unionByName(others, allowMissingColumns=True)
    return frame, frame.count()


def _truncated(found: SettledBatch) -> DataFrame:
    """Return the rows of other keys that lie below the newest truncate."""
    plan, key = found.plan, list(found.plan.dimension.key)
    below = found.rows.all().where(f"{place_of(names.EPOCH)} < {literal(plan, plan.truncates.all[-1])}")
    own = from_arrow(found.kept.spark(), key_rows(found.keys, plan.dimension))
    return below.selectExpr(*map(quoted, key), FILE, POS).join(F.broadcast(own), key, "left_anti")


def count_current(found: SettledBatch) -> int:
    """Return how many more rows or versions are current afterwards, where ended ones are kept."""
    if not found.plan.dimension.keeps_ended:
        return 0
    rows = found.settled.rows.items()
    return sum(_count_current(row) - _count_current(found.stored.by_key.get(key)) for key, row in rows)


def _of_rows(found: SettledBatch) -> tuple[list[Mapping[str, Cell]], list[int]]:
    """Return the changed rows of a mirror, and the indices of those whose place they take."""
    before = found.stored
    rows: Mapping[Key, Row | None] = found.settled.rows
    if found.drops_all:
        rows = {**before.by_key, **rows}
    changed = {key: row for key, row in rows.items() if found.drops_all or row != before.by_key.get(key)}
    fresh = [_mirror_row(row) for row in changed.values() if row is not None]
    return fresh, [index for key in changed for index in before.indices.get(key, ())]


def _of_versions(found: SettledBatch, shown: ShownVersions) -> tuple[list[Mapping[str, Cell]], list[int]]:
    """Return the rows of a history that show something new, and the indices of those that show it no more."""
    fresh, gone = list[Mapping[str, Cell]](), list[int]()
    for key, row in found.settled.rows.items():
        indices, stored = found.stored.indices.get(key, ()), found.stored.of(key)
        after = list(shown.rows(key, _versions(row), stored))
        for index, one in zip(indices, stored, strict=True):
            same = next((other for other in after if _is_same(other, one)), None)
            if same is None:
                gone.append(index)
            else:
                after.remove(same)
        fresh += after
    return fresh, gone


def _numbers(found: SettledBatch, history: History) -> Numbers:
    """Return the surrogate numbers of the versions that the batch leaves, where versions have numbers."""
    plan, stored = found.plan, found.stored
    columns, reader = columns_of(folded_dimension(plan)), VersionReader.of(plan.dimension, plan.folded)
    if columns is None or reader is None or not history.has_numbers:
        return {}
    name = history.shown.surrogate_column
    had = {(key, reader.begin(row)): row[name] for key in found.settled.rows for row in stored.of(key)}
    before = {key: _versions(stored.by_key.get(key)) for key in found.settled.rows}
    after = {key: _versions(row) for key, row in found.settled.rows.items()}
    return assign_numbers(columns, had, before, after, plan.numbered)


def _count_current(row: Row | None) -> int:
    """Return how many versions of a key are current, or whether its row stands."""
    if row is None or not row.versions:
        return int(row is not None and not row.deleted)
    return sum(version.is_current for version in row.versions)


def _versions(row: Row | None) -> Versions:
    return () if row is None else row.versions


def _mirror_row(row: Row) -> Mapping[str, Cell]:
    """Return a row of a mirror as its table has it."""
    return {**row.cells, **dict(zip(names.POSITION, row.position, strict=True)), DELETED: row.deleted}


def _is_same(one: Mapping[str, Cell], stored: Mapping[str, Cell]) -> bool:
    return all(canonical(value) == canonical(stored.get(name)) for name, value in one.items())
