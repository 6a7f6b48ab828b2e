"""Where rows end up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lakeward.core.joined.unshown import Unshown
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.facts import Capability
from lakeward.core.plan import MergePlan
from lakeward.core.ports.frames import F, F_contra
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as it stands: its progress, its columns (None where it does not exist), its last commit.

    `committed` is when that was, in microseconds since 1970.
    """

    progress: Progress
    schema: Schema | None
    committed: int | None = None


@dataclass(frozen=True, slots=True)
class SkippedKeys:
    """Keys of a joined history that are left as they stand, for their versions break a rule: how many there are.

    `example` says in words of one of them which rule, and by which version. Of so many a version would begin or end
    `beyond`: at the open end, or behind it. That comes of a source, all else of those who altered the table.
    """

    keys: int
    example: str
    beyond: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What carrying out a plan would do, worked out but not done.

    `written` and `removed` are the rows that the commit must add and take away; of a history they
    are versions, `current` says how many more of them are current afterwards than before, and `numbered`
    how many get a surrogate number that is new; where deletes are soft, so many more rows are `current`. `held` are
    the keys that wait afterwards; `rejects` the rows of the batch that go into quarantine, by reason, those that
    only the table refuses included. `log_regressions` are, by the order of each suspect object of the plan, the
    rows of the first changes that lie below what came of their keys though they are newer. A joined history may
    have `left` keys as they stand, and a joined table rows of its sources that are `unshown`. `detail` belongs to
    the adapter; `way` says in words how it worked this out, and why so.
    """

    counts: Counts
    written: int
    removed: int
    current: int = 0
    numbered: int = 0
    held: int = 0
    rejects: Mapping[Reason, int] = field(default_factory=dict)
    log_regressions: Mapping[int, int] = field(default_factory=dict)
    left: SkippedKeys | None = None
    unshown: Unshown = field(default_factory=Unshown)
    detail: Any = None
    way: str = ""
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that was made: its name in the table's own terms, and the rows it added and removed."""

    name: str
    written: int
    removed: int


class Table(Protocol[F_contra]):
    """Where rows end up. Its commit carries rows and progress at once, or neither."""

    capabilities: frozenset[Capability]

    def standing(self) -> TableState:
        """Return what the table's last commit of ours says."""
        ...

    def resolve(self, plan: MergePlan, frame: F_contra) -> MergeResult:
        """Work out what the plan does to the rows; nothing that a reader sees changes."""
        ...

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Make rows and progress visible in one commit; raises CommitConflict where it lost a race."""
        ...


class DirectLoads(Protocol[F]):
    """What writes the rows of a full load before all is known of them."""

    def write_load(self, plan: MergePlan, frame: F) -> tuple[F, Callable[[], None]] | None:
        """Write the rows of events to files that nobody sees, for a commit by this plan.

        Return what is known of the events as they were written, and what deletes the files where they are not
        committed. `plan` is that of a load of which all can be applied: where that is not so, or two events have
        the same key, or one that a row of the table has, None is returned, and nothing is left.
        """
        ...
