"""What a table remembers beside its rows, and what operators said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from lakeward.core.ledger.full_loads import LoadCompletion, ReloadRequest, reload_of
from lakeward.core.ledger.objects import ObjectRecord, SourceObject
from lakeward.core.merge.change_log import Hold, Record
from lakeward.core.plan import MergePlan
from lakeward.core.ports.tables import MergeResult
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import SchemaChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """An alarm that an operator let pass: what of it, who, why, when (microseconds since 1970), in which epoch."""

    code: str
    about: tuple[str, ...]
    by: str
    reason: str | None
    at: int
    epoch: int = 1


OperatorDecision: TypeAlias = Acknowledgement | ReloadRequest | LoadCompletion
"""What an operator said of a table, kept beside it."""


@dataclass(frozen=True, slots=True)
class ChangeLogState:
    """What a table remembers, as of its last commit.

    `objects` are those of its epoch, `left` the versions of those of epochs before. `records` are those of all
    its batches; `in_part` says that some event that is remembered
    may have been sent in part, or change its key. `words` are what operators said, in order,
    `shown` the changes of columns whose rows went into quarantine, by batch.
    """

    objects: Mapping[str, SourceObject] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()
    records: Sequence[Record] = ()
    in_part: bool = False
    words: Sequence[OperatorDecision] = ()
    shown: Mapping[int, Sequence[SchemaChange]] = field(default_factory=dict)
    left: frozenset[str] = frozenset()

    @property
    def acks(self) -> Sequence[Acknowledgement]:
        """The alarms that were let pass."""
        return [word for word in self.words if isinstance(word, Acknowledgement)]

    @property
    def reloads(self) -> Sequence[ReloadRequest]:
        """The reloads that were asked for."""
        return [word for word in self.words if isinstance(word, ReloadRequest)]

    @property
    def wholes(self) -> Sequence[LoadCompletion]:
        """The full loads that were said to be complete."""
        return [word for word in self.words if isinstance(word, LoadCompletion)]

    def cut(self, epoch: int) -> int | None:
        """Return the order at or below which changes are of the epochs before, if an operator began it."""
        word = reload_of(self.reloads, epoch)
        return None if word is None else word.cut

    def acked(self, epoch: int) -> Mapping[str, frozenset[str]]:
        """What was let pass in an epoch, by the code of the alarm: names come again in the next."""
        found: dict[str, frozenset[str]] = {}
        for ack in self.acks:
            if ack.epoch == epoch:
                found[ack.code] = found.get(ack.code, frozenset()).union(ack.about)
        return found


class ChangeLog(Protocol):
    """What a table remembers beside its rows, stamped with the batch that it belongs to.

    What is stamped above the table's own batch was left by a crash and does not exist.
    """

    def read_state(self, progress: Progress) -> ChangeLogState:
        """Return what is remembered up to the table's batch."""
        ...

    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        """Write the batch record and what the batch leaves to remember."""
        ...

    def trim(self, progress: Progress) -> None:
        """Forget what can no longer matter to a table that stands there."""
        ...

    def record_decision(self, progress: Progress, word: OperatorDecision) -> None:
        """Write down what an operator said; the table need not exist yet."""
        ...

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        """Return the objects of the batches behind `after`, up to the table's batch."""
        ...
