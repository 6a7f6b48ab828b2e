"""The counts of a run: each event is in exactly one, and each is counted on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum


class Verdict(Enum):
    """The outcome of an event: the first of these that applies, in this order."""

    SKIPPED = "skipped"
    DUPLICATE = "duplicates"
    QUARANTINED = "quarantined"
    WAITING = "waiting"
    STALE = "stale"
    SUPERSEDED = "superseded"
    APPLIED = "applied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The number of events of each outcome, and figures that show gaps in the feed.

    `released` are events that waited and are settled now; they were counted as waiting when they were read. The
    last five are counted in event order, before events of one key collapse.
    """

    read: int = 0
    skipped: int = 0
    duplicates: int = 0
    quarantined: int = 0
    waiting: int = 0
    stale: int = 0
    superseded: int = 0
    applied: int = 0
    released: int = 0
    ties: int = 0
    insert_on_existing: int = 0
    update_on_missing: int = 0
    unset_as_null: int = 0

    def adds_up(self) -> bool:
        """Return True if the counts of all outcomes add up to `read`."""
        accounted: int = sum(getattr(self, verdict.value) for verdict in Verdict)
        return self.read == accounted

    def __add__(self, other: Counts) -> Counts:
        own, added = asdict(self), asdict(other)
        return Counts(**{name: own[name] + added[name] for name in own})

    @classmethod
    def of(cls, values: Mapping[str, int]) -> Counts:
        """Return the counts of a mapping: unknown names are ignored, missing ones are 0."""
        return cls(**{name: values[name] for name in cls.__slots__ if name in values})
