"""The change log of a table: what it remembers of applied batches, and the decisions of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from lakeward.core.ledger.full_loads import LoadCompletion, ReloadRequest, find_reload
from lakeward.core.ledger.objects import ObjectRecord, SourceObject
from lakeward.core.merge.change_log import Hold, Record
from lakeward.core.plan import MergePlan
from lakeward.core.ports.tables import MergeResult
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import SchemaChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """An operator's decision to let an alarm pass.

    `code` is the code of the alarm and `about` the names (of objects, for example) that it was raised for. `by` is
    the operator, `reason` the reason that was given, and `at` the time in microseconds since 1970. The decision
    holds in `epoch` only.
    """

    code: str
    about: tuple[str, ...]
    by: str
    reason: str | None
    at: int
    epoch: int = 1


OperatorDecision: TypeAlias = Acknowledgement | ReloadRequest | LoadCompletion
"""What an operator decided about a table. It is kept in the change log."""


@dataclass(frozen=True, slots=True)
class ChangeLogState:
    """The change log of a table as of its last commit.

    - `objects`: the applied objects of the current epoch, by name.
    - `earlier_versions`: the versions of the applied objects of earlier epochs.
    - `holds`: the keys whose later events wait.
    - `records`: the batch records of all batches.
    - `has_partial_events`: whether a remembered event may lack cells or change its key.
    - `decisions`: the decisions of operators, in the order in which they were made.
    - `quarantined_changes`: by batch, the schema changes whose rows went into quarantine.
    """

    objects: Mapping[str, SourceObject] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()
    records: Sequence[Record] = ()
    has_partial_events: bool = False
    decisions: Sequence[OperatorDecision] = ()
    quarantined_changes: Mapping[int, Sequence[SchemaChange]] = field(default_factory=dict)
    earlier_versions: frozenset[str] = frozenset()

    @property
    def acknowledgements(self) -> Sequence[Acknowledgement]:
        """The acknowledgements among the decisions."""
        return [decision for decision in self.decisions if isinstance(decision, Acknowledgement)]

    @property
    def reload_requests(self) -> Sequence[ReloadRequest]:
        """The reload requests among the decisions."""
        return [decision for decision in self.decisions if isinstance(decision, ReloadRequest)]

    @property
    def load_completions(self) -> Sequence[LoadCompletion]:
        """The load completions among the decisions."""
        return [decision for decision in self.decisions if isinstance(decision, LoadCompletion)]

    def cut(self, epoch: int) -> int | None:
        """Return the object order at or below which changes belong to earlier epochs.

        None if no operator requested the reload that begins `epoch`.
        """
        request = find_reload(self.reload_requests, epoch)
        return None if request is None else request.cut

    def acknowledged(self, epoch: int) -> Mapping[str, frozenset[str]]:
        """Return the acknowledged names of an epoch by alarm code.

        Acknowledgements of other epochs do not count, because object names may come again in the next epoch.
        """
        names: dict[str, frozenset[str]] = {}
        for acknowledgement in self.acknowledgements:
            if acknowledgement.epoch == epoch:
                names[acknowledgement.code] = names.get(acknowledgement.code, frozenset()).union(
                    acknowledgement.about
                )
        return names


class ChangeLog(Protocol):
    """Stores what a table remembers apart from its rows. Each entry is stamped with the number of its batch.

    Entries with a higher number than the batch of the table were left by a crash. They must be ignored.
    """

    def read_state(self, progress: Progress) -> ChangeLogState:
        """Return the change log up to the batch of `progress`."""
        ...

    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        """Write the batch record and the events of the batch that must be remembered."""
        ...

    def trim(self, progress: Progress) -> None:
        """Fold events at or below the low watermark of `progress` into base rows, and delete them."""
        ...

    def record_decision(self, progress: Progress, decision: OperatorDecision) -> None:
        """Store the decision of an operator. The table need not exist yet."""
        ...

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        """Return the objects of the batches after the number `after`, up to the batch of `progress`."""
        ...
