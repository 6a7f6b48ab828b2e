"""Broken tables of any format: with wrong events, wrong plans, or wrong answers.

An `AnyTable` delegates to the ports of a table of a format. Each subclass makes one mistake, which works on
Iceberg, Delta and Hudi alike; `mutate_table` makes it of functions. Events lost by a mistake are counted as
superseded, because the law must find the mistake in the table and not in the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import pytest
from mutations import mutate

from lakeward.core.dimension import Dimension
from lakeward.core.events import ChangeEvent
from lakeward.core.ledger.objects import ObjectRecord
from lakeward.core.merge.facts import Capability
from lakeward.core.plan import MergePlan
from lakeward.core.ports import (
    Batch,
    ChangeLogState,
    Commit,
    Entry,
    MaintenancePolicy,
    MaintenanceReport,
    MergeResult,
    Opened,
    OperatorDecision,
    RollbackPreview,
    TableState,
    Version,
)
from lakeward.core.progress import Progress
from lakeward.plugins.testing import Bench, Item, Lake, Rows


@dataclass
class BrokenLake:
    """A lake whose tables make a mistake, with the state that a mistake needs across processes.

    `delivered` has the items of all frames so far, `recorded_batch` is the last batch of the change log,
    and `is_behind` says that the last commit is of another writer.
    """

    lake: Lake
    kind: type[AnyTable]
    delivered: list[Item] = field(default_factory=list)
    recorded_batch: int = 0
    is_behind: bool = False

    def open(self, dimension: Dimension) -> Opened[Any]:
        opened = self.lake.open(self.kind.named(dimension))
        table = self.kind(opened, self, dimension)
        versions = None if opened.versions is None else table
        return Opened(opened.name, table, table, table, versions, None if opened.maintenance is None else table)

    def frame(self, dimension: Dimension, items: Sequence[Item], *, in_part: bool = False) -> Any:
        """Return a frame of the items after the mistake."""
        changed = self.kind.deliver(self, items)
        self.delivered += items
        return self.lake.frame(dimension, changed, in_part=in_part)

    def rows(self, dimension: Dimension) -> Rows:
        return self.lake.rows(self.kind.named(dimension))


def bench_of(
    lake: Lake, kind: type[AnyTable], histories: int | None, foreign: Callable[[Dimension], object] | None
) -> Bench:
    """Return a bench of broken tables. `foreign` makes a commit of another writer."""
    broken = BrokenLake(lake, kind)

    def commit(dimension: Dimension) -> None:
        assert foreign is not None
        foreign(dimension)
        broken.is_behind = True

    return Bench(lake=broken, examples=1, histories=histories, foreign=None if foreign is None else commit)


class AnyTable:
    """A correct table with all its ports in one object.

    With `by_spark`, Spark must resolve every batch to show the mistake.
    """

    by_spark: ClassVar[bool] = False

    def __init__(self, opened: Opened[Any], lake: BrokenLake, dimension: Dimension) -> None:
        self.opened = opened
        self.lake = lake
        self.dimension = dimension

    @staticmethod
    def spoil(patch: pytest.MonkeyPatch) -> None:
        """Change code that the formats share, for mistakes in it."""

    @staticmethod
    def named(dimension: Dimension) -> Dimension:
        """Return the table that is opened instead of this one."""
        return dimension

    @classmethod
    def deliver(cls, lake: BrokenLake, items: Sequence[Item]) -> Sequence[Item]:
        return [delivered for item in items for delivered in cls.deliver_item(lake, item)]

    @classmethod
    def deliver_item(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        """Return the items that it gets for one item."""
        return [cls.deliver_event(item)] if isinstance(item, ChangeEvent) else [item]

    @staticmethod
    def deliver_event(event: ChangeEvent) -> ChangeEvent:
        return event

    @staticmethod
    def change_plan(plan: MergePlan) -> MergePlan:
        return plan

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.opened.table.capabilities

    def state(self) -> TableState:
        return self.opened.table.state()

    def resolve(self, plan: MergePlan, frame: Any) -> MergeResult:
        """Resolve the batch. Lost events are counted as superseded."""
        resolved = self.opened.table.resolve(self.change_plan(plan), frame)
        if plan.releases:
            return resolved
        c = resolved.counts
        counted = c.skipped + c.duplicates + c.quarantined + c.waiting + c.stale + c.applied
        read = plan.facts.read
        return replace(resolved, counts=replace(c, read=read, superseded=max(0, read - counted)))

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        commit = self.opened.table.commit(self.change_plan(plan), resolved, progress)
        self.lake.is_behind = False
        return commit

    def read_state(self, progress: Progress) -> ChangeLogState:
        return self.opened.change_log.read_state(progress)

    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        self.opened.change_log.record_batch(self.change_plan(plan), resolved)
        self.lake.recorded_batch = plan.batch

    def trim(self, progress: Progress) -> None:
        self.opened.change_log.trim(progress)

    def record_decision(self, progress: Progress, decision: OperatorDecision) -> None:
        self.opened.change_log.record_decision(progress, decision)

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        return self.opened.change_log.applied(progress, after)

    def refuse(self, plan: MergePlan, batch: Batch[Any]) -> Batch[Any]:
        return self.opened.quarantine.refuse(plan, batch)

    def hold(self, plan: MergePlan, resolved: MergeResult) -> None:
        self.opened.quarantine.hold(self.change_plan(plan), resolved)

    def entries(self, progress: Progress) -> Sequence[Entry]:
        return self.opened.quarantine.entries(progress)

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        return self.opened.quarantine.incomplete(progress)

    def repair_row(self, progress: Progress, entries: Sequence[Entry], events: Any) -> None:
        self.opened.quarantine.repair_row(progress, entries, events)

    def read_replay(self, progress: Progress, resolved: Sequence[Entry], repaired: Any) -> Batch[Any]:
        return self.opened.quarantine.read_replay(progress, resolved, repaired)

    def versions(self) -> Sequence[Version]:
        assert self.opened.versions is not None
        return self.opened.versions.versions()

    def preview_rollback(self, name: str) -> RollbackPreview:
        assert self.opened.versions is not None
        return self.opened.versions.preview_rollback(name)

    def roll_back(self, preview: RollbackPreview) -> None:
        assert self.opened.versions is not None
        self.opened.versions.roll_back(preview)

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        assert self.opened.maintenance is not None
        return self.opened.maintenance.maintain(policy, is_dry=is_dry)


HOOKS: Final = frozenset({"named", "deliver", "deliver_item", "deliver_event", "change_plan", "spoil"})


def mutate_table(mistake: str, *, by_spark: bool = False, **functions: Callable[..., Any]) -> type[AnyTable]:
    """Return a table with one mistake: other hooks, which get their arguments alone, or methods as in `mutate`."""
    kind = mutate(AnyTable, mistake, **{name: own for name, own in functions.items() if name not in HOOKS})
    for name in HOOKS & functions.keys():
        setattr(kind, name, staticmethod(functions[name]))
    kind.by_spark = by_spark
    return kind
