"""A small batch from its frame to the core, to what is remembered of it, and back: each event is what it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from arrow_events import Item, cells, event_frame, nulls, raw, values
from hypothesis import given, settings
from hypothesis import strategies as st
from merge_plans import make_plan
from tries import tries
from types_of_columns import DECIMALS, SIMPLE, TYPES

from lakeward.adapters.formats.shared.change_log import entries as change_log
from lakeward.adapters.formats.shared.change_log.batch_record import BatchRecord
from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.formats.shared.rows.system_columns import row_columns
from lakeward.adapters.formats.shared.small_batches.batch import read_batch
from lakeward.adapters.formats.shared.small_batches.change_log_entries import Entries, without_unset
from lakeward.adapters.formats.shared.small_batches.change_log_reader import _Entries, read_change_log
from lakeward.adapters.formats.shared.small_batches.keys import KeyTexts, key_rows
from lakeward.adapters.formats.shared.small_batches.version_rows import VersionReader, VersionWriter
from lakeward.adapters.spark.history.version_rows import remembered_types
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName, Unbounded
from lakeward.core.events import UNSET, ChangeEvent, Key, Operation, Position, Sequences, canonical, key_of
from lakeward.core.history.options import History, Surrogate, ValidityColumns
from lakeward.core.history.options import Kind as Does
from lakeward.core.history.versions import Version
from lakeward.core.merge.change_log import HOLDING, BaseRow, ChangeLogContents, Reason, Reject
from lakeward.core.merge.fold import Row, row_of
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import Evolution, Kind, Policies, Policy, SchemaChange
from lakeward.core.text.literals import key_text

ODD = ["a", "B", "d.e", "f`g", "Ä ö", "_x", "`h"]
"""Names of columns, which paths must quote."""

BATCH, LATER, NOW = 2, 3, 4
"""The batch that is read and remembered, one that changes the columns, and the one that recalls it."""

T = TypeVar("T")


@dataclass(frozen=True)
class Drawn:
    """A table, and what one batch brought of it: its file may lack columns, and fields of structs."""

    plan: MergePlan
    items: Sequence[Item]

    @property
    def dimension(self) -> Dimension:
        return self.plan.dimension

    @property
    def columns(self) -> Sequence[str]:
        return [name for name in self.dimension.schema.names if name not in self.plan.evolution.absent]

    @property
    def events(self) -> Sequence[ChangeEvent]:
        return [item for item in self.items if isinstance(item, ChangeEvent)]

    @property
    def rejects(self) -> Sequence[Reject]:
        return [item for item in self.items if isinstance(item, Reject)]


def plan_of(dimension: Dimension, batch: int, differences: Sequence[tuple[SchemaChange, Policy]] = ()) -> MergePlan:
    evolution = Evolution(dimension.schema, tuple(differences))
    return make_plan(dimension, evolution=evolution, batch=batch, recalls=True, folds=True, folds_remembered=True)


@st.composite
def dimensions(draw: Callable[[st.SearchStrategy[T]], T], **options: Any) -> Dimension:
    key = draw(st.lists(SIMPLE | DECIMALS, min_size=1, max_size=2))
    found = draw(st.lists(st.sampled_from(ODD), min_size=1, max_size=4, unique_by=str.lower))
    keys = [Column(f"key{place}", type_) for place, type_ in enumerate(key)]
    schema = Schema((*keys, *(Column(name, draw(TYPES)) for name in found)))
    options.setdefault("sequences", draw(st.sampled_from(Sequences)))
    return Dimension(
        name=TableName("shop", "item"),
        schema=schema,
        key=tuple(column.name for column in keys),
        lateness=Unbounded(),
        **options,
    )


@st.composite
def drawn(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Drawn:
    dimension = draw(dimensions())
    others = [column for column in dimension.schema if column.name not in dimension.key]
    lacking = [
        SchemaChange(Kind.DROP, f"{column.name}.{part.name}", part.type, None, within=(column.name, part.name))
        if column.type.name == "struct" and (part := column.type.parts[0])
        else SchemaChange(Kind.DROP, column.name, column.type, None)
        for column in others
        if draw(st.integers(0, 3)) == 0
    ]
    plan = plan_of(dimension, BATCH, [(change, Policy.EVOLVE) for change in lacking])
    count = draw(st.integers(1, 4))
    return Drawn(plan, [draw(items(plan, Position(1, draw(places(dimension)), 7, row))) for row in range(count)])


def places(dimension: Dimension) -> st.SearchStrategy[int]:
    most = 10**38 - 1 if dimension.sequences.are_wide else 2**63 - 1
    return st.integers(-(2**63), most)


@st.composite
def items(draw: Callable[[st.SearchStrategy[Any]], Any], plan: MergePlan, place: Position) -> Item:
    what = draw(st.sampled_from([*Operation, Reason.CAST, Reason.TOO_LATE, None]))
    dimension, time = plan.dimension, draw(st.none() | st.integers(0, 2**60))
    if what is None:
        return None
    more = {"position": place, "time": time, "transaction": draw(st.sampled_from([None, "t1"]))}
    own, old = draw(keys(dimension)), draw(st.none() | keys(dimension))
    has_moved = old is not None and key(dimension, old) != key(dimension, own)
    if isinstance(what, Reason):
        every = [key(dimension, one) for one in ([old, own] if has_moved else [own])]
        return Reject(reason=what, keys=tuple(every) if what in HOLDING else (), detail=draw(st.text("ab")), **more)
    if what is Operation.TRUNCATE:
        return ChangeEvent(operation=what, **more)
    in_part = what is Operation.UPDATE
    cells_of = {
        column.name: own[column.name] if column.name in dimension.key else draw(cells(column.type, in_part=in_part))
        for column in dimension.schema
    }
    return ChangeEvent(
        operation=what,
        key=key(dimension, own),
        cells=lacked(plan, what, cells_of),
        old_key=key(dimension, old) if has_moved and in_part else None,
        **more,
    )


def keys(dimension: Dimension) -> st.SearchStrategy[Mapping[str, Any]]:
    types = {column.name: column.type for column in dimension.schema}
    return st.fixed_dictionaries({name: values(types[name]) for name in dimension.key})


def key(dimension: Dimension, own: Mapping[str, Any]) -> Key:
    found = key_of(own, dimension.key)
    assert found is not None
    return found


def lacked(plan: MergePlan, what: Operation, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return cells as they are to the core where the file lacks some: not sent on an update, else NULL."""
    nothing = UNSET if what is Operation.UPDATE else None
    found = {name: nothing if name in plan.evolution.absent else cell for name, cell in own.items()}
    for name, field in plan.evolution.lacking:
        if isinstance(found[name], dict):
            found[name] = {**found[name], field: nothing}
    return found


