"""The law of files that lack a column of their table, for tables whose changes come in order.

If changes may come late, such an update waits for its row like any partial row. Other laws test that.
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
"""The number of keys for each history of a trial. Each key has few changes."""

_OPERATIONS: Final = (Operation.INSERT, Operation.UPDATE, Operation.UPDATE, Operation.DELETE)


def an_update_without_a_column_creates_no_row(trial: Trial) -> None:
    """Schema: without a stored row, an update from a file that lacks a column goes into quarantine.

    The same holds within one batch. An insert from such a file has NULL in the missing column.
    """
    dimension = Dimension(
        name=NAME, schema=PACKED, key=("h", "id"), lateness=ORDERED, tolerance=TOLERANT, **trial.case
    )
    player = trial.play_alike(_drawn(trial.random, dimension, _KEYS * trial.histories), trial.ends())
    reasons = {reason for moment in player.moments for reason, *_ in moment.quarantine.values()}
    assert reasons <= {Reason.INCOMPLETE_ROW.value}, f"in quarantine are rows that hold their keys: {reasons}"


def _drawn(random: Random, dimension: Dimension, keys: int) -> Script:
    """Return batches of which the first has all columns. Some updates find a row, others do not."""
    deliveries: list[list[Item]] = []
    columns: dict[int, Schema] = {}
    for number in range(_BATCHES):
        schema = columns[number] = PACKED if number in (0, _BATCHES // 2) else random.choice(_LESS)
        drawn = [_OPERATIONS[0]] * (keys // 2) if not number else random.choices(_OPERATIONS, k=keys)
        rows = enumerate(drawn, 1)
        deliveries.append([_change(random, schema, number + 1, row, keys, operation) for row, operation in rows])
    return Script(dimension, deliveries, [], columns=columns)


def _change(random: Random, schema: Schema, number: int, row: int, keys: int, operation: Operation) -> ChangeEvent:
    """Return a change of a random key, which few others of its batch have. Two have the same source time."""
    at, key = 1000 * number + row // 2, random.randrange(keys)
    cells = {"h": 0, "id": key} | {c.name: random.choice((None, at)) for c in schema.columns[2:]}
    return ChangeEvent(
        operation=operation, position=Position(1, at, number, row), key=(0, key), cells=cells, time=at
    )


LAW: Final = Law.of(
    an_update_without_a_column_creates_no_row,
    COLUMNS,
    cases=_CASES,
    of_cases=_NEEDS,
    few=2,
    share=0.1,
    weight=0.25,
)
