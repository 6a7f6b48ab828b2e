"""The effect of events on one row, composed in any order instead of folded again.

A fold goes through all events of a key. Of a busy key thousands come late, and each would need a fold of its own.
Here each further event costs the logarithm of their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lakeward.core.events import UNSET, Cell, ChangeEvent, Operation
from lakeward.core.merge.fold import fill_unset

Cells: TypeAlias = Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of some events on the row that they meet: the cells that they set, or None if they remove it.

    An effect that `replaces` the row has the same result whatever row it meets. Any other needs a row to set its
    cells in, and leaves none where there is none.
    """

    cells: Cells | None = field(default_factory=dict)
    replaces: bool = False

    def then(self, later: Effect) -> Effect:
        """Return the effect of this one followed by a later one."""
        if later.replaces:
            return later
        if self.cells is None or not later.cells:
            return self
        cells = self.cells
        overwritten = {name: fill_unset(v, cells[name]) if name in cells else v for name, v in later.cells.items()}
        return Effect({**cells, **overwritten}, self.replaces)


NOTHING = Effect()
REMOVED = Effect(None, replaces=True)


def effect_of(event: ChangeEvent, columns: Sequence[str]) -> Effect:
    """Return the effect of an event on its key. The event must not be a key change."""
    if event.operation in (Operation.DELETE, Operation.TRUNCATE):
        return REMOVED
    cells = {name: value for name in columns if (value := event.cells.get(name, UNSET)) is not UNSET}
    if event.operation is Operation.UPDATE and event.lacks(columns):
        return Effect(cells)
    return Effect({name: fill_unset(cells.get(name), None) for name in columns}, replaces=True)


class Effects:
    """A tree of the effects of `size` events in their order. Effects can be added in any order."""

    def __init__(self, first: Effect, size: int) -> None:
        self.leaves = 1 << size.bit_length()
        self.nodes = [NOTHING] * (2 * self.leaves)
        self.put(-1, first)

    def put(self, place: int, effect: Effect) -> None:
        """Add the effect of the event at a place, counted from 0."""
        node = self.leaves + 1 + place
        self.nodes[node] = effect
        while node > 1:
            node //= 2
            self.nodes[node] = self.nodes[2 * node].then(self.nodes[2 * node + 1])

    @property
    def row(self) -> Cells | None:
        """The cells of the row after all effects added so far, or None where there is no row."""
        return self.nodes[1].cells