def told(event: ChangeEvent, columns: Sequence[str]) -> object:
    """Return all of an event that counts, so that it can be compared: a column that it lacks was not sent.

    Whether a delete sent a value or NULL, and not nothing, does not count.
    """
    own = [] if event.operation is Operation.TRUNCATE else [event.cells.get(name, UNSET) for name in columns]
    own = [canonical(nulls(cell) if event.operation is Operation.DELETE else cell) for cell in own]
    return (event.operation, event.position, event.key, own, event.old_key, event.transaction, event.time)


def own_columns(dimension: Dimension) -> Mapping[str, Type]:
    return {**{c.name: c.type for c in dimension.schema}, **remembered_types(dimension)}


def record_batch(plan: MergePlan, events: Sequence[ChangeEvent], waiting: Sequence[ChangeEvent] = ()) -> pa.Table:
    found = Entries(plan, CoreTexts(plan.dimension), [])
    found.add_changes(events)
    found.add_waiting(waiting)
    return found.rows(columns_of_entries(plan.dimension))


def columns_of_entries(dimension: Dimension) -> Mapping[str, Type]:
    return {
        **change_log.columns_of(dimension.sequences),
        **change_log.columns_in_part(dimension),
        **own_columns(dimension),
    }


def kept_of(entries: pa.Table, records: Mapping[int, BatchRecord] | None = None) -> Any:
    """Return what is kept of a table: these entries, of batches with these records."""
    batches = SimpleNamespace(records=records or {}, epoch=1, ordered_until=0)
    table = SimpleNamespace(columns=entries.column_names, rows=lambda *_: entries, pending={})
    return SimpleNamespace(change_log=SimpleNamespace(batches=batches, table=table))


def read_state(
    plan: MergePlan, entries: pa.Table, records: Mapping[int, BatchRecord] | None = None
) -> ChangeLogContents:
    kept = kept_of(entries, records)
    rows = entries.select(list(plan.dimension.key)).to_pylist()
    touched = [found for row in rows if (found := key_of(row, plan.dimension.key)) is not None]
    memory, _ = read_change_log(kept, plan, touched)
    return memory


