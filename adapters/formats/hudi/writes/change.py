"""Whether a write of Hudi that failed was made all the same: what follows it (cleaning, compaction) may fail."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.adapters.formats.hudi.metadata.timeline import RESTORED, Instant, Timeline


@dataclass(frozen=True, slots=True)
class _Written:
    """A write, of which the timeline tells."""

    timeline: Timeline

    def take_back(self) -> None:
        """Leave the files: the next write of Hudi takes back what was not completed."""


@dataclass(frozen=True, slots=True)
class Change(_Written):
    """The write of a batch."""

    batch: int

    def may_be_made(self, _error: BaseException) -> bool:
        """Whether the timeline has the commit."""
        ours = self.timeline.newest_of_ours()
        return ours is not None and ours[1].batch == self.batch


@dataclass(frozen=True, slots=True)
class Restoring(_Written):
    """The write that takes a table back, behind that which was `before` it."""

    before: Instant

    def may_be_made(self, _error: BaseException) -> bool:
        """Whether the timeline has it."""
        newest = self.timeline.newest()
        return newest is not None and newest != self.before and RESTORED in newest.said()
