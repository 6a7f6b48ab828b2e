"""Tables of any format that are told something else than what was delivered: a class makes one mistake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from unicodedata import normalize

from broken_ports import BrokenLake, Whole

from lakeward.core.events import UNSET, Cell, ChangeEvent, Key, Mark, Operation
from lakeward.core.merge.change_log import Reject
from lakeward.core.merge.truncates import Truncates
from lakeward.core.plan import MergePlan
from lakeward.plugins.testing import Item


def _mistold(event: ChangeEvent, cells: Mapping[str, Cell]) -> ChangeEvent:
    return replace(event, cells={**event.cells, **cells})


class LosesTheLastEvent(Whole):
    """Drops the last event of a batch."""

    @classmethod
    def told(cls, lake: BrokenLake, items: Sequence[Item]) -> Sequence[Item]:
        """Return all but the last."""
        events = [item for item in items if isinstance(item, ChangeEvent)]
        last = max(events, key=lambda event: event.position, default=None)
        return [item for item in items if item is not last]


def _bent(event: ChangeEvent, bend: Callable[[Cell], Cell]) -> ChangeEvent:
    """Return an event with other values, in its key, too."""
    cells = {name: bend(cell) for name, cell in event.cells.items()}
    return replace(event, cells=cells, key=tuple(map(bend, event.key)))


class ReadsNumbersAsDoubles(Whole):
    """Has no other number than one of 53 bits."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return the event with such numbers."""
        return _bent(event, lambda cell: min(int(float(cell)), 2**63 - 1) if isinstance(cell, int) else cell)


class TakesLettersForOthers(Whole):
    """Knows no small letter from a capital one."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return the event in small letters."""
        return _bent(event, lambda cell: cell.lower() if isinstance(cell, str) else cell)


class ComposesTexts(Whole):
    """Has one text for what Unicode calls equivalent."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return the event with composed texts."""
        return _bent(event, lambda cell: normalize("NFC", cell) if isinstance(cell, str) else cell)


class CutsTexts(Whole):
    """Has texts of up to 255 characters."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return the event with short texts."""
        return _bent(event, lambda cell: cell[:255] if isinstance(cell, str) else cell)


class CutsTimes(Whole):
    """Has times of milliseconds."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return the event with such times."""
        return _bent(event, _cut_time)


