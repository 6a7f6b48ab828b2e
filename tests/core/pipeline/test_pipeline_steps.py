"""The pipeline beyond the laws: notices, reports, capabilities and reloads."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import memory_jobs
import pytest
from memory_jobs import INSERT, NAME, READ, UPDATE, TableFeed, columns, item, memory_job

from lakeward.adapters.memory import MemoryQueue, MemorySource, MemoryTable
from lakeward.core.dimension import ORDERED, Deletes, Dimension, Lateness, Match, Unbounded
from lakeward.core.errors import CommitConflict, ConfigError, LockedError, SchemaConflict, TableError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Operation, Position
from lakeward.core.history.options import History
from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.merge.facts import BatchFacts, Capability
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.commit import commit_batch
from lakeward.core.pipeline.job import Job, PreparedBatch, Report
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.core.plan import MergePlan, plan
from lakeward.core.ports import Batch, ChangeLogState, Commit, MergeResult, Notice, TableState
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import Policies, Policy

DIMENSION = item()


def event(operation: Operation, sequence: int, epoch: int = 1, **cells: object) -> ChangeEvent:
    return memory_jobs.event(operation, sequence, at=1, row=max(1, sequence), epoch=epoch, **cells)


def job(source: MemorySource, table: MemoryTable) -> Job[Any]:
    queue = MemoryQueue([Notice(str(NAME))])
    return memory_job(DIMENSION, source, table, queue=queue, notices=queue.receive())


def source_of(*events: ChangeEvent) -> MemorySource:
    source = MemorySource()
    source.put(NAME, 1, events)
    return source


def notices(of: Job[Any]) -> list[Notice]:
    assert isinstance(of.queue, MemoryQueue)
    return of.queue.notices


class Growing(MemorySource):
    """Every object changes while it is read."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Any]:
        return MemorySource.read(self, dimension, replace(selection, objects=()), epoch)


class Told(MemorySource):
    """Records the columns of the table that it is given each time."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Any]:
        self.told = [*getattr(self, "told", ()), selection.columns]
        return MemorySource.read(self, dimension, selection, epoch)


def test_a_source_gets_the_stored_columns_of_the_table() -> None:
    source, table = Told(), MemoryTable(DIMENSION)
    for order in (1, 2):
        source.put(NAME, order, [event(INSERT, order)])
        apply_changes(job(source, table))
    assert source.told == [None, DIMENSION.schema]


class Empty(MemorySource):
    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        return ObjectSelection()


class OfOthers(MemorySource):
    """Has only messages of other tables."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Any]:
        batch = MemorySource.read(self, dimension, replace(selection, objects=()), epoch)
        return replace(batch, facts=replace(batch.facts, others=OtherTables(1, (("shop.other", 1),))))


class Loading(MemorySource):
    """Waits for a full load that has begun."""

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        return ObjectSelection(awaited=AwaitedLoad(epoch=2, objects=1))


@pytest.mark.parametrize(
    ("source", "is_acknowledged"), [(Growing(), False), (Empty(), True), (OfOthers(), True), (Loading(), True)]
)
def test_a_notice_is_acknowledged_unless_its_objects_are_still_changing(
    source: MemorySource, is_acknowledged: bool
) -> None:
    source.put(NAME, 1, [event(INSERT, 1, a=1)])
    waiting = job(source, MemoryTable(DIMENSION))
    others: list[OtherTables] = []
    apply_changes(waiting, on_others=others.append)
    assert (notices(waiting) == []) is is_acknowledged
    assert bool(others) is isinstance(source, OfOthers)


def test_a_batch_is_reported_even_if_a_step_after_its_commit_fails() -> None:
    class Untrimmed(MemoryTable):
        def trim(self, progress: Progress) -> None:
            raise TableError("no space left")

    reports: list[Report] = []
    with pytest.raises(TableError):
        apply_changes(job(source_of(event(INSERT, 1, a=1)), Untrimmed(DIMENSION)), on_batch=reports.append)
    assert [report.counts.applied for report in reports] == [1]


@pytest.mark.parametrize(
    ("dimension", "change", "needed"),
    [
        (DIMENSION, event(Operation.TRUNCATE, 2), Capability.TRUNCATE),
        (DIMENSION, event(UPDATE, 2, a=UNSET), Capability.UNSET),
        (DIMENSION, replace(event(UPDATE, 2, a=1), old_key=(2,)), Capability.KEY_CHANGE),
        (item(deletes=Deletes.SOFT), event(INSERT, 1, a=1), Capability.SOFT_DELETE),
        (item(history=History(is_bitemporal=True)), event(INSERT, 1, a=1), Capability.BITEMPORAL),
        (item(key=(), match=Match.IMAGE), event(INSERT, 1, a=1), Capability.IMAGES),
    ],
)
def test_a_batch_that_needs_a_missing_capability_is_refused(
    dimension: Dimension, change: ChangeEvent, needed: Capability
) -> None:
    table = MemoryTable(dimension, capabilities=frozenset(Capability) - {needed})
    with pytest.raises(ConfigError, match="the table format cannot do what this batch needs") as refused:
        TableFeed(dimension, table=table).deliver(1, change)
    assert refused.value.found == f"needed: {needed.value}"
    assert str(refused.value.todo).endswith("a table format that declares it (`lakeward plugins`).")
    assert not table.exists


