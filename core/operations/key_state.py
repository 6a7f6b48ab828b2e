"""What a table knows of one key: the input of `core.operations.explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.merge.change_log import HOLDING, BaseRow, Reason
from lakeward.core.merge.fold import Row
from lakeward.core.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A remembered event with the batch that brought it and the batch that settled it; None while it waits."""

    event: ChangeEvent
    batch: int
    settled: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRow:
    """A row in quarantine. `discarded_in` is the batch that discarded it; None while it is there."""

    position: Position
    reason: Reason
    batch: int
    operation: Operation | None = None
    detail: str = ""
    text: str = ""
    time: int | None = None
    discarded_in: int | None = None

    @property
    def is_holding(self) -> bool:
        """True if the row holds its key."""
        return self.discarded_in is None and self.reason in HOLDING


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored row, and the batch that wrote it, where that is known."""

    row: Row
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """When a batch was committed, in microseconds since 1970, and the name of its commit, where that is known."""

    at: int
    commit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """All that a table knows of one key as of its last commit.

    `base` is the row before the first remembered event, or its absence; None where that is not known. `deleted_row`
    is a deleted row that is kept, where deletes are soft. `objects` are the names of source objects by order.
    `commits` has the commits by batch. `has_loads` says that some batch had rows of a full load.
    """

    key: Key
    progress: Progress
    remembered: Sequence[Remembered] = ()
    quarantined: Sequence[QuarantinedRow] = ()
    stored: Stored | None = None
    deleted_row: Stored | None = None
    base: BaseRow | None = None
    objects: Mapping[int, str] = field(default_factory=dict)
    commits: Mapping[int, BatchCommit] = field(default_factory=dict)
    has_loads: bool = False

    @property
    def has_content(self) -> bool:
        """True if the table knows anything of the key itself; truncates do not count."""
        of_key = any(item.event.keys for item in self.remembered)
        return of_key or bool(self.quarantined) or any((self.stored, self.deleted_row, self.base))
