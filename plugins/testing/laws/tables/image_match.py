"""Laws of image match: tables without a key, whose rows are found by their before images."""

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
"""Values of columns `a` and `b`. They are few, so that many rows are equal."""

_DIMENSION: Final = Dimension(name=NAME, schema=PACKED, match=Match.IMAGE, lateness=ORDERED, tolerance=TOLERANT)


@dataclass(frozen=True)
class BagScript(Script):
    """A script of a table without a key, in which equal rows may occur several times."""

    @property
    def truth(self) -> Rows:
        """The rows at the end: each update and delete removes the oldest row that is equal to its image."""
        rows: dict[Position, _Cells] = {}
        for event in sorted(self.events, key=lambda event: event.position):
            if event.operation in (Operation.UPDATE, Operation.DELETE):
                image = event.before or {}
                oldest = next((place for place, cells in rows.items() if same_cells(cells, image)), None)
                if oldest is None:
                    continue
                del rows[oldest]
            if event.operation is not Operation.DELETE:
                rows[event.position] = dict(event.cells)
        return {tuple(place): (cells, place) for place, cells in rows.items()}


class _Source:
    """A source table with few distinct rows, and the objects that a capture of it sends."""

    def __init__(self, random: Random, history: int) -> None:
        self.random = random
        self.history = history
        self.rows: list[_Cells] = []

    def objects(self) -> list[list[ChangeEvent]]:
        """Return objects. The first may be a full load."""
        has_load = self.random.random() < 0.5
        objects = [self._load(1)] if has_load else []
        for number in range(len(objects) + 1, len(objects) + self.random.randrange(2, 8)):
            rows = range(1, self.random.randrange(2, 6))
            objects.append([self._change(Position(1, number, self._order(number), row)) for row in rows])
        return objects

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
        """Insert a row, or delete or update one. The image is missing or matches no row now and then."""
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
    """Return a script that packs so many source tables with few distinct rows. Some objects are delivered again."""
    deliveries: list[list[Item]] = []
    events: list[ChangeEvent] = []
    for history in range(histories):
        objects = dict(enumerate(_Source(random, history).objects()))
        bad_places = {e.position for listed in objects.values() for e in listed if random.random() < bad}
        rejects = {place: Reject(place, Reason.CAST, time=place.sequence) for place in bad_places}
        for index, batch in enumerate(batches(random, with_repeats(random, sorted(objects)))):
            deliveries += [[] for _ in range(index + 1 - len(deliveries))]
            listed = (event for number in sorted(set(batch)) for event in objects[number])
            deliveries[index] += [rejects.get(event.position, event) for event in listed]
        events += [e for listed in objects.values() for e in listed if e.position not in bad_places]
    return BagScript(_DIMENSION, deliveries, events, settles=0.3)


def an_image_removes_one_equal_row(trial: Trial) -> None:
    """Images: an image removes one of the rows that equal it, for any batches, repeats and crashes."""
    player = trial.play(pack_images(trial.random, trial.histories, bad=0.05), trial.ends())
    if trial.is_packed:
        assert Reason.NO_KEY.value in player.reasons, "every image found a row: the feed shows too little"


def a_row_of_nulls_is_equal_to_its_image(trial: Trial) -> None:
    """NULL equals NULL in an image. An incomplete image, or one without a row, removes nothing."""
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


LAWS: Final = (
    Law.of(a_row_of_nulls_is_equal_to_its_image, Capability.IMAGES.value, once=True),
    Law.of(an_image_removes_one_equal_row, Capability.IMAGES.value, few=4, share=0.2, often=6),
)
"""They need the capability `images`."""
