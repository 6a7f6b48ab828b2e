"""Earlier states of a table in plain Python, rollback, and the check of its history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError
from lakeward.core.events import Key, Position
from lakeward.core.history.bitemporal import KnownVersions
from lakeward.core.history.instants import value_of_instant
from lakeward.core.history.options import ValidityColumns
from lakeward.core.history.surrogate_numbers import Numbers
from lakeward.core.history.version_checks import Finding, HistoryCheck, VersionRule, violation
from lakeward.core.ledger.writer import applied_record
from lakeward.core.merge.change_log import ChangeLogContents
from lakeward.core.merge.fold import Row, columns_of
from lakeward.core.ports import (
    MaintenancePolicy,
    MaintenanceReport,
    OperatorDecision,
    RepairedRow,
    RollbackPreview,
    Version,
)
from lakeward.core.progress import Progress
from lakeward.core.text.literals import text_of

if TYPE_CHECKING:
    from lakeward.adapters.memory.table import MemoryTable


@dataclass(frozen=True, slots=True)
class SavedState:
    """The state of a table after a batch that is not the last."""

    dimension: Dimension
    rows: dict[Key, Row]
    progress: Progress
    memory: ChangeLogContents
    decisions: tuple[OperatorDecision, ...]
    repaired: dict[Position, RepairedRow]
    known_versions: dict[Key, KnownVersions]
    numbers: Numbers

    @classmethod
    def of(cls, table: MemoryTable) -> Self:
        """Copy the state of a table, since its change log is changed in place."""
        decisions, repaired = tuple(table.decisions), dict(table.repaired)
        memory = _copy(table.memory)
        return cls(
            table.dimension,
            table.rows,
            table.progress,
            memory,
            decisions,
            repaired,
            table.known_versions,
            table.numbers,
        )


def versions(table: MemoryTable) -> Sequence[Version]:
    """Return the batches before the last one, newest first."""
    return [Version(name=str(batch), progress=state.progress) for batch, state in sorted(table.states.items())][
        ::-1
    ]


def behind(table: MemoryTable, name: str) -> RollbackPreview:
    """Return the preview of a rollback to a batch."""
    by_name = {version.name: version for version in versions(table)}
    if name not in by_name:
        raise ConfigError(
            f"{table.dimension.name} cannot be rolled back to {name}",
            found=f"there are {', '.join(by_name) or 'no commits before its last'}",
            todo="Name one of them. Nothing was changed.",
        )
    batch = by_name[name].progress.batch
    later = {n: objects for n, objects in sorted(table.objects.items()) if batch < n <= table.progress.batch}
    return RollbackPreview(
        version=by_name[name],
        objects=[applied_record(item, n) for n, objects in later.items() for item in objects],
        batches=len(later),
        by_hand=sum(not objects for objects in later.values()),
        decisions=[one for one in table.decisions if one not in table.states[batch].decisions],
    )


def roll_back(table: MemoryTable, preview: RollbackPreview) -> None:
    """Restore the state after a batch, and delete everything stamped with later batches."""
    batch = preview.version.progress.batch
    state = table.states[batch]
    table.dimension, table.rows, table.progress = state.dimension, state.rows, state.progress
    table.known_versions, table.numbers = state.known_versions, state.numbers
    table.memory, table.remembered, table.written = _copy(state.memory), batch, {}
    table.decisions, table.repaired = list(state.decisions), dict(state.repaired)
    for by_batch in (table.objects, table.epochs, table.quarantined, table.given_up, table.shown, table.states):
        for number in [number for number in by_batch if number > batch]:
            del by_batch[number]
    del table.states[batch]


def expire(table: MemoryTable, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
    """Delete the states of earlier batches. Time does not pass here, so `keep` only enables it."""
    before_last = max(0, policy.keep_last - 1)
    expired = [] if policy.keep is None else sorted(table.states)[: max(0, len(table.states) - before_last)]
    for batch in () if is_dry else expired:
        del table.states[batch]
    return MaintenanceReport(snapshots=len(expired))


def check(table: MemoryTable, examples: int) -> HistoryCheck:
    """Check all versions against the rules of a history."""
    history, columns = table.dimension.history, columns_of(table.dimension)
    if history is None or columns is None:
        return HistoryCheck()
    findings, broken_counts = list[Finding](), Counter[VersionRule]()
    for key, row in sorted(table.rows.items(), key=lambda item: table.key_text(item[0])):
        broken = violation(columns, row.versions)
        if broken is None:
            continue
        broken_counts[broken.rule] += 1
        if broken_counts[broken.rule] <= examples:
            findings.append(
                Finding(
                    table.key_text(key),
                    broken.rule,
                    _begin_text(broken.version.valid_from, history.validity_columns),
                )
            )
    versions = sum(len(row.versions) for row in table.rows.values())
    rules = [rule for rule in VersionRule if rule in broken_counts]
    return HistoryCheck(
        keys=len(table.rows),
        versions=versions,
        broken={rule: broken_counts[rule] for rule in rules},
        examples=[finding for rule in rules for finding in findings if finding.rule is rule],
    )


def _begin_text(instant: int, form: ValidityColumns) -> str:
    return text_of(value_of_instant(instant, form.type), form.type)


def _copy(memory: ChangeLogContents) -> ChangeLogContents:
    return replace(
        memory,
        records=list(memory.records),
        changes=dict(memory.changes),
        bases=dict(memory.bases),
        holds=dict(memory.holds),
        closed=dict(memory.closed),
    )
