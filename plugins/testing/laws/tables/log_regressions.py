"""The law of log regressions: changes that are newer than the state of their key, at a lower position of the log.

They show that a log started over, even if transactions overlap (docs/decisions/0004).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lakeward.core.checks.log_steps import LEAST_GAP
from lakeward.core.dimension import ORDERED, Dimension, Unbounded, Within
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.history.options import History
from lakeward.core.merge.facts import Capability
from lakeward.core.pipeline.job import PreparedBatch
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.plugins.testing.bench import Law, Trial
from lakeward.plugins.testing.player import Player
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT, Script

_OLD: Final = (Operation.INSERT, Operation.INSERT, Operation.INSERT, Operation.UPDATE, Operation.DELETE)
_OF_KEYS: Final = (1, 2, 3, 2, 3)
"""The keys of the first delivery: key 2 is updated, key 3 is deleted."""

_CASES: Final[Mapping[str, Mapping[str, Any]]] = {
    "ordered": {"lateness": ORDERED},
    "within": {"lateness": Within(1000 * LEAST_GAP)},
    "history": {"lateness": Unbounded(), "history": History()},
}


def _change(operation: Operation, key: int, place: Position, second: int) -> ChangeEvent:
    cells = {"h": 0, "id": key, "a": second, "b": place.sequence}
    return ChangeEvent(operation=operation, position=place, key=(0, key), cells=cells, time=second * LEAST_GAP)


def a_newer_change_at_a_lower_position_is_reported(trial: Trial) -> None:
    """A table reports the first such row of each suspect object: below a row, a delete or an event of the batch."""
    old = [
        _change(operation, key, Position(1, 100 + row, 1, row), row)
        for row, (operation, key) in enumerate(zip(_OLD, _OF_KEYS, strict=True), 1)
    ]
    update, insert = Operation.UPDATE, Operation.INSERT
    new = [
        _change(update, 2, Position(1, 90, 2, 1), 2),  # late, and no newer
        _change(insert, 4, Position(1, 80, 2, 2), 20),  # of an unknown key
        _change(update, 2, Position(1, 103, 2, 3), 21),
        _change(update, 2, Position(1, 100, 2, 4), 22),
        _change(insert, 3, Position(1, 104, 3, 1), 23),
        _change(update, 1, Position(1, 300, 4, 1), 1100),
        _change(update, 1, Position(1, 200, 4, 2), 1102),
        _change(update, 1, Position(1, 90, 5, 1), 1104),  # of an object that is not suspect
    ]
    regressions = {2: 3, 3: 1, 4: 2}
    if trial.can(Capability.TRUNCATE):
        emptied = ChangeEvent(operation=Operation.TRUNCATE, position=Position(1, 400, 7, 1), time=1200 * LEAST_GAP)
        new += [emptied, _change(insert, 8, Position(1, 350, 7, 2), 1202)]
        regressions[7] = 2
    dimension = Dimension(name=NAME, schema=PACKED, key=("h", "id"), tolerance=TOLERANT, **trial.case)
    later = [_change(insert, 9, Position(1, 110, 6, 1), 1000)]  # newer than all, and of another key
    player = Player(Script(dimension, [old, later, new], [*old, *later, *new]), trial.make().lake)
    player.deliver()
    player.deliver()
    player.source.arrived = 3
    job = player.job()
    prepared = prepare_next_batch(job)
    assert isinstance(prepared, PreparedBatch)
    suspicious = replace(prepared.plan, suspect_objects=frozenset(regressions))
    resolved = job.opened.table.resolve(suspicious, prepared.batch.frame)
    reported = dict(resolved.log_regressions)
    resolved.close()
    prepared.close()
    assert reported == regressions, f"the first newer rows at a lower position are {regressions}, not {reported}"


LAW: Final = Law.of(
    a_newer_change_at_a_lower_position_is_reported,
    cases=_CASES,
    of_cases={"history": frozenset({Capability.HISTORY.value})},
    once=True,
)
