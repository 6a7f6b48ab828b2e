"""Where events that cannot be applied wait for a person, and how rows are shown and mended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from lakeward.core.events import Operation, Position, Unset
from lakeward.core.merge.change_log import HOLDING, Reason
from lakeward.core.plan import MergePlan
from lakeward.core.ports.frames import Batch, F
from lakeward.core.ports.tables import MergeResult
from lakeward.core.progress import Progress

Written: TypeAlias = str | Unset | None
"""A cell as the source writes it: a text, None for NULL, `UNSET` where it was not sent."""


@dataclass(frozen=True, slots=True)
class Cells:
    """A row as its source wrote it, by column; of a key change also the key `before` it.

    `operation` is the word for what the row does where no column of the table has it, None where none is there.
    """

    after: Mapping[str, Written] = field(default_factory=dict)
    before: Mapping[str, Written] = field(default_factory=dict)
    operation: Written = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedRow:
    """What a person made of a row in quarantine: its cells by column, as the source writes them.

    `time` is the commit time, as a text, of a row that had none, and `sequence` its sequence where
    that is no time. `old_key` is the key that the row had before, where it changes, by column.
    """

    operation: Operation
    cells: Mapping[str, Written]
    time: str | None = None
    sequence: str | None = None
    old_key: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row in quarantine, and how many events wait behind it; a key change has another key as well.

    A key is a list in JSON: the texts of its parts.
    `time` is its source time in microseconds since 1970, and `since` when it was put there, 0 where its table
    does not know. One that is `repaired` waits to be replayed.
    What waits behind it may be key changes, which hold their other keys, too: it `also_holds` those.
    One that `is_waiting` is not in quarantine: it sends a part of a row, and waits for the rest.
    """

    key: str | None
    reason: str
    detail: str
    object: str
    row: int
    operation: str | None
    epoch: int
    sequence: int
    order: int
    batch: int
    since: int
    text: str
    time: int | None = None
    waits: int = 0
    repaired: RepairedRow | None = None
    other_key: str | None = None
    also_holds: tuple[str, ...] = ()
    is_waiting: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that the row is about."""
        return tuple(key for key in (self.key, self.other_key) if key is not None)

    @property
    def held_keys(self) -> tuple[str, ...]:
        """The keys that wait behind it: none behind a row that holds nothing."""
        return (*self.keys, *self.also_holds) if self.is_held else ()

    @property
    def position(self) -> Position:
        """The place of the event."""
        return Position(self.epoch, self.sequence, self.order, self.row)

    @property
    def is_held(self) -> bool:
        """Whether later events of its key wait behind it."""
        return self.key is not None and Reason(self.reason) in HOLDING and not self.is_waiting


class Quarantine(Protocol[F]):
    """Where events that cannot be applied wait for a person."""

    def refuse(self, plan: MergePlan, batch: Batch[F]) -> Batch[F]:
        """Return a batch with the rows as rejects that show the changes of columns which the plan sends here.

        The others lack nothing without the columns of those changes, and come without them.
        """
        ...

    def hold(self, plan: MergePlan, resolved: MergeResult) -> None:
        """Write what the batch could not apply, and what a person gave up."""
        ...

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return what is in quarantine as of the table's batch, oldest first."""
        ...

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        """Return the events that send a part of a row and wait for the rest, oldest first; no engine is started."""
        ...

    def repair_row(self, progress: Progress, entries: Sequence[Entry], events: F) -> None:
        """Write down what a person mended, until it is replayed; raises MendError where a key is another."""
        ...

    def waiting(self, progress: Progress, resolved: Sequence[Entry], repaired: F | None) -> Batch[F]:
        """Return the events that these entries hold no more, and those that were mended."""
        ...
