"""Whether a failed write of Hudi was committed all the same.

Steps after the commit, such as cleaning and compaction, may fail.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.adapters.formats.hudi.metadata.timeline import RESTORED, Instant, Timeline


@dataclass(frozen=True, slots=True)
class _TimelineWrite:
    """A write whose outcome is in the timeline."""

    timeline: Timeline

    def discard(self) -> None:
        """Leave the files: the next write of Hudi rolls back what was not completed."""


@dataclass(frozen=True, slots=True)
class Change(_TimelineWrite):
    """The write of a batch."""

    batch: int

    def may_be_committed(self, _error: BaseException) -> bool:
        """Return whether the timeline has the commit."""
        last_commit = self.timeline.newest_with_progress()
        return last_commit is not None and last_commit[1].batch == self.batch


@dataclass(frozen=True, slots=True)
class RestoreChange(_TimelineWrite):
    """The write of a rollback; `before` is the newest instant before it."""

    before: Instant

    def may_be_committed(self, _error: BaseException) -> bool:
        """Return whether the timeline has it."""
        newest = self.timeline.newest()
        return newest is not None and newest != self.before and RESTORED in newest.extra_metadata()
