"""Working out a small batch: it is read, its keys are found, the core settles it, and the result is Arrow again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark import names
from lakeward.adapters.spark.chains import SHIFTED
from lakeward.adapters.spark.events import IS_REJECT
from lakeward.adapters.spark.fitting import fitted
from lakeward.adapters.spark.histories import remembered_types
from lakeward.adapters.spark.inline import inline
from lakeward.adapters.spark.line import from_arrow, to_arrow
from lakeward.adapters.spark.local_frame import Frame, LocalFrame, in_spark
from lakeward.adapters.spark.names import quoted
from lakeward.adapters.spark.remaking import remade
from lakeward.adapters.spark.resolve import AT_THE_MARK, FILE, ID, INCOMPLETE, POS, as_told
from lakeward.adapters.spark.truncates import in_force, literal, place_of
from lakeward.adapters.tables.columns import row_columns
from lakeward.adapters.tables.companion.entries import columns_in_part
from lakeward.adapters.tables.companion.entries import columns_of as companion_columns
from lakeward.adapters.tables.keeping import Keeping
from lakeward.adapters.tables.keys import told_apart_by
from lakeward.adapters.tables.outcome import Outcome
from lakeward.adapters.tables.rows import Loaded, Rows
from lakeward.adapters.tables.small.batch import SmallBatch, read_batch
from lakeward.adapters.tables.small.entries import Entries, plain
from lakeward.adapters.tables.small.memory import read_memory
from lakeward.adapters.tables.small.rows import StoredRows, find_all, find_rows
from lakeward.adapters.tables.small.values import arrow_type, key_rows
from lakeward.adapters.tables.small.versions import ShownVersions, VersionReader
from lakeward.adapters.tables.small.way import CORE, NotSmall, touches_all
from lakeward.core.delivery import Delivery, Resolution, Settled
from lakeward.core.dimension import DELETED, Dimension, Ordered, Ties
from lakeward.core.errors import MendError, SourceError
from lakeward.core.events import Cell, ChangeEvent, Key, Position, canonical
from lakeward.core.fold import Row, columns_of
from lakeward.core.history.numbering import Numbers, numbered
from lakeward.core.history.versions import Versions
from lakeward.core.holds import Waiter, Waiters
from lakeward.core.literals import key_text
from lakeward.core.memory import Memory, Reason, Reject
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Resolved
from lakeward.core.schema import Schema
from lakeward.core.settle import settle
from lakeward.core.splicing import splice


def by_settling(kept: Keeping, plan: MergePlan, frame: Frame, table: Loaded | None) -> Resolved:
    """Work out a batch by the core. Raises NotSmall where it turns out to need Spark."""
    try:
        return _Settling.of(kept, plan, frame, table).resolved()
    except (OverflowError, ValueError) as error:
        raise NotSmall(f"a value is none of Python: {error}") from error
    except (MendError, SourceError) as error:
        raise NotSmall("Spark knows the names of files for the error") from error


@dataclass(frozen=True, slots=True)
class _Settling:
    """A small batch, what it meets, and what the core makes of it."""

    kept: Keeping
    plan: MergePlan
    rows: Rows
    batch: SmallBatch
    memory: Memory
    keys: Collection[Key]
    stored: StoredRows
    settled: Settled

    @classmethod
    def of(cls, kept: Keeping, plan: MergePlan, frame: Frame, table: Loaded | None) -> _Settling:
        batch = read_batch(_rows_of(frame, plan.dimension.schema), plan)
        touched = {key for event in batch.events for key in event.keys}
        touched |= {key for reject in batch.rejects for key in reject.keys}
        memory, keys = read_memory(kept, plan, touched)
        rows = Rows(plan, table, kept.spark)
        stored = _stored(kept, plan, rows, keys)
        memory.closed |= dict.fromkeys(_held_before(kept, plan, batch))
        dimension, delivery = replace(plan.dimension, schema=plan.folded), _delivery(plan, batch)
        if plan.splices is None:
            settled = settle(dimension, stored.by_key, memory, delivery)
        else:
            settled = splice(dimension, stored.by_key, memory, delivery, plan.splices, plan.facts)
        return cls(kept, plan, rows, batch, memory, keys, stored, settled)

    def resolved(self) -> Resolved:
        plan, settled = self.plan, self.settled
        numbers = self._numbers()
        fresh, gone = self._differences(numbers)
        removed, count = self._removed(gone)
        rejects = self._rejects()
        outcome = Outcome(
            upserts=remade(from_arrow(self.kept.spark(), self._upserts(fresh)), plan.remaking),
            removed=removed,
            rejects=self._refused(rejects),
            entries=self._entries(),
            places=None if self._truncates_others else self._at(gone),
            drops_all=self._drops_all,
            drops_below=plan.truncates.removes_below if self._truncates_others else None,
            table=self.rows.table,
        )
        counts = replace(
            settled.counts, read=settled.counts.read + plan.facts.skipped, skipped=plan.facts.skipped
        )
        return Resolved(
            counts=counts,
            written=len(fresh),
            removed=count,
            current=self._current(),
            numbered=sum(number > plan.numbered for number in numbers.values()),
            held=len(self._held()),
            rejects={} if plan.releases else Counter(reject.reason for reject in rejects),
            detail=outcome,
            way=CORE,
        )

    # Rows.

    @property
    def _drops_all(self) -> bool:
        """Whether the rows that are written take the place of all that stand."""
        return self.plan.replaces and self.plan.dimension.history is None

    def _numbers(self) -> Numbers:
        """Return the surrogate numbers of the versions that the batch leaves, where versions have numbers."""
        history, columns = self.plan.dimension.history, columns_of(self._dimension)
        reader = VersionReader.of(self.plan.dimension, self.plan.folded)
        if history is None or columns is None or reader is None or not history.has_numbers:
            return {}
        stored, name = self.stored, history.shown.surrogate_column
        had = {(key, reader.begin(row)): row[name] for key in self.settled.rows for row in stored.of(key)}
        before = {key: _versions(stored.by_key.get(key)) for key in self.settled.rows}
        after = {key: _versions(row) for key, row in self.settled.rows.items()}
        return numbered(columns, had, before, after, self.plan.numbered)

    @property
    def _dimension(self) -> Dimension:
        return replace(self.plan.dimension, schema=self.plan.folded)

    def _differences(self, numbers: Numbers) -> tuple[list[Mapping[str, Cell]], list[int]]:
        """Return the rows to be written, and the indices of the stored rows that go."""
        history, before = self.plan.dimension.history, self.stored
        if history is not None:
            return self._of_versions(ShownVersions(self._dimension, history, self.plan.batch, numbers))
        rows: Mapping[Key, Row | None] = self.settled.rows
        if self._drops_all:
            rows = {**before.by_key, **rows}
        changed = {key: row for key, row in rows.items() if self._drops_all or row != before.by_key.get(key)}
        fresh = [_shown(row) for row in changed.values() if row is not None]
        return fresh, [index for key in changed for index in before.indices.get(key, ())]

    def _of_versions(self, shown: ShownVersions) -> tuple[list[Mapping[str, Cell]], list[int]]:
        fresh, gone = list[Mapping[str, Cell]](), list[int]()
        for key, row in self.settled.rows.items():
            indices, stored = self.stored.indices.get(key, ()), self.stored.of(key)
            after = list(shown.rows(key, _versions(row), stored))
            for index, one in zip(indices, stored, strict=True):
                same = next((other for other in after if _is_same(other, one)), None)
                if same is None:
                    gone.append(index)
                else:
                    after.remove(same)
            fresh += after
        return fresh, gone

    def _upserts(self, rows: Sequence[Mapping[str, Cell]]) -> pa.Table:
        types = {c.name: c.type for c in self.plan.stored.schema if c.name not in self.plan.remaking.columns}
        types |= {name: type_ for name, type_ in row_columns(self.plan.dimension).items() if name != names.BATCH}
        columns = {
            name: pa.array([plain(row.get(name)) for row in rows], arrow_type(type_))
            for name, type_ in types.items()
            if name != names.SEQUENCE
        }
        sequences = pa.array([row[names.SEQUENCE] for row in rows], pa.decimal128(38, 0))
        columns[names.SEQUENCE] = sequences.cast(arrow_type(types[names.SEQUENCE]))
        return pa.table(columns)

    def _removed(self, gone: Sequence[int]) -> tuple[DataFrame | None, int]:
        """Return the rows that go, and how many they are: those of touched keys, and what lies below a truncate."""
        if self._drops_all:
            return None, self.rows.count()
        frame = None
        if (rows := self._at(gone)) is not None:
            frame = from_arrow(self.kept.spark(), rows)
        if not self._truncates_others:
            return frame, len(gone)
        others = self._truncated()
        frame = others if frame is None else frame.unionByName(others, allowMissingColumns=True)
        return frame, frame.count()

    def _at(self, gone: Sequence[int]) -> pa.Table | None:
        """Return where these stored rows lie, and what tells them from all others; None of no row."""
        if not gone:
            return None
        rows = self.stored.table.take(pa.array(gone, pa.int64()))
        own = [name for name in told_apart_by(self.plan.stored) if name in rows.column_names]
        return rows.select([*own, FILE, POS])

    @property
    def _truncates_others(self) -> bool:
        """Whether a new truncate removes rows of other keys."""
        limit, newest = self.plan.truncates.removes_below, self.plan.truncates.newest
        is_new = limit is not None and (newest is None or limit > newest)
        return is_new and self.rows.are_there and not (self.plan.replaces or self.plan.dimension.keeps_ended)

    def _truncated(self) -> DataFrame:
        """Return the rows of other keys that lie below the newest truncate."""
        plan, key = self.plan, list(self.plan.dimension.key)
        below = self.rows.all().where(f"{place_of(names.EPOCH)} < {literal(plan, plan.truncates.all[-1])}")
        own = from_arrow(self.kept.spark(), key_rows(self.keys, plan.dimension))
        return below.selectExpr(*map(quoted, key), FILE, POS).join(F.broadcast(own), key, "left_anti")

    def _current(self) -> int:
        """Return how many more rows or versions are current afterwards, where ended ones are kept."""
        if not self.plan.dimension.keeps_ended:
            return 0
        rows = self.settled.rows.items()
        return sum(_count_current(row) - _count_current(self.stored.by_key.get(key)) for key, row in rows)

    # What is remembered.

    def _entries(self) -> pa.Table:
        plan, settled = self.plan, self.settled
        entries = Entries(plan, [])
        waited = {place for place, change in self.memory.changes.items() if change.waiting}
        changes = [change.event for change in settled.changes if not change.waiting]
        remembered = [event for event in changes if not self._is_in_table(event)]
        entries.add_changes(remembered)
        waiting = {change.event.position: change.event for change in settled.changes if change.waiting}
        if plan.evolution.lacks and not plan.in_part and waiting.keys() - waited:
            raise NotSmall("rows that lack a column would wait, and nothing would say that they lack it")
        entries.add_waiting(event for place, event in waiting.items() if place not in waited)
        still = waiting.keys()
        entries.add_released(self.memory.changes[place].event for place in waited if place not in still)
        if plan.in_part and not self._is_ordered:
            known = {key for event in (*remembered, *waiting.values()) for key in event.keys}
            loaded = {event.key for event in changes if self._is_in_table(event)} - known
            entries.add_bases(base for base in settled.bases if base.key not in loaded)
        types = {**companion_columns(plan.dimension.sequences), **{c.name: c.type for c in plan.folded}}
        types |= {**columns_in_part(plan.dimension), **remembered_types(plan.dimension)}
        return entries.rows(types)

    def _is_in_table(self, event: ChangeEvent) -> bool:
        """Whether an event is a row of a full load that needs no memory: the table has it, or nothing is folded."""
        if not event.is_load:
            return False
        row = self.settled.rows.get(event.key)
        return not self.plan.in_part or (row is not None and row.position == event.position)

    @property
    def _is_ordered(self) -> bool:
        return isinstance(self.plan.dimension.lateness, Ordered)

    # Quarantine.

    def _rejects(self) -> Sequence[Reject]:
        """Return the rows of this batch that go into quarantine. Raises NotSmall for one that came with another."""
        if any(reject.position not in self.batch.places for reject in self.settled.rejects):
            raise NotSmall("an event that waited cannot be applied")
        return self.settled.rejects

    def _refused(self, rejects: Sequence[Reject]) -> DataFrame | None:
        """Return the rows that go into quarantine, each with what is wrong with it."""
        if not rejects:
            return None
        spark, had = self.kept.spark(), {reject.position: reject.reason for reject in self.batch.rejects}
        rows = self.batch.rows.take(pa.array([self.batch.places[one.position] for one in rejects], pa.int64()))
        frame = from_arrow(spark, _with_reasons(rows, rejects, had))
        told = [
            (arrival << 2, reject.reason.value, reject.detail or _WORDS[reject.reason])
            for arrival, reject in zip(rows[names.ARRIVAL].to_pylist(), rejects, strict=True)
            if reject.position not in had
        ]
        if told:
            frame = as_told(frame, self.plan, inline(spark, _TOLD, told))
        return frame.where(IS_REJECT)

    def _held(self) -> set[str]:
        """Return the texts of the keys that are held afterwards."""
        plan, settled = self.plan, self.settled
        stand = [] if plan.replaces else [hold for hold in in_force(plan) if hold.position not in settled.closed]
        held = {str(text) for hold in stand for (text,) in hold.keys}
        held |= {key_text(plan.dimension, key) for hold in settled.holds for key in hold.keys}
        return held | self._moved()

    def _moved(self) -> set[str]:
        """Return the texts of the keys of key changes that wait."""
        plan = self.plan
        waiting = [change.event for change in self.settled.changes if change.waiting]
        moved = Waiters.of(
            Waiter(event.position, tuple(key_text(plan.dimension, key) for key in event.keys)) for event in waiting
        ).moved()
        if plan.replaces or not (plan.holds or plan.releases):
            return moved
        own = {place[2:] for place in self.memory.changes}
        return moved | self.kept.companion.waiters(plan.batch - 1).moved(own)


_TOLD: Final = {ID: "bigint", "reason": "string", "words": "string"}
_WORDS: Final[Mapping[Reason, str]] = {
    Reason.TOO_LATE: f"its place in the order lies {AT_THE_MARK}",
    Reason.INCOMPLETE_ROW: INCOMPLETE,
    Reason.KEY_SHIFT: SHIFTED,
}


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


def _rows_of(frame: Frame, schema: Schema) -> pa.Table:
    """Return the rows of an event frame, nested columns with the types that the table has."""
    if isinstance(frame, LocalFrame) and not any(column.type.is_nested for column in schema):
        return frame.rows
    return to_arrow(fitted(in_spark(frame), schema))


def _count_current(row: Row | None) -> int:
    """Return how many versions of a key are current, or whether its row stands."""
    if row is None or not row.versions:
        return int(row is not None and not row.deleted)
    return sum(version.is_current for version in row.versions)


def _versions(row: Row | None) -> Versions:
    return () if row is None else row.versions


def _shown(row: Row) -> Mapping[str, Cell]:
    """Return a row of a mirror as its table has it."""
    return {**row.cells, **dict(zip(names.POSITION, row.position, strict=True)), DELETED: row.deleted}


def _is_same(one: Mapping[str, Cell], stored: Mapping[str, Cell]) -> bool:
    return all(canonical(value) == canonical(stored.get(name)) for name, value in one.items())


def _stored(kept: Keeping, plan: MergePlan, rows: Rows, keys: Collection[Key]) -> StoredRows:
    """Return the stored rows that a batch meets. Raises NotSmall where they are too many."""
    if touches_all(plan):
        every = find_all(rows, kept.small_batch)
        if every is None:
            raise NotSmall(f"the batch touches more than {kept.small_batch:,} rows")
        return every
    return StoredRows() if plan.replaces else find_rows(rows, keys, with_cells=_needs_cells(plan))


def _needs_cells(plan: MergePlan) -> bool:
    """Return whether a batch needs the cells of stored rows: to complete rows, to keep ended ones, to compare."""
    dimension = plan.dimension
    compares = dimension.ties is not Ties.ARRIVAL or dimension.unique_sequences
    completes = dimension.history is not None or plan.folds or plan.evolution.lacks or bool(plan.remaking)
    return completes or compares or bool(plan.holds or plan.releases)


def _held_before(kept: Keeping, plan: MergePlan, batch: SmallBatch) -> Iterator[Position]:
    """Return the places of events that an `ordered` table is given again, and that were held: they are no news."""
    if not (plan.copies and isinstance(plan.dimension.lateness, Ordered)) or plan.releases or plan.replaces:
        return
    held = set(kept.quarantine.held_among(plan.epoch, plan.batch - 1, plan.copies))
    yield from (event.position for event in batch.events if event.position[2:] in held)


def _delivery(plan: MergePlan, batch: SmallBatch) -> Delivery:
    mended = {event.position[2:]: event for event in batch.events if plan.releases}
    return Delivery(
        number=plan.batch,
        events=[] if plan.releases else batch.events,
        rejects=batch.rejects,
        resolutions=[Resolution(position, mended.get(position[2:])) for position in plan.releases],
        loaded=plan.facts.loaded,
        believed=plan.facts.believed,
        ran=plan.ran,
        by_hand=not plan.facts.objects,
        own_times=plan.facts.own_times,
        is_first=plan.is_first,
    )
