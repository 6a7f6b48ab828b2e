"""The laws of two writers: who works a batch out on one state of a table commits on that state, or not at all."""

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
    """Return three deliveries of three rows: all inserts, or, where there is a key, what becomes of it in turn."""
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


def of_two_processes_that_worked_out_one_batch_one_commits(trial: Trial) -> None:
    """The other is told CommitConflict, whether it lost at the commit or before; the table goes on as if alone."""
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
    assert _is_refused(lambda: commit_batch(late, its)), "who slept went on to write"
    mine.close()
    its.close()
    assert lake.open(script.dimension).table.standing().progress == report.progress
    player.source.arrived = 1
    for _ in script.deliveries[1:]:
        player.deliver()


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except CommitConflict:
        return True
    return False


def what_another_process_applied_meanwhile_is_not_applied_again(trial: Trial) -> None:
    """A process that sleeps as it looks, before it writes, before its commit or behind it, does nothing twice."""
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
    """Return a player that sleeps before a step while another applies what has arrived, and so many more."""
    player, other = Player(script, lake), Player(script, lake)

    def meanwhile(reached: str) -> None:
        upto = min(player.source.arrived + ahead, len(script.deliveries))
        if reached == step and other.source.arrived < upto:
            other.source.arrived = upto
            other.apply()

    player.meanwhile = meanwhile
    return player


def a_commit_of_another_writer_in_the_midst_of_a_batch_changes_nothing(trial: Trial) -> None:
    """What was worked out before it is worked out anew, or stands beside it; at each moment as if it were not."""
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


def no_object_is_forgotten_where_two_processes_write_at_once(trial: Trial) -> None:
    """Where one writes its memory over that of another, either of them commits; the table has all rows or stops."""
    script, lake = _script(trial.case), trial.make().lake
    both = [item for items in script.deliveries[1:] for item in items]
    player = Player(script, lake)
    other = Player(replace(script, deliveries=[script.deliveries[0], both]), lake)
    player.deliver()
    player.source.arrived = other.source.arrived = 2
    job, mine = _remembered(player)
    late, its = _remembered(other)
    if _is_refused(lambda: job.opened.table.commit(mine.plan, mine.resolved, mine.progress)):
        late.opened.table.commit(its.plan, its.resolved, its.progress)
    mine.close()
    its.close()
    try:
        player.deliver()
    except TableError:  # what is remembered is not of the batch that was made
        return
    if player.moments[-1].rows != script.truth:
        raise AssertionError(rows_differ(player.moments[-1].rows, script.truth, player.delivered))


def _remembered(player: Player) -> tuple[Job[Any], PreparedBatch[Any]]:
    """Do all of a batch but its commit."""
    job = player.job()
    prepared = prepare_next_batch(job)
    assert isinstance(prepared, PreparedBatch)
    job.opened.quarantine.hold(prepared.plan, prepared.resolved)
    job.opened.change_log.record_batch(prepared.plan, prepared.resolved)
    return job, prepared


LAWS: Final = tuple(
    Law(
        name=check.__name__,
        statement=check.__doc__ or "",
        check=check,
        needs=frozenset(needs),
        cases=_KEYS,
        once=True,
    )
    for check, *needs in (
        (of_two_processes_that_worked_out_one_batch_one_commits,),
        (what_another_process_applied_meanwhile_is_not_applied_again,),
        (no_object_is_forgotten_where_two_processes_write_at_once,),
        (a_commit_of_another_writer_in_the_midst_of_a_batch_changes_nothing, FOREIGN),
    )
)
