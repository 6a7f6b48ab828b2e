"""`settle` of one delivery, in process: microseconds an event for small and large deliveries, by what they hold.

python benchmarks/settling.py [--events N [N ...]] [--only NAME] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lakeward.core.dimension import Deletes, Dimension, Lateness, Ordered, TableName, Ties, Unbounded, Within
from lakeward.core.events import UNSET, Cell, ChangeEvent, Key, Operation, Position, Sequences
from lakeward.core.history.options import History
from lakeward.core.merge.change_log import ChangeLogContents, Reason, Reject, trim
from lakeward.core.merge.delivery import Delivery
from lakeward.core.merge.fold import Row
from lakeward.core.merge.settle import absorb, settle
from lakeward.core.schema import Column, Schema, Type

EVENTS: Final = (2_000, 20_000)
COLUMNS: Final = ("id", "name", "city", "amount", "state")
SCHEMA: Final = Schema(tuple(Column(name, Type("bigint" if name == "id" else "string")) for name in COLUMNS))
DIMENSION: Final = Dimension(name=TableName("shop", "orders"), schema=SCHEMA, key=("id",), lateness=Unbounded())
HOUR: Final = 3_600_000_000

Deliveries = Sequence[Delivery]


def main() -> None:
    """Measure each mode with each number of events."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=EVENTS)
    parser.add_argument("--only", help="modes whose name holds this")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    modes = [mode for mode in MODES if asked.only is None or asked.only in mode.name]
    found = {mode.name: {events: measure(mode, events) for events in asked.events} for mode in modes}
    sys.stdout.write(json.dumps(found) + "\n" if asked.json else _shown(found, asked.events))


def _shown(found: Mapping[str, Mapping[int, float]], sizes: Sequence[int]) -> str:
    lines = [f"{'µs an event':24}" + "".join(f"{size:>10,}" for size in sizes)]
    lines += [f"{name:24}" + "".join(f"{took:>10.1f}" for took in by.values()) for name, by in found.items()]
    return "\n".join(lines) + "\n"


@dataclass
class Table:
    """A table in two values, which takes a delivery as an adapter does."""

    dimension: Dimension
    rows: dict[Key, Row] = field(default_factory=dict)
    memory: ChangeLogContents = field(default_factory=ChangeLogContents)

    def take(self, delivery: Delivery) -> None:
        settled = settle(self.dimension, self.rows, self.memory, delivery)
        for key, row in settled.rows.items():
            self.rows.pop(key, None)
            if row is not None:
                self.rows[key] = row
        self.memory = absorb(self.dimension, self.memory, settled)
        trim(self.dimension, self.memory)


@dataclass(frozen=True)
class Mode:
    """A kind of delivery: the last of its `deliveries` for a number of events and of keys is what is measured."""

    name: str
    dimension: Dimension
    deliveries: Callable[[int, int], Deliveries]
    keys_by_event: float = 0.5

    def prepared(self, events: int) -> tuple[Table, Delivery]:
        """Return a table that has taken all deliveries but the last, and that one."""
        *earlier, last = map(_under_own_names, self.deliveries(events, max(1, int(events * self.keys_by_event))))
        table = Table(self.dimension)
        for delivery in earlier:
            table.take(delivery)
        return table, last


def _under_own_names(delivery: Delivery) -> Delivery:
    """Return a delivery whose objects are no others'."""
    first = delivery.number * 1_000_000
    placed = [replace(e, position=e.position._replace(object=first + e.position.object)) for e in delivery.events]
    return replace(delivery, events=placed)


def measure(mode: Mode, events: int) -> float:
    """Return the microseconds of CPU an event that it takes to settle a delivery, absorb it and trim the memory."""
    table, last = mode.prepared(events)
    began = time.process_time()
    table.take(last)
    return (time.process_time() - began) / events * 1_000_000


