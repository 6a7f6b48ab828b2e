"""A job: one table and where its changes come from; the steps that a batch of it takes, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeAlias, TypeVar

from lakeward.core.dimension import Dimension
from lakeward.core.ledger.objects import ObjectHistory, ObjectSelection
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import (
    Batch,
    ChangeLogState,
    Entry,
    MergeResult,
    Notice,
    Opened,
    Queue,
    Source,
    Statistics,
    TableState,
)
from lakeward.core.progress import Progress

F = TypeVar("F")

ATTEMPTS: Final = 5
"""How often a batch is worked out where others commit in between, unless the settings say otherwise."""

DISCOVERY_STEPS: Final = ("read_table", "read_change_log", "select_objects")
PREPARATION_STEPS: Final = ("read", "plan", "resolve")
"""The steps that `lakeward plan` takes: they change nothing."""

BATCH_STEPS: Final = (
    *DISCOVERY_STEPS,
    "note",
    *PREPARATION_STEPS,
    *("hold", "record_batch", "commit", "record", "acknowledge", "trim", "archive"),
)
"""The steps of a batch."""

StepObserver: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Given the name of a step, returns what to enter before it and leave after it."""


def no_observer(_step: str) -> AbstractContextManager[object]:
    """Watch nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Beside:
    """Another table that is made of the same objects, and how it stands."""

    table: str
    standing: Callable[[], TableState]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[F]):
    """One table, where its changes come from, and the notices that called for it; `ledger_writer` keep the ledger.

    `statistics` are those of the task that loads it, where they can be asked. `standing` looks at the
    table as somebody else would who has not opened it. A batch is worked out `attempts` times, in
    all, where another writer commits in between. `check` raises where this process may not write any more.
    `beside` are the other tables that are made of the same objects.
    """

    dimension: Dimension
    source: Source[F]
    opened: Opened[F]
    queue: Queue | None = None
    notices: Sequence[Notice] = ()
    ledger_writer: LedgerWriter | None = None
    statistics: Statistics | None = None
    standing: Callable[[], TableState] | None = None
    attempts: int = ATTEMPTS
    check: Callable[[], None] = lambda: None
    beside: Sequence[Beside] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What waits for a table: where it stands, what it remembers, and what is listed."""

    standing: TableState
    change_log_state: ChangeLogState
    past: ObjectHistory
    selection: ObjectSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBatch(Generic[F]):
    """A batch that is worked out and not yet done; `held_before` it are so many keys."""

    plan: MergePlan
    batch: Batch[F]
    resolved: MergeResult
    progress: Progress
    selection: ObjectSelection
    held_before: int = 0

    @property
    def is_last(self) -> bool:
        """Whether all that waited is in this batch; objects that changed while they were read are not."""
        return not self.selection.files_left and len(self.plan.facts.objects) == len(self.selection.objects)

    def close(self) -> None:
        """Free what the batch holds."""
        self.resolved.close()
        self.batch.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one batch did to one table; `way` is how its adapter worked it out, in words."""

    table: str
    plan: MergePlan
    progress: Progress
    written: int
    removed: int
    commit: str
    is_last: bool = True
    way: str = ""

    @property
    def counts(self) -> Counts:
        """The counts of the batch."""
        return self.progress.counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Entries of the quarantine that a person is done with: to be applied as they were mended, or given up."""

    repaired: Sequence[Entry] = ()
    given_up: Sequence[Entry] = ()

    @property
    def entries(self) -> Sequence[Entry]:
        """All of them."""
        return (*self.repaired, *self.given_up)


@dataclass(frozen=True, slots=True)
class OthersAlone:
    """There is no batch: what waits has messages of other tables alone, so that nothing tells the columns."""

    others: OtherTables


class Idle(Enum):
    """Why there is no batch: nothing waits, all that does changed while it was read, or a full load must come."""

    NOTHING = "nothing"
    CHANGING = "changing"
    LOADING = "loading"
