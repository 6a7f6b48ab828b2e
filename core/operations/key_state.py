"""What a table knows of one key: a handful of values, which `core.operations.explain` makes a story of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.merge.change_log import HOLDING, BaseRow, Reason
from lakeward.core.merge.fold import Row
from lakeward.core.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """An event that a table remembers: the batch that brought it, and that which settled it (None: it waits)."""

    event: ChangeEvent
    batch: int
    settled: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A row in quarantine, and the batch with which it was given up (None: it is there)."""

    position: Position
    reason: Reason
    batch: int
    operation: Operation | None = None
    detail: str = ""
    text: str = ""
    time: int | None = None
    given_up: int | None = None

    @property
    def is_holding(self) -> bool:
        """Whether the key waits behind it."""
        return self.given_up is None and self.reason in HOLDING


@dataclass(frozen=True, slots=True)
class Stored:
    """The row that stands, and the batch that put it there, where that is known."""

    row: Row
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """When a batch became visible, in microseconds since 1970, and by which commit, where that is known."""

    at: int
    commit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that a table knows of one key, as of its last commit.

    `base` is the row before the first remembered event, or its absence; None where nobody
    knows. A row that is `gone` stays with its values where deletes are soft. `objects` are the
    names of the source's objects by their order; `has_loads` says that some batch had rows of a full load.
    """

    key: Key
    progress: Progress
    remembered: Sequence[Remembered] = ()
    refused: Sequence[Refused] = ()
    stored: Stored | None = None
    gone: Stored | None = None
    base: BaseRow | None = None
    objects: Mapping[int, str] = field(default_factory=dict)
    made: Mapping[int, Made] = field(default_factory=dict)
    has_loads: bool = False

    @property
    def is_anything(self) -> bool:
        """Whether the key itself left a trace; a truncate is none of it."""
        of_key = any(known.event.keys for known in self.remembered)
        return of_key or bool(self.refused) or any((self.stored, self.gone, self.base))
