"""The reference adapter with other writers: a commit of another writer during a batch is a conflict."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.adapters.memory import MemoryTable
from lakeward.core.dimension import Dimension
from lakeward.core.errors import CommitConflict
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, TableState
from lakeward.core.progress import Progress
from lakeward.plugins.testing import Bench, MemoryLake


@dataclass(slots=True)
class Contested(MemoryTable):
    """Counts commits of other writers. None may come between reading the table state and a commit."""

    others: int = 0
    seen: int = 0

    def commit_of_another(self) -> None:
        self.others += 1

    def state(self) -> TableState:
        self.seen = self.others
        return MemoryTable.state(self)

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        if self.seen != self.others:
            raise CommitConflict(f"{self.dimension.name}: another writer committed in between")
        return MemoryTable.commit(self, plan, resolved, progress)


def bench(kind: type[MemoryTable] = Contested, *, examples: int = 1, histories: int | None = None) -> Bench:
    """Return a bench with foreign commits, which tables of kind `Contested` detect."""
    lake = MemoryLake(kind)

    def foreign(dimension: Dimension) -> None:
        table = lake.target.tables[dimension.name]
        if isinstance(table, Contested):
            table.commit_of_another()

    return Bench(lake=lake, examples=examples, histories=histories, foreign=foreign)
