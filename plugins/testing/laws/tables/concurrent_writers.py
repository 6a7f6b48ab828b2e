"""The laws of concurrent writers: a batch is committed on the table state that it was prepared for, or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from lakeward.core.dimension import ORDERED, Dimension
from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.pipeline.commit import commit_batch
from lakeward.core.pipeline.job import Job, PreparedBatch
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.plugins.testing.bench import FOREIGN, Law, Trial, expected
from lakeward.plugins.testing.moments import rows_differ
from lakeward.plugins.testing.player import Lake, Player
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT, Script

_KEYS: Final = {"with a key": ("h", "id"), "without a key": ()}


def _script(key: Sequence[str]) -> Script:
    """Return three deliveries of three rows: with a key an insert, update and delete of each, else only inserts."""
    kinds = (Operation.INSERT, Operation.UPDATE, Operation.DELETE) if key else (Operation.INSERT,) * 3
    events = [
        ChangeEvent(
            operation=kinds[(at + row) % 3],
            position=Position(1, at, at, row),
            key=(0, row),
            cells={"h": 0, "id": row, "a": at, "b": row},
            time=at,
        )
        for at in range(1, 4)
        for row in range(1, 4)
    ]
    dimension = Dimension(name=NAME, schema=PACKED, key=tuple(key), lateness=ORDERED, tolerance=TOLERANT)
    return Script(dimension, [events[:3], events[3:6], events[6:]], events)


def only_one_of_two_processes_commits_a_batch(trial: Trial) -> None:
    """The other process gets a CommitConflict, at its commit or before. The table continues normally."""
    script, lake = _script(trial.case), trial.make().lake
    player = Player(script, lake, expected=expected(script))
    player.deliver()
    other = Player(script, lake)
    player.source.arrived = other.source.arrived = 2
    job, late = player.job(), other.job()
    mine, its = prepare_next_batch(job), prepare_next_batch(late)
    assert isinstance(mine, PreparedBatch)
    assert isinstance(its, PreparedBatch)
    report = commit_batch(job, mine)
    commits = late.opened.table.commit
    assert _is_refused(lambda: commits(its.plan, its.resolved, its.progress)), "batch 2 was committed twice"
    assert _is_refused(lambda: commit_batch(late, its)), "the process that lost continued to write"
    mine.close()
    its.close()
    assert lake.open(script.dimension).table.state().progress == report.progress
    player.source.arrived = 1
    for _ in script.deliveries[1:]:
        player.deliver()


def _is_refused(attempt: Callable[[], object]) -> bool:
    """Return True if the attempt raises CommitConflict."""
    try:
        attempt()
    except CommitConflict:
        return True
    return False


def a_batch_of_another_process_is_not_applied_again(trial: Trial) -> None:
    """A process that pauses at any step while another one applies its batch applies nothing twice."""
    script = _script(trial.case)
    ways = [(step, ahead) for step in ("read_change_log", "hold", "commit", "trim") for ahead in (0, 1)]
    for step, ahead in ways[1::2] if trial.is_packed else ways:
        player = _overtaken(script, trial.make().lake, step, ahead)
        last = player.play().moments[-1]
        if last.rows != script.truth:
            raise AssertionError(rows_differ(last.rows, script.truth, player.delivered))
        assert last.progress.totals.read == len(script.events), "an event is counted twice, or not at all"
        assert last.progress.batch == len(script.deliveries), "a batch was made of nothing"


def _overtaken(script: Script, lake: Lake, step: str, ahead: int) -> Player:
    """Return a player that pauses before a step while another applies all deliveries so far, and `ahead` more."""
    player, other = Player(script, lake), Player(script, lake)

    def meanwhile(reached: str) -> None:
        upto = min(player.source.arrived + ahead, len(script.deliveries))
        if reached == step and other.source.arrived < upto:
            other.source.arrived = upto
            other.apply()

    player.meanwhile = meanwhile
    return player


def a_commit_of_another_writer_during_a_batch_changes_nothing(trial: Trial) -> None:
    """A batch is prepared again, or committed next to the other commit. The table shows the same states."""
    script, bench = _script(trial.case), trial.make()
    player = Player(script, bench.lake, expected=expected(script))
    met: set[int] = set()

    def meanwhile(step: str) -> None:
        if step == "commit" and player.moments and len(player.moments) not in met:
            met.add(len(player.moments))
            assert bench.foreign is not None
            bench.foreign(script.dimension)

    player.meanwhile = meanwhile
    assert player.play().moments[-1].rows == script.truth


def no_object_is_forgotten_when_two_processes_write_at_once(trial: Trial) -> None:
    """If one process overwrites the change log of another, the table has all rows or stops with a TableError."""
    script, lake = _script(trial.case), trial.make().lake
    both = [item for items in script.deliveries[1:] for item in items]
    player = Player(script, lake)
    other = Player(replace(script, deliveries=[script.deliveries[0], both]), lake)
    player.deliver()
    player.source.arrived = other.source.arrived = 2
    job, mine = _record(player)
    late, its = _record(other)
    if _is_refused(lambda: job.opened.table.commit(mine.plan, mine.resolved, mine.progress)):
        late.opened.table.commit(its.plan, its.resolved, its.progress)
    mine.close()
    its.close()
    try:
        player.deliver()
    except TableError:  # the change log is not that of the committed batch
        return
    if player.moments[-1].rows != script.truth:
        raise AssertionError(rows_differ(player.moments[-1].rows, script.truth, player.delivered))


def _record(player: Player) -> tuple[Job[Any], PreparedBatch[Any]]:
    """Prepare a batch and write its quarantine and change log, without the commit."""
    job = player.job()
    prepared = prepare_next_batch(job)
    assert isinstance(prepared, PreparedBatch)
    job.opened.quarantine.hold(prepared.plan, prepared.resolved)
    job.opened.change_log.record_batch(prepared.plan, prepared.resolved)
    return job, prepared


LAWS: Final = tuple(
    Law.of(check, *needs, cases=_KEYS, once=True)
    for check, *needs in (
        (only_one_of_two_processes_commits_a_batch,),
        (a_batch_of_another_process_is_not_applied_again,),
        (no_object_is_forgotten_when_two_processes_write_at_once,),
        (a_commit_of_another_writer_during_a_batch_changes_nothing, FOREIGN),
    )
)