@settings(max_examples=tries(50, 2000))
@given(found=drawn())
def test_a_frame_is_read_as_its_events_and_rejects(found: Drawn) -> None:
    batch = read_batch(event_frame(found.dimension, found.items, found.columns), found.plan)
    names_of = found.dimension.schema.names
    assert [told(event, names_of) for event in batch.events] == [told(event, names_of) for event in found.events]
    assert list(batch.rejects) == list(found.rejects)
    for item in (*batch.events, *batch.rejects):
        assert found.items[batch.places[item.position]].position == item.position


@settings(max_examples=tries(50, 2000))
@given(found=drawn())
def test_a_remembered_batch_is_the_batch_that_was_read(found: Drawn) -> None:
    events = read_batch(event_frame(found.dimension, found.items, found.columns), found.plan).events
    waiting = [event for event in events if event.transaction is not None]
    applied = [event for event in events if event not in waiting]
    memory = read_state(plan_of(found.dimension, NOW), record_batch(found.plan, applied, waiting))
    names_of = found.dimension.schema.names
    assert {
        place: (told(one.event, names_of), one.waiting, one.batch) for place, one in memory.changes.items()
    } == {event.position: (told(event, names_of), event.transaction is not None, BATCH) for event in events}


@settings(max_examples=tries(50, 2000))
@given(found=drawn(), data=st.data())
def test_all_entries_that_matter_are_read_and_few_others(found: Drawn, data: st.DataObject) -> None:
    entries = record_batch(found.plan, found.events)
    every = sorted({key for event in found.events for key in event.keys}, key=repr)
    touched = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    plan, read = plan_of(found.dimension, NOW), []

    def all_of(_kept: object, _plan: object, rows: pa.Table, _touched: object) -> pa.Table:
        return rows

    def near(*given_: Any) -> pa.Table:
        read.append(own(*given_))
        return read[-1]

    own = _Entries._near
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Entries, "_near", near)
        memory, joined = read_change_log(kept_of(entries), plan, touched)
        patch.setattr(_Entries, "_near", all_of)
        whole, joined_of_all = read_change_log(kept_of(entries), plan, touched)
    assert (memory.changes.keys(), joined) == (whole.changes.keys(), joined_of_all)
    firsts = {key[0] for key in joined}
    of_others = [
        event
        for event in found.events
        if event.old_key is None and event.operation is not Operation.TRUNCATE and event.key[0] not in firsts
    ]
    assert sum(rows.num_rows for rows in read) == len(found.events) - len(of_others)


@settings(max_examples=tries(50, 500))
@given(data=st.data(), dimension=dimensions())
def test_base_rows_of_other_keys_are_not_read(data: st.DataObject, dimension: Dimension) -> None:
    one, other = (key(dimension, data.draw(keys(dimension))) for _ in range(2))
    at = Position(1, data.draw(places(dimension)), 3, 4)
    found = Entries(plan_of(dimension, BATCH), CoreTexts(dimension), [])
    for own in {one, other}:
        cells_of_key = dict(zip(dimension.key, own, strict=True))
        cells_of = {c.name: cells_of_key.get(c.name) for c in dimension.schema}
        found.add_bases([BaseRow(own, Row(cells_of, at), BATCH)])
    rows = found.rows(columns_of_entries(dimension))
    near = _Entries._near(kept_of(rows), plan_of(dimension, NOW), rows, [one])
    assert near.num_rows == len({own for own in (one, other) if own[0] == one[0]})


@settings(max_examples=tries(50, 500))
@given(found=drawn())
def test_a_released_event_no_longer_waits(found: Drawn) -> None:
    events = [event for event in found.events if event.operation is not Operation.TRUNCATE]
    waits = Entries(found.plan, CoreTexts(found.plan.dimension), [])
    waits.add_waiting(events)
    released = Entries(plan_of(found.dimension, LATER), CoreTexts(found.dimension), [])
    released.add_released(events[:1])
    rows = [one.rows(columns_of_entries(found.dimension)) for one in (waits, released)]
    memory = read_state(plan_of(found.dimension, NOW), pa.concat_tables(rows))
    assert set(memory.changes) == {event.position for event in events[1:]}


@st.composite
def renamed(draw: Callable[[st.SearchStrategy[Any]], Any], found: Drawn) -> tuple[Mapping[str, str], bool]:
    """Return new names of some columns, and whether they come with the batch that recalls, or came before it."""
    others = [name for name in found.dimension.schema.names if name not in found.dimension.key]
    old = draw(st.lists(st.sampled_from(others), max_size=2, unique=True))
    return {name: f"new.{place}" for place, name in enumerate(old)}, draw(st.booleans())


