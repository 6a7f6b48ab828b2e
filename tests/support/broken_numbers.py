"""The reference adapter with mistakes in surrogate numbers: each class makes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from broken_histories import NumbersEachBatchFromOne
from broken_ports import AnyTable

from lakeward.adapters.memory import MemoryTable
from lakeward.core.events import Key
from lakeward.core.history.surrogate_numbers import Numbers
from lakeward.core.merge.fold import Row
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult
from lakeward.core.progress import Progress


class RenumbersVersionsOfTouchedKeys(MemoryTable):
    """Gives new numbers to all versions of the keys of a batch."""

    def numbers_after(self, plan: MergePlan, rows: Mapping[Key, Row | None]) -> Numbers:
        forgotten, self.numbers = self.numbers, {}
        numbers = MemoryTable.numbers_after(self, plan, rows)
        self.numbers = forgotten
        return numbers


class ContinuesFromStoredNumbers(MemoryTable):
    """Continues from the highest number in the table, although a removed version may have had a higher one."""

    def numbers_after(self, plan: MergePlan, rows: Mapping[Key, Row | None]) -> Numbers:
        return MemoryTable.numbers_after(self, replace(plan, numbered=max(self.numbers.values(), default=0)), rows)


class CountsEachKeyByItself(MemoryTable):
    """Gives the versions of each key the numbers after the highest, as if there were no other key."""

    def numbers_after(self, plan: MergePlan, rows: Mapping[Key, Row | None]) -> Numbers:
        each = [MemoryTable.numbers_after(self, plan, {key: row}) for key, row in rows.items()]
        return {place: number for numbers in each for place, number in numbers.items()}


class ForgetsAVersionWhoseStartMoved(MemoryTable):
    """Identifies a version by key and start alone."""

    def numbers_after(self, plan: MergePlan, rows: Mapping[Key, Row | None]) -> Numbers:
        stood, self.rows = self.rows, {key: _begun(row) for key, row in self.rows.items()}
        numbers = MemoryTable.numbers_after(self, plan, rows)
        self.rows = stood
        return numbers


def _begun(row: Row) -> Row:
    """Return a row whose versions have unique ends."""
    return replace(row, versions=tuple(replace(one, valid_to=-one.valid_from - 1) for one in row.versions))


class DoesNotCommitTheHighestNumber(MemoryTable):
    """Commits numbers without the highest one."""

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        return MemoryTable.commit(self, plan, resolved, replace(progress, numbered=plan.numbered))


BY_LAW: Mapping[str, Sequence[type[MemoryTable] | type[AnyTable]]] = {
    "a_version_keeps_its_number": (
        RenumbersVersionsOfTouchedKeys,
        ContinuesFromStoredNumbers,
        NumbersEachBatchFromOne,
        CountsEachKeyByItself,
        ForgetsAVersionWhoseStartMoved,
        DoesNotCommitTheHighestNumber,
    ),
}
"""Mistakes by the law of the conformance kit that must show them."""
