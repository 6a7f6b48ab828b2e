"""The law in which hypothesis chooses every move, and shows the shortest sequence that fails."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from lakeward.core.dimension import Dimension, Unbounded
from lakeward.core.events import UNSET, ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.facts import PARTIAL, Capability
from lakeward.plugins.testing.bench import Law, Trial
from lakeward.plugins.testing.player import CRASHES, MemoryLake, Player
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT, Item, Script

STEPS: Final = 8
"""The most moves of one sequence. Most mistakes need no more."""

_KEYS: Final = st.integers(1, 3)
_VALUES: Final = st.sampled_from([0, 1, 2, None])
_ENDS: Final = st.none() | st.sampled_from(CRASHES)
_ALWAYS: Final = ("insert", "update", "delete", "bad")


class _Play(RuleBasedStateMachine):
    """One feed for two tables. The reference adapter runs first and never crashes."""

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        bench = trial.make()
        self.foreign, can = bench.foreign, trial.bench.can
        self.kinds = [*_ALWAYS, *(["truncate"] if Capability.TRUNCATE.value in can else [])]
        if {item.value for item in PARTIAL} <= can:
            self.kinds += ["part", "move"]
        dimension = Dimension(name=NAME, schema=PACKED, key=("h", "id"), lateness=Unbounded(), tolerance=TOLERANT)
        self.deliveries: list[Sequence[Item]] = []
        self.script = Script(dimension, self.deliveries, [], in_part="part" in self.kinds)
        self.model = Player(self.script, MemoryLake())
        self.table = Player(self.script, bench.lake, expected=self.model.moments)

    @rule(data=st.data(), size=st.integers(1, 3), late=st.integers(0, 3), end=_ENDS)
    def deliver(self, data: st.DataObject, size: int, late: int, end: tuple[str, str] | None) -> None:
        """Deliver an object, `late` by so many commits. With `end` a process crashes and another one continues."""
        number = len(self.deliveries) + 1
        places = [Position(1, max(1, number - late), number, row) for row in range(1, size + 1)]
        self._arrive([self._item(data, place) for place in places], end)

    @precondition(lambda self: self.deliveries)
    @rule(data=st.data(), end=_ENDS)
    def deliver_again(self, data: st.DataObject, end: tuple[str, str] | None) -> None:
        """Deliver an object again."""
        self._arrive(data.draw(st.sampled_from(self.deliveries), "object"), end)

    @rule(end=_ENDS)
    def give_up(self, end: tuple[str, str] | None) -> None:
        """Discard all rows in quarantine. The events that waited behind them are applied."""
        self.model.settle(Random(0), 1.0, iter(()))
        self.table.settle(Random(0), 1.0, iter([end] if end else []))

    @precondition(lambda self: self.foreign is not None and self.deliveries)
    @rule()
    def commit_as_another_writer(self) -> None:
        """Commit as another writer that changes no row."""
        assert self.foreign is not None
        self.foreign(self.script.dimension)

    def _arrive(self, items: Sequence[Item], end: tuple[str, str] | None) -> None:
        self.deliveries.append(items)
        self.model.deliver()
        self.table.deliver(end)

    def _item(self, data: st.DataObject, place: Position) -> Item:
        kind, key = data.draw(st.sampled_from(self.kinds), "change"), data.draw(_KEYS, "key")
        if kind == "truncate":
            return ChangeEvent(operation=Operation.TRUNCATE, position=place, time=place.sequence)
        if kind == "bad":
            return Reject(place, Reason.CAST, ((0, key),), time=place.sequence)
        cells: dict[str, Any] = {"h": 0, "id": key, "a": data.draw(_VALUES, "a"), "b": data.draw(_VALUES, "b")}
        old = (0, data.draw(_KEYS, "old key")) if kind == "move" else None
        if kind == "part":
            cells[data.draw(st.sampled_from(["a", "b"]), "not sent")] = UNSET
        return ChangeEvent(
            operation=Operation(kind) if kind in _ALWAYS else Operation.UPDATE,
            position=place,
            key=(0, key),
            cells=cells,
            old_key=None if old == (0, key) else old,
            time=place.sequence,
        )


def any_sequence_of_moves_matches_the_reference_adapter(trial: Trial) -> None:
    """All laws at once: crashes, repeats, late objects, holds and commits of another writer, in any order."""
    tries = max(2, trial.bench.tries)
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    if not trial.is_packed:  # on a slow table it would take hours; phase `explain` is no help here
        phases.append(Phase.shrink)
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    how = settings(
        max_examples=tries,
        stateful_step_count=STEPS,
        deadline=None,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=quiet,
    )
    run_state_machine_as_test(lambda: _Play(trial), settings=how)  # type: ignore[arg-type]  # it takes any callable


LAW: Final = Law.of(any_sequence_of_moves_matches_the_reference_adapter, once=True)
