"""A batch that is resolved in Arrow columns has the result that the core gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from arrow_events import cells, event_frame, values
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tries import tries

from lakeward.adapters.formats.shared.change_log.entries import columns_in_part, columns_of
from lakeward.adapters.formats.shared.column_batches import batch, resolver
from lakeward.adapters.formats.shared.column_batches.batch import ColumnBatch, why_not_columns
from lakeward.adapters.formats.shared.column_batches.entries import entries_of_events
from lakeward.adapters.formats.shared.column_batches.resolver import COLUMNS, resolve_columns
from lakeward.adapters.formats.shared.column_batches.verdicts import KeyVerdicts
from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.formats.shared.side_tables.side_table import with_schema
from lakeward.adapters.formats.shared.small_batches.batch import NotSmall
from lakeward.adapters.formats.shared.small_batches.change_log_entries import Entries
from lakeward.adapters.formats.shared.small_batches.keys import KeyTexts
from lakeward.adapters.formats.shared.small_batches.resolver import resolve_small_batch
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import ORDERED, Deletes, Dimension, Lateness, TableName, Unbounded
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position, Sequences, SourceOrder, key_of
from lakeward.core.merge.change_log import Hold, Reason
from lakeward.core.merge.facts import PARTIAL, BatchFacts
from lakeward.core.merge.truncates import Truncates
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import Evolution

BATCH = 2
FIRST = 1_000
"""The least sequence of an event of the batch; those of stored rows lie below."""

KEY_TYPES = st.sampled_from([Type(name) for name in ("int", "bigint", "string", "date", "timestamp", "boolean")])
CELLS = st.sampled_from([Type(name) for name in ("string", "double", "date")] + [Type("decimal", 12, 2)])


@dataclass(frozen=True)
class Drawn:
    """A table with some rows, some of which are remembered, and the whole rows that a batch brings of it."""

    plan: MergePlan
    events: Sequence[ChangeEvent]
    stored: Sequence[ChangeEvent]
    remembered: Sequence[ChangeEvent]

    @property
    def frame(self) -> LocalFrame:
        dimension = self.plan.dimension
        rows = event_frame(dimension, [*self.events, None], dimension.schema.names)
        return LocalFrame(rows, no_spark)

    @property
    def side_tables(self) -> Any:
        entries = Entries(self.plan, KeyTexts(self.plan.dimension), [])
        entries.add_changes(self.remembered)
        rows = entries.rows(entry_columns(self.plan.dimension))
        table = SimpleNamespace(columns=rows.column_names, rows=lambda *_: rows, pending={})
        batches = SimpleNamespace(records={}, epoch=1, ordered_until=0, object_names={})
        change_log = SimpleNamespace(batches=batches, table=table, has_key_changes=lambda _upto: False)
        return SimpleNamespace(change_log=change_log, small_batch=10**6, spark=no_spark, direct_load=None)

    @property
    def table(self) -> Any:
        return None if self.plan.creates else Snapshot(self.plan.dimension, self.stored)


@dataclass(frozen=True)
class Snapshot:
    """A stored table that this process reads."""

    dimension: Dimension
    events: Sequence[ChangeEvent]
    is_written: bool = True

    def find(self, keys: pa.Table, wanted: Sequence[str]) -> pa.Table:
        frame = event_frame(self.dimension, self.events, self.dimension.schema.names)
        places = {
            FILE: pa.array(["f"] * len(self.events), pa.string()),
            POS: pa.array(range(len(self.events)), pa.int64()),
        }
        epochs = pa.array([event.position.epoch for event in self.events], pa.int32())
        rows = frame.append_column(names.EPOCH, epochs)
        for name, column in places.items():
            rows = rows.append_column(name, column)
        found = rows.select([name for name in dict.fromkeys((*wanted, FILE, POS)) if name in rows.column_names])
        return found.join(keys, keys.column_names, join_type="left semi")


def no_spark() -> Any:
    raise AssertionError("Spark was asked for")


def entry_columns(dimension: Dimension) -> Mapping[str, Type]:
    own = {column.name: column.type for column in dimension.schema}
    return {**columns_of(dimension.sequences), **columns_in_part(dimension), **own}


@st.composite
def dimensions(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Dimension:
    keys = [
        Column(f"key{place}", type_)
        for place, type_ in enumerate(draw(st.lists(KEY_TYPES, min_size=1, max_size=2)))
    ]
    others = [Column(f"a{place}", type_) for place, type_ in enumerate(draw(st.lists(CELLS, max_size=2)))]
    lateness: Lateness = draw(st.sampled_from([ORDERED, Unbounded()]))
    return Dimension(
        name=TableName("shop", "item"),
        schema=Schema((*keys, *others)),
        key=tuple(column.name for column in keys),
        lateness=lateness,
        sequences=draw(st.sampled_from([Sequences.TIMES, Sequences.PLACES])),
    )


@st.composite
def drawn(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Drawn:
    dimension = draw(dimensions())
    order, is_new = draw(st.sampled_from(["rising", "any", "arrival"])), draw(st.integers(0, 3)) == 0
    types = {column.name: column.type for column in dimension.schema}
    keys = draw(
        st.lists(
            st.fixed_dictionaries({name: values(types[name]) for name in dimension.key}), min_size=1, max_size=4
        )
    )
    keys = list({key_of(key, dimension.key): key for key in keys}.values())

    def event(operation: Operation, position: Position, key: Mapping[str, Any]) -> ChangeEvent:
        others = {name: draw(cells(type_)) for name, type_ in types.items() if name not in dimension.key}
        is_delete = operation is Operation.DELETE
        return ChangeEvent(
            operation=operation,
            position=position,
            key=key_of(key, dimension.key),
            cells={**key, **dict.fromkeys(others)} if is_delete else {**key, **others},
            time=draw(st.none() | st.integers(1, 2**50)),
            transaction=draw(st.sampled_from([None, "t1"])),
        )

    operations = st.sampled_from([Operation.INSERT, Operation.READ, Operation.UPDATE, Operation.DELETE])
    events = [
        event(draw(operations), Position(1, FIRST + draw(st.integers(0, 5)), 9, row), draw(st.sampled_from(keys)))
        for row in range(1, draw(st.integers(1, 12)) + 1)
    ]
    if order != "any":  # else some may be tied
        rise = int(order == "rising")
        events = [at(one, rise * (FIRST + row)) for row, one in enumerate(events)]
    sequences = st.sampled_from([LOAD_SEQUENCE] if order == "arrival" else [LOAD_SEQUENCE, 5, FIRST - 1])
    stored = (
        []
        if is_new
        else [
            event(Operation.UPDATE, Position(1, draw(sequences), 8, row), key)
            for row, key in enumerate(keys)
            if draw(st.booleans())
        ]
    )
    mark = draw(st.sampled_from([None, *([] if order == "arrival" else [5])]))
    remembered = [one for one in stored if one.position.sequence > (mark or LOAD_SEQUENCE)]
    is_ordered = dimension.lateness is ORDERED
    folds = not is_ordered and draw(st.booleans())
    facts = BatchFacts(
        schema=dimension.schema,
        operations={},
        skipped=1,
        may_need=PARTIAL,
        least=min(one.position for one in events),
        greatest=max(one.position for one in events),
    )
    facts = replace(facts, operations={kind: sum(e.operation is kind for e in events) for kind in Operation})
    plan = MergePlan(
        dimension=dimension,
        evolution=Evolution(dimension.schema),
        batch=BATCH,
        epoch=1,
        facts=facts,
        recalls=False,
        appends=False,
        creates=is_new,
        folds=folds,
        folds_remembered=folds,
        low_watermark=None if is_ordered or mark is None else SourceOrder(1, mark),
    )
    return Drawn(plan, events, stored, [] if is_ordered else remembered)


def at(event: ChangeEvent, sequence: int) -> ChangeEvent:
    return replace(event, position=event.position._replace(sequence=sequence))


def rows_of(rows: pa.Table, columns: Sequence[str]) -> Sequence[str]:
    """Return rows as texts, sorted; a sequence is a number whatever its type."""
    own = [name for name in columns if name in rows.column_names]
    return sorted(repr([plain(row.get(name)) for name in columns]) for row in rows.select(own).to_pylist())


def plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


def contents(plan: MergePlan, resolved: MergeResult) -> Mapping[str, Any]:
    """Return all that a result says and does."""
    dimension, detail = plan.dimension, resolved.detail
    schema = pa.schema([(name, arrow_type(type_)) for name, type_ in entry_columns(dimension).items()])
    system = (names.SEQUENCE, names.OBJECT, names.ROW)
    return {
        "counts": (resolved.counts, resolved.written, resolved.removed, resolved.current, resolved.held),
        "upserts": rows_of(detail.upserts.rows, (*dimension.schema.names, *system)),
        "places": [] if detail.places is None else rows_of(detail.places, (*dimension.key, FILE, POS)),
        "entries": rows_of(with_schema(detail.entries, schema), schema.names),
    }


def check(found: Drawn) -> None:
    """Compare the result in columns with that of the core; events that may be tied are refused."""
    places = [(event.key, event.position.sequence) for event in found.events if event.position.sequence]
    if len(set(places)) < len(places):
        assert "same place" in refused(found)
        return
    resolved = resolve_columns(found.side_tables, found.plan, found.frame, found.table)
    expected = resolve_small_batch(found.side_tables, found.plan, found.frame, found.table)
    assert resolved.way == COLUMNS
    assert contents(found.plan, resolved) == contents(found.plan, expected)


def refused(found: Drawn) -> str:
    """Return in words why a batch is left to Spark."""
    with pytest.raises(NotSmall) as raised:
        resolve_columns(found.side_tables, found.plan, found.frame, found.table)
    return str(raised.value)


@settings(max_examples=tries(200, 3000))
@given(found=drawn())
def test_the_result_is_that_of_the_core(found: Drawn) -> None:
    check(found)


def _applies_in_order_of_arrival(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batch, "_rises", lambda _values: True)


def _keeps_deleted_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        KeyVerdicts, "newest", property(lambda self: self._last_events(lambda one, _word: one.is_valid()))
    )


def _removes_no_stored_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        KeyVerdicts, "places", property(lambda self: self.stored.select([*self.plan.dimension.key, FILE, POS])[:0])
    )


def _remembers_only_newest_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(resolver, "entries_of_events", lambda plan, _events: entries_of_events(plan, _events[-1:]))


def _forgets_base_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyVerdicts, "base_keys", lambda self: self.stored.select(list(self.plan.dimension.key))[:0])


def _counts_no_insert_of_a_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyVerdicts, "_odd_counts", lambda _self: (0, 0))


def _overlooks_ties(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ColumnBatch, "refuse_ties", lambda _self, _key: None)


@pytest.mark.parametrize(
    "spoil",
    [
        _applies_in_order_of_arrival,
        _keeps_deleted_rows,
        _removes_no_stored_row,
        _remembers_only_newest_events,
        _forgets_base_rows,
        _counts_no_insert_of_a_row,
        _overlooks_ties,
    ],
)
def test_a_mistake_gives_another_result(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[pytest.MonkeyPatch], None]
) -> None:
    spoil(monkeypatch)

    @settings(max_examples=200, phases=[Phase.generate], database=None, derandomize=True)
    @given(found=drawn())
    def compared(found: Drawn) -> None:
        check(found)

    with pytest.raises((AssertionError, pytest.fail.Exception, BaseExceptionGroup)):
        compared()


def usual() -> Drawn:
    """Return a batch that is resolved in columns: one update of a key of whole numbers."""
    schema = Schema((Column("id", Type("bigint")), Column("a", Type("string"))))
    dimension = Dimension(name=TableName("shop", "item"), schema=schema, key=("id",), lateness=Unbounded())
    event = ChangeEvent(
        operation=Operation.UPDATE, position=Position(1, FIRST, 9, 1), key=(1,), cells={"id": 1, "a": "x"}
    )
    plan = MergePlan(
        dimension=dimension,
        evolution=Evolution(schema),
        batch=BATCH,
        epoch=1,
        facts=BatchFacts(
            schema=schema, operations={Operation.UPDATE: 1}, least=event.position, greatest=event.position
        ),
        recalls=False,
        appends=False,
        creates=False,
    )
    return Drawn(plan, [event], [], [])


PLACE = Position(1, 5, 8, 1)
LEFT_TO_SPARK: Mapping[str, Mapping[str, Any]] = {
    "a table without a key": {"appends": True},
    "events that may be older than applied ones": {"recalls": True},
    "a full load that replaces all rows": {"replaces": True},
    "released events": {"releases": frozenset({PLACE})},
    "a table with held keys": {"holds": (Hold(PLACE, ((1,),), Reason.CAST, 1),)},
    "objects that were delivered before": {"copies": frozenset({9})},
    "a remembered truncate": {"truncates": Truncates(frozenset({PLACE}))},
    "objects that may step back in the log": {"suspect_objects": frozenset({9})},
}


@pytest.mark.parametrize("more", LEFT_TO_SPARK.values(), ids=LEFT_TO_SPARK)
def test_other_batches_are_left_to_spark(more: Mapping[str, Any]) -> None:
    found = usual()
    assert why_not_columns(found.side_tables, found.plan, found.frame) is None
    refused(replace(found, plan=replace(found.plan, **more)))


@pytest.mark.parametrize(
    "options",
    [{"deletes": Deletes.SOFT}, {"sequences": Sequences.UNIQUE}],
    ids=["a table with soft deletes", "a source with unique sequences"],
)
def test_batches_of_other_tables_are_left_to_spark(options: Mapping[str, Any]) -> None:
    found = usual()
    dimension = replace(found.plan.dimension, **options)
    refused(replace(found, plan=replace(found.plan, dimension=dimension)))


def test_a_batch_with_rejects_partial_rows_or_no_event_is_left_to_spark() -> None:
    found = usual()
    for more in ({"rejects": {Reason.CAST: 1}}, {"needs": PARTIAL}, {"operations": {}}):
        facts = replace(found.plan.facts, **more)
        refused(replace(found, plan=replace(found.plan, facts=facts)))
