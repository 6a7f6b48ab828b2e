"""Random feeds of a simulated source database, for the laws.

A database runs random transactions. What change data capture would send of them becomes objects of events, with
everything that the semantics allow: ties, cells that are not sent, key changes, swaps and shifts, truncates, full
loads that overlap with changes, and reloads. A table must end with the rows of the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from lakeward.core.dimension import ORDERED, Dimension, Lateness, Ordered, TableName, Unbounded, Within
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Key, Operation, Position, Sequences
from lakeward.core.merge.fold import Row
from lakeward.core.schema import Column, Schema, Type

SCHEMA = Schema(tuple(Column(name, Type("int")) for name in ("id", "a", "b")))
Image = dict[str, int]
State = dict[int, Image]


@dataclass(frozen=True, kw_only=True)
class Features:
    """What a feed may have. `sequence` is "commit", "unique" (per event) or "none"."""

    sequence: str = "commit"
    unset: bool = False
    moves: bool = False
    truncates: bool = False
    load: bool = False
    overlap: bool = True
    scatter: bool = False
    transactions: int = 12
    keys: int = 4

    def dimension(self, lateness: Lateness = ORDERED) -> Dimension:
        """Return the table of such a feed."""
        return Dimension(
            name=TableName("shop", "item"),
            schema=SCHEMA,
            key=("id",),
            lateness=lateness,
            sequences=Sequences.UNIQUE if self.sequence == "unique" else Sequences.TIMES,
        )


@dataclass(frozen=True)
class Change:
    """One statement's effect on one row; `old` is set where its key changed."""

    operation: Operation
    key: int = 0
    image: Mapping[str, int] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    old: int | None = None


@dataclass
class Feed:
    """Objects of events by number, the numbers of the full load, and the rows of the database at the end.

    `states` are the rows when the capture began, at time `began`, and after each later transaction. Transactions
    are one microsecond apart.
    """

    objects: dict[int, list[ChangeEvent]]
    loads: list[int]
    final: State
    ended: int
    began: int = 0
    states: Sequence[State] = ()

    @property
    def events(self) -> list[ChangeEvent]:
        """All events, object by object."""
        return [event for events in self.objects.values() for event in events]


class Database:
    """A table with a key and two columns, and the log of its transactions."""

    def __init__(self, random: Random, features: Features, rows: State) -> None:
        self.random = random
        self.features = features
        self.rows = {key: dict(image) for key, image in rows.items()}
        self.log: list[list[Change]] = []
        self.states = [self.copy()]
        self.counter = 0

    def copy(self) -> State:
        """Return a copy of the current rows."""
        return {key: dict(image) for key, image in self.rows.items()}

    def run_transaction(self) -> None:
        """Run one random transaction."""
        chance = self.random.random()
        if self.features.moves and chance < 0.15 and self.rows:
            changes = self.shift()
        elif self.features.moves and chance < 0.22 and len(self.rows) > 1:
            changes = self.swap()
        elif self.features.truncates and chance < 0.27:
            self.rows.clear()
            changes = [Change(Operation.TRUNCATE)]
        else:
            changes = [self.statement() for _ in range(self.random.randrange(1, 4))]
        self.log.append(changes)
        self.states.append(self.copy())

    def value(self) -> int:
        """Return a new value, or now and then an old one."""
        self.counter += 1
        return self.counter if self.random.random() < 0.8 else self.random.randrange(3)

    def shift(self) -> list[Change]:
        """Run `UPDATE t SET id = id + 1`, with the rows in any order."""
        keys = list(self.rows)
        self.random.shuffle(keys)
        self.rows = {key + 1: image for key, image in self.rows.items()}
        return [Change(Operation.UPDATE, key + 1, dict(self.rows[key + 1]), (), key) for key in keys]

    def swap(self) -> list[Change]:
        """Exchange the keys of two rows."""
        one, other = self.random.sample(sorted(self.rows), 2)
        self.rows[one], self.rows[other] = self.rows[other], self.rows[one]
        return [
            Change(Operation.UPDATE, other, dict(self.rows[other]), (), one),
            Change(Operation.UPDATE, one, dict(self.rows[one]), (), other),
        ]

    def statement(self) -> Change:
        """Insert, delete, move or update one row."""
        key = self.random.randrange(1, self.features.keys + 1)
        chance = self.random.random()
        if key not in self.rows:
            self.rows[key] = {"a": self.value(), "b": self.value()}
            return Change(Operation.INSERT, key, dict(self.rows[key]))
        if chance < 0.25:
            return Change(Operation.DELETE, key, self.rows.pop(key))
        if self.features.moves and chance < 0.4 and len(self.rows) < 6:
            return self.move(key)
        return self.update(key)

    def move(self, key: int) -> Change:
        """Change the key of a row, and perhaps a cell."""
        free = self.random.choice([new for new in range(1, 9) if new not in self.rows])
        image = self.rows.pop(key)
        unset = tuple(column for column in "ab" if self.features.unset and self.random.random() < 0.5)
        image.update({column: self.value() for column in "ab" if column not in unset})
        self.rows[free] = image
        return Change(Operation.UPDATE, free, dict(image), unset, key)

    def update(self, key: int) -> Change:
        """Change some cells, or none."""
        changed = self.random.choice(["", "a", "b", "ab"])
        self.rows[key].update({column: self.value() for column in changed})
        unset = tuple(column for column in "ab" if column not in changed)
        send_all = not self.features.unset or self.random.random() < 0.4
        return Change(Operation.UPDATE, key, dict(self.rows[key]), () if send_all else unset)


