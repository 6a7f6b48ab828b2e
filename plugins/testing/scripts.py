"""Scripts: what is delivered to a table under test, batch by batch, and what must stand in it at the end.

Many random histories are packed into one table, whose key begins with the number of the
history, so that one job of a slow engine carries them all.
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
"""Histories are spoilt by chance, and a batch of them by more than a table takes by default."""


@dataclass(frozen=True)
class Script:
    """What is delivered, batch by batch; after each, some entries of the quarantine are settled.

    `settles` is the chance for each entry; whatever is left at the end is settled then. Those in
    `fixes` are mended, into the events that they should have been; the others are given up.
    `loaded_with` is the number of the delivery with which all full loads are complete,
    `believed` the latest source time that is; `in_part` says that there may be cells that
    are not sent, and key changes. Delivery `reloaded_with` is a full load that begins epoch 2.
    `columns` are those of the files of a delivery, where they are not those of the dimension. Each delivery
    comes so many microseconds after the one before: a `pause`.
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
        """Return the dimension with the columns of its table once so many deliveries arrived: none goes."""
        found = [self.dimension.schema, *(self.columns[n] for n in range(arrived) if n in self.columns)]
        types = {column.name: column.type for schema in found for column in schema}
        return replace(self.dimension, schema=Schema(tuple(Column(name, type_) for name, type_ in types.items())))

    @property
    def truth(self) -> Rows:
        """What the model makes of all events that are not given up."""
        if not self.dimension.key:
            facts = [e for e in self.events if e.operation in (Operation.INSERT, Operation.READ)]
            return {tuple(e.position): (dict(e.cells), e.position) for e in facts}
        return stored_rows(self.dimension, apply(self.dimension, {}, self.events).rows)


def stored_rows(dimension: Dimension, rows: Mapping[Key, Row]) -> Rows:
    """Return the rows of a mirror as its table has them: those that went say so, where deletes are soft."""
    stay = {key: row for key, row in rows.items() if not (row.is_bare if dimension.is_soft else row.deleted)}
    found = {key: {name: row.cells.get(name) for name in dimension.schema.names} for key, row in stay.items()}
    told = {key: {DELETED: row.deleted} if dimension.is_soft else {} for key, row in stay.items()}
    return {key: ({**found[key], **told[key]}, row.position) for key, row in stay.items()}


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
    """Return a script in which so many databases live side by side; `unset`: updates may lack cells.

    With `truncates` the first of them truncates the table, now and then.

    Of a table with a key, some objects are delivered again; without one, a copy under
    another name is a fact of its own, so there are none. Of the bad rows, so many are `fixed`.
    """
    dimension = Dimension(name=NAME, schema=PACKED, key=tuple(key), lateness=ORDERED, tolerance=TOLERANT)
    deliveries: list[list[Item]] = []
    good: list[ChangeEvent] = []
    rejects: dict[Position, Reject] = {}
    fixes: dict[Position, ChangeEvent] = {}
    for history in range(histories):
        features = Features(
            sequence=random.choice(["commit", "unique", "none"]),
            unset=unset,
            truncates=truncates and not history,
            load=random.random() < 0.5,
            transactions=16,
        )
        source = feed(random, features)
        objects = {n: [_of(history, event) for event in events] for n, events in source.objects.items()}
        spoilt = _spoilt(random, objects, bad)
        rejects |= {e.position: _rejected(e) for events in objects.values() for e in events if e.position in spoilt}
        repaired = _to_be_fixed(random, objects, spoilt, fixed, rejects, has_key=bool(key))
        fixes |= repaired
        whole = {n for n, events in objects.items() if not any(e.position in spoilt for e in events)}
        order, seen = [], set[int]()
        for number in with_repeats(random, sorted(source.objects), 0.25 if key else 0.0):
            if fixed or number in whole or number not in seen:
                order.append(number)
                seen.add(number)
        for index, batch in enumerate(batches(random, order)):
            deliveries += [[] for _ in range(index + 1 - len(deliveries))]
            for event in (event for number in sorted(set(batch)) for event in objects[number]):
                deliveries[index].append(rejects.get(event.position, event))
        good += [e for events in objects.values() for e in events if e.position not in spoilt]
    return Script(dimension, deliveries, [*good, *fixes.values()], settles, fixes)


