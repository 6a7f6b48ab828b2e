"""Scripts: the deliveries to a table under test, batch by batch, and the rows that it must have at the end.

Many random histories are packed into one table, whose key begins with the number of the history. So one job of a
slow engine applies them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from lakeward.core.dimension import DELETED, ORDERED, Dimension, Lateness, Ordered, TableName, Tolerance, Unbounded
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Key, Operation, Position, Sequences
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.fold import Row, apply
from lakeward.core.schema import Column, Schema, Type
from lakeward.plugins.testing.simulated_database import (
    SCHEMA,
    Features,
    Feed,
    batches,
    delivery_order,
    feed,
    under_another_name,
    with_repeats,
)

Item = ChangeEvent | Reject
Rows = Mapping[Key, tuple[Mapping[str, Any], Position]]

PACKED = Schema((Column("h", Type("int")), *SCHEMA))
NAME = TableName("shop", "item")
OBJECTS_A_HISTORY = 100
OTHER_NAMES = 100_000
FIRST_NUMBER = 20261121_09145207 * 10**19
TOLERANT = Tolerance(max_share=1.0, max_rows=1_000_000)
"""Random histories have more bad rows in a batch than a table accepts by default."""


@dataclass(frozen=True)
class Script:
    """The deliveries to a table. After each, some entries of the quarantine are settled.

    - `deliveries`: the events and rejects of each batch. `events`: those that must be in the table at the end.
    - `settles`: the chance that an entry is settled after a delivery. All are settled at the end.
    - `fixes`: the repaired events by position. Entries without one are discarded.
    - `loaded_with`: the number of the delivery that completes all full loads.
    - `in_part`: whether there may be partial rows and key changes.
    - `believed`: the latest source time that is not taken for an error.
    - `reloaded_with`: the number of the delivery that is a full load and begins epoch 2.
    - `columns`: the columns of the files of a delivery, if they are not those of the dimension.
    - `pause`: the microseconds between two deliveries.
    """

    dimension: Dimension
    deliveries: Sequence[Sequence[Item]]
    events: Sequence[ChangeEvent]
    settles: float = 0.0
    fixes: Mapping[Position, ChangeEvent] = field(default_factory=dict)
    loaded_with: int = 0
    in_part: bool = False
    believed: int | None = None
    reloaded_with: int | None = None
    columns: Mapping[int, Schema] = field(default_factory=dict)
    pause: int = 0

    def table_after(self, arrived: int) -> Dimension:
        """Return the dimension with the columns of its table after so many deliveries. No column is dropped."""
        schemas = [self.dimension.schema, *(self.columns[n] for n in range(arrived) if n in self.columns)]
        types = {column.name: column.type for schema in schemas for column in schema}
        return replace(self.dimension, schema=Schema(tuple(Column(name, type_) for name, type_ in types.items())))

    @property
    def truth(self) -> Rows:
        """The rows that the model has after all events that are not discarded."""
        if not self.dimension.key:
            facts = [e for e in self.events if e.operation in (Operation.INSERT, Operation.READ)]
            return {tuple(e.position): (dict(e.cells), e.position) for e in facts}
        return stored_rows(self.dimension, apply(self.dimension, {}, self.events).rows)


def stored_rows(dimension: Dimension, rows: Mapping[Key, Row]) -> Rows:
    """Return the rows of a mirror as its table has them, with the deleted flag if deletes are soft."""
    stored = {key: row for key, row in rows.items() if not (row.is_bare if dimension.is_soft else row.deleted)}
    cells = {key: {name: row.cells.get(name) for name in dimension.schema.names} for key, row in stored.items()}
    flags = {key: {DELETED: row.deleted} if dimension.is_soft else {} for key, row in stored.items()}
    return {key: ({**cells[key], **flags[key]}, row.position) for key, row in stored.items()}


def pack(
    random: Random,
    histories: int,
    *,
    bad: float = 0.0,
    settles: float = 0.3,
    fixed: float = 0.0,
    key: Sequence[str] = ("h", "id"),
    unset: bool = False,
    truncates: bool = False,
) -> Script:
    """Return a script that packs so many source databases into an ordered table.

    - `bad`: the share of rows that cannot be applied. `fixed`: the share of them that is repaired.
    - `unset`: whether updates may lack cells. `truncates`: whether the first database truncates the table.

    With a key, some objects are delivered again. Without one, a copy under another name would be another fact.
    """
    dimension = _packed_table(key, ORDERED)
    deliveries: list[list[Item]] = []
    good: list[ChangeEvent] = []
    rejects: dict[Position, Reject] = {}
    fixes: dict[Position, ChangeEvent] = {}
    for history in range(histories):
        source = feed(random, _features(random, unset=unset, truncates=truncates and not history))
        objects = {n: [_of(history, event) for event in events] for n, events in source.objects.items()}
        bad_places = _spoil(random, objects, bad)
        by_place = {event.position: event for events in objects.values() for event in events}
        rejects |= {place: _rejected(by_place[place]) for place in sorted(bad_places)}
        repaired = _to_be_fixed(random, objects, bad_places, fixed, rejects, has_key=bool(key))
        fixes |= repaired
        spoilt = {n for n, events in objects.items() if any(e.position in bad_places for e in events)}
        repeated = with_repeats(random, sorted(source.objects), 0.25 if key else 0.0)
        order = repeated if fixed else _without_repeats_of(spoilt, repeated)
        for index, batch in enumerate(batches(random, order)):
            deliveries += [[] for _ in range(index + 1 - len(deliveries))]
            for event in (event for number in sorted(set(batch)) for event in objects[number]):
                deliveries[index].append(rejects.get(event.position, event))
        good += [e for events in objects.values() for e in events if e.position not in bad_places]
    return Script(dimension, deliveries, [*good, *fixes.values()], settles, fixes)


def _packed_table(key: Sequence[str], lateness: Lateness) -> Dimension:
    return Dimension(name=NAME, schema=PACKED, key=tuple(key), lateness=lateness, tolerance=TOLERANT)


def _features(random: Random, *, unset: bool, truncates: bool) -> Features:
    """Return random features of a source database for `pack`."""
    return Features(
        sequence=random.choice(["commit", "unique", "none"]),
        unset=unset,
        truncates=truncates,
        load=random.random() < 0.5,
        transactions=16,
    )


def _without_repeats_of(spoilt: Set[int], order: Sequence[int]) -> Sequence[int]:
    """Return the order of objects, in which those that are `spoilt` come once."""
    return [number for place, number in enumerate(order) if number not in spoilt or number not in order[:place]]


def _to_be_fixed(
    random: Random,
    objects: Mapping[int, Sequence[ChangeEvent]],
    bad_places: Set[Position],
    share: float,
    rejects: dict[Position, Reject],
    *,
    has_key: bool,
) -> dict[Position, ChangeEvent]:
    """Choose bad events to repair, and give their rejects a reason that allows it. Returns events by position."""
    fixes: dict[Position, ChangeEvent] = {}
    for event in (e for events in objects.values() for e in events if e.position in bad_places):
        is_row = event.operation in (Operation.INSERT, Operation.READ)
        if random.random() < share and (is_row or has_key):
            position, reasons = event.position, [Reason.CAST, Reason.OPERATION]
            if not event.is_load and position.sequence:
                reasons.append(Reason.SEQUENCE)
            reason = random.choice(reasons)
            if reason is Reason.SEQUENCE:
                position = position._replace(sequence=LOAD_SEQUENCE)
            rejects[event.position] = Reject(position, reason, event.keys, time=event.time)
            fixes[position] = event
    return fixes


def pack_late(
    random: Random,
    histories: int,
    lateness: Lateness,
    *,
    bad: float = 0.0,
    fixed: float = 0.0,
    too_late: bool = False,
    in_part: bool = False,
    truncates: bool = False,
    renamed: float = 0.0,
    untold: float = 0.0,
) -> Script:
    """Return a script whose objects come in any order that the lateness allows, some of them again.

    - `bad`, `fixed`, `truncates`: as in `pack`.
    - `too_late`: objects come in any order, so that some events are too late.
    - `in_part`: some cells are not sent, and keys change unless the table is ordered.
    - `renamed`: this share of the objects comes under another name as well; sequences are unique.
    - `untold`: the share of transactions that the feed does not name, so that some key changes are undecided.
    """
    sequences = Sequences.UNIQUE if renamed else Sequences.TIMES
    dimension = replace(_packed_table(("h", "id"), lateness), sequences=sequences)
    load = 0.0 if too_late else random.choice([0.0, 0.3])
    objects, loads = _late_objects(
        random,
        histories,
        lateness,
        load,
        in_part=in_part,
        is_renamed=bool(renamed),
        truncates=truncates,
        untold=untold,
    )
    bad_places = _spoil(random, objects, bad)
    rejects = {e.position: _rejected(e) for events in objects.values() for e in events if e.position in bad_places}
    fixes = _to_be_fixed(random, objects, bad_places, fixed, rejects, has_key=True)
    objects |= _copies(random, {n: events for n, events in objects.items() if n not in loads}, renamed)
    come = _late_batches(random, objects, loads, lateness, too_late=too_late)
    deliveries = [_delivery({number: objects[number] for number in batch}, rejects) for batch in come]
    loaded_with = max((min(n for n, batch in enumerate(come) if load in batch) for load in loads), default=0)
    good = [event for events in objects.values() for event in events if event.position not in bad_places]
    if renamed:
        good = _first_delivered(deliveries)
    return Script(dimension, deliveries, [*good, *fixes.values()], 0.2, fixes, loaded_with, in_part)


def _late_batches(
    random: Random,
    objects: Mapping[int, Sequence[ChangeEvent]],
    loads: Set[int],
    lateness: Lateness,
    *,
    too_late: bool,
) -> Sequence[Sequence[int]]:
    """Return the objects of each delivery, some of them again."""
    order = delivery_order(random, objects, Unbounded() if too_late else lateness)
    order.sort(key=lambda number: number not in sorted(loads)[:1])  # only its rows say that a load has begun
    return batches(random, with_repeats(random, order, 0.1), 3 if too_late else 12)


def _late_objects(
    random: Random,
    histories: int,
    lateness: Lateness,
    load: float,
    *,
    in_part: bool,
    is_renamed: bool,
    truncates: bool,
    untold: float,
) -> tuple[dict[int, list[ChangeEvent]], set[int]]:
    """Return the objects of so many databases, and which of them are of a full load."""
    objects: dict[int, list[ChangeEvent]] = {}
    loads: set[int] = set()
    for history in range(histories):
        features = _late_features(random, lateness, load, in_part=in_part, is_unique=is_renamed)
        source = feed(random, replace(features, truncates=truncates and not history))
        packed = _packed(random, history, source, keeps_transactions=in_part, untold=untold)
        objects |= _numbered_as_dms(packed, history) if is_renamed else packed
        loads |= {history * OBJECTS_A_HISTORY + number for number in source.loads if source.objects[number]}
    return objects, loads


def _late_features(random: Random, lateness: Lateness, load: float, *, in_part: bool, is_unique: bool) -> Features:
    """Return random features of a source database for `pack_late`; this share of the databases has a full load."""
    scatter = isinstance(lateness, Unbounded) and random.random() < 0.5
    return Features(
        load=random.random() < load,
        overlap=not in_part,
        transactions=16,
        scatter=scatter,
        sequence="unique" if is_unique else "commit",
        unset=in_part,
        moves=in_part and not isinstance(lateness, Ordered),
    )


def _packed(
    random: Random, history: int, source: Feed, *, keeps_transactions: bool, untold: float
) -> dict[int, list[ChangeEvent]]:
    """Return the objects of a database under its own names. This share of its transactions is not named."""
    transactions = sorted({e.transaction for e in source.events}, key=str) if untold else []
    hidden = {transaction for transaction in transactions if random.random() < untold}
    return {
        history * OBJECTS_A_HISTORY + number: [
            _of(history, event, keeps_transaction=keeps_transactions and event.transaction not in hidden)
            for event in events
        ]
        for number, events in source.objects.items()
    }


def _copies(
    random: Random, objects: Mapping[int, Sequence[ChangeEvent]], share: float
) -> dict[int, list[ChangeEvent]]:
    """Return copies of this share of the objects, each under a name before or after all others."""
    numbers = [number for number in objects if share and random.random() < share]
    names = {random.choice([-1, 1]) * (OTHER_NAMES + number): number for number in numbers}
    return {name: under_another_name(objects[number], name) for name, number in names.items()}


def _delivery(objects: Mapping[int, Sequence[ChangeEvent]], rejects: Mapping[Position, Reject]) -> list[Item]:
    """Return the items of a batch of objects in position order, bad ones as rejects."""
    listed = sorted({(event.position, number) for number, events in objects.items() for event in events})
    by_place = {event.position: event for events in objects.values() for event in events}
    return [rejects.get(place, by_place[place]) for place, _ in listed]


def pack_reloaded(random: Random, first: Script, histories: int, *, bad: float = 0.0, fixed: float = 0.0) -> Script:
    """Return a script that continues `first` in epoch 2, with other databases under the same object names.

    A full load of all of them is one delivery. Then changes come in any order that the lateness allows.
    """
    lateness, in_part = first.dimension.lateness, first.in_part
    ended = max((item.time for items in first.deliveries for item in items if item.time is not None), default=0)
    objects: dict[int, list[ChangeEvent]] = {}
    loads: list[int] = []
    for history in range(histories):
        features = Features(overlap=not in_part, unset=in_part, moves=in_part, transactions=12)
        rows = {key: {"a": random.randrange(3), "b": 0} for key in range(1, 3)}  # no rows would give no object
        source = feed(random, features, epoch=2, after=Feed({}, [], rows, ended))
        names = {number: history * OBJECTS_A_HISTORY + number for number in source.objects}
        loads += [names[number] for number in source.loads]
        for number, events in source.objects.items():
            objects[names[number]] = [_of(history, event, keeps_transaction=in_part) for event in events]
    bad_places = _spoil(random, objects, bad)
    rejects = {e.position: _rejected(e) for events in objects.values() for e in events if e.position in bad_places}
    fixes = _to_be_fixed(random, objects, bad_places, fixed, rejects, has_key=bool(first.dimension.key))
    order = delivery_order(random, {n: e for n, e in objects.items() if n not in loads}, lateness)
    order = with_repeats(random, order, 0.1) if first.dimension.key else order
    deliveries = [
        [rejects.get(event.position, event) for number in sorted(set(batch)) for event in objects[number]]
        for batch in [loads, *batches(random, order, 12)]
    ]
    good = [event for events in objects.values() for event in events if event.position not in bad_places]
    return replace(
        first,
        deliveries=[*first.deliveries, *deliveries],
        events=[*good, *fixes.values()],
        fixes={**first.fixes, **fixes},
        reloaded_with=len(first.deliveries),
    )


def _first_delivered(deliveries: Sequence[Sequence[Item]]) -> list[ChangeEvent]:
    """Return the first event of each fact. Rows of a full load are facts by their position."""
    first: dict[object, ChangeEvent] = {}
    for item in (item for items in deliveries for item in items):
        if isinstance(item, ChangeEvent):
            fact = item.position if item.is_load else (item.position.source_order, item.keys, item.operation)
            first.setdefault(fact, item)
    return list(first.values())


def _spoil(random: Random, objects: Mapping[int, Sequence[ChangeEvent]], share: float) -> Set[Position]:
    """Choose rows that will be damaged; a truncate is none."""
    return {e.position for events in objects.values() for e in events if random.random() < share and e.keys}


def _of(history: int, event: ChangeEvent, *, keeps_transaction: bool = True) -> ChangeEvent:
    position = event.position._replace(object=history * OBJECTS_A_HISTORY + event.position.object)
    if not event.keys:
        return replace(event, position=position)
    return replace(
        event,
        position=position,
        key=(history, *(event.key or ())),
        cells={"h": history, **event.cells},
        old_key=None if event.old_key is None else (history, *event.old_key),
        transaction=(history, event.transaction) if keeps_transaction else None,
    )


def _numbered_as_dms(objects: Mapping[int, Sequence[ChangeEvent]], history: int) -> dict[int, list[ChangeEvent]]:
    """Give each change a number of 35 digits, its own, which rises with the commit times of all databases."""
    return {name: [_with_number(event, history) for event in events] for name, events in objects.items()}


def _with_number(event: ChangeEvent, history: int) -> ChangeEvent:
    if event.is_load:
        return event
    number = FIRST_NUMBER + 100_000 * (event.time or 0) + 100 * event.position.sequence + history
    return replace(event, position=event.position._replace(sequence=number))


def _rejected(event: ChangeEvent) -> Reject:
    """Return the reject of an event: a failed cast, which holds its key, or a NULL key, which holds nothing."""
    if sum(event.position) % 3:
        return Reject(event.position, Reason.CAST, event.keys, event.transaction, event.time)
    return Reject(event.position, Reason.NULL_KEY, time=event.time)