def feed(
    random: Random,
    features: Features,
    *,
    epoch: int = 1,
    after: Feed | None = None,
) -> Feed:
    """Run a random database and return what a capture of it would send.

    With `after`, the database continues from there, in a new epoch that begins with a load.
    """
    database = Database(random, features, {} if after is None else after.final)
    for _ in range(random.randrange(1, features.transactions)):
        database.run_transaction()
    number = 0 if after is None else max(after.objects, default=0) + 1
    clock = 0 if after is None else after.ended + 1
    start, objects = 0, {}
    if after is not None or (features.load and random.random() < 0.7):
        start = random.randrange(len(database.log) + 1)
        objects = _load(database, start, Position(epoch, LOAD_SEQUENCE, number, 0), clock)
    loads = list(objects)
    number += len(loads)
    for transactions in _grouped(random, range(start, len(database.log)), features.scatter):
        number += 1
        objects[number] = [
            _event(change, Position(epoch, sequence, number, row), transaction, clock)
            for row, transaction, change, sequence in _numbered(database, transactions, features, start)
        ]
    ended = clock + len(database.log)
    return Feed(objects, loads, database.rows, ended, clock + start, database.states[start:])


def _load(database: Database, start: int, first: Position, clock: int) -> dict[int, list[ChangeEvent]]:
    """Read every row at some moment between the start of the capture and its end."""
    random = database.random
    last = random.randrange(start, len(database.states)) if database.features.overlap else start
    keys = sorted({key for state in database.states[start : last + 1] for key in state})
    rows = [
        (key, image)
        for key in keys
        if (image := database.states[random.randrange(start, last + 1)].get(key)) is not None
    ]
    files = random.randrange(1, 3)
    time = clock + start if random.random() < 0.5 else None
    return {
        first.object + file + 1: [
            ChangeEvent(
                operation=Operation.READ,
                position=first._replace(object=first.object + file + 1, row=row),
                key=(key,),
                cells={"id": key, **image},
                time=time,
            )
            for row, (key, image) in enumerate(rows[file::files], 1)
        ]
        for file in range(files)
    }


def _grouped(random: Random, transactions: range, scatter: bool) -> list[list[int]]:
    """Group transactions into objects: in order, or with `scatter` in any way."""
    if not transactions:
        return []
    files = random.randrange(1, len(transactions) + 1)
    if scatter:
        places = [random.randrange(files) for _ in transactions]
    else:
        places = sorted(random.randrange(files) for _ in transactions)
    groups: list[list[int]] = [[] for _ in range(files)]
    for transaction, place in zip(transactions, places, strict=True):
        groups[place].append(transaction)
    return [group for group in groups if group]


