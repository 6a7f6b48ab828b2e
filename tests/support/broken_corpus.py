"""Mistakes of the reference adapter that cases of the corpus must show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import broken_memory

from lakeward.adapters.memory import MemoryTable
from lakeward.core.events import Key
from lakeward.core.merge.delivery import DeliveryResult
from lakeward.core.merge.fold import Row
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult
from lakeward.core.progress import Progress


class DropsColumnsThatAreGone(MemoryTable):
    """Keeps only the columns of the newest batch."""

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        commit, names = MemoryTable.commit(self, plan, resolved, progress), plan.facts.schema.names
        self.rows = {
            key: replace(row, cells={name: row.cells.get(name) for name in names}) for key, row in self.rows.items()
        }
        return commit


class LeavesADuplicateInTheOldPartition(MemoryTable):
    """Looks for the stored row only in the partition (by `shop`) of the new row."""

    def rows_after(self, settled: DeliveryResult) -> dict[Key, Row]:
        rows = MemoryTable.rows_after(self, settled)
        for key, row in settled.rows.items():
            before = self.rows.get(key)
            if row is not None and before is not None and before.cells["shop"] != row.cells["shop"]:
                rows[*key, str(before.cells["shop"])] = before
        return rows


@dataclass(slots=True)
class WritesRowsAfterItsProgress(MemoryTable):
    """Commits the progress before the rows."""

    late: DeliveryResult | None = None

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        rows = self.rows
        commit = MemoryTable.commit(self, plan, resolved, progress)
        self.rows, self.late = rows, resolved.detail
        return commit

    def trim(self, progress: Progress) -> None:
        if self.late is not None:
            self.rows, self.late = self.rows_after(self.late), None
        MemoryTable.trim(self, progress)


@dataclass(slots=True)
class AppendsBeforeItsProgress(broken_memory.KeepsProgressApart):
    """Commits the rows before the progress, without positions by which it could recognize a row."""

    def rows_after(self, settled: DeliveryResult) -> dict[Key, Row]:
        before = {(number,): row for number, row in enumerate(self.rows.values())}
        new = [row for row in settled.rows.values() if row is not None]
        return before | {(len(before) + number,): row for number, row in enumerate(new)}


BY_LAW: Mapping[str, Sequence[type[MemoryTable]]] = {
    "corpus_columns": (DropsColumnsThatAreGone,),
    "corpus_crash": (WritesRowsAfterItsProgress,),
    "corpus_crash_without_key": (AppendsBeforeItsProgress,),
    "corpus_duplicates": (broken_memory.ForgetsDeletesTooEarly,),
    "corpus_late_delete": (broken_memory.TreatsEveryEventAsNewer, broken_memory.ForgetsDeletesAboveTheMark),
    "corpus_partition_move": (LeavesADuplicateInTheOldPartition,),
    "corpus_reload": (broken_memory.KeepsRowsMissingFromALoad, broken_memory.IdentifiesObjectsByNumberAlone),
    "corpus_truncate": (broken_memory.TruncatesOnlyRowsOfTheBatch,),
}
"""Mistakes by the case that must show them."""