def event(number: int, key: int, operation: Operation = Operation.UPDATE, **more: object) -> ChangeEvent:
    """Return the event of a whole row, the `number`th of its source; each object has 1,000."""
    cells: dict[str, Cell] = {"id": key, "name": f"name {key}", "city": "x", "amount": str(number), "state": "new"}
    event_of_row = ChangeEvent(
        operation=operation,
        position=Position(1, number, 1 + number // 1_000, number % 1_000),
        key=(key,),
        cells=cells,
        time=number * 1_000_000,
        transaction=number,
    )
    return replace(event_of_row, **more)  # type: ignore[arg-type]


def loaded(keys: int) -> Delivery:
    """Return the first delivery: a row of each key."""
    return Delivery(number=1, events=[event(number + 1, number, Operation.INSERT) for number in range(keys)])


def followed_by(changes: Callable[[int, int], Iterator[ChangeEvent]]) -> Callable[[int, int], Deliveries]:
    """Return what delivers a row of each key, and then these changes; `changes` gets the numbers, and the keys."""
    return lambda events, keys: [
        loaded(keys),
        Delivery(number=2, events=[*changes(events, keys)]),
    ]


def whole_rows(events: int, keys: int) -> Iterator[ChangeEvent]:
    """Updates, with every tenth a delete and the next of its key an insert."""
    gone: set[int] = set()
    for index in range(events):
        key = index * 7 % keys
        deletes = index % 10 == 9 and key not in gone
        operation = Operation.DELETE if deletes else Operation.INSERT if key in gone else Operation.UPDATE
        gone ^= {key} if operation is not Operation.UPDATE else set()
        yield event(keys + 1 + index, key, operation)


def without_sequence(deliveries: Callable[[int, int], Deliveries]) -> Callable[[int, int], Deliveries]:
    """Return the same of a source whose order is arrival."""
    return lambda events, keys: [
        replace(one, events=[replace(e, position=e.position._replace(sequence=0)) for e in one.events])
        for one in deliveries(events, keys)
    ]


def late(events: int, keys: int) -> Deliveries:
    """Each second change comes with the second delivery, the others before it."""
    changes = [*whole_rows(2 * events, keys)]
    return [loaded(keys), Delivery(number=2, events=changes[1::2]), Delivery(number=3, events=changes[::2])]


def tied(events: int, keys: int) -> Iterator[ChangeEvent]:
    """All changes share one sequence."""
    for one in whole_rows(events, keys):
        yield replace(one, position=one.position._replace(sequence=keys + 1))


def repeated(events: int, keys: int) -> Deliveries:
    """All changes come a second time, under other names."""
    changes = [*whole_rows(events, keys)]
    return [loaded(keys), Delivery(number=2, events=changes), Delivery(number=3, events=changes)]


def partial(events: int, keys: int) -> Iterator[ChangeEvent]:
    """Updates of one cell."""
    for index in range(events):
        key = index * 7 % keys
        yield event(keys + 1 + index, key, cells={"id": key, "amount": str(index), "name": UNSET})


def incomplete(events: int, keys: int) -> Deliveries:
    """Updates of one cell, of rows that are not there."""
    return [Delivery(number=1, events=[*partial(events, keys)])]


def moved(events: int, keys: int) -> Iterator[ChangeEvent]:
    """Each key goes to a new one, and on from there."""
    at = dict(enumerate(range(keys)))
    for index in range(events):
        row, new = index % keys, keys + index
        yield event(keys + 1 + index, new, old_key=(at[row],))
        at[row] = new


def shifted(events: int, keys: int) -> Iterator[ChangeEvent]:
    """All keys move up by one, in transactions of 10 events."""
    del keys
    for index in range(events):
        within, first = index % 10, index - index % 10
        yield (
            event(events + 1 + index, first + 9 - within, old_key=(first + 8 - within,), transaction=first)
            if within < 9
            else event(events + 1 + index, first, transaction=first)
        )


def undecided(events: int, keys: int) -> Iterator[ChangeEvent]:
    """Keys that move onto another, in a feed without transactions."""
    for index in range(events):
        key = 2 * index % keys
        yield event(keys + 1 + index, key + 1, old_key=(key,), transaction=None)


def truncated(events: int, keys: int) -> Iterator[ChangeEvent]:
    """Every hundredth event empties the table."""
    for index, one in enumerate(whole_rows(events, keys)):
        yield replace(one, operation=Operation.TRUNCATE, key=(), cells={}) if index % 100 == 99 else one


def held(events: int, keys: int) -> Deliveries:
    """A row of every second key is in quarantine, and each fourth event changes its key."""
    load = loaded(keys)
    bad = load.events[::2]
    rejects = [Reject(e.position._replace(row=e.position.row + 1_000), Reason.CAST, e.keys) for e in bad]
    changes = [
        replace(one, old_key=(one.key[0] + keys,)) if index % 4 == 3 else one  # type: ignore[operator]
        for index, one in enumerate(whole_rows(events, keys))
    ]
    return [replace(load, rejects=rejects), Delivery(number=2, events=changes)]


WITHIN: Final = replace(DIMENSION, lateness=Within(HOUR))
ORDERED: Final = replace(DIMENSION, lateness=Ordered())
HISTORY: Final = replace(DIMENSION, history=History())


def _modes_of(name: str, deliveries: Callable[[int, int], Deliveries], **more: object) -> list[Mode]:
    rules: Mapping[str, Lateness] = {"ordered": Ordered(), "within": Within(HOUR), "unbounded": Unbounded()}
    return [
        Mode(f"{name}, {rule}", replace(DIMENSION, lateness=lateness, **more), deliveries)  # type: ignore[arg-type]
        for rule, lateness in rules.items()
    ]


MODES: Final = (
    *_modes_of("whole rows", followed_by(whole_rows)),
    *_modes_of("by arrival", without_sequence(followed_by(whole_rows))),
    *_modes_of("unique", followed_by(whole_rows), sequences=Sequences.UNIQUE),
    Mode("one key", DIMENSION, followed_by(whole_rows), 0),
    Mode("late", DIMENSION, late),
    Mode("late, within", WITHIN, late),
    Mode("late, history", HISTORY, late),
    Mode("repeated", replace(DIMENSION, sequences=Sequences.UNIQUE), repeated),
    Mode("ties", DIMENSION, followed_by(tied)),
    Mode("ties of one key", DIMENSION, followed_by(tied), 0),
    Mode("ties held", replace(DIMENSION, ties=Ties.QUARANTINE), followed_by(tied)),
    Mode("ties, unique", replace(DIMENSION, sequences=Sequences.UNIQUE), followed_by(tied)),
    *_modes_of("partial", followed_by(partial)),
    Mode("incomplete", DIMENSION, incomplete),
    Mode("incomplete, ordered", ORDERED, incomplete),
    *_modes_of("moved", followed_by(moved)),
    Mode("moved, one chain", DIMENSION, followed_by(moved), 0),
    Mode("shifted", DIMENSION, followed_by(shifted), 1),
    Mode("undecided", DIMENSION, followed_by(undecided), 1),
    *_modes_of("truncates", followed_by(truncated)),
    *_modes_of("soft", followed_by(whole_rows), deletes=Deletes.SOFT),
    Mode("soft, truncates", replace(DIMENSION, deletes=Deletes.SOFT), followed_by(truncated)),
    *_modes_of("history", followed_by(whole_rows), history=History()),
    Mode("history, one key", HISTORY, followed_by(whole_rows), 0),
    Mode("history, moved", HISTORY, followed_by(moved)),
    Mode("history, truncates", HISTORY, followed_by(truncated)),
    Mode("held", DIMENSION, held),
)

if __name__ == "__main__":
    main()
