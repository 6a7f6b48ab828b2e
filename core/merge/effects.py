"""What events make of one row, whatever order they come in: effects that are composed, not folded anew.

A fold goes through all events of a key; of a busy key thousands come late, and each would
ask for a fold of its own. Here one event more costs the logarithm of their number.
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
    """What some events make of the row that they meet: the cells that they set, or no row (None).

    One that `replaces` the row leaves the same whatever it meets; any other needs a row to
    set its cells in, and leaves none where there is none.
    """

    cells: Cells | None = field(default_factory=dict)
    replaces: bool = False

    def then(self, later: Effect) -> Effect:
        """Return the effect of both, one after the other."""
        if later.replaces:
            return later
        if self.cells is None or not later.cells:
            return self
        known = self.cells
        over = {name: fill_unset(v, known[name]) if name in known else v for name, v in later.cells.items()}
        return Effect({**known, **over}, self.replaces)


NOTHING = Effect()
REMOVED = Effect(None, replaces=True)


def effect_of(event: ChangeEvent, columns: Sequence[str]) -> Effect:
    """Return the effect of an event on its key; one that changes a key is none of these."""
    if event.operation in (Operation.DELETE, Operation.TRUNCATE):
        return REMOVED
    sent = {name: value for name in columns if (value := event.cells.get(name, UNSET)) is not UNSET}
    if event.operation is Operation.UPDATE and event.lacks(columns):
        return Effect(sent)
    return Effect({name: fill_unset(sent.get(name), None) for name in columns}, replaces=True)


class Effects:
    """Effects of `size` events in their order, of which any may still be missing: a tree of what is composed."""

    def __init__(self, first: Effect, size: int) -> None:
        self.leaves = 1 << size.bit_length()
        self.nodes = [NOTHING] * (2 * self.leaves)
        self.put(-1, first)

    def put(self, place: int, effect: Effect) -> None:
        """Put in the effect of the event of that place, counted from 0."""
        node = self.leaves + 1 + place
        self.nodes[node] = effect
        while node > 1:
            node //= 2
            self.nodes[node] = self.nodes[2 * node].then(self.nodes[2 * node + 1])

    @property
    def row(self) -> Cells | None:
        """The cells that stand after all effects that are there, or None where no row does."""
        return self.nodes[1].cells
