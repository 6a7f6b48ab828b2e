"""The law of tables without a key whose rows are found by their images: feeds of few distinct rows, many equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from lakeward.core.dimension import ORDERED, Dimension, Match
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Operation, Position, same_cells
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.facts import Capability
from lakeward.plugins.testing.bench import Law, Trial
from lakeward.plugins.testing.scripts import NAME, OBJECTS_A_HISTORY, PACKED, TOLERANT, Item, Rows, Script
from lakeward.plugins.testing.simulated_database import batches, with_repeats

_Cells = Mapping[str, Any]

_VALUES: Final = ((1, 1), (1, None), (None, None), (2, 1))
"""What rows hold beside the number of their history and an `id` that is no key: few enough to be equal often."""

_DIMENSION: Final = Dimension(name=NAME, schema=PACKED, match=Match.IMAGE, lateness=ORDERED, tolerance=TOLERANT)


@dataclass(frozen=True)
class BagScript(Script):
    """A script of a table that is a bag of rows."""

    @property
    def truth(self) -> Rows:
        """What is left of the rows, when each change takes away the oldest that is equal to its image."""
        stands: dict[Position, _Cells] = {}
        for event in sorted(self.events, key=lambda event: event.position):
            if event.operation in (Operation.UPDATE, Operation.DELETE):
                image = event.before or {}
                found = next((place for place, cells in stands.items() if same_cells(cells, image)), None)
                if found is None:
                    continue
                del stands[found]
            if event.operation is not Operation.DELETE:
                stands[event.position] = dict(event.cells)
        return {tuple(place): (cells, place) for place, cells in stands.items()}


class _Source:
    """A table of few distinct rows, and what a capture of it sends, in objects."""

    def __init__(self, random: Random, history: int) -> None:
        self.random = random
        self.history = history
        self.rows: list[_Cells] = []

    def objects(self) -> list[list[ChangeEvent]]:
        """Return objects, the first of them perhaps a full load."""
        has_load = self.random.random() < 0.5
        found = [self._load(1)] if has_load else []
        for number in range(len(found) + 1, len(found) + self.random.randrange(2, 8)):
            rows = range(1, self.random.randrange(2, 6))
            found.append([self._change(Position(1, number, self._order(number), row)) for row in rows])
        return found

    def _order(self, number: int) -> int:
        return self.history * OBJECTS_A_HISTORY + number

    def _load(self, number: int) -> list[ChangeEvent]:
        self.rows = [self._row() for _ in range(self.random.randrange(1, 5))]
        places = [Position(1, LOAD_SEQUENCE, self._order(number), row + 1) for row in range(len(self.rows))]
        return [
            ChangeEvent(operation=Operation.READ, position=place, cells=cells)
            for place, cells in zip(places, self.rows, strict=True)
        ]

    def _row(self) -> _Cells:
        a, b = self.random.choice(_VALUES)
        return {"h": self.history, "id": 1, "a": a, "b": b}

    def _change(self, position: Position) -> ChangeEvent:
        """Insert a row; or take one away, now and then one that is not there, and perhaps put another."""
        operation = self.random.choice((Operation.INSERT, Operation.UPDATE, Operation.DELETE))
        time, cells = position.sequence, self._row()
        if operation is Operation.INSERT:
            self.rows.append(cells)
            return ChangeEvent(operation=operation, position=position, cells=cells, time=time)
        is_there = self.rows and self.random.random() < 0.8
        image = self.random.choice(self.rows) if is_there else self._row()
        before = None if self.random.random() < 0.1 else image
        is_applied = before is not None and image in self.rows
        if is_applied:
            self.rows.remove(image)
        if operation is Operation.DELETE:
            return ChangeEvent(operation=operation, position=position, cells=image, before=before, time=time)
        if is_applied:
            self.rows.append(cells)
        return ChangeEvent(operation=operation, position=position, cells=cells, before=before, time=time)


def pack_images(random: Random, histories: int, *, bad: float = 0.0) -> BagScript:
    """Return a script in which so many tables of few distinct rows live side by side; objects come again."""
    deliveries: list[list[Item]] = []
    events: list[ChangeEvent] = []
    for history in range(histories):
        objects = dict(enumerate(_Source(random, history).objects()))
        spoilt = {e.position for listed in objects.values() for e in listed if random.random() < bad}
        rejects = {place: Reject(place, Reason.CAST, time=place.sequence) for place in spoilt}
        for index, batch in enumerate(batches(random, with_repeats(random, sorted(objects)))):
            deliveries += [[] for _ in range(index + 1 - len(deliveries))]
            listed = (event for number in sorted(set(batch)) for event in objects[number])
            deliveries[index] += [rejects.get(event.position, event) for event in listed]
        events += [e for listed in objects.values() for e in listed if e.position not in spoilt]
    return BagScript(_DIMENSION, deliveries, events, settles=0.3)


def a_table_without_a_key_takes_away_one_row_that_is_equal_to_an_image(trial: Trial) -> None:
    """Images: of rows without a key one of those that are equal goes, however they are split, repeated or ended."""
    player = trial.play(pack_images(trial.random, trial.histories, bad=0.05), trial.ends())
    if trial.is_packed:
        assert Reason.NO_KEY.value in player.reasons, "a feed in which every image finds its row says little"


def a_row_of_nulls_is_equal_to_its_image(trial: Trial) -> None:
    """NULL is equal to NULL; an image that was not sent whole takes nothing away, nor does one of no row."""
    cells: _Cells = {"h": 0, "id": None, "a": None, "b": None}
    other: _Cells = {**cells, "a": 1}
    trial.play(_script([_put(1, 1, cells), _put(1, 2, cells)], [_take(2, 1, cells), _take(2, 2, other)]))
    player = trial.play(_script([_put(1, 1, cells)], [_take(2, 1, {**cells, "b": UNSET}), _take(2, 2, None)]))
    assert [reason for reason, *_ in player.moments[1].quarantine.values()] == [Reason.NO_KEY.value] * 2


def _put(at: int, row: int, cells: _Cells) -> ChangeEvent:
    return ChangeEvent(operation=Operation.INSERT, position=Position(1, at, at, row), cells=cells, time=at)


def _take(at: int, row: int, image: _Cells | None) -> ChangeEvent:
    place = Position(1, at, at, row)
    return ChangeEvent(operation=Operation.DELETE, position=place, cells=image or {}, before=image, time=at)


def _script(*deliveries: Sequence[ChangeEvent]) -> BagScript:
    return BagScript(_DIMENSION, deliveries, [event for events in deliveries for event in events])


_NEEDS: Final = frozenset({Capability.IMAGES.value})

LAWS: Final = tuple(
    Law(name=check.__name__, statement=check.__doc__ or "", check=check, needs=_NEEDS, **size)
    for check, size in (
        (a_row_of_nulls_is_equal_to_its_image, {"once": True}),
        (a_table_without_a_key_takes_away_one_row_that_is_equal_to_an_image, {"few": 4, "share": 0.2, "often": 6}),
    )
)
"""Of tables that declare `images`."""
