"""The reference adapter, broken on purpose: each class makes one mistake that the laws must see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakeward.adapters.memory import Frame, MemoryQueue, MemoryTable
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Key, Mark, Operation, Position, Sequences
from lakeward.core.fold import Row
from lakeward.core.memory import Memory
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, Entry, Notice, Recalled, Resolved
from lakeward.core.progress import Progress


def _events(frame: Frame) -> list[ChangeEvent]:
    return [item for item in frame if isinstance(item, ChangeEvent)]


def _counted(resolved: Resolved, **more: int) -> Resolved:
    counts = resolved.counts
    return replace(resolved, counts=replace(counts, **{n: getattr(counts, n) + v for n, v in more.items()}))


class LosesTheLastEvent(MemoryTable):
    """Drops an event, and says that it was superseded."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        events = _events(frame)
        if not events:
            return MemoryTable.resolve(self, plan, frame)
        last = max(events, key=lambda event: event.position)
        rest = [item for item in frame if item is not last]
        return _counted(MemoryTable.resolve(self, plan, rest), read=1, superseded=1)


class LetsTheFirstOfATieWin(MemoryTable):
    """Puts events of one key and commit in the opposite of their order of arrival."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        ties: dict[tuple[Mark, Key], list[ChangeEvent]] = defaultdict(list)
        for event in sorted(_events(frame), key=lambda event: event.position):
            if event.position.sequence not in (0, LOAD_SEQUENCE):
                ties[event.position.mark, event.key].append(event)
        turned: dict[Position, ChangeEvent] = {}
        for tied in ties.values():
            for place, event in zip(tied, reversed(tied), strict=True):
                turned[place.position] = replace(event, position=place.position)
        items = [turned.get(item.position, item) if isinstance(item, ChangeEvent) else item for item in frame]
        return MemoryTable.resolve(self, plan, items)


class ChecksNothingForBeingStale(MemoryTable):
    """Takes every row that stands, and every delete that is remembered, for older than any event."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        rows, memory = self.rows, self.memory
        self.rows = {key: replace(row, position=Position(0, 0, 0, 0)) for key, row in rows.items()}
        waiting = {place: change for place, change in memory.changes.items() if change.waiting}
        self.memory = replace(memory, changes=waiting)
        try:
            return MemoryTable.resolve(self, plan, frame)
        finally:
            self.rows, self.memory = rows, memory


@dataclass(slots=True)
class KeepsProgressApart(MemoryTable):
    """Commits the rows, and the progress only afterwards."""

    late: Progress | None = None

    def commit(self, plan: MergePlan, resolved: Resolved, progress: Progress) -> Commit:
        self.late = progress
        return MemoryTable.commit(self, plan, resolved, self.progress)

    def trim(self, progress: Progress) -> None:
        self.progress = progress
        MemoryTable.trim(self, progress)


class DropsRowsThatMove(MemoryTable):
    """Takes away a row whose partition (by threes of `a`) changes, and writes no other."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        resolved = MemoryTable.resolve(self, plan, frame)
        rows = resolved.detail.rows
        for key, row in rows.items():
            before = self.rows.get(key)
            if row is not None and before is not None and _partition(before) != _partition(row):
                rows[key] = None
        return resolved


def _partition(row: Row) -> int:
    value = row.cells["a"]
    assert isinstance(value, int)
    return value // 3


class LeavesThePositionOfANoOp(MemoryTable):
    """Does not write a row whose cells are as before."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        resolved = MemoryTable.resolve(self, plan, frame)
        rows = resolved.detail.rows
        for key, row in rows.items():
            before = self.rows.get(key)
            if row is not None and before is not None and row.cells == before.cells:
                rows[key] = before
        return resolved


class ForgetsDeletesTooEarly(MemoryTable):
    """Trims what the source may still deliver again."""

    def trim(self, progress: Progress) -> None:
        MemoryTable.trim(self, progress)
        self.memory = _without_deletes(self.memory)


def _without_deletes(memory: Memory) -> Memory:
    return replace(memory, changes={place: c for place, c in memory.changes.items() if c.waiting})


class BelievesWhatACrashLeft(MemoryTable):
    """Takes in memory that is stamped above the table's own batch."""

    def recall(self, progress: Progress) -> Recalled:
        newest = max([progress.batch, *self.written, *self.objects])
        return MemoryTable.recall(self, replace(progress, batch=newest))


class ForgetsDeletesAboveTheMark(MemoryTable):
    """Remembers of what may be overtaken all but the deletes."""

    def trim(self, progress: Progress) -> None:
        MemoryTable.trim(self, progress)
        kept = {p: c for p, c in self.memory.changes.items() if c.event.operation is not Operation.DELETE}
        self.memory = replace(self.memory, changes=kept)


class NullsWhatWasNotSent(MemoryTable):
    """Takes a cell that an update does not have for NULL."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        items = [_whole(item) if isinstance(item, ChangeEvent) else item for item in frame]
        return MemoryTable.resolve(self, plan, items)


def _whole(event: ChangeEvent) -> ChangeEvent:
    return replace(event, cells={name: None if cell is UNSET else cell for name, cell in event.cells.items()})


class TakesCopiesUnderOtherNamesForNews(MemoryTable):
    """Tells events by their place alone, though each has a number of its own."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        dimension = self.dimension
        self.dimension = replace(dimension, sequences=Sequences.TIMES)
        try:
            return MemoryTable.resolve(self, plan, frame)
        finally:
            self.dimension = dimension