def _to_be_fixed(
    random: Random,
    objects: Mapping[int, Sequence[ChangeEvent]],
    spoilt: Set[Position],
    share: float,
    rejects: dict[Position, Reject],
    *,
    has_key: bool,
) -> dict[Position, ChangeEvent]:
    """Choose spoilt events that a person will mend, by where they wait, and give them a reason that allows it."""
    fixes: dict[Position, ChangeEvent] = {}
    for event in (e for events in objects.values() for e in events if e.position in spoilt):
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
    """Return a script in which objects come in any order that the lateness allows, or (`too_late`) in any.

    Its databases commit by one clock. Some objects are delivered again. With `in_part`, some
    cells are not sent, and keys change where a table is not `ordered`; with `truncates` the
    first database truncates the table. With `renamed`, sequences
    are unique, and so many objects of changes come under another name as well. Of so many
    transactions as are `untold` the feed says nothing, so that no rule decides some key changes.
    """
    dimension = Dimension(
        name=NAME,
        schema=PACKED,
        key=("h", "id"),
        lateness=lateness,
        tolerance=TOLERANT,
        sequences=Sequences.UNIQUE if renamed else Sequences.TIMES,
    )
    load = 0.0 if too_late else random.choice([0.0, 0.3])
    objects: dict[int, list[ChangeEvent]] = {}
    loads: set[int] = set()
    for history in range(histories):
        scatter = isinstance(lateness, Unbounded) and random.random() < 0.5
        features = Features(
            load=random.random() < load,
            overlap=not in_part,
            transactions=16,
            scatter=scatter,
            sequence="unique" if renamed else "commit",
            unset=in_part,
            truncates=truncates and not history,
            moves=in_part and not isinstance(lateness, Ordered),
        )
        source = feed(random, features)
        packed = _packed(random, history, source, keeps_transactions=in_part, untold=untold)
        objects |= _numbered_as_dms(packed, history) if renamed else packed
        loads |= {history * OBJECTS_A_HISTORY + number for number in source.loads if source.objects[number]}
    spoilt = _spoilt(random, objects, bad)
    rejects = {e.position: _rejected(e) for events in objects.values() for e in events if e.position in spoilt}
    fixes = _to_be_fixed(random, objects, spoilt, fixed, rejects, has_key=True)
    objects |= _copies(random, {n: events for n, events in objects.items() if n not in loads}, renamed)
    order = delivery_order(random, objects, Unbounded() if too_late else lateness)
    order.sort(key=lambda number: number not in sorted(loads)[:1])  # that a load has begun is known by its rows
    come = batches(random, with_repeats(random, order, 0.1), 3 if too_late else 12)
    deliveries = [_delivery({number: objects[number] for number in batch}, rejects) for batch in come]
    loaded_with = max((min(n for n, batch in enumerate(come) if load in batch) for load in loads), default=0)
    good = [event for events in objects.values() for event in events if event.position not in spoilt]
    if renamed:
        good = _first_delivered(deliveries)
    return Script(dimension, deliveries, [*good, *fixes.values()], 0.2, fixes, loaded_with, in_part)


def _packed(
    random: Random, history: int, source: Feed, *, keeps_transactions: bool, untold: float
) -> dict[int, list[ChangeEvent]]:
    """Return the objects of a database under names of its own; of so many transactions nothing is said."""
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
    """Return copies of so many objects, each under a name that lies before or behind all others."""
    numbers = [number for number in objects if share and random.random() < share]
    names = {random.choice([-1, 1]) * (OTHER_NAMES + number): number for number in numbers}
    return {name: under_another_name(objects[number], name) for name, number in names.items()}


def _delivery(objects: Mapping[int, Sequence[ChangeEvent]], rejects: Mapping[Position, Reject]) -> list[Item]:
    """Return what a batch of objects brings, in order; those that are spoilt as what is rejected."""
    listed = sorted({(event.position, number) for number, events in objects.items() for event in events})
    by_place = {event.position: event for events in objects.values() for event in events}
    return [rejects.get(place, by_place[place]) for place, _ in listed]


def pack_reloaded(random: Random, first: Script, histories: int, *, bad: float = 0.0, fixed: float = 0.0) -> Script:
    """Return a script that goes on, in epoch 2, with other databases, under names that were there before.

    A full load of all of them comes as one delivery; then changes come in any order that the lateness allows.
    """
    lateness, in_part = first.dimension.lateness, first.in_part
    ended = max((item.time for items in first.deliveries for item in items if item.time is not None), default=0)
    objects: dict[int, list[ChangeEvent]] = {}
    loads: list[int] = []
    for history in range(histories):
        features = Features(overlap=not in_part, unset=in_part, moves=in_part, transactions=12)
        rows = {key: {"a": random.randrange(3), "b": 0} for key in range(1, 3)}  # of no rows no object would tell
        source = feed(random, features, epoch=2, after=Feed({}, [], rows, ended))
        names = {number: history * OBJECTS_A_HISTORY + number for number in source.objects}
        loads += [names[number] for number in source.loads]
        for number, events in source.objects.items():
            objects[names[number]] = [_of(history, event, keeps_transaction=in_part) for event in events]
    spoilt = _spoilt(random, objects, bad)
    rejects = {e.position: _rejected(e) for events in objects.values() for e in events if e.position in spoilt}
    fixes = _to_be_fixed(random, objects, spoilt, fixed, rejects, has_key=bool(first.dimension.key))
    order = delivery_order(random, {n: e for n, e in objects.items() if n not in loads}, lateness)
    order = with_repeats(random, order, 0.1) if first.dimension.key else order
    deliveries = [
        [rejects.get(event.position, event) for number in sorted(set(batch)) for event in objects[number]]
        for batch in [loads, *batches(random, order, 12)]
    ]
    good = [event for events in objects.values() for event in events if event.position not in spoilt]
    return replace(
        first,
        deliveries=[*first.deliveries, *deliveries],
        events=[*good, *fixes.values()],
        fixes={**first.fixes, **fixes},
        reloaded_with=len(first.deliveries),
    )


def _first_delivered(deliveries: Sequence[Sequence[Item]]) -> list[ChangeEvent]:
    """Return of each fact the event that came first; those of a full load are facts by their place."""
    first: dict[object, ChangeEvent] = {}
    for item in (item for items in deliveries for item in items):
        if isinstance(item, ChangeEvent):
            fact = item.position if item.is_load else (item.position.mark, item.keys, item.operation)
            first.setdefault(fact, item)
    return list(first.values())


def _spoilt(random: Random, objects: Mapping[int, Sequence[ChangeEvent]], share: float) -> Set[Position]:
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
    """A value that does not fit holds the key; a row without a key holds nothing."""
    if sum(event.position) % 3:
        return Reject(event.position, Reason.CAST, event.keys, event.transaction, event.time)
    return Reject(event.position, Reason.NULL_KEY, time=event.time)
