"""Sources with mistakes that the laws of logs must show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from changed_sources import changed_reads

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.checks.log_steps import LogName, LogReached, LogSpan
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Sequences
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.ports import Batch


class LogSource(MemorySource):
    """A source whose sequences are positions in one log."""

    def __init__(self) -> None:
        MemorySource.__init__(self, sequences=Sequences.PLACES, logs=lambda _: LogName("bin."))


class TellsNoLog(LogSource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        return _without_steps(LogSource.read(self, dimension, selection, epoch), lambda _: True)


class TellsNoTimes(LogSource):
    def put(self, table: TableName, order: int, items: Frame, *more: Any, **named: Any) -> None:
        LogSource.put(self, table, order, [replace(item, time=None) for item in items], *more, **named)


class TellsTheTimesOfArrival(LogSource):
    def put(self, table: TableName, order: int, items: Frame, *more: Any, **named: Any) -> None:
        arrived = 2_000_000_000_000_000 + 10**7 * order
        LogSource.put(self, table, order, [replace(item, time=arrived) for item in items], *more, **named)


class ComparesTheGreatestPlace(LogSource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch, highest = LogSource.read(self, dimension, selection, epoch), selection.reached.highest or 0
        return _without_steps(batch, lambda span: span.greatest > highest)


class ComparesTheEarliestTime(LogSource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = LogSource.read(self, dimension, selection, epoch)
        return _without_steps(batch, lambda span: not selection.reached.is_newer(span.earliest))


class NamesALogByItsObject(LogSource):
    def __init__(self) -> None:
        MemorySource.__init__(
            self, sequences=Sequences.PLACES, logs=lambda event: LogName(f"bin{event.position.object}.")
        )


def reads(change: Callable[[ObjectSelection], ObjectSelection]) -> type[MemorySource]:
    """Return a source of a log that reads another selection than the given one."""
    return changed_reads(lambda _, __, selection: change(selection), LogSource)


def lifts(**place: int | None) -> type[MemorySource]:
    """Return a source that lifts changes after a restart otherwise."""
    return reads(
        lambda selection: replace(selection, restarts=tuple(one._replace(**place) for one in selection.restarts))
    )


def _without_steps(batch: Batch[Frame], is_known: Callable[[LogSpan], bool]) -> Batch[Frame]:
    """Leave out what rows of objects tell whose spans seem to be of the log that is known."""
    objects = (
        replace(item, steps=None) if any(map(is_known, item.spans)) else item for item in batch.facts.objects
    )
    return replace(batch, facts=replace(batch.facts, objects=tuple(objects)))


BROKEN: Final[Mapping[str, Sequence[type[MemorySource]]]] = {
    "a_log_that_starts_over_is_reported": [TellsNoLog, TellsNoTimes],
    "a_log_that_climbs_above_its_old_end_is_reported": [
        reads(lambda selection: replace(selection, reached=LogReached())),  # compares within an object alone
        ComparesTheGreatestPlace,
    ],
    "a_log_that_starts_over_after_an_old_change_is_reported": [ComparesTheEarliestTime],
    "late_and_repeated_changes_are_no_restart": [TellsTheTimesOfArrival, NamesALogByItsObject],
    "changes_after_a_restart_are_above_the_old_log": [
        reads(lambda selection: replace(selection, restarts=())),
        lifts(order=0),
        lifts(end=None),
        lifts(offset=1),
    ],
}
"""The broken sources of each law."""
