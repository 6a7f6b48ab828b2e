"""Which full loads may be written while they are read, and by which plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from memory_jobs import ID, INSERT, NAME, READ, event, item, memory_job

from lakeward.adapters.memory import MemorySource, MemoryTable
from lakeward.core.dimension import Deletes, Dimension
from lakeward.core.events import LOAD_SEQUENCE, Operation, Position
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.merge.change_log import Hold, Reason
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.direct_load import load_writer
from lakeward.core.pipeline.discovery import discover
from lakeward.core.pipeline.job import Job
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Batch

DIMENSION = item(ID)
OTHERS = {
    "a table without a key": replace(DIMENSION, key=()),
    "soft deletes": replace(DIMENSION, deletes=Deletes.SOFT),
    "a table of two that are made of one": replace(DIMENSION, readers=2),
}


@dataclass
class Loads:
    """Keeps the plans that it is given, and writes nothing."""

    plans: list[MergePlan] = field(default_factory=list)

    def write_load(self, plan: MergePlan, _frame: object) -> tuple[Any, Callable[[], None]] | None:
        self.plans.append(plan)
        return None


class Asking(MemorySource):
    """Lets every batch be written as it is read."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Any]:
        if selection.load_writer is not None:
            assert selection.load_writer(dimension.schema, object()) is None
        return MemorySource.read(self, dimension, selection, epoch)


def job(dimension: Dimension, source: MemorySource, table: MemoryTable, loads: Loads) -> Job[Any]:
    made = memory_job(dimension, source, table)
    return replace(made, opened=replace(made.opened, loads=loads))


def source_of(*orders: int) -> Asking:
    source = Asking()
    for order in orders:
        put(source, order)
    return source


def put(source: MemorySource, order: int, operation: Operation = INSERT) -> None:
    sequence = LOAD_SEQUENCE if operation is READ else order
    source.put(NAME, order, [event(operation, sequence, order, at=order)])


def test_each_batch_of_a_load_is_planned_from_its_columns_until_a_change_comes() -> None:
    source, table, loads = Asking(), MemoryTable(DIMENSION), Loads()
    for order, operation in enumerate((READ, READ, INSERT, READ), 1):
        put(source, order, operation)
        apply_changes(job(DIMENSION, source, table, loads))
    assert [plan.batch for plan in loads.plans] == [1, 2, 3], "what the third has is not known yet"


def test_no_batch_is_planned_from_its_columns_while_a_key_is_held() -> None:
    source, table, loads = Asking(), MemoryTable(DIMENSION), Loads()
    put(source, 1, READ)
    apply_changes(job(DIMENSION, source, table, loads))
    put(source, 2, READ)
    own = job(DIMENSION, source, table, loads)
    seen = discover(own)
    hold = Hold(Position(1, LOAD_SEQUENCE, 1, 2), (("key",),), Reason.CAST, 1)
    assert load_writer(own, seen, 1) is not None
    assert (
        load_writer(own, replace(seen, change_log_state=replace(seen.change_log_state, holds=(hold,))), 1) is None
    )


def test_the_first_batch_is_planned_from_its_columns_alone() -> None:
    source, table, loads = source_of(1), MemoryTable(DIMENSION), Loads()
    apply_changes(job(DIMENSION, source, table, loads))
    (plan,) = loads.plans
    assert (plan.batch, plan.epoch, plan.creates, plan.replaces) == (1, 1, True, False)
    assert (plan.stored.schema, plan.facts.is_of_loads) == (DIMENSION.schema, True)
    put(source, 2)
    apply_changes(job(DIMENSION, source, table, loads))
    assert len(loads.plans) == 1, "its rows might meet those that stand"


@pytest.mark.parametrize("dimension", OTHERS.values(), ids=OTHERS)
def test_other_tables_are_written_after_their_facts_are_known(dimension: Dimension) -> None:
    loads = Loads()
    apply_changes(job(dimension, source_of(1), MemoryTable(dimension), loads))
    assert loads.plans == []


def test_a_plan_for_display_writes_nothing() -> None:
    loads = Loads()
    prepare_next_batch(job(DIMENSION, source_of(1), MemoryTable(DIMENSION), loads)).close()  # type: ignore[union-attr]
    assert loads.plans == []
