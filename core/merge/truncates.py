"""Truncates as values: they are few, have no key, and meet every older row and event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from lakeward.core.events import Position, SourceOrder
from lakeward.core.merge.change_log import Reason, Record
from lakeward.core.merge.counts import Counts


@dataclass(frozen=True)
class Truncates:
    """The positions of the remembered truncates, and of those that a batch brings, in time and for the first time.

    `copies` is the number of truncates of the batch that came before.
    """

    remembered: frozenset[Position] = frozenset()
    arrived: tuple[Position, ...] = ()
    copies: int = 0

    @classmethod
    def of(cls, remembered: frozenset[Position], arriving: Iterable[Position], *, unique: bool = False) -> Self:
        """Return the truncates with new ones separated from copies, by sequence where sequences are `unique`."""
        known_facts: set[Position | SourceOrder] = {
            fact for position in remembered for fact in (position, position.source_order)
        }
        arrived, copies = [], 0
        for position in sorted(arriving):
            fact = position.source_order if unique else position
            copies += fact in known_facts
            if fact not in known_facts:
                known_facts.add(fact)
                arrived.append(position)
        return cls(remembered, tuple(arrived), copies)

    def met_from(self, least: Position | None) -> Self:
        """Return the truncates that events from a position on (None: no event) meet, in a table without base rows.

        The stored rows have met all others. The newest stays as well, because it decides which holds it ends.
        """
        above = {position for position in self.remembered if least is not None and position >= least}
        newest = set() if self.newest is None else {self.newest}
        return replace(self, remembered=frozenset(above | newest))

    @cached_property
    def all(self) -> tuple[Position, ...]:
        """All truncates, in order."""
        return tuple(sorted({*self.remembered, *self.arrived}))

    @property
    def newest(self) -> Position | None:
        """The newest remembered truncate."""
        return max(self.remembered, default=None)

    @property
    def removes_below(self) -> Position | None:
        """The position below which the batch removes all rows, or None."""
        return max(self.arrived, default=None)

    def counts(self, *, in_history: bool) -> Counts:
        """Return the counts of the truncates of the batch.

        In a history each is applied, even if newer ones exist.
        """
        if in_history:
            return Counts(duplicates=self.copies, applied=len(self.arrived))
        stale = sum(self.newest is not None and position < self.newest for position in self.arrived)
        applied = int(len(self.arrived) > stale)
        superseded = len(self.arrived) - stale - applied
        return Counts(duplicates=self.copies, stale=stale, superseded=superseded, applied=applied)

    def overrules(self, position: Position, reason: Reason) -> bool:
        """Return True if a truncate supersedes a held row, because the row lies below it.

        A row whose position is unknown may lie above it.
        """
        return reason is not Reason.SEQUENCE and bool(self.all) and position < self.all[-1]


def remembered_truncates(
    records: Iterable[Record], low_watermark: SourceOrder | None = None
) -> frozenset[Position]:
    """Return the truncates that may still matter: those above the low watermark, and the newest below it.

    A history that goes on from older base rows needs older ones, and remembers them in its change log.
    """
    truncates = {position for record in records for position in record.truncates}
    passed = {
        position for position in truncates if low_watermark is not None and position.source_order <= low_watermark
    }
    return frozenset(truncates - passed) | ({max(passed)} if passed else frozenset())
