"""Two machines run one pipeline: by the lease one at a time, and who wakes up behind his time commits nothing.

The lease spares work; that nothing is there twice is the batch number's, which the last test takes away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tenancies import Clock

from lakeward.adapters.memory import MemoryLease, MemoryTable
from lakeward.core.dimension import ORDERED, Dimension
from lakeward.core.errors import CommitConflict, LockedError, TableError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.pipeline import apply_changes
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, Resolved
from lakeward.core.progress import Progress
from lakeward.entrypoints.leasing import Tenure
from lakeward.plugins.testing import MemoryLake, Player, Script
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT

KEYS = {"with a key": ("h", "id"), "without a key": ()}
by_key = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)


def script(key: Sequence[str]) -> Script:
    """Three deliveries of two rows each, all of them inserts."""
    events = [
        ChangeEvent(
            operation=Operation.INSERT,
            position=Position(1, at, at, row),
            key=(at, row),
            cells={"h": at, "id": row, "a": at, "b": row},
            time=at,
        )
        for at in (1, 2, 3)
        for row in (1, 2)
    ]
    dimension = Dimension(name=NAME, schema=PACKED, key=tuple(key), lateness=ORDERED, tolerance=TOLERANT)
    return Script(dimension, [events[:2], events[2:4], events[4:]], events)


@dataclass
class Machines:
    """A lake and a lease that machines have in common."""

    script: Script
    lake: MemoryLake = field(default_factory=MemoryLake)
    clock: Clock = field(default_factory=Clock)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lease = MemoryLease(self.clock)

    def tenure(self) -> Tenure:
        return Tenure(self.lease, "shop", self.clock)

    def another_takes_over(self) -> None:
        """All the time of who has the lease goes by, and another machine applies all but the last delivery."""
        self.clock.turn(1.1 * self.lease.lasts)
        with self.tenure() as tenure:
            player = Player(self.script, self.lake)
            player.source.arrived = 2
            apply_changes(replace(player.job(), check=tenure.check))

    def run(self, sleeps_at: int) -> None:
        """Apply what there is on a machine that is stopped behind one of its looks at the lease, and goes on."""
        player = Player(self.script, self.lake)
        player.source.arrived = 3
        looks = 0

        with self.tenure() as tenure:

            def check() -> None:
                nonlocal looks
                looks += 1
                tenure.check()
                if looks == sleeps_at:
                    self.another_takes_over()

            try:
                apply_changes(replace(player.job(), check=check))
            except (LockedError, CommitConflict) as error:
                self.told.append(error.what)

    @property
    def table(self) -> Any:
        return self.lake.open(self.script.dimension).table


def check_that_nothing_is_twice(machines: Machines, sleeps_at: int) -> None:
    """Looks 1 and 3 are those before a batch writes anything, 2 and 4 those before its commit."""
    machines.run(sleeps_at)
    assert machines.told == ["this process has lost its turn at the pipeline"]
    assert (machines.table.progress.batch, machines.table.progress.totals.read) == (2, 4)
    machines.run(sleeps_at=0)
    assert (machines.table.progress.batch, machines.table.progress.totals.read) == (3, 6)
    assert machines.lake.rows(machines.script.dimension) == machines.script.truth


@by_key
@pytest.mark.parametrize("sleeps_at", [1, 2, 3, 4])
def test_who_wakes_up_behind_his_time_commits_nothing(key: Sequence[str], sleeps_at: int) -> None:
    check_that_nothing_is_twice(Machines(script(key)), sleeps_at)


@by_key
def test_who_is_not_stopped_does_all_of_it(key: Sequence[str]) -> None:
    machines = Machines(script(key))
    machines.run(sleeps_at=0)
    assert machines.told == []
    assert machines.table.progress.batch == 3
    assert machines.lake.rows(machines.script.dimension) == machines.script.truth


class TakesWhateverComes(MemoryTable):
    """A table that does not look at the number of the batch: broken on purpose."""

    def commit(self, plan: MergePlan, resolved: Resolved, progress: Progress) -> Commit:
        self.progress = replace(self.progress, batch=plan.batch - 1)
        return super().commit(plan, resolved, progress)


def test_a_table_without_the_number_of_the_batch_is_seen_whatever_lease_there_is() -> None:
    with pytest.raises((AssertionError, TableError)):
        check_that_nothing_is_twice(Machines(script(()), MemoryLake(TakesWhateverComes)), sleeps_at=2)
