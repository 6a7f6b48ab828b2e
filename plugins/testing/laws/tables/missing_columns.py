"""The law of files that lack a column of their table, where changes come in order: what an update finds, or not.

Where changes may come late such an update waits for its row as any part of one, which the laws of those hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from lakeward.core.dimension import ORDERED, Deletes, Dimension
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.history.options import History
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.facts import Capability
from lakeward.core.schema import Schema
from lakeward.plugins.testing.bench import COLUMNS, Law, Trial
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT, Item, Script

_CASES: Final[Mapping[str, Mapping[str, Any]]] = {
    "mirror": {},
    "soft deletes": {"deletes": Deletes.SOFT},
    "history": {"history": History()},
}
_NEEDS: Final = {
    "soft deletes": frozenset({Capability.SOFT_DELETE.value}),
    "history": frozenset({Capability.HISTORY.value}),
}
_LESS: Final = (Schema(PACKED.columns[:-1]), Schema((*PACKED.columns[:2], PACKED.columns[-1])))
"""The columns of a table without one that is no key."""

_BATCHES: Final = 6
_KEYS: Final = 12
"""So many keys a history of other laws: one has few changes."""

_OPERATIONS: Final = (Operation.INSERT, Operation.UPDATE, Operation.UPDATE, Operation.DELETE)


def an_update_that_lacks_a_column_makes_no_row(trial: Trial) -> None:
    """Schema: where no row stands that keeps what it has there, the update goes into quarantine, and is told.

    So it is from change to change of one batch; a change that comes as a whole, as an insert does, has NULL there.
    """
    dimension = Dimension(
        name=NAME, schema=PACKED, key=("h", "id"), lateness=ORDERED, tolerance=TOLERANT, **trial.case
    )
    player = trial.play_alike(_drawn(trial.random, dimension, _KEYS * trial.histories), trial.ends())
    reasons = {reason for moment in player.moments for reason, *_ in moment.quarantine.values()}
    assert reasons <= {Reason.INCOMPLETE_ROW.value}, f"in quarantine are rows that hold their keys: {reasons}"


def _drawn(random: Random, dimension: Dimension, keys: int) -> Script:
    """Return batches, of which the first has all columns: some updates find a row, and some none."""
    deliveries: list[list[Item]] = []
    columns: dict[int, Schema] = {}
    for number in range(_BATCHES):
        schema = columns[number] = PACKED if number in (0, _BATCHES // 2) else random.choice(_LESS)
        drawn = [_OPERATIONS[0]] * (keys // 2) if not number else random.choices(_OPERATIONS, k=keys)
        rows = enumerate(drawn, 1)
        deliveries.append([_change(random, schema, number + 1, row, keys, operation) for row, operation in rows])
    return Script(dimension, deliveries, [], columns=columns)


def _change(random: Random, schema: Schema, number: int, row: int, keys: int, operation: Operation) -> ChangeEvent:
    """Return a change of any key, which few others of its batch have; two come at each instant."""
    at, key = 1000 * number + row // 2, random.randrange(keys)
    cells = {"h": 0, "id": key} | {c.name: random.choice((None, at)) for c in schema.columns[2:]}
    return ChangeEvent(
        operation=operation, position=Position(1, at, number, row), key=(0, key), cells=cells, time=at
    )


LAW: Final = Law(
    name=an_update_that_lacks_a_column_makes_no_row.__name__,
    statement=an_update_that_lacks_a_column_makes_no_row.__doc__ or "",
    check=an_update_that_lacks_a_column_makes_no_row,
    needs=frozenset({COLUMNS}),
    cases=_CASES,
    of_cases=_NEEDS,
    few=2,
    share=0.1,
    weight=0.25,
)
