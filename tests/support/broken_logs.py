"""Sources that break the laws of logs, each by a mistake that a law is there to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.dimension import Dimension
from lakeward.core.events import Sequences
from lakeward.core.facts import ObjectFacts
from lakeward.core.ledger import Taken
from lakeward.core.log_restart import LogName
from lakeward.core.ports import Batch


class LogSource(MemorySource):
    """A source whose sequences are places in one log."""

    def __init__(self) -> None:
        MemorySource.__init__(self, sequences=Sequences.PLACES, logs=lambda _: LogName("bin."))


class TellsNoLog(LogSource):
    def read(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[Frame]:
        return _with_objects(LogSource.read(self, dimension, taken, epoch), lambda found: replace(found, spans=()))


class TellsNoTimes(LogSource):
    def read(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[Frame]:
        return _with_objects(LogSource.read(self, dimension, taken, epoch), lambda found: _dated(found, None))


class TellsTheTimesOfArrival(LogSource):
    def read(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[Frame]:
        batch = LogSource.read(self, dimension, taken, epoch)
        return _with_objects(batch, lambda found: _dated(found, 2_000_000_000_000_000 + 10**7 * found.object.order))


class NamesALogByItsObject(LogSource):
    def __init__(self) -> None:
        MemorySource.__init__(
            self, sequences=Sequences.PLACES, logs=lambda event: LogName(f"bin{event.position.object}.")
        )


class LiftsNothing(LogSource):
    def read(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[Frame]:
        return LogSource.read(self, dimension, replace(taken, restarts=()), epoch)


class LiftsAllThereIs(LogSource):
    def read(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[Frame]:
        early = tuple(restart._replace(order=0) for restart in taken.restarts)
        return LogSource.read(self, dimension, replace(taken, restarts=early), epoch)


class LiftsByOne(LogSource):
    def read(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[Frame]:
        low = tuple(restart._replace(offset=1) for restart in taken.restarts)
        return LogSource.read(self, dimension, replace(taken, restarts=low), epoch)


def _dated(found: ObjectFacts, time: int | None) -> ObjectFacts:
    return replace(found, spans=tuple(span._replace(earliest=time, latest=time) for span in found.spans))


def _with_objects(batch: Batch[Frame], change: Callable[[ObjectFacts], ObjectFacts]) -> Batch[Frame]:
    return replace(batch, facts=replace(batch.facts, objects=tuple(map(change, batch.facts.objects))))


BROKEN: Final[Mapping[str, Sequence[type[LogSource]]]] = {
    "a_log_that_starts_over_is_told": [TellsNoLog, TellsNoTimes],
    "changes_that_come_late_or_again_are_no_restart": [TellsTheTimesOfArrival, NamesALogByItsObject],
    "changes_from_a_restart_on_count_above_the_old_log": [LiftsNothing, LiftsAllThereIs, LiftsByOne],
}
"""Of each law the sources that break it."""