@settings(max_examples=tries(50, 2000))
@given(data=st.data(), found=drawn())
def test_remembered_events_are_read_with_the_current_columns(data: st.DataObject, found: Drawn) -> None:
    renames, with_this = data.draw(renamed(found))
    fields = [column.name for column in found.dimension.schema if column.type.name == "struct"]
    grown = data.draw(st.sampled_from(fields)) if fields else None
    schema = schema_of_now(found.dimension.schema, renames, grown)
    added = [SchemaChange(Kind.ADD, "more", None, Type("int"))]
    if grown is not None:
        now = renames.get(grown, grown)
        added.append(SchemaChange(Kind.ADD, f"{now}.more", None, Type("int"), within=(now, "more")))
    came = data.draw(st.booleans())
    dimension = replace(found.dimension, schema=schema, policies=Policies(renames=renames if with_this else {}))
    record = BatchRecord((), None, {} if with_this else renames, added=added if came and not with_this else ())
    comes = [] if came and not with_this else [(change, Policy.EVOLVE) for change in added]
    plan = plan_of(dimension, NOW, comes)
    events = read_batch(event_frame(found.dimension, found.items, found.columns), found.plan).events
    entries = as_of_now(record_batch(found.plan, events), renames, dimension)
    memory = read_state(plan, entries, {LATER: record})
    assert {place: told(one.event, schema.names) for place, one in memory.changes.items()} == {
        event.position: told(event_of_now(event, renames, grown), schema.names) for event in events
    }


def schema_of_now(schema: Schema, renames: Mapping[str, str], grown: str | None) -> Schema:
    more = Column("more", Type("int"))
    made = [
        Column(
            renames.get(c.name, c.name), replace(c.type, parts=(*c.type.parts, more)) if c.name == grown else c.type
        )
        for c in schema
    ]
    return Schema((*made, more))


def as_of_now(entries: pa.Table, renames: Mapping[str, str], dimension: Dimension) -> pa.Table:
    """Return entries with the columns of now, as their table shows them: what was added is NULL in them."""
    types = {name: arrow_type(type_) for name, type_ in columns_of_entries(dimension).items()}
    found = {renames.get(name, name): entries[name].to_pylist() for name in entries.column_names}
    nothing = [None] * entries.num_rows
    return pa.table({name: pa.array(found.get(name, nothing), type_) for name, type_ in types.items()})


def event_of_now(event: ChangeEvent, renames: Mapping[str, str], grown: str | None) -> ChangeEvent:
    new = UNSET if event.operation is Operation.UPDATE else None
    own = {
        name: {**cell, "more": new} if name == grown and isinstance(cell, dict) else cell
        for name, cell in event.cells.items()
    }
    return replace(event, cells={**{renames.get(name, name): cell for name, cell in own.items()}, "more": new})


@settings(max_examples=tries(40, 1000))
@given(data=st.data(), dimension=dimensions())
def test_a_base_row_is_read_back_as_it_was_written(data: st.DataObject, dimension: Dimension) -> None:
    own = data.draw(keys(dimension))
    at = Position(1, data.draw(places(dimension)), 3, 4)
    others = {c.name: data.draw(cells(c.type)) for c in dimension.schema if c.name not in dimension.key}
    row = Row({**own, **others}, at)
    plan = plan_of(dimension, BATCH)
    found = Entries(plan, CoreTexts(plan.dimension), [])
    found.add_bases([BaseRow(key(dimension, own), row, BATCH), BaseRow(("none",), None, BATCH)])
    (base,) = read_state(plan_of(dimension, NOW), found.rows(columns_of_entries(dimension))).bases.values()
    assert (base.key, base.batch) == (key(dimension, own), BATCH)
    assert base.row is not None
    assert (canonical(dict(base.row.cells)), base.row.position) == (canonical(dict(row.cells)), at)


SHOWN = [
    ValidityColumns(),
    ValidityColumns(type=Type("date")),
    ValidityColumns(type=Type("date"), closed=True, open_end=2_932_896),
    ValidityColumns(type=Type("timestamp_ntz"), is_current=None),
    ValidityColumns(type=Type("bigint"), is_current=None, open_end=2**62),
    ValidityColumns(surrogate=Surrogate.HASH),
    ValidityColumns(surrogate=Surrogate.NUMBER),
]


