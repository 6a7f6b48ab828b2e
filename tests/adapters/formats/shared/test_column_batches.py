"""A batch that is resolved in Arrow columns has the result that the core gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from arrow_events import cells, event_frame, values
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from merge_plans import make_plan
from sparkless import no_spark
from tries import tries

from lakeward.adapters.formats.shared.change_log.batch_record import BatchRecord
from lakeward.adapters.formats.shared.change_log.entries import columns_in_part, columns_of
from lakeward.adapters.formats.shared.column_batches import batch, resolver
from lakeward.adapters.formats.shared.column_batches.batch import MANY_REMEMBERED, ColumnBatch, why_not_resolved
from lakeward.adapters.formats.shared.column_batches.entries import entries_of_events
from lakeward.adapters.formats.shared.column_batches.resolver import COLUMNS, resolve_columns
from lakeward.adapters.formats.shared.column_batches.verdicts import KeyVerdicts
from lakeward.adapters.formats.shared.resolution.resolver import resolve_plan
from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.formats.shared.side_tables.side_table import with_schema
from lakeward.adapters.formats.shared.small_batches.change_log_entries import Entries
from lakeward.adapters.formats.shared.small_batches.keys import KeyTexts
from lakeward.adapters.formats.shared.small_batches.resolver import CORE, resolve_small_batch
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import ORDERED, Deletes, Dimension, Lateness, TableName, Unbounded
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position, Sequences, SourceOrder, key_of
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.merge.change_log import Hold, Reason, Record
from lakeward.core.merge.facts import PARTIAL, BatchFacts, ObjectFacts
from lakeward.core.merge.truncates import Truncates
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import Evolution, Kind, Policy, SchemaChange

BATCH = 2
FIRST = 1_000
"""The least sequence of an event of the batch; those of stored rows lie below."""

FOREIGN = -(2**63)
FOREIGN_PLACE = Position(1, LOAD_SEQUENCE, FOREIGN, 0)
"""The object and the position of a stored row of another writer: all are NULL in the table."""

KEY_TYPES = st.sampled_from(
    [Type(name) for name in ("int", "bigint", "string", "date", "timestamp", "boolean", "double")]
)
WHOLE = st.integers(1 - 2**53, 2**53 - 1).filter(bool).map(float)
"""Doubles that may be in a key."""

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
        rows = _without_positions(frame.append_column(names.EPOCH, epochs))
        for name, column in places.items():
            rows = rows.append_column(name, column)
        found = rows.select([name for name in dict.fromkeys((*wanted, FILE, POS)) if name in rows.column_names])
        return found.join(keys, keys.column_names, join_type="left semi")


def _without_positions(rows: pa.Table) -> pa.Table:
    """Return rows with NULL in the position columns of those that no event of the table wrote."""
    is_foreign = pc.equal(rows[names.OBJECT], FOREIGN)
    for name in names.POSITION:
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, pc.if_else(is_foreign, pa.scalar(None, rows[name].type), rows[name]))
    return rows


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


def key_parts(type_: Type) -> st.SearchStrategy[Any]:
    return WHOLE if type_.name == "double" else values(type_)


@st.composite
def drawn(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Drawn:
    dimension = draw(dimensions())
    order, is_new = draw(st.sampled_from(["rising", "any", "arrival"])), draw(st.integers(0, 3)) == 0
    types = {column.name: column.type for column in dimension.schema}
    keys = draw(
        st.lists(
            st.fixed_dictionaries({name: key_parts(types[name]) for name in dimension.key}), min_size=1, max_size=4
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
            event(
                Operation.UPDATE, draw(st.sampled_from([FOREIGN_PLACE, Position(1, draw(sequences), 8, row)])), key
            )
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
    low_watermark = None if is_ordered or mark is None else SourceOrder(1, mark)
    more = {"creates": is_new, "folds": folds, "folds_remembered": folds, "low_watermark": low_watermark}
    plan = make_plan(dimension, batch=BATCH, facts=facts, **more)
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
    dimension, detail = plan.dimension, resolved.detail
    schema = pa.schema([(name, arrow_type(type_)) for name, type_ in entry_columns(dimension).items()])
    system = (names.SEQUENCE, names.OBJECT, names.ROW)
    return {
        "counts": (resolved.counts, resolved.written, resolved.removed, resolved.current, resolved.held),
        "upserts": rows_of(detail.upserts.rows, (*dimension.schema.names, *system)),
        "places": [] if detail.places is None else rows_of(detail.places, (*dimension.key, FILE, POS)),
        "entries": rows_of(with_schema(detail.entries, schema), schema.names),
    }


def check(case: Drawn) -> None:
    """Compare the result in columns with that of the core; events that may be tied are refused."""
    places = [(event.key, event.position.sequence) for event in case.events if event.position.sequence]
    if len(set(places)) < len(places):
        assert "same place" in refused(case)
        return
    resolved = resolve_columns(case.side_tables, case.plan, case.frame, case.table)
    expected = resolve_small_batch(case.side_tables, case.plan, case.frame, case.table)
    assert resolved.way == COLUMNS
    assert contents(case.plan, resolved) == contents(case.plan, expected)


def refused(case: Drawn) -> str:
    with pytest.raises(SparkNeeded) as raised:
        resolve_columns(case.side_tables, case.plan, case.frame, case.table)
    return str(raised.value)


@settings(max_examples=tries(200, 3000))
@given(case=drawn())
def test_the_result_is_that_of_the_core(case: Drawn) -> None:
    check(case)


def _applies_in_order_of_arrival(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batch, "_rises", lambda _values: True)


def _keeps_deleted_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        KeyVerdicts, "newest", property(lambda self: self._last_events(lambda one, _word: one.is_valid()))
    )


def _removes_no_stored_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        KeyVerdicts,
        "places",
        property(lambda self: self.stored_rows.select([*self.plan.dimension.key, FILE, POS])[:0]),
    )


def _remembers_only_newest_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(resolver, "entries_of_events", lambda plan, _events: entries_of_events(plan, _events[-1:]))


def _forgets_base_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyVerdicts, "base_keys", lambda self: self.stored_rows.select(list(self.plan.dimension.key))[:0])


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
def test_mistakes_are_found(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[pytest.MonkeyPatch], None]) -> None:
    spoil(monkeypatch)

    @settings(max_examples=2000, phases=[Phase.generate], database=None, derandomize=True)
    @given(case=drawn())
    def compared(case: Drawn) -> None:
        check(case)

    with pytest.raises((AssertionError, pytest.fail.Exception, BaseExceptionGroup)):
        compared()


def usual_schema(key: str = "bigint") -> Schema:
    return Schema((Column("id", Type(key)), Column("a", Type("string"))))


def evolution(change: SchemaChange) -> Evolution:
    schema = usual_schema()
    added = [Column(change.path, change.after)] if change.after is not None else []
    return Evolution(Schema((*schema, *added)), ((change, Policy.EVOLVE),))


def usual() -> Drawn:
    """Return a batch that is resolved in columns: one update of a key of whole numbers."""
    schema = usual_schema()
    dimension = Dimension(name=TableName("shop", "item"), schema=schema, key=("id",), lateness=Unbounded())
    event = ChangeEvent(
        operation=Operation.UPDATE, position=Position(1, FIRST, 9, 1), key=(1,), cells={"id": 1, "a": "x"}
    )
    place = event.position
    facts = BatchFacts(schema=schema, operations={Operation.UPDATE: 1}, least=place, greatest=place)
    return Drawn(make_plan(dimension, batch=BATCH, facts=facts), [event], [], [])


PLACE = Position(1, 5, 8, 1)
ADDED = SchemaChange(Kind.ADD, "b", None, Type("string"))
DROPPED = SchemaChange(Kind.DROP, "a", Type("string"), None)
OF_PLANS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "a table without a key": ("no key", {"appends": True}),
    "events that may be older than applied ones": ("may be older", {"recalls": True}),
    "late events": ("may be older", {"low_watermark": SourceOrder(1, FIRST)}),
    "a full load that replaces all rows": ("full load", {"replaces": True}),
    "released events": ("held, or released", {"releases": frozenset({PLACE})}),
    "a table with held keys": ("held, or released", {"holds": (Hold(PLACE, ((1,),), Reason.CAST, 1),)}),
    "objects that were delivered before": ("delivered before", {"copies": frozenset({9})}),
    "a remembered truncate": ("truncate", {"truncates": Truncates(frozenset({PLACE}))}),
    "objects that may step back in the log": ("step back", {"suspect_objects": frozenset({9})}),
    "a new column": ("changes the columns", {"evolution": evolution(ADDED)}),
    "a column that it lacks": ("partial", {"evolution": evolution(DROPPED)}),
}
OF_FACTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "rejects": ("quarantine", {"rejects": {Reason.CAST: 1}}),
    "partial rows": ("partial", {"needs": PARTIAL}),
    "no event": ("no event", {"operations": {}}),
    "rows of a full load": ("full load", {"least": Position(1, LOAD_SEQUENCE, 9, 1)}),
}
DOTTED = Schema((Column(".id", Type("bigint")), *usual_schema()))
OF_TABLES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "soft deletes": ("ended rows", {"deletes": Deletes.SOFT}),
    "unique sequences": ("unique sequence", {"sequences": Sequences.UNIQUE}),
    "a float as key": ("floats", {"schema": usual_schema("float")}),
    "a key of bytes": ("bytes", {"schema": usual_schema("binary")}),
    "a key whose name is a path": ("a path", {"schema": DOTTED, "key": (".id", "id")}),
}


@pytest.mark.parametrize(("words", "more"), OF_PLANS.values(), ids=OF_PLANS)
def test_other_batches_are_left_to_spark(words: str, more: Mapping[str, Any]) -> None:
    case = usual()
    assert why_not_resolved(case.side_tables, case.plan) is None
    assert words in refused(replace(case, plan=replace(case.plan, **more)))


@pytest.mark.parametrize(("words", "more"), OF_FACTS.values(), ids=OF_FACTS)
def test_batches_with_other_rows_are_left_to_spark(words: str, more: Mapping[str, Any]) -> None:
    case = usual()
    facts = replace(case.plan.facts, **more)
    assert words in refused(replace(case, plan=replace(case.plan, facts=facts)))


@pytest.mark.parametrize(("words", "more"), OF_TABLES.values(), ids=OF_TABLES)
def test_batches_of_other_tables_are_left_to_spark(words: str, more: Mapping[str, Any]) -> None:
    case = usual()
    dimension = replace(case.plan.dimension, **more)
    assert words in str(why_not_resolved(case.side_tables, replace(case.plan, dimension=dimension)))


def batch_of(rows: int, greatest: Position) -> BatchRecord:
    """Return the record of a batch with one object of so many rows."""
    facts = ObjectFacts(SourceObject("1.json", 1, 1, 1), rows)
    return BatchRecord((facts,), Record(1, frozenset({1}), greatest, greatest), {})


@pytest.mark.parametrize(
    ("rows", "more", "is_in_columns"),
    [
        pytest.param(MANY_REMEMBERED - 1, {}, True, id="many events, with that of the batch"),
        pytest.param(MANY_REMEMBERED - 2, {}, False, id="few events"),
        pytest.param(MANY_REMEMBERED, {"low_watermark": PLACE.source_order}, False, id="passed events"),
        pytest.param(MANY_REMEMBERED, {"epoch": 2}, False, id="events of another epoch"),
        pytest.param(MANY_REMEMBERED, {"folds_remembered": False}, False, id="no need for them"),
        pytest.param(MANY_REMEMBERED, {"copies": frozenset({9})}, False, id="a batch for the core"),
    ],
)
def test_a_small_batch_is_resolved_in_columns_if_many_events_are_remembered(
    rows: int, more: Mapping[str, Any], is_in_columns: bool
) -> None:
    """The core would read all of them."""
    case = usual()
    plan = replace(replace(case.plan, folds=True, folds_remembered=True, batch=3), **more)
    side_tables = case.side_tables
    side_tables.change_log.batches.records = {1: batch_of(rows, PLACE)}
    side_tables.change_log.batches.epoch = plan.epoch
    resolved = resolve_plan(side_tables, plan, case.frame, None)
    assert resolved.way == (COLUMNS if is_in_columns else CORE)


def test_a_batch_is_left_to_spark_if_a_key_change_is_remembered() -> None:
    case = usual()
    side_tables, plan = case.side_tables, replace(case.plan, folds=True, folds_remembered=True)
    assert why_not_resolved(side_tables, plan) is None
    side_tables.change_log.has_key_changes = lambda _upto: True
    assert "remembers changes" in str(why_not_resolved(side_tables, plan))


def test_a_batch_is_left_to_spark_if_only_it_can_read_the_stored_rows() -> None:
    case = usual()
    unreadable = SimpleNamespace(is_written=True, find=lambda *_: None)
    with pytest.raises(SparkNeeded, match="only Spark can read"):
        resolve_columns(case.side_tables, case.plan, case.frame, unreadable)


def test_a_batch_is_left_to_spark_if_a_key_has_several_rows() -> None:
    case = usual()
    row = replace(case.events[0], position=Position(1, 5, 8, 1))
    assert "several stored rows" in refused(replace(case, stored=[row, row]))


@pytest.mark.parametrize("key", [0.0, -0.0, 0.5, float(2**53), float("nan"), float("inf")])
def test_a_batch_is_left_to_spark_if_a_key_has_several_forms_or_texts(key: float) -> None:
    case = usual()
    dimension = replace(case.plan.dimension, schema=usual_schema("double"))
    rows = event_frame(dimension, [replace(case.events[0], key=(key,), cells={"id": key})], ("id", "a"))
    with pytest.raises(SparkNeeded, match="not whole"):
        resolve_columns(case.side_tables, replace(case.plan, dimension=dimension), LocalFrame(rows, no_spark), None)


def test_a_batch_is_left_to_spark_if_python_cannot_hold_a_key() -> None:
    case = usual()
    dimension = replace(case.plan.dimension, schema=usual_schema("date"))
    rows = event_frame(
        dimension, [replace(case.events[0], key=(date(1, 1, 1),), cells={"id": date(1, 1, 1)})], ("id", "a")
    )
    rows = rows.set_column(0, "id", pa.array([10**7], pa.int32()).cast(pa.date32()))
    with pytest.raises(SparkNeeded, match="hold a value"):
        resolve_columns(
            case.side_tables, replace(case.plan, dimension=dimension), LocalFrame(rows, no_spark), case.table
        )
