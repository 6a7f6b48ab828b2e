"""Tables of any format that get other events than those delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from unicodedata import normalize

from broken_ports import BrokenLake, mutate_table

from lakeward.core.events import UNSET, Cell, ChangeEvent, Key, Operation, SourceOrder
from lakeward.core.merge.change_log import Reject
from lakeward.core.merge.truncates import Truncates
from lakeward.plugins.testing import Item

# Functions that change each event, or return the items that a table gets for an item.


def _with_cells(event: ChangeEvent, cells: Mapping[str, Cell]) -> ChangeEvent:
    return replace(event, cells={**event.cells, **cells})


def _moved(item: Item, **place: int) -> Item:
    return replace(item, position=item.position._replace(**place))


def _writes(bend: Callable[[Any], Cell]) -> Callable[[ChangeEvent], ChangeEvent]:
    """Change the cells of each event."""
    return lambda event: replace(event, cells={name: bend(cell) for name, cell in event.cells.items()})


def _reads(kind: type, bend: Callable[[Any], Cell]) -> Callable[[ChangeEvent], ChangeEvent]:
    """Change each value of a type, in cells and key."""

    def bent(event: ChangeEvent) -> ChangeEvent:
        cells = {name: bend(cell) if type(cell) is kind else cell for name, cell in event.cells.items()}
        return replace(event, cells=cells, key=tuple(bend(own) if type(own) is kind else own for own in event.key))

    return bent


def _ignores(operation: Operation) -> Callable[[BrokenLake, Item], Sequence[Item]]:
    """Drop all events of an operation."""
    return lambda _, item: [] if _is(item, operation) else [item]


def _is(item: Item, operation: Operation) -> bool:
    return isinstance(item, ChangeEvent) and item.operation is operation


def _events(items: Sequence[Item]) -> Sequence[ChangeEvent]:
    return [item for item in items if isinstance(item, ChangeEvent)]


def _without_the_last(_: BrokenLake, items: Sequence[Item]) -> Sequence[Item]:
    last = max(_events(items), key=lambda event: event.position, default=None)
    return [item for item in items if item is not last]


def _first_of_each_key(_: BrokenLake, items: Sequence[Item]) -> Sequence[Item]:
    first: dict[Key, ChangeEvent] = {}
    for event in sorted(_events(items), key=lambda event: event.position):
        first.setdefault(event.key, event)
    return [item for item in items if not isinstance(item, ChangeEvent) or first[item.key] is item]


def _reversed_ties(_: BrokenLake, items: Sequence[Item]) -> Sequence[Item]:
    ties: dict[tuple[SourceOrder, Key], list[ChangeEvent]] = {}
    for event in sorted(_events(items), key=lambda event: event.position):
        if event.position.sequence and not event.is_load:
            ties.setdefault((event.position.source_order, event.key), []).append(event)
    turned = {
        place.position: replace(event, position=place.position)
        for tied in ties.values()
        for place, event in zip(tied, reversed(tied), strict=True)
    }
    return [turned.get(item.position, item) for item in items]


def _in_first_shop(lake: BrokenLake, item: Item) -> Sequence[Item]:
    if not isinstance(item, ChangeEvent) or "shop" not in item.cells:
        return [item]
    before = [one.cells["shop"] for one in _events(lake.delivered) if one.key == item.key]
    return [_with_cells(item, {"shop": before[0]} if before else {})]


def _changed_cells(lake: BrokenLake, item: Item) -> Sequence[Item]:
    before = [one for one in _events(lake.delivered) if isinstance(item, ChangeEvent) and one.key == item.key]
    return [] if before and before[-1].cells == item.cells else [item]


def _repaired_as_newest(lake: BrokenLake, item: Item) -> Sequence[Item]:
    rejected = {other.position[2:] for other in lake.delivered if isinstance(other, Reject)}
    is_repaired = isinstance(item, ChangeEvent) and item.position[2:] in rejected
    return [_moved(item, sequence=10**9) if is_repaired else item]


def _copies_as_newer(lake: BrokenLake, item: Item) -> Sequence[Item]:
    place = item.position
    is_known = any(o.keys == item.keys and o.position.source_order == place.source_order for o in lake.delivered)
    is_copy = is_known and isinstance(item, ChangeEvent) and not item.is_load
    return [_moved(item, sequence=place.sequence + 1) if is_copy else item]


# The mistakes.

LosesTheLastEvent = mutate_table("drops the last event of a batch", deliver=_without_the_last)
ReadsNumbersAsDoubles = mutate_table(
    "keeps only 53 bits of numbers", deliver_event=_reads(int, lambda number: min(int(float(number)), 2**63 - 1))
)
TakesLettersForOthers = mutate_table("ignores the case of letters", deliver_event=_reads(str, str.lower))
ComposesTexts = mutate_table(
    "composes the characters of texts", deliver_event=_reads(str, lambda text: normalize("NFC", text))
)
CutsTexts = mutate_table("cuts texts at 255 characters", deliver_event=_reads(str, lambda text: text[:255]))
CutsTimes = mutate_table(
    "cuts times to milliseconds",
    deliver_event=_reads(datetime, lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
)
ReadsDecimalsAsDoubles = mutate_table(
    "keeps only 53 bits of decimals",
    deliver_event=_reads(Decimal, lambda number: Decimal(float(number)).quantize(number, context=Context(prec=60))),
)
UsesTheJulianCalendar = mutate_table(
    "moves dates before the reform of the calendar by ten days",
    deliver_event=_reads(
        date, lambda day: day + timedelta(10) if date(1500, 1, 1) < day < date(1582, 10, 15) else day
    ),
)
NeverUpdates = mutate_table("inserts rows and updates none", deliver_item=_ignores(Operation.UPDATE))
NeverDeletes = mutate_table("ignores deletes", deliver_item=_ignores(Operation.DELETE))
AppliesTheFirstOfABatch = mutate_table(
    "applies only the oldest change of each key in a batch", deliver=_first_of_each_key
)
LetsTheFirstOfATieWin = mutate_table(
    "reverses the order of arrival of events with one key and commit", deliver=_reversed_ties
)
ForgetsTruncates = mutate_table(
    "ignores truncates",
    deliver_item=_ignores(Operation.TRUNCATE),
    change_plan=lambda plan: replace(plan, truncates=Truncates(), folds=plan.folds_remembered),
)
NullsUnsentCells = mutate_table(
    "writes NULL for unsent cells", deliver_event=_writes(lambda cell: None if cell is UNSET else cell)
)
LeavesTheOldKey = mutate_table(
    "applies a key change as an update of the new key", deliver_event=lambda event: replace(event, old_key=None)
)
ForgetsTransactions = mutate_table(
    "treats each change as a transaction of its own", deliver_event=lambda event: replace(event, transaction=None)
)
HoldsNothing = mutate_table(
    "holds no key for a row that cannot be applied",
    deliver_item=lambda _, item: [replace(item, keys=()) if isinstance(item, Reject) else item],
)
WritesZeroForNull = mutate_table(
    "writes zero for NULL", deliver_event=_writes(lambda cell: 0 if cell is None else cell)
)
WritesNothingForNull = mutate_table(
    "writes NULL for the empty text, like some databases",
    deliver_event=_writes(lambda cell: None if cell == "" else cell),
)
CutsWideNumbers = mutate_table(
    "keeps only 32 bits of whole numbers, for any declared type",
    deliver_event=_writes(lambda cell: (cell + 2**31) % 2**32 - 2**31 if isinstance(cell, int) else cell),
)
OrdersALoadAfterChanges = mutate_table(
    "orders the rows of a full load after all changes",
    deliver_event=lambda event: _moved(event, sequence=10**9) if event.is_load else event,
)
LeavesRowsInTheirPartition = mutate_table(
    "keeps a row in its first partition, by `shop`", deliver_item=_in_first_shop
)
LeavesThePositionOfANoOp = mutate_table(
    "does not write the position of a row with unchanged cells", deliver_item=_changed_cells
)
AppliesARepairedRowLast = mutate_table(
    "applies a repaired row as the newest of its key", deliver_item=_repaired_as_newest
)
AppliesCopiesUnderOtherNames = mutate_table(
    "treats a copy in another object as a new change, although it has the same unique number",
    deliver_item=_copies_as_newer,
)
