"""Tables of any format that get other events than those delivered: each class makes one mistake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from unicodedata import normalize

from broken_ports import AnyTable, BrokenLake

from lakeward.core.events import UNSET, Cell, ChangeEvent, Key, Operation, SourceOrder
from lakeward.core.merge.change_log import Reject
from lakeward.core.merge.truncates import Truncates
from lakeward.core.plan import MergePlan
from lakeward.plugins.testing import Item


def _mistold(event: ChangeEvent, cells: Mapping[str, Cell]) -> ChangeEvent:
    return replace(event, cells={**event.cells, **cells})


def changes(change: Callable[[ChangeEvent], ChangeEvent]) -> Any:
    """Return a `deliver_event` that changes each event."""
    return staticmethod(change)


def writes(bend: Callable[[Any], Cell]) -> Any:
    """Return a `deliver_event` that changes the cells of each event."""
    return changes(lambda event: replace(event, cells={name: bend(cell) for name, cell in event.cells.items()}))


def reads(kind: type, bend: Callable[[Any], Cell]) -> Any:
    """Return a `deliver_event` that changes each value of a type, in cells and key."""

    def bent(event: ChangeEvent) -> ChangeEvent:
        cells = {name: bend(cell) if type(cell) is kind else cell for name, cell in event.cells.items()}
        return replace(event, cells=cells, key=tuple(bend(own) if type(own) is kind else own for own in event.key))

    return changes(bent)


def ignores(operation: Operation) -> Any:
    """Return a `deliver_item` that drops all events of an operation."""

    def known(_cls: type[AnyTable], _lake: BrokenLake, item: Item) -> Sequence[Item]:
        return [] if isinstance(item, ChangeEvent) and item.operation is operation else [item]

    return classmethod(known)


class LosesTheLastEvent(AnyTable):
    """Drops the last event of a batch."""

    @classmethod
    def deliver(cls, lake: BrokenLake, items: Sequence[Item]) -> Sequence[Item]:
        events = [item for item in items if isinstance(item, ChangeEvent)]
        last = max(events, key=lambda event: event.position, default=None)
        return [item for item in items if item is not last]


class ReadsNumbersAsDoubles(AnyTable):
    """Keeps only 53 bits of numbers."""

    deliver_event = reads(int, lambda number: min(int(float(number)), 2**63 - 1))


class TakesLettersForOthers(AnyTable):
    """Ignores the case of letters."""

    deliver_event = reads(str, str.lower)


class ComposesTexts(AnyTable):
    """Normalizes texts to composed characters."""

    deliver_event = reads(str, lambda text: normalize("NFC", text))


class CutsTexts(AnyTable):
    """Cuts texts at 255 characters."""

    deliver_event = reads(str, lambda text: text[:255])


class CutsTimes(AnyTable):
    """Cuts times to milliseconds."""

    deliver_event = reads(datetime, lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))


class ReadsDecimalsAsDoubles(AnyTable):
    """Keeps only 53 bits of decimals."""

    deliver_event = reads(Decimal, lambda number: Decimal(float(number)).quantize(number, context=Context(prec=60)))


class UsesTheJulianCalendar(AnyTable):
    """Moves dates before the reform of the calendar by ten days."""

    deliver_event = reads(
        date, lambda day: day + timedelta(10) if date(1500, 1, 1) < day < date(1582, 10, 15) else day
    )


class TakesTheEmptyTextForNull(AnyTable):
    """Stores the empty text as NULL, like some databases."""

    deliver_event = changes(lambda event: _mistold(event, {"a": event.cells.get("a") or None}))


class NeverUpdates(AnyTable):
    """Inserts new rows, and never updates existing ones."""

    deliver_item = ignores(Operation.UPDATE)


class UpdatesOnlyKnownKeys(AnyTable):
    """Ignores updates of keys that never came before."""

    @classmethod
    def deliver_item(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        is_update = isinstance(item, ChangeEvent) and item.operation is Operation.UPDATE
        return [] if is_update and all(item.keys != other.keys for other in lake.delivered) else [item]


class NeverDeletes(AnyTable):
    """Ignores deletes."""

    deliver_item = ignores(Operation.DELETE)


class AppliesTheFirstOfABatch(AnyTable):
    """Applies only the oldest change of each key in a batch."""

    @classmethod
    def deliver(cls, lake: BrokenLake, items: Sequence[Item]) -> Sequence[Item]:
        first: dict[Key, ChangeEvent] = {}
        for item in sorted(items, key=lambda item: item.position):
            if isinstance(item, ChangeEvent):
                first.setdefault(item.key, item)
        return [item for item in items if not isinstance(item, ChangeEvent) or first[item.key] is item]


class LetsTheFirstOfATieWin(AnyTable):
    """Reverses the order of arrival of events with one key and commit."""

    @classmethod
    def deliver(cls, lake: BrokenLake, items: Sequence[Item]) -> Sequence[Item]:
        ties: dict[tuple[SourceOrder, Key], list[ChangeEvent]] = {}
        for item in sorted(items, key=lambda item: item.position):
            if isinstance(item, ChangeEvent) and item.position.sequence and not item.is_load:
                ties.setdefault((item.position.source_order, item.key), []).append(item)
        turned = {
            place.position: replace(event, position=place.position)
            for tied in ties.values()
            for place, event in zip(tied, reversed(tied), strict=True)
        }
        return [turned.get(item.position, item) for item in items]


class ForgetsTruncates(AnyTable):
    """Ignores truncates."""

    deliver_item = ignores(Operation.TRUNCATE)

    def change_plan(self, plan: MergePlan) -> MergePlan:
        return replace(plan, truncates=Truncates(), folds=plan.folds_remembered)


class NullsUnsentCells(AnyTable):
    """Writes NULL for unsent cells."""

    deliver_event = writes(lambda cell: None if cell is UNSET else cell)


class LeavesTheOldKey(AnyTable):
    """Applies a key change as an update of the new key."""

    deliver_event = changes(lambda event: replace(event, old_key=None))


class ForgetsTransactions(AnyTable):
    """Treats each change as a transaction of its own."""

    deliver_event = changes(lambda event: replace(event, transaction=None))


class HoldsNothing(AnyTable):
    """Holds no key for a row that cannot be applied."""

    @classmethod
    def deliver_item(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        return [replace(item, keys=()) if isinstance(item, Reject) else item]


class WritesZeroForNull(AnyTable):
    """Writes zero for NULL."""

    deliver_event = writes(lambda cell: 0 if cell is None else cell)


class WritesNothingForNull(AnyTable):
    """Writes NULL for the empty text."""

    deliver_event = writes(lambda cell: None if cell == "" else cell)


class CutsWideNumbers(AnyTable):
    """Keeps only 32 bits of whole numbers, for any declared type."""

    deliver_event = writes(lambda cell: (cell + 2**31) % 2**32 - 2**31 if isinstance(cell, int) else cell)


class OrdersALoadAfterChanges(AnyTable):
    """Orders the rows of a full load after all changes."""

    @staticmethod
    def deliver_event(event: ChangeEvent) -> ChangeEvent:
        place = event.position
        return replace(event, position=place._replace(sequence=10**9)) if event.is_load else event


class LeavesRowsInTheirPartition(AnyTable):
    """Keeps a row in its first partition, by `shop`."""

    @classmethod
    def deliver_item(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        if not isinstance(item, ChangeEvent) or "shop" not in item.cells:
            return [item]
        events = [one for one in lake.delivered if isinstance(one, ChangeEvent)]
        before = [one.cells["shop"] for one in events if one.key == item.key]
        return [_mistold(item, {"shop": before[0]} if before else {})]


class LeavesThePositionOfANoOp(AnyTable):
    """Does not write the position of a row with unchanged cells."""

    @classmethod
    def deliver_item(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        if not isinstance(item, ChangeEvent):
            return [item]
        same = [one for one in lake.delivered if isinstance(one, ChangeEvent) and one.key == item.key]
        return [] if same and same[-1].cells == item.cells else [item]


def _is_repaired(lake: BrokenLake, item: Item) -> bool:
    places = {other.position[2:] for other in lake.delivered if isinstance(other, Reject)}
    return isinstance(item, ChangeEvent) and item.position[2:] in places


class AppliesARepairedRowLast(AnyTable):
    """Applies a repaired row as the newest of its key."""

    @classmethod
    def deliver_item(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        place = item.position._replace(sequence=10**9)
        return [replace(item, position=place) if _is_repaired(lake, item) else item]


class AppliesCopiesUnderOtherNames(AnyTable):
    """Treats a copy in another object as a new change, although it has the same unique number."""

    @classmethod
    def deliver_item(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        place = item.position
        is_known = any(
            o.keys == item.keys and o.position.source_order == place.source_order for o in lake.delivered
        )
        is_copy = is_known and isinstance(item, ChangeEvent) and not item.is_load
        return [replace(item, position=place._replace(sequence=place.sequence + 1)) if is_copy else item]
