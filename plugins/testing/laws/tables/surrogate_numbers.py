"""The law of surrogate numbers: a version keeps its number, and no other version ever gets it.

Formats give different numbers. So the law compares the numbers of a table with those of its batch before, and
everything else with the reference adapter, which keeps the same history without numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from lakeward.core.dimension import Dimension, Unbounded, Within
from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.history.options import History, Kind, Surrogate, ValidityColumns
from lakeward.core.merge.facts import PARTIAL, Capability
from lakeward.core.progress import Progress
from lakeward.plugins.testing.bench import Law, Trial, expected
from lakeward.plugins.testing.moments import Moment, difference
from lakeward.plugins.testing.player import UNCOMMITTED, Player
from lakeward.plugins.testing.scripts import NAME, PACKED, Script, pack_late

_Versions: TypeAlias = Mapping[Key, Mapping[str, Any]]
_SHOWN: Final = ValidityColumns(surrogate=Surrogate.NUMBER, surrogate_column="nr")

NUMBERED: Final = (
    History(validity_columns=_SHOWN),
    History(is_bitemporal=True, kinds={"a": Kind.CURRENT, "b": Kind.PREVIOUS}, validity_columns=_SHOWN),
)
_SEVERAL: Final = range(3, 6)
"""The number of deliveries: enough for late events, and few enough to be fast."""


def a_version_keeps_its_number(trial: Trial) -> None:
    """History, surrogate numbers: a version keeps its number as long as it exists, and no other ever gets it."""
    history = trial.random.choice(NUMBERED)
    history = replace(history, is_bitemporal=history.is_bitemporal and trial.can(Capability.BITEMPORAL))
    script = trial.case(trial)
    script = replace(script, dimension=replace(script.dimension, history=history))
    without = replace(history, validity_columns=replace(history.validity_columns, surrogate=None))
    plain = expected(replace(script, dimension=replace(script.dimension, history=without)))
    player = Player(script, trial.make().lake).play(trial.ends(UNCOMMITTED))
    before = Moment(Progress(), {}, {}, frozenset())
    for moment, was in zip(player.moments, plain, strict=True):
        versions = _without_numbers(moment, was)
        if versions.promised != was.promised:
            raise AssertionError(difference(versions, was, player.delivered))
        _check(script.dimension, before, moment)
        before = moment


def _by_hand(_: Trial) -> Script:
    """Return a version that begins and ends, new ones, one whose start moves, and one that is cut in two."""

    def event(operation: Operation, place: int, key: int, a: int, time: int) -> ChangeEvent:
        cells = {"h": 0, "id": key, "a": a, "b": 0}
        position = Position(1, place, place, key)
        return ChangeEvent(operation=operation, position=position, key=(0, key), cells=cells, time=time)

    events = [
        [event(Operation.INSERT, 10, key, 1, 10) for key in (1, 2)],
        [event(Operation.UPDATE, 50, 1, 2, 50)],
        [event(Operation.DELETE, 60, 1, 2, 50)],
        [event(Operation.UPDATE, 70, 2, 2, 70), event(Operation.INSERT, 70, 3, 1, 70)],
        [event(Operation.UPDATE, 30, 2, 2, 30)],
        [event(Operation.UPDATE, 20, 2, 3, 20)],
    ]
    dimension = Dimension(name=NAME, schema=PACKED, key=("h", "id"), lateness=Unbounded())
    return Script(dimension, events, [one for several in events for one in several])


def _drawn(trial: Trial) -> Script:
    random = trial.random
    truncates, lateness = random.random() < 0.5, random.choice((Within(3), Unbounded()))
    truncates, in_part = truncates and trial.can(Capability.TRUNCATE), trial.can(*PARTIAL)
    bad, script = 0.0 if truncates else 0.03, None
    while script is None or len(script.deliveries) not in _SEVERAL:
        script = pack_late(
            random, trial.histories, lateness, bad=bad, fixed=0.6, in_part=in_part, truncates=truncates
        )
    return script


def _without_numbers(moment: Moment, plain: Moment) -> Moment:
    """Return a moment without surrogate numbers and with the history options of `plain`."""
    rows = {
        key: ({name: cell for name, cell in cells.items() if name != _SHOWN.surrogate_column}, position)
        for key, (cells, position) in moment.rows.items()
    }
    progress = replace(moment.progress, numbered=None, history=plain.progress.history)
    return replace(moment, progress=progress, rows=rows)


def _check(dimension: Dimension, before: Moment, after: Moment) -> None:
    """Compare the numbers after a batch with those before it. Raises AssertionError if one is wrong."""
    given, highest = (moment.progress.numbered or 0 for moment in (before, after))
    earlier, later = (_believed(dimension, moment) for moment in (before, after))
    column = _SHOWN.surrogate_column
    by_number = {cells[column]: place for place, cells in later.items()}
    for place, cells in later.items():
        number, old = cells[column], _same_version(dimension, place, cells, earlier, later)
        assert by_number[number] == place, f"{place} and {by_number[number]} have the number {number}"
        if old is not None:
            assert number == old[column], f"{place} had the number {old[column]}, and has {number}"
        else:
            assert given < number <= highest, (
                f"{place} is new and has the number {number}; up to {given} were given before, now up to {highest}"
            )
    for key, (cells, _) in after.rows.items():
        number = before.rows[key][0][column] if key in before.rows else cells[column]
        assert cells[column] == number, f"row {key} had the number {number}, and has {cells[column]}"


def _believed(dimension: Dimension, moment: Moment) -> _Versions:
    """Return the current knowledge of a moment: versions by key and start."""
    history, parts = dimension.history or History(), len(dimension.key) + 1
    until = history.known_columns[1:]
    rows = {key: cells for key, (cells, _) in moment.rows.items() if all(cells[name] is None for name in until)}
    return {key[:parts]: cells for key, cells in rows.items()}


def _same_version(
    dimension: Dimension, place: Key, cells: Mapping[str, Any], earlier: _Versions, later: _Versions
) -> Mapping[str, Any] | None:
    """Return the earlier form of a version: it has the same start, or else the same end and tracked cells."""
    if place in earlier:
        return earlier[place]
    history = dimension.history or History()
    tracked = history.tracked(dimension.schema.names, dimension.key)
    same = (history.validity_columns.valid_to, *tracked)
    moved = (old for other, old in earlier.items() if other[:-1] == place[:-1] and other not in later)
    return next((old for old in moved if all(old[name] == cells[name] for name in same)), None)


WAYS: Final[Mapping[str, Callable[[Trial], Script]]] = {"by hand": _by_hand, "drawn": _drawn}

LAW: Final = Law.of(
    a_version_keeps_its_number,
    Capability.HISTORY.value,
    Capability.NUMBERS.value,
    often=6,
    cases=WAYS,
)