class TakesAMendedRowForGivenUp(MemoryTable):
    """Releases what waited behind a mended row, and applies nothing in its place."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        return MemoryTable.resolve(self, plan, () if plan.releases else frame)


class PutsAMendedRowOnTop(MemoryTable):
    """Applies a mended row as the newest of its key, whatever came after it."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        resolved = MemoryTable.resolve(self, plan, frame)
        for event in _events(frame) if plan.releases else ():
            if event.operation is not Operation.DELETE:
                resolved.detail.rows[event.key] = Row(event.cells, event.position)
        return resolved


class AppliesAMendedRowAlone(MemoryTable):
    """Forgets what waited behind it."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        if not plan.mended:
            return MemoryTable.resolve(self, plan, frame)
        memory = self.memory
        waiting = {place for place, change in memory.changes.items() if change.waiting}
        kept = {place: change for place, change in memory.changes.items() if place not in waiting}
        self.memory = replace(memory, changes=kept)
        try:
            return MemoryTable.resolve(self, plan, frame)
        finally:
            self.memory = memory


class ForgetsWhatWasMended(MemoryTable):
    """Keeps what a person mended in the process alone."""

    def recall(self, progress: Progress) -> Recalled:
        recalled = MemoryTable.recall(self, progress)
        self.mended.clear()
        return recalled


class TruncatesWhatTheBatchNamesAlone(MemoryTable):
    """Spares the older rows of which nothing else comes with a truncate."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        resolved = MemoryTable.resolve(self, plan, frame)
        named = {key for event in _events(frame) for key in event.keys}
        if plan.truncates.arrived:
            for key in [key for key in resolved.detail.rows if key not in named]:
                del resolved.detail.rows[key]
        return resolved


class NullsWhatAMendedRowDidNotSend(MemoryTable):
    """Takes a cell that a mended row does not have for NULL."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        items = [_whole(item) if isinstance(item, ChangeEvent) and plan.releases else item for item in frame]
        return MemoryTable.resolve(self, plan, items)


class LeavesTheOldKeyOfAMendedRow(MemoryTable):
    """Takes a change of a key that was mended for an update of the key that it enters."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        events = [replace(event, old_key=None) for event in _events(frame)] if plan.releases else frame
        return MemoryTable.resolve(self, plan, events)


class HidesKeysThatAWaitingChangeHolds(MemoryTable):
    """Tells of a row in quarantine the keys that it has, and not those that wait by a key change behind it."""

    def entries(self, progress: Progress) -> Sequence[Entry]:
        return [replace(entry, also_holds=()) for entry in MemoryTable.entries(self, progress)]


class HidesWhatWaitsForItsRow(MemoryTable):
    """Tells of no event that sends a part of a row which is not there."""

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        return ()


class KeepsRowsThatALoadDoesNotHold(MemoryTable):
    """Lets a full load that begins an epoch replace only the rows that it has itself."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        resolved = MemoryTable.resolve(self, plan, frame)
        rows = resolved.detail.rows
        for key in [key for key, row in rows.items() if row is None and plan.replaces]:
            del rows[key]
        return resolved


class TellsObjectsByTheirNumberAlone(MemoryTable):
    """Takes an object of another epoch for a copy of one that had its name."""

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        known = {number for record in self.memory.records for number in record.objects}
        items = [item for item in frame if not (plan.epoch > 1 and item.position.object in known)]
        return _counted(
            MemoryTable.resolve(self, plan, items), read=len(frame) - len(items), duplicates=len(frame) - len(items)
        )


class HoldsKeysOfTheEpochBefore(MemoryTable):
    """Still shows what was in quarantine before a full load took the place of all rows."""

    def entries(self, progress: Progress) -> Sequence[Entry]:
        older = [MemoryTable.entries(self, replace(progress, epoch=epoch)) for epoch in range(1, progress.epoch)]
        return [*(entry for found in older for entry in found), *MemoryTable.entries(self, progress)]


class AcknowledgesFirst(MemoryQueue):
    """Forgets a notice as soon as it is received."""

    def receive(self) -> Sequence[Notice]:
        received = MemoryQueue.receive(self)
        self.acknowledge(received)
        return received


BROKEN: Mapping[str, Sequence[type[MemoryTable]]] = {
    "in order": (
        LosesTheLastEvent,
        LetsTheFirstOfATieWin,
        ChecksNothingForBeingStale,
        KeepsProgressApart,
        DropsRowsThatMove,
        LeavesThePositionOfANoOp,
        ForgetsDeletesTooEarly,
        BelievesWhatACrashLeft,
    ),
    "late": (ForgetsDeletesAboveTheMark,),
    "in part": (NullsWhatWasNotSent,),
    "truncated": (TruncatesWhatTheBatchNamesAlone,),
    "mended": (TakesAMendedRowForGivenUp, PutsAMendedRowOnTop, AppliesAMendedRowAlone, ForgetsWhatWasMended),
    "other names": (TakesCopiesUnderOtherNamesForNews,),
    "reloaded": (
        KeepsRowsThatALoadDoesNotHold,
        TellsObjectsByTheirNumberAlone,
        HoldsKeysOfTheEpochBefore,
    ),
    "mended in part": (
        NullsWhatAMendedRowDidNotSend,
        LeavesTheOldKeyOfAMendedRow,
        HidesKeysThatAWaitingChangeHolds,
        HidesWhatWaitsForItsRow,
    ),
}
"""The mistakes, by the scripts that show them."""