def test_a_reload_begins_an_epoch_once() -> None:
    """Its batch replaces all rows; the next one does not."""
    source, table = source_of(event(INSERT, 1, a=1)), MemoryTable(DIMENSION)
    apply_changes(job(source, table))
    source.put(NAME, 2, [event(READ, LOAD_SEQUENCE, 2, a=2)])
    source.loaded[NAME] = 2
    apply_changes(job(source, table))
    assert (table.progress.epoch, table.progress.totals.read, table.progress.rows) == (2, 1, 1)
    source.put(NAME, 3, [event(UPDATE, 5, 2, a=3)])
    following = prepare_next_batch(job(source, table))
    assert isinstance(following, PreparedBatch)
    assert not following.plan.replaces
    assert following.progress.totals.read == 2


@pytest.mark.parametrize("deletes", Deletes)
def test_progress_has_the_number_of_rows_and_of_undeleted_ones(deletes: Deletes) -> None:
    """Only a table with soft deletes, or a history, has rows that are not current."""
    dimension = replace(DIMENSION, deletes=deletes)
    source, table = MemorySource(), MemoryTable(dimension)
    numbers = []
    for order, (operation, key) in enumerate([("INSERT", 1), ("INSERT", 2), ("DELETE", 1), ("INSERT", 3)], 1):
        change = replace(event(Operation[operation], order), key=(key,), cells={"id": key, "a": order})
        source.put(NAME, order, [replace(change, position=Position(1, order, order, 1))])
        apply_changes(memory_job(dimension, source, table))
        numbers.append((table.progress.rows, table.progress.current))
    is_soft = deletes is Deletes.SOFT
    assert numbers == (
        [(1, 1), (2, 2), (2, 1), (3, 2)] if is_soft else [(1, None), (2, None), (1, None), (2, None)]
    )


def test_the_key_of_a_table_cannot_become_another() -> None:
    """Rows are stored and changes remembered by the key; a renamed column is the same key."""
    table = MemoryTable(DIMENSION)
    apply_changes(job(source_of(event(INSERT, 1, a=1)), table))
    assert table.progress.key == ("id",)
    facts = BatchFacts(schema=DIMENSION.schema)
    for key, words in ((("a",), "a"), ((), "no column")):
        other = replace(DIMENSION, key=key)
        with pytest.raises(SchemaConflict, match="its key cannot become another") as refused:
            plan(other, facts, table.progress, stored=DIMENSION.schema, capabilities=frozenset())
        assert refused.value.found == f"the table goes by id; the settings say {words}"
    renamed = replace(DIMENSION, key=("no",), policies=Policies(renames={"id": "no"}))
    called = columns(no="int", a="int")
    renamed, facts = replace(renamed, schema=called), replace(facts, schema=called)
    found = plan(renamed, facts, table.progress, stored=DIMENSION.schema, capabilities=frozenset())
    assert found.evolution.renames == {"id": "no"}


def test_a_rename_within_a_column_is_refused_before_anything_is_written() -> None:
    """Else the table would get a second field, and NULL in it where the old one has values."""
    stored = columns(id="int", a="struct<city: string>")
    sent = columns(id="int", a="struct<town: string>")
    dimension = replace(DIMENSION, schema=Schema(()), policies=Policies(renames={"a.city": "town"}))
    with pytest.raises(ConfigError, match="fields within columns cannot be renamed") as refused:
        plan(dimension, BatchFacts(schema=sent), Progress(), stored=stored, capabilities=frozenset())
    assert "a.city" in refused.value.what
    assert "keeps its values" in str(refused.value.todo)


@pytest.mark.parametrize(("lateness", "is_in_part"), [(Unbounded(), True), (ORDERED, False)])
def test_updates_that_lack_a_column_are_partial_rows(lateness: Lateness, is_in_part: bool) -> None:
    """An older update may still bring the rest; in an ordered table none does."""
    narrow = columns(id="int")
    dimension = replace(DIMENSION, schema=narrow, lateness=lateness, policies=Policies(drop=Policy.EVOLVE))
    place = Position(1, 5, 1, 1)
    facts = BatchFacts(schema=narrow, operations={UPDATE: 1}, least=place, greatest=place)
    found = plan(dimension, facts, Progress(), stored=DIMENSION.schema, capabilities=frozenset(Capability))
    assert found.folds_remembered is is_in_part


class Lost(MemoryTable):
    tried = 0

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        self.tried += 1
        raise CommitConflict("shop.item: another writer was faster")


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_batch_that_loses_every_race_fails_after_its_attempts(attempts: int) -> None:
    table = Lost(DIMENSION)
    one = replace(job(source_of(event(INSERT, 1, a=1)), table), attempts=attempts)
    with pytest.raises(CommitConflict):
        apply_changes(one)
    assert table.tried == attempts
    assert notices(one)
    assert table.progress == Progress()


