"""The values of the pipeline: a job, its batch at each step, and the report of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeAlias, TypeVar

from lakeward.core.dimension import Dimension
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
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
"""How often a batch is prepared where other writers commit first, unless the settings say otherwise."""

DISCOVERY_STEPS: Final = ("read_table", "read_change_log", "select_objects")
"""The steps of `discover`: they change nothing."""

PREPARATION_STEPS: Final = ("read", "plan", "resolve")
"""The steps of `prepare_batch`: they change nothing. `lakeward plan` ends after them."""

BATCH_STEPS: Final = (
    *DISCOVERY_STEPS,
    "note",
    *PREPARATION_STEPS,
    *("hold", "record_batch", "commit", "record", "acknowledge", "trim", "archive"),
)
"""All steps of a batch, in order. Crash tests stop before and after each of them."""

StepObserver: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Given the name of a step, returns the context manager in which the step runs."""


def no_observer(_step: str) -> AbstractContextManager[object]:
    """Return a context manager that does nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class SiblingTable:
    """Another table that is made of the same source objects: its name, and a function that reads its state."""

    table: str
    read_table_state: Callable[[], TableState]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[F]):
    """One table with its source, and the notices that asked for its run.

    `ledger_writer` writes the ledger, where there is one. `statistics` asks the replication task about its full
    load, where that is possible. `read_table_state` reads the state of the table as another process would, that has
    not opened it. A batch is prepared at most `attempts` times where other writers commit first. `check` raises
    where this process may no longer write, such as after the loss of a lease. `siblings` are the other tables that
    are made of the same source objects.
    """

    dimension: Dimension
    source: Source[F]
    opened: Opened[F]
    queue: Queue | None = None
    notices: Sequence[Notice] = ()
    ledger_writer: LedgerWriter | None = None
    statistics: Statistics | None = None
    read_table_state: Callable[[], TableState] | None = None
    attempts: int = ATTEMPTS
    check: Callable[[], None] = lambda: None
    siblings: Sequence[SiblingTable] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What waits for a table: table state, change log state, object history and object selection."""

    state: TableState
    change_log_state: ChangeLogState
    object_history: ObjectHistory
    selection: ObjectSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Entries of the quarantine that a batch settles: repaired ones to apply, and others to discard."""

    repaired: Sequence[Entry] = ()
    discarded: Sequence[Entry] = ()

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries that are settled."""
        return (*self.repaired, *self.discarded)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInput(Generic[F]):
    """What a batch is planned from: table state, change log state, and the batch as it was read.

    It was read from the objects of `selection`, or from the entries of the quarantine that are `settled`.
    """

    state: TableState
    change_log_state: ChangeLogState
    batch: Batch[F]
    selection: ObjectSelection = field(default_factory=ObjectSelection)
    settled: Settlement = field(default_factory=Settlement)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBatch(Generic[F]):
    """A batch that is planned and resolved, and not committed.

    `progress` is the progress that its commit carries. `held_before` is the number of keys held before it.
    """

    plan: MergePlan
    batch: Batch[F]
    resolved: MergeResult
    progress: Progress
    selection: ObjectSelection
    held_before: int = 0

    @property
    def is_last(self) -> bool:
        """True if the batch has all objects that waited; objects that changed during the read are not in it."""
        return not self.selection.files_left and len(self.plan.facts.objects) == len(self.selection.objects)

    def close(self) -> None:
        """Free the resources of the batch and of its merge result."""
        self.resolved.close()
        self.batch.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one batch did to one table.

    `written` and `removed` are numbers of rows. `commit` names the commit of the table. `way` tells people in words
    how the table format resolved the batch.
    """

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


@dataclass(frozen=True, slots=True)
class OnlyOtherTables:
    """No batch: all that waits are messages of other tables, so the columns of this table are not known."""

    others: OtherTables


class Idle(Enum):
    """Why there is no batch.

    NOTHING: nothing waits. CHANGING: all objects that wait changed while they were read. LOADING: the table waits
    for a full load.
    """

    NOTHING = "nothing"
    CHANGING = "changing"
    LOADING = "loading"
