"""Operator decisions, rollback, adoption and maintenance of a process that lost its lease write nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pytest
from memory_jobs import ID, INSERT, NAME, TableFeed, event, item, progress_of

from lakeward.adapters.memory import MemoryLedger, MemorySource, MemoryTable, MemoryTarget
from lakeward.core.errors import CommitConflict, LockedError
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.operations.acknowledge import acknowledge
from lakeward.core.operations.adopt import adopt
from lakeward.core.operations.adopt import request_adoption as ask_to_adopt
from lakeward.core.operations.maintain import maintain
from lakeward.core.operations.reload import complete, record_decision, withdraw
from lakeward.core.operations.reload import plan_reload as ask_for_a_load
from lakeward.core.operations.rollback import preview_rollback, roll_back
from lakeward.core.operations.truncate import truncate_at
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job, Settlement
from lakeward.core.pipeline.release import release, repair_row
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, Entry, ExternalTable, LayoutChange, MaintenancePolicy, RepairedRow
from lakeward.core.progress import Progress

DIMENSION = item(ID)
CARE = MaintenancePolicy(deleted=None, small=None, file_size=1, keep=1, keep_last=1, orphans=None)

Act: TypeAlias = Callable[[Job[Any]], object]


@dataclass
class Foreigners:
    """A table of another job, and what it would be made like; it notes what was done to it."""

    done: list[str] = field(default_factory=list)

    def inspect(self) -> ExternalTable:
        return ExternalTable(state="7", schema=DIMENSION.schema, rows=3)

    def adopt(self, _foreign: ExternalTable, _plan: MergePlan, _progress: Progress) -> Commit:
        self.done.append("adopted")
        return Commit("8", 0, 0)

    def differences(self) -> Sequence[LayoutChange]:
        return [LayoutChange(option="sort_by", before="a", after="b", how="it is written anew")]

    def change(self, _changes: Sequence[LayoutChange]) -> None:
        self.done.append("changed")


def lost() -> None:
    raise LockedError("this process has lost the lease of the pipeline")


def inserted(place: int) -> ChangeEvent:
    return event(INSERT, place, place, time=place)


@pytest.fixture
def job() -> Job[Any]:
    """Return the job of a table of three batches, one object each, in which a row holds its key."""
    feed = TableFeed(DIMENSION, ledger_writer=LedgerWriter(ledger=MemoryLedger(), now=lambda: 0))
    for place in (1, 2, 3):
        feed.deliver(place, inserted(place), Reject(Position(1, place, place, 2), Reason.CAST, ((9,),)))
    return feed.job


def entry(job: Job[Any]) -> Entry:
    return job.opened.quarantine.entries(progress_of(job))[0]


def by_hand(job: Job[Any]) -> object:
    made = RepairedRow(operation=Operation.UPDATE, cells={"id": "9"}, time=None)
    return repair_row(job, [replace(entry(job), repaired=made)])


def with_a_load(job: Job[Any]) -> Job[Any]:
    record_decision(job, ask_for_a_load(job, by="ann", reason=None, at=1).request)
    return job


def with_the_files_of_a_load(job: Job[Any]) -> Job[Any]:
    source = with_a_load(job).source
    assert isinstance(source, MemorySource)
    source.put(NAME, 1, [replace(inserted(1), position=Position(1, LOAD_SEQUENCE, 1, 1))], modified=100)
    return job


def with_a_file_that_was_rewritten(job: Job[Any]) -> Job[Any]:
    assert isinstance(job.source, MemorySource)
    first = job.source.tables[NAME][0]
    first.object = replace(first.object, size=99)
    return job


def unlike_its_settings(job: Job[Any]) -> Job[Any]:
    return replace(job, opened=replace(job.opened, layout=Foreigners()))


def of_others(job: Job[Any]) -> Job[Any]:
    foreign = MemoryTarget().open(DIMENSION)
    return replace(job, opened=replace(foreign, adoption=Foreigners()))


def as_it_is(job: Job[Any]) -> Job[Any]:
    return job


ACTS: Sequence[tuple[str, Callable[[Job[Any]], Job[Any]], Act]] = (
    ("rollback", as_it_is, lambda job: roll_back(job, preview_rollback(job, "1"))),
    ("maintain", as_it_is, lambda job: maintain(job, CARE)),
    ("the layout", unlike_its_settings, lambda job: maintain(job, CARE)),
    ("adopt", of_others, lambda job: adopt(job, ask_to_adopt(job, None))),
    ("reload", as_it_is, with_a_load),
    ("reload --withdraw", with_a_load, lambda job: withdraw(job, by="ann", reason=None, at=2)),
    ("load-complete", with_the_files_of_a_load, lambda job: complete(job, by="ann", at=2)),
    (
        "ack",
        with_a_file_that_was_rewritten,
        lambda job: acknowledge(job, "LEDGER-002", by="ann", reason=None, at=2),
    ),
    ("quarantine fix", as_it_is, by_hand),
    ("quarantine discard", as_it_is, lambda job: release(job, Settlement(discarded=[entry(job)]))),
    ("truncate", as_it_is, lambda job: truncate_at(job, "now", by="ann", reason=None, at=2)),
)


def all_of(job: Job[Any]) -> object:
    """Return all that is known of a table, and of what was done to it."""
    return copy.deepcopy((job.opened.table, job.opened.adoption, job.opened.layout))


@pytest.mark.parametrize(("prepare", "act"), [pytest.param(*more, id=name) for name, *more in ACTS])
def test_a_process_that_lost_its_lease_writes_nothing(
    job: Job[Any], prepare: Callable[[Job[Any]], Job[Any]], act: Act
) -> None:
    job = prepare(job)
    before = all_of(job)
    with pytest.raises(LockedError, match="has lost the lease"):
        act(replace(job, check=lost))
    assert all_of(job) == before
    act(job)
    assert all_of(job) != before, "it would have"


def test_a_dry_maintenance_does_not_check_the_lease(job: Job[Any]) -> None:
    assert maintain(replace(job, check=lost), CARE, is_dry=True).snapshots == 2


def test_a_rollback_of_other_batches_than_listed_is_refused(job: Job[Any]) -> None:
    """Between the preview and the rollback another process may have held the lease and given it back."""
    preview = preview_rollback(job, "1")
    assert isinstance(job.source, MemorySource)
    job.source.put(NAME, 4, [inserted(4)])
    apply_changes(job)
    before = all_of(job)
    with pytest.raises(CommitConflict, match="not what was listed any more") as raised:
        roll_back(job, preview)
    assert raised.value.found == "listed: 2 batches of 2 files; now: 3 of 3"
    assert all_of(job) == before
    assert isinstance(job.opened.table, MemoryTable)
    assert roll_back(job, preview_rollback(job, "1")).progress.batch == 1
