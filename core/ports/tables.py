"""Ports of a table: its state, the resolution of a plan, the commit, and direct full loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lakeward.core.joined.omitted_rows import OmittedRows
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.facts import Capability
from lakeward.core.plan import MergePlan
from lakeward.core.ports.frames import F, F_contra
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a table as of lakeward's last commit to it.

    `schema` is None if the table does not exist. `committed` is the time of the commit in microseconds since 1970.
    """

    progress: Progress
    schema: Schema | None
    committed: int | None = None


@dataclass(frozen=True, slots=True)
class SkippedKeys:
    """The number of keys of a joined history that a batch leaves unchanged because their versions break a rule.

    `example` describes in words the rule and the version of one key.
    """

    keys: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What a plan does to the rows, worked out and not committed.

    - `counts`: the number of events in each outcome.
    - `written`, `removed`: the number of rows that the commit adds and removes; of a history, versions.
    - `current`: by how many the current versions of a history, or the undeleted rows with soft deletes, increase.
    - `numbered`: the number of versions that get a new surrogate number.
    - `held`: the number of keys that are held afterwards.
    - `rejects`: by reason, the number of rows that go into quarantine, including those that only the table refuses.
    - `log_regressions`: by the order of each suspect object of the plan, the row of its first change that is newer
      than the stored result of its key and has a lower place in the log.
    - `skipped_keys`: the skipped keys of a joined history.
    - `omitted_rows`: the source rows that a joined table does not show.
    - `detail`: the adapter's own data for `Table.commit`.
    - `way`: in words, the strategy that the adapter chose, and why.
    - `close`: frees the resources of the result.
    """

    counts: Counts
    written: int
    removed: int
    current: int = 0
    numbered: int = 0
    held: int = 0
    rejects: Mapping[Reason, int] = field(default_factory=dict)
    log_regressions: Mapping[int, int] = field(default_factory=dict)
    skipped_keys: SkippedKeys | None = None
    omitted_rows: OmittedRows = field(default_factory=OmittedRows)
    detail: Any = None
    way: str = ""
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its name in the terms of the table format, and the numbers of rows that it added and removed."""

    name: str
    written: int
    removed: int


class Table(Protocol[F_contra]):
    """Applies plans to the rows of one table. Each commit carries rows and progress atomically."""

    capabilities: frozenset[Capability]

    def state(self) -> TableState:
        """Return the state of the table as of lakeward's last commit."""
        ...

    def resolve(self, plan: MergePlan, frame: F_contra) -> MergeResult:
        """Work out what a plan does to the rows. Changes nothing that a reader can see."""
        ...

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Make rows and progress visible in one commit.

        Raises CommitConflict if another writer committed first.
        """
        ...


class DirectLoads(Protocol[F]):
    """Writes the rows of a full load while they are read."""

    def write_load(self, plan: MergePlan, frame: F) -> tuple[F, Callable[[], None]] | None:
        """Write the rows of a frame to files that no reader sees, for a commit of `plan`.

        Return the written events, which `Table.resolve` gets next, and a function that deletes the files if they
        are not committed. Return None, and leave no file, if an event cannot be applied, or if its key occurs
        twice or in a row of the table.
        """
        ...
