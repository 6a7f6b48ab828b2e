"""Truncates as values: they are few, have no key, and every row and event below one meets it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from lakeward.core.events import Mark, Position
from lakeward.core.merge.change_log import Reason, Record
from lakeward.core.merge.counts import Counts


@dataclass(frozen=True)
class Truncates:
    """The positions of those that a table remembers, and of those that come with a batch, in time and for once.

    So many `copies` came with it as well.
    """

    remembered: frozenset[Position] = frozenset()
    arrived: tuple[Position, ...] = ()
    copies: int = 0

    @classmethod
    def of(cls, remembered: frozenset[Position], came: Iterable[Position], *, unique: bool = False) -> Self:
        """Tell those that are new from copies; where sequences are `unique`, by those."""
        known: set[Position | Mark] = {fact for place in remembered for fact in (place, place.mark)}
        arrived, copies = [], 0
        for place in sorted(came):
            fact = place.mark if unique else place
            copies += fact in known
            if fact not in known:
                known.add(fact)
                arrived.append(place)
        return cls(remembered, tuple(arrived), copies)

    def met_from(self, least: Position | None) -> Self:
        """Return those that events from a place on (None: no event) meet, in a table that goes on from its rows.

        These have met all others; the newest tells beside them what it overrules.
        """
        above = {place for place in self.remembered if least is not None and place >= least}
        newest = set() if self.newest is None else {self.newest}
        return replace(self, remembered=frozenset(above | newest))

    @cached_property
    def all(self) -> tuple[Position, ...]:
        """All of them, in order."""
        return tuple(sorted({*self.remembered, *self.arrived}))

    @property
    def newest(self) -> Position | None:
        """The newest that is remembered."""
        return max(self.remembered, default=None)

    @property
    def removes_below(self) -> Position | None:
        """The position below which no row stands after the batch, if it removes any."""
        return max(self.arrived, default=None)

    def counts(self, *, in_history: bool) -> Counts:
        """Return the counts of those that came: in a history each has its place, whatever is newer."""
        if in_history:
            return Counts(duplicates=self.copies, applied=len(self.arrived))
        stale = sum(self.newest is not None and place < self.newest for place in self.arrived)
        applied = int(len(self.arrived) > stale)
        superseded = len(self.arrived) - stale - applied
        return Counts(duplicates=self.copies, stale=stale, superseded=superseded, applied=applied)

    def overrule(self, position: Position, reason: Reason) -> bool:
        """Tell whether a row that holds its key matters no more: it lies below a truncate.

        One whose place in the order is unknown may lie above it.
        """
        return reason is not Reason.SEQUENCE and bool(self.all) and position < self.all[-1]


def remembered_truncates(records: Iterable[Record], mark: Mark | None = None) -> frozenset[Position]:
    """Return the truncates of all batches that may still matter: of those that the mark has passed, the newest.

    What a table remembers of a history goes on from before others, too: it remembers these beside it.
    """
    found = {place for record in records for place in record.truncates}
    passed = {place for place in found if mark is not None and place.mark <= mark}
    return frozenset(found - passed) | ({max(passed)} if passed else frozenset())