def test_a_process_that_is_too_late_writes_nothing() -> None:
    table = MemoryTable(DIMENSION)
    source = source_of(event(INSERT, 1, a=1))
    slept = replace(job(source, table), read_table_state=table.state)
    prepared = prepare_next_batch(slept)
    assert isinstance(prepared, PreparedBatch)
    apply_changes(job(source, table))
    written = dict(table.written), dict(table.objects), dict(table.quarantined)
    with pytest.raises(CommitConflict, match="the table was at batch 0, and is at 1") as refused:
        commit_batch(slept, prepared)
    assert (dict(table.written), dict(table.objects), dict(table.quarantined)) == written
    assert refused.value.retryable


def test_a_change_log_of_another_batch_stops_the_table() -> None:
    table = MemoryTable(DIMENSION)
    source = source_of(event(INSERT, 1, a=1))
    apply_changes(job(source, table))
    (found,) = table.objects[1]
    other = SourceObject("00000002", 2, 1, 0)
    table.objects[1] = (found, replace(found, object=other))
    source.put(NAME, 2, [event(UPDATE, 2, a=2)])
    with pytest.raises(TableError, match="it has 00000001, 00000002, and others were applied"):
        apply_changes(job(source, table))
    table.progress = replace(table.progress, digest=None)
    apply_changes(job(source, table))
    assert table.progress.batch == 1, "a table of an earlier version cannot tell"


class Overtaken(MemoryTable):
    """Once, another process applies all that waits between reading the table state and reading the change log."""

    source: MemorySource | None = None

    def read_state(self, progress: Progress) -> ChangeLogState:
        if self.source is not None:
            source, self.source = self.source, None
            apply_changes(job(source, self))
        return MemoryTable.read_state(self, progress)


def test_a_process_that_another_overtakes_while_it_reads_begins_again() -> None:
    table, source = Overtaken(DIMENSION), source_of(event(INSERT, 1, a=1))
    table.source = source
    apply_changes(replace(job(source, table), read_table_state=table.state))
    assert (table.progress.batch, table.progress.totals.read) == (1, 1)


class Trimmed(MemoryTable):
    trims = 0

    def trim(self, progress: Progress) -> None:
        self.trims += 1
        super().trim(progress)


@pytest.mark.parametrize(("further", "trims"), [(0, 1), (1, 0)])
def test_a_process_that_another_overtakes_after_its_commit_trims_nothing(further: int, trims: int) -> None:
    """The other process remembers more, and trims its change log itself."""
    table, source = Trimmed(DIMENSION), source_of(event(INSERT, 1, a=1))

    def standing() -> TableState:
        found = table.state()
        batch = found.progress.batch
        return replace(found, progress=replace(found.progress, batch=batch + further * (batch > 0)))

    apply_changes(replace(job(source, table), read_table_state=standing))
    assert table.trims == trims


class Raced(Trimmed):
    """Another process writes the change log while this one is about to trim it."""

    def trim(self, progress: Progress) -> None:
        super().trim(progress)
        raise CommitConflict("another process has written what the table remembers in between")


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_conflict_while_trimming_is_ignored_if_another_process_advanced(goes_on: bool) -> None:
    table, source = Raced(DIMENSION), source_of(event(INSERT, 1, a=1))

    def standing() -> TableState:
        found = table.state()
        return replace(found, progress=replace(found.progress, batch=found.progress.batch + goes_on * table.trims))

    with nullcontext() if goes_on else pytest.raises(CommitConflict):
        apply_changes(replace(job(source, table), read_table_state=standing))
    assert table.progress.batch == table.trims == 1


def test_a_process_whose_lease_expires_after_its_commit_trims_nothing() -> None:
    table, source = Trimmed(DIMENSION), source_of(event(INSERT, 1, a=1))

    def check() -> None:
        if table.progress.batch:
            raise LockedError("this process has lost the lease of the pipeline")

    with pytest.raises(LockedError):
        apply_changes(replace(job(source, table), check=check))
    assert (table.progress.batch, table.trims) == (1, 0)


def test_a_rolled_back_table_is_no_conflict() -> None:
    table, source = Overtaken(DIMENSION), source_of(event(INSERT, 1, a=1))
    apply_changes(job(source, table))
    table.progress = Progress()
    with pytest.raises(TableError, match="was rolled back to batch 0"):
        apply_changes(replace(job(source, table), read_table_state=table.state))


def test_the_listing_is_reported_even_if_nothing_waits() -> None:
    class Littered(MemorySource):
        """Another file lies in the folder."""

        def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
            return replace(
                MemorySource.select_objects(self, dimension, object_history), unrelated_files=("note.txt",)
            )

    source, listed = Littered(), list[ObjectSelection]()
    source.put(NAME, 1, [event(INSERT, 1, a=1)])
    apply_changes(job(source, MemoryTable(DIMENSION)), on_listed=listed.append)
    assert [(len(selection.objects), selection.unrelated_files) for selection in listed] == [
        (1, ("note.txt",)),
        (0, ("note.txt",)),
    ]