def _numbered(
    database: Database, transactions: Sequence[int], features: Features, start: int
) -> list[tuple[int, int, Change, int]]:
    """Return row number, transaction, change and sequence of each event of an object."""
    sizes = [len(changes) for changes in database.log]
    numbered: list[tuple[int, int, Change, int]] = []
    for transaction in transactions:
        before = sum(sizes[start:transaction])
        for place, change in enumerate(database.log[transaction]):
            sequence = {"commit": transaction + 1, "unique": before + place + 1, "none": 0}[features.sequence]
            numbered.append((len(numbered) + 1, transaction, change, sequence))
    return numbered


def _event(change: Change, position: Position, transaction: int, clock: int) -> ChangeEvent:
    if change.operation is Operation.TRUNCATE:
        return ChangeEvent(
            operation=change.operation,
            position=position,
            transaction=(position.epoch, transaction),
            time=clock + transaction + 1,
        )
    cells = {column: UNSET if column in change.unset else value for column, value in change.image.items()}
    return ChangeEvent(
        operation=change.operation,
        position=position,
        key=(change.key,),
        cells={"id": change.key, **cells},
        old_key=None if change.old is None else (change.old,),
        transaction=(position.epoch, transaction),
        time=clock + transaction + 1,
    )


Objects = Mapping[int, Sequence[ChangeEvent]]


def delivery_order(random: Random, objects: Objects, lateness: Lateness) -> list[int]:
    """Return an order of delivery in which no event comes too late."""
    if isinstance(lateness, Ordered):
        return sorted(objects)
    if isinstance(lateness, Unbounded):
        return random.sample(sorted(objects), len(objects))
    times = _times(objects)
    rest, order, newest = sorted(objects), [], -1
    while rest:
        choice = random.choice([o for o in rest if _leaves_none_behind(times, rest, o, newest, lateness)])
        newest = max([newest, *times[choice]])
        rest.remove(choice)
        order.append(choice)
    return order


def _leaves_none_behind(
    times: Mapping[int, Sequence[int]], rest: list[int], choice: int, newest: int, lateness: Within
) -> bool:
    """Return True if no other object is too late once `choice` is delivered."""
    now = max([newest, *times[choice]])
    oldest = min([time for o in rest if o != choice for time in times[o]], default=now)
    first = min([time for o in rest for time in times[o]], default=now)
    return now - oldest <= lateness.micros or first in [*times[choice], now]


def _times(objects: Objects) -> dict[int, list[int]]:
    """Return the source times of each object.

    The first object of a full load counts as the oldest of its epoch: its rows are below every watermark, and the
    watermark may rise until one of them shows that a load has begun.
    """
    times: dict[int, list[int]] = {number: [] for number in objects}
    least: dict[int, int] = {}
    begun: dict[int, int] = {}
    for number, event in ((n, e) for n in sorted(objects) for e in objects[n]):
        if event.time is not None:
            times[number].append(event.time)
            least[event.position.epoch] = min(event.time, least.get(event.position.epoch, event.time))
        if event.is_load:
            begun.setdefault(event.position.epoch, number)
    for epoch, number in begun.items():
        times[number] += [least[epoch]] if epoch in least else []
    return times


def under_another_name(events: Sequence[ChangeEvent], number: int) -> list[ChangeEvent]:
    """Return the events of an object as another object has them."""
    return [replace(event, position=event.position._replace(object=number)) for event in events]


def batches(random: Random, order: Sequence[int], most: int = 3) -> list[list[int]]:
    """Split deliveries into batches of one to three objects, or more."""
    rest, split = list(order), []
    while rest:
        size = random.randrange(1, most + 1)
        split.append(rest[:size])
        rest = rest[size:]
    return split


def with_repeats(random: Random, order: Sequence[int], chance: float = 0.25) -> list[int]:
    """Return an order in which some objects come again after their first delivery."""
    repeated: list[int] = []
    for index, number in enumerate(order):
        repeated.append(number)
        if random.random() < chance:
            repeated.append(random.choice(order[: index + 1]))
    return repeated


def visible(rows: Mapping[Key, Row]) -> dict[Key, dict[str, object]]:
    """Return the cells of the rows that are not deleted."""
    return {key: dict(row.cells) for key, row in rows.items() if not row.deleted}


def truth(state: State) -> dict[Key, dict[str, object]]:
    """Return a database's rows in the form of `visible`."""
    return {(key,): {"id": key, **image} for key, image in state.items()}
