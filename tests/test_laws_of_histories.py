"""Histories through the pipeline on the reference adapter: crashes, late files, and repaired rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from broken_memory import KeepsTheNewestVersionAlone
from hypothesis import given, settings
from hypothesis import strategies as st
from tries import first_failure

from lakeward.adapters.memory import Frame, MemoryLedger, MemoryQueue, MemorySource, MemoryTable, MemoryTarget
from lakeward.core.dimension import Deletes, Dimension, Lateness, Ordered, TableName, Unbounded, Within
from lakeward.core.errors import ConfigError
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Key, Operation, Position
from lakeward.core.history.options import ByRun, History, Kind, Surrogate, Track, ValidityColumns
from lakeward.core.history.versions import Version, Versions
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.merge.change_log import Change, Reject
from lakeward.core.merge.delivery import DeliveryResult
from lakeward.core.merge.facts import Capability
from lakeward.core.merge.fold import Row, apply
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult, Notice
from lakeward.core.schema import Column, Schema, Type
from lakeward.plugins.testing.player import CRASHES, MemoryLake, Player
from lakeward.plugins.testing.scripts import Rows, Script, pack_late, pack_reloaded

WAYS = (
    History(),
    History(track=Track(frozenset({"a"}), but=False)),
    History(kinds={"b": Kind.PREVIOUS}, previous_key=True),
    History(kinds={"b": Kind.KEEP_FIRST}),
)
LATENESS = (Ordered(), Within(3), Unbounded())
some = settings(max_examples=25, deadline=None)


class VersionedLake(MemoryLake):
    """The reference adapter, whose rows are all versions."""

    def rows(self, dimension: Dimension) -> Rows:
        rows = self.target.tables[dimension.name].rows
        return {key: value for name, row in rows.items() for key, value in version_rows(name, row.versions).items()}


def version_rows(key: Key, versions: Versions) -> dict[Key, tuple[Mapping[str, Any], Position]]:
    return {
        (*key, one.valid_from): (
            {**one.cells, "valid_to": one.valid_to, "previous": dict(one.previous), "old": one.previous_key},
            one.position,
        )
        for one in versions
    }


def truth(script: Script) -> Rows:
    """Return the versions that the fold makes of all events that are not discarded."""
    events = [replace(event, instant=event.time or 0) for event in script.events]
    rows = apply(script.dimension, {}, events).rows
    return {key: value for name, row in rows.items() for key, value in version_rows(name, row.versions).items()}


def play(script: Script, ends: list[tuple[str, str]], kind: type[MemoryTable] = MemoryTable) -> Player:
    """Play a script with and without crashes. Both must show the same moments."""
    expected = Player(script, VersionedLake()).play().moments
    return Player(script, VersionedLake(kind), expected=expected).play(ends)


def current_of(rows: Rows) -> int:
    return sum(cells["valid_to"] is None for cells, _ in rows.values())


def check(random: Random, lateness: Lateness, history: History, kind: type[MemoryTable] = MemoryTable) -> None:
    """Check batching, idempotence, lateness, quarantine and crash of a history."""
    in_part = random.random() < 0.5
    truncates = random.random() < 0.5 and lateness != Ordered()  # of one database, while others are behind it
    bad = 0.0 if truncates else 0.05  # what a truncate overrules is given up by nobody
    script = pack_late(random, 2, lateness, bad=bad, fixed=0.6, in_part=in_part, truncates=truncates)
    script = replace(script, dimension=replace(script.dimension, history=history))
    player = play(script, random.sample(CRASHES, 4), kind)
    assert "history" not in player.reasons
    written = [moment for moment in player.moments if moment.progress.batch]  # a feed may begin with nothing
    assert all(moment.progress.current == current_of(moment.rows) for moment in written)
    if "key_shift" not in player.reasons:  # which a person gives up
        assert player.moments[-1].rows == truth(script)


@pytest.mark.parametrize("lateness", LATENESS, ids=repr)
@some
@given(random=st.randoms(use_true_random=False), history=st.sampled_from(WAYS))
def test_any_order_and_any_crash_give_the_same_history(
    lateness: Lateness, random: Random, history: History
) -> None:
    check(random, lateness, history)


class WritesVersionsTwice(MemoryTable):
    def rows_after(self, settled: DeliveryResult) -> dict[Key, Row]:
        rows = MemoryTable.rows_after(self, settled)
        before = {key: row.versions for key, row in self.rows.items() if settled.rows.get(key)}
        twice = {key: [one for one in old if one not in rows[key].versions] for key, old in before.items()}
        return {key: replace(row, versions=(*twice.get(key, ()), *row.versions)) for key, row in rows.items()}


class EndsVersionsAnInstantEarly(MemoryTable):
    """Ends each version one microsecond early, as if its end were its last valid instant."""

    def rows_after(self, settled: DeliveryResult) -> dict[Key, Row]:
        return self.rewritten(settled, lambda one: None if one.valid_to is None else one.valid_to - 1)

    def rewritten(self, settled: DeliveryResult, end: Callable[[Version], int | None]) -> dict[Key, Row]:
        """Return the rows with other ends in the changed ones."""
        rows = MemoryTable.rows_after(self, settled)
        new = {key: rows[key].versions for key in settled.rows if key in rows}
        ended = {key: [replace(one, valid_to=end(one)) for one in versions] for key, versions in new.items()}
        return rows | {key: replace(rows[key], versions=tuple(versions)) for key, versions in ended.items()}


class LeavesEndedVersionsCurrent(EndsVersionsAnInstantEarly):
    """Opens a version without ending the one before."""

    def rows_after(self, settled: DeliveryResult) -> dict[Key, Row]:
        return self.rewritten(settled, lambda one: one.valid_to if one.deleted else None)


class EndsTheNewestVersion(MemoryTable):
    """Lets a late delete end the current version and not the one of its time."""

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        return MemoryTable.resolve(self, plan, [self.on_top(item) for item in frame])

    def on_top(self, item: ChangeEvent | Reject) -> ChangeEvent | Reject:
        row = None if isinstance(item, Reject) else self.rows.get(item.key)
        if isinstance(item, Reject) or item.operation is not Operation.DELETE or row is None:
            return item
        above = row.position._replace(row=row.position.row + 10_000)
        return item if row.position < item.position else replace(item, position=above, transaction=None)


class RemembersNoWitness(MemoryTable):
    """Remembers only updates that opened a version, and no witnesses."""

    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        settled = resolved.detail
        opened = {key: {one.valid_from for one in row.versions} for key, row in settled.rows.items() if row}
        kept = [c for c in settled.changes if not self.is_witness(c, opened.get(c.event.key, set()))]
        MemoryTable.record_batch(self, plan, replace(resolved, detail=replace(settled, changes=kept)))

    def is_witness(self, change: Change, opened: Set[int]) -> bool:
        return change.event.operation is Operation.UPDATE and change.event.instant not in opened


class TracksEveryColumn(MemoryTable):
    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        own = self.dimension
        assert own.history is not None
        self.dimension = replace(own, history=replace(own.history, track=Track(), kinds={}))
        try:
            return MemoryTable.resolve(self, plan, frame)
        finally:
            self.dimension = own


class RemembersNoBases(MemoryTable):
    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        bases = [replace(base, row=None) for base in resolved.detail.bases]
        MemoryTable.record_batch(self, plan, replace(resolved, detail=replace(resolved.detail, bases=bases)))


class CommitsVersionsBeforeTheMemory(MemoryTable):
    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        MemoryTable.record_batch(self, plan, resolved)
        self.rows = self.rows_after(resolved.detail)


BROKEN = {
    KeepsTheNewestVersionAlone: 0,
    WritesVersionsTwice: 10,
    EndsVersionsAnInstantEarly: 0,
    LeavesEndedVersionsCurrent: 0,
    EndsTheNewestVersion: 48,
    TracksEveryColumn: 1,
    RemembersNoWitness: 0,
    RemembersNoBases: 176,
    CommitsVersionsBeforeTheMemory: 9,
}
"""Tables with a mistake, each with the seed of a feed that shows it."""


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_table_fails_and_the_right_one_does_not(kind: type[MemoryTable]) -> None:
    def play(seed: int, kind: type[MemoryTable] = kind) -> None:
        check(Random(seed), Within(3), WAYS[seed % len(WAYS)], kind)

    play(first_failure(play, 1500, BROKEN[kind]), MemoryTable)


@pytest.mark.parametrize("lateness", LATENESS, ids=repr)
@some
@given(random=st.randoms(use_true_random=False), history=st.sampled_from(WAYS[:3]))
def test_after_a_reload_the_current_versions_are_the_new_epoch(
    lateness: Lateness, random: Random, history: History
) -> None:
    script = pack_reloaded(random, pack_late(random, 2, lateness), 2)
    mirror = script.truth
    script = replace(script, dimension=replace(script.dimension, history=history))
    player = play(script, random.sample(CRASHES, 4))
    current = {key[:-1]: cells for key, (cells, _) in player.moments[-1].rows.items() if cells["valid_to"] is None}
    tracked = ("h", "id", "a")
    assert {key: [cells[name] for name in tracked] for key, cells in current.items()} == {
        key: [cells[name] for name in tracked] for key, (cells, _) in mirror.items()
    }
    assert player.moments[-1].progress.rows == len(player.moments[-1].rows)
    assert player.moments[-1].progress.current == len(current)


NAME = TableName("shop", "item")
SCHEMA = Schema((Column("id", Type("int")), Column("a", Type("int"))))
DIMENSION = Dimension(name=NAME, schema=SCHEMA, key=("id",), history=History())
DAY = 86_400_000_000


def job(source: MemorySource, table: MemoryTable, now: int = 0) -> Job[Any]:
    queue = MemoryQueue([Notice(str(NAME))])
    return Job(
        dimension=table.dimension,
        source=source,
        opened=MemoryTarget({NAME: table}).open(table.dimension),
        queue=queue,
        notices=queue.receive(),
        ledger_writer=LedgerWriter(ledger=MemoryLedger(), now=lambda: now),
    )


def change(operation: Operation, place: int, epoch: int = 1, key: int = 1, a: int = 0) -> ChangeEvent:
    position = Position(epoch, LOAD_SEQUENCE if operation is Operation.READ else place, place, key)
    return ChangeEvent(operation=operation, position=position, key=(key,), cells={"id": key, "a": a})


def periods(table: MemoryTable) -> dict[Key, list[tuple[int, int | None]]]:
    return {key: [(one.valid_from, one.valid_to) for one in row.versions] for key, row in table.rows.items()}


def test_versions_have_the_day_of_their_run_and_unchanged_rows_are_written_once() -> None:
    history = History(validity=ByRun(), validity_columns=ValidityColumns(type=Type("date")), first_load=-7)
    table, source = MemoryTable(replace(DIMENSION, history=history)), MemorySource()
    source.put(NAME, 1, [change(Operation.READ, 1), change(Operation.READ, 1, key=2)])
    apply_changes(job(source, table, 5 * DAY))
    source.put(NAME, 2, [change(Operation.UPDATE, 2, a=1)])
    apply_changes(job(source, table, 6 * DAY + 1))
    assert periods(table) == {(1,): [(-7, 6), (6, None)], (2,): [(-7, None)]}
    assert table.progress.rows == 3


def test_a_full_load_ends_missing_rows_on_the_day_of_its_run() -> None:
    history = History(validity=ByRun(), validity_columns=ValidityColumns(type=Type("date")))
    table, source = MemoryTable(replace(DIMENSION, history=history)), MemorySource()
    source.put(NAME, 1, [change(Operation.READ, 1), change(Operation.READ, 1, key=2)])
    apply_changes(job(source, table, 5 * DAY))
    source.put(NAME, 2, [change(Operation.READ, 2, epoch=2)])
    source.loaded[NAME] = 2
    apply_changes(job(source, table, 9 * DAY))
    assert periods(table) == {(1,): [(5, None)], (2,): [(5, 9)]}
    assert (table.progress.epoch, table.progress.rows) == (2, 2)


@pytest.mark.parametrize(
    ("dimension", "capabilities", "found"),
    [
        (DIMENSION, frozenset(Capability) - {Capability.HISTORY}, "needed: history"),
        (replace(DIMENSION, key=()), frozenset(Capability), "a history needs a key"),
        (replace(DIMENSION, deletes=Deletes.SOFT), frozenset(Capability), "its deletes are soft"),
        (
            replace(DIMENSION, history=History(validity_columns=ValidityColumns(surrogate=Surrogate.NUMBER))),
            frozenset(Capability) - {Capability.NUMBERS},
            "needed: numbers",
        ),
    ],
)
def test_a_history_that_cannot_be_kept_is_refused_before_anything_is_written(
    dimension: Dimension, capabilities: frozenset[Capability], found: str
) -> None:
    table, source = MemoryTable(dimension, capabilities=capabilities), MemorySource()
    source.put(NAME, 1, [change(Operation.INSERT, 1)])
    with pytest.raises(ConfigError) as refused:
        apply_changes(job(source, table))
    assert refused.value.found == found
    assert not table.exists