@settings(max_examples=tries(50, 2000))
@given(data=st.data(), shown=st.sampled_from(SHOWN), previous_key=st.booleans())
def test_versions_are_read_back_as_stored(data: st.DataObject, shown: ValidityColumns, previous_key: bool) -> None:
    before = data.draw(st.sampled_from([*ODD, "other"]))
    history = History(validity_columns=shown, previous_key=previous_key, kinds={before: Does.PREVIOUS})
    dimension = data.draw(dimensions(history=history).filter(lambda one: not has_floating_key(one)))
    own = data.draw(keys(dimension))
    versions = tuple(data.draw(versions_of(dimension, own)))
    plan, this = plan_of(dimension, BATCH), key(dimension, own)
    numbers = {(this, one.valid_from): place for place, one in enumerate(versions)}
    rows = [*VersionWriter(dimension, history, BATCH, numbers).rows(this, versions, [])]
    types = {c.name: c.type for c in plan.stored.schema} | row_columns(dimension)
    wide = {
        names.SEQUENCE: lambda n: pa.scalar(n, pa.decimal128(38, 0)).as_py() if dimension.sequences.are_wide else n
    }
    stored = pa.table(
        {
            name: pa.array([wide.get(name, without_unset)(row.get(name)) for row in rows], arrow_type(type_))
            for name, type_ in types.items()
        }
    )
    reader = VersionReader.of(dimension, dimension.schema)
    assert reader is not None
    without_key = replace_all(versions, previous_key=previous_key)
    assert told_of(reader.versions(stored.to_pylist())) == told_of(without_key)
    found = Entries(plan, CoreTexts(plan.dimension), [])
    found.add_bases([BaseRow(this, row_of(versions), BATCH)])
    (base,) = read_state(plan_of(dimension, NOW), found.rows(columns_of_entries(dimension))).bases.values()
    assert base.row is not None
    assert told_of(base.row.versions) == told_of(versions)


class CoreTexts(KeyTexts):
    """The texts of keys as the core writes them, also where the digits of Java differ."""

    __slots__ = ()

    def text(self, key: Key) -> str:
        return key_text(self.dimension, key)


def has_floating_key(dimension: Dimension) -> bool:
    return any(c.name in dimension.key and c.type.is_floating for c in dimension.schema)


def replace_all(versions: Sequence[Version], *, previous_key: bool) -> Sequence[Version]:
    """Return versions as a table shows them, which says of which key they came where it is to."""
    return [one if previous_key else replace(one, previous_key=None) for one in versions]


@st.composite
def versions_of(draw: Callable[[st.SearchStrategy[Any]], Any], dimension: Dimension, own: Mapping[str, Any]) -> Any:
    """Return versions of a key, in order: each begins where the one before ends, or later."""
    assert dimension.history is not None
    at = sorted(draw(st.lists(st.integers(-700_000, 2_000_000), min_size=1, max_size=4, unique=True)))
    reader = VersionReader.of(dimension, dimension.schema)
    assert reader is not None
    for place, begins in enumerate(at):
        follows = at[place + 1] if place + 1 < len(at) else None
        ends = draw(st.sampled_from([follows, begins + 1]))
        yield Version(
            valid_from=begins,
            valid_to=ends,
            cells={c.name: own[c.name] if c.name in own else draw(cells(c.type)) for c in dimension.schema},
            position=Position(1, draw(places(dimension)), 7, place),
            reached=draw(st.integers(-(2**63), 2**63 - 1)),
            deleted=ends is not None and ends != follows,
            previous={name: draw(cells(type_of(dimension, name))) for name in reader.previous},
            previous_key=draw(st.none() | keys(dimension).map(lambda one: key(dimension, one))),
        )


def type_of(dimension: Dimension, name: str) -> Type:
    column = dimension.schema.find(name)
    assert column is not None
    return column.type


def told_of(versions: Sequence[Version]) -> object:
    return [replace(one, cells={}, previous={}) for one in versions], [
        (canonical(dict(one.cells)), canonical(dict(one.previous))) for one in versions
    ]


@settings(max_examples=tries(40, 1000))
@given(data=st.data(), dimension=dimensions())
def test_keys_are_rows_that_spark_finds(data: st.DataObject, dimension: Dimension) -> None:
    own = data.draw(st.lists(keys(dimension), max_size=3))
    listed = [key(dimension, one) for one in own]
    rows = key_rows(listed, dimension).to_pylist()
    assert [key_of(row, dimension.key) for row in rows] == listed
    assert [raw(one, dimension).keys() for one in listed] == [row.keys() for row in rows]
