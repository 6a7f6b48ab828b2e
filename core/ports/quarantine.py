"""The quarantine: rows that cannot be applied, how they are shown, and how they are repaired."""

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
"""A cell as the source writes it: a text, None for NULL, `UNSET` if the source did not send it."""


@dataclass(frozen=True, slots=True)
class Cells:
    """A row as its source wrote it.

    `after` has the cells by column. `before` has the old key of a key change, by column. `operation` is the
    operation in the source's own word, if no column of the table holds it; None if the row has none.
    """

    after: Mapping[str, Written] = field(default_factory=dict)
    before: Mapping[str, Written] = field(default_factory=dict)
    operation: Written = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedRow:
    """A row in quarantine as an operator edited it. Cells are by column, as the source writes them.

    `time` is the commit time, as a text, of a row that had none. `sequence` is its sequence, if sequences are not
    times. `old_key` has the key before a key change, by column.
    """

    operation: Operation
    cells: Mapping[str, Written]
    time: str | None = None
    sequence: str | None = None
    old_key: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row in quarantine, with the number of events that wait behind it (`waiting_events`).

    - `key` and `other_key`: keys as JSON lists of the texts of their parts. Only a key change has `other_key`.
    - `reason`, `detail`: a value of `Reason`, and the explanation in words.
    - `object`, `row`: the name of the object and the number of the row in it.
    - `epoch`, `sequence`, `order`, `row`: the position of the event.
    - `batch`: the number of the batch that put the row here.
    - `since`: when that was, in microseconds since 1970; 0 if the table does not know.
    - `time`: the source time in microseconds since 1970.
    - `text`: the row as the source wrote it.
    - `repaired`: the edited row, which waits to be replayed.
    - `also_holds`: the other keys of key changes that wait behind this row. They are held, too.
    - `is_waiting`: the event is not in quarantine; it has a part of a row and waits for the rest.
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
    waiting_events: int = 0
    repaired: RepairedRow | None = None
    other_key: str | None = None
    also_holds: tuple[str, ...] = ()
    is_waiting: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the row: one, two for a key change, none if the key is unknown."""
        return tuple(key for key in (self.key, self.other_key) if key is not None)

    @property
    def held_keys(self) -> tuple[str, ...]:
        """The keys that are held because of this row; empty if its reason holds none."""
        return (*self.keys, *self.also_holds) if self.is_held else ()

    @property
    def position(self) -> Position:
        """The position of the event."""
        return Position(self.epoch, self.sequence, self.order, self.row)

    @property
    def is_held(self) -> bool:
        """Whether later events of the key wait behind this row."""
        return self.key is not None and Reason(self.reason) in HOLDING and not self.is_waiting


class Quarantine(Protocol[F]):
    """Stores events that cannot be applied until an operator settles them."""

    def refuse(self, plan: MergePlan, batch: Batch[F]) -> Batch[F]:
        """Return a batch in which rows that show a schema change with the policy `quarantine` are rejects.

        `plan.evolution.quarantined_changes` has these changes. All other rows are returned without the columns of
        those changes, which are NULL in them.
        """
        ...

    def hold(self, plan: MergePlan, resolved: MergeResult) -> None:
        """Store the rows that the batch could not apply, and mark entries that were replayed or discarded."""
        ...

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return the rows in quarantine as of the batch of `progress`, oldest first."""
        ...

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        """Return the events that have a part of a row and wait for the rest, oldest first. Starts no engine."""
        ...

    def repair_row(self, progress: Progress, entries: Sequence[Entry], events: F) -> None:
        """Store the edited rows of entries until they are replayed.

        `events` are the same rows as the source reads them. Raises RepairError if the key of a row changed.
        """
        ...

    def read_replay(self, progress: Progress, resolved: Sequence[Entry], repaired: F | None) -> Batch[F]:
        """Return the events that wait behind settled entries, and the repaired events.

        `resolved` are the settled entries; `repaired` is the frame of repaired events, None if there are none.
        """
        ...