def _cut_time(cell: Cell) -> Cell:
    return cell.replace(microsecond=cell.microsecond // 1000 * 1000) if isinstance(cell, datetime) else cell


class ReadsDecimalsAsDoubles(Whole):
    """Has no other fraction than one of 53 bits."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return the event with such numbers, as many digits behind the point as they had."""
        return _bent(event, _of_53_bits)


def _of_53_bits(cell: Cell) -> Cell:
    return Decimal(float(cell)).quantize(cell, context=Context(prec=60)) if isinstance(cell, Decimal) else cell


class CountsDaysAsTheRomansDid(Whole):
    """Has the dates before the reform of the calendar ten days later."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return the event with such dates."""
        return _bent(event, _julian)


def _julian(cell: Cell) -> Cell:
    is_old = type(cell) is date and date(1500, 1, 1) < cell < date(1582, 10, 15)
    return cell + timedelta(days=10) if is_old and isinstance(cell, date) else cell


class TakesTheEmptyTextForNull(Whole):
    """As some databases do."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return the event without empty texts outside of its key."""
        return _mistold(event, {"a": event.cells.get("a") or None})


class NeverUpdates(Whole):
    """Inserts what is new, and leaves the other rows as they are."""

    @classmethod
    def told_one(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        """Return no update."""
        return [] if isinstance(item, ChangeEvent) and item.operation is Operation.UPDATE else [item]


class UpdatesOnlyWhatItWasGiven(Whole):
    """Takes an update literally: one of a key that never came before makes no row."""

    @classmethod
    def told_one(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        """Return no update of a new key."""
        is_update = isinstance(item, ChangeEvent) and item.operation is Operation.UPDATE
        return [] if is_update and all(item.keys != other.keys for other in lake.told) else [item]


class NeverDeletes(Whole):
    """Writes rows, and takes none away."""

    @classmethod
    def told_one(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        """Return no delete."""
        return [] if isinstance(item, ChangeEvent) and item.operation is Operation.DELETE else [item]


class AppliesTheFirstOfABatch(Whole):
    """Collapses the changes of a key to the oldest."""

    @classmethod
    def told(cls, lake: BrokenLake, items: Sequence[Item]) -> Sequence[Item]:
        """Return the first event of each key."""
        first: dict[Key, ChangeEvent] = {}
        for item in sorted(items, key=lambda item: item.position):
            if isinstance(item, ChangeEvent):
                first.setdefault(item.key, item)
        return [item for item in items if not isinstance(item, ChangeEvent) or first[item.key] is item]


class LetsTheFirstOfATieWin(Whole):
    """Puts events of one key and commit in the opposite of their order of arrival."""

    @classmethod
    def told(cls, lake: BrokenLake, items: Sequence[Item]) -> Sequence[Item]:
        """Return them with their places turned."""
        ties: dict[tuple[Mark, Key], list[ChangeEvent]] = {}
        for item in sorted(items, key=lambda item: item.position):
            if isinstance(item, ChangeEvent) and item.position.sequence and not item.is_load:
                ties.setdefault((item.position.mark, item.key), []).append(item)
        turned = {
            place.position: replace(event, position=place.position)
            for tied in ties.values()
            for place, event in zip(tied, reversed(tied), strict=True)
        }
        return [turned.get(item.position, item) for item in items]


class ForgetsTruncates(Whole):
    """Takes nothing away where all is to go."""

    @classmethod
    def told_one(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        """Return no truncate."""
        return [] if isinstance(item, ChangeEvent) and item.operation is Operation.TRUNCATE else [item]

    def planned(self, plan: MergePlan) -> MergePlan:
        """Return a plan that knows of none."""
        return replace(plan, truncates=Truncates(), folds=plan.in_part)


class NullsWhatWasNotSent(Whole):
    """Takes a cell that an update does not have for NULL."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return a whole one."""
        return _mistold(event, {name: None for name, cell in event.cells.items() if cell is UNSET})


class LeavesTheOldKey(Whole):
    """Takes a change of a key for an update of the key that it enters."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return one that left no key."""
        return replace(event, old_key=None)


class ForgetsTransactions(Whole):
    """Takes each change for a transaction of its own."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return one of no transaction."""
        return replace(event, transaction=None)


class HoldsNothing(Whole):
    """Lets pass what follows a row that cannot be applied."""

    @classmethod
    def told_one(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        """Return a reject of no key."""
        return [replace(item, keys=()) if isinstance(item, Reject) else item]


class WritesZeroForNull(Whole):
    """Has no way to tell them apart."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return one that has no NULL."""
        return _mistold(event, {name: 0 for name, cell in event.cells.items() if cell is None})


class WritesNothingForNull(Whole):
    """Has no way to tell NULL from an empty text."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return one that has no empty text."""
        return _mistold(event, {name: None for name, cell in event.cells.items() if cell == ""})


class CutsOffWhatIsTooWide(Whole):
    """Keeps whole numbers in 32 bits, whatever its columns are declared to be."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return one whose numbers fit."""
        numbers = {name: cell for name, cell in event.cells.items() if isinstance(cell, int)}
        return _mistold(event, {name: (cell + 2**31) % 2**32 - 2**31 for name, cell in numbers.items()})


class TakesALoadForNews(Whole):
    """Puts the rows of a full load behind all changes."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return one that comes last."""
        place = event.position
        return replace(event, position=place._replace(sequence=10**9)) if event.is_load else event


class LeavesRowsInTheirPartition(Whole):
    """Keeps of a row the partition that it was first written to, by `shop`."""

    @classmethod
    def told_one(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        """Return an event with the first shop of its key."""
        if not isinstance(item, ChangeEvent) or "shop" not in item.cells:
            return [item]
        before = [one.cells["shop"] for one in lake.told if isinstance(one, ChangeEvent) and one.key == item.key]
        return [_mistold(item, {"shop": before[0]} if before else {})]


class LeavesThePositionOfANoOp(Whole):
    """Does not write a row whose cells are as before."""

    @classmethod
    def told_one(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        """Return nothing for an event that changes nothing."""
        if not isinstance(item, ChangeEvent):
            return [item]
        same = [one for one in lake.told if isinstance(one, ChangeEvent) and one.key == item.key]
        return [] if same and same[-1].cells == item.cells else [item]


def _is_mended(lake: BrokenLake, item: Item) -> bool:
    places = {other.position[2:] for other in lake.told if isinstance(other, Reject)}
    return isinstance(item, ChangeEvent) and item.position[2:] in places


class PutsAMendedRowOnTop(Whole):
    """Applies a mended row as the newest of its key, whatever came after it."""

    @classmethod
    def told_one(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        """Return a mended row as the newest."""
        place = item.position._replace(sequence=10**9)
        return [replace(item, position=place) if _is_mended(lake, item) else item]


class TakesCopiesUnderOtherNamesForNews(Whole):
    """Takes a copy that comes in another object for the next change, though it has the number of the first."""

    @classmethod
    def told_one(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        """Return a copy with a number of its own."""
        place = item.position
        is_known = any(o.keys == item.keys and o.position.mark == place.mark for o in lake.told)
        is_copy = is_known and isinstance(item, ChangeEvent) and not item.is_load
        return [replace(item, position=place._replace(sequence=place.sequence + 1)) if is_copy else item]
