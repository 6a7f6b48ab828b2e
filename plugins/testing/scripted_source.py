"""The source of a player: it delivers a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from lakeward.adapters.memory import event_of, facts_of
from lakeward.core.checks.source_clock import beyond
from lakeward.core.dimension import Dimension, Lateness
from lakeward.core.events import ChangeEvent, Operation, Position, Sequences
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.merge.facts import PARTIAL, Capability, ObjectFacts
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.schema import Type
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.plugins.testing.scripts import Item, Script

_BEGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class ScriptedSource:
    """Delivers a script. The change log of the table says which delivery is next."""

    script: Script
    frame: Callable[..., Any]
    arrived: int = 0

    def _objects(self, number: int) -> tuple[SourceObject, ...]:
        places = sorted({item.position.object for item in self.script.deliveries[number]})
        return tuple(SourceObject(f"{number:04d}/{place}", place, 1, 0) for place in places)

    @property
    def lateness(self) -> Lateness:
        """The lateness of the script."""
        return self.script.dimension.lateness

    @property
    def sequences(self) -> Sequences:
        """The sequences of the script."""
        return self.script.dimension.sequences

    def order_by(self, dimension: Dimension) -> str | None:
        """Return None: no column orders the events."""

    def key_form(self, dimension: Dimension) -> str | None:
        """Return None: keys are typed values already."""

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """Select the first delivery that was not selected as a whole."""
        fresh: list[int] = []
        for number in range(self.arrived):
            objects = self._objects(number)
            applied = [
                item.name in object_history.applied or item.version in object_history.earlier_versions
                for item in objects
            ]
            assert all(applied) or not any(applied), "a part of a delivery was forgotten"
            if objects and not any(applied):
                fresh.append(number)
        if not fresh:
            return ObjectSelection()
        later = tuple(item for number in fresh[1:] for item in self._objects(number))
        is_load = fresh[0] == self.script.reloaded_with
        return ObjectSelection(self._objects(fresh[0]), remaining=later, load_epoch=2 if is_load else None)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Any]:
        """Return the items of a delivery."""
        number = int(selection.objects[0].name.split("/")[0])
        items, limit = self.script.deliveries[number], self.script.believed
        dimension = replace(dimension, schema=self.script.columns.get(number, dimension.schema))
        objects = [
            _object_facts(o, [i for i in items if i.position.object == o.order], limit) for o in selection.objects
        ]
        is_loaded = number >= self.script.loaded_with
        facts = replace(
            facts_of(dimension, items, objects, limit),
            may_need=PARTIAL if self.script.in_part else frozenset(),
            key_range=key_range(dimension, items),
            loaded=selection.load_epoch or (epoch if is_loaded else None),
        )
        return Batch(self.frame(dimension, items, in_part=self.script.in_part), facts)

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return nothing: a script delivers an object again if it is to be applied again."""
        return ()

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> Any:
        """Return a truncate."""
        event = ChangeEvent(operation=Operation.TRUNCATE, position=place, time=time)
        return self.frame(dimension, [event], in_part=self.script.in_part)

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return the names of all objects: nothing has to be moved."""
        return [item.name for item in objects]

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension: rows have the columns of their table."""
        return dimension

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return nothing: rules are applied after a source."""
        return RecomputedColumns()

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return nothing: a script knows the repaired row."""
        return Cells()

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Any:
        """Return the events of repaired rows, in their transactions."""
        fixes = self.script.fixes
        events = [
            replace(event_of(dimension, entry, entry.repaired), transaction=fixes[entry.position].transaction)
            for entry in entries
            if entry.repaired is not None
        ]
        return self.frame(dimension, events, in_part=self.script.in_part)


def _object_facts(source_object: SourceObject, items: Sequence[Item], limit: int | None) -> ObjectFacts:
    places = [item.position for item in items]
    return ObjectFacts(
        source_object, len(items), min(places), max(places), ahead=beyond([i.time for i in items], limit)
    )


def key_range(dimension: Dimension, items: Sequence[Item]) -> tuple[tuple[Any, Any] | None, ...]:
    """Return the bounds of the key of all events, column by column, as `BatchFacts` has them."""
    keys = [item.key for item in items if isinstance(item, ChangeEvent) and item.keys]
    types = [column.type for name in dimension.key for column in dimension.schema if column.name == name]
    return tuple(_range([key[place] for key in keys], type_) for place, type_ in enumerate(types))


def _range(values: Sequence[Any], type_: Type) -> tuple[Any, Any] | None:
    match type_.name:
        case "int" | "bigint" | "decimal":
            numbers = values
        case "date":
            numbers = [(value - date(1970, 1, 1)).days for value in values]
        case "timestamp" | "timestamp_ntz":
            numbers = [(value.replace(tzinfo=UTC) - _BEGIN) // timedelta(microseconds=1) for value in values]
        case _:
            return None
    return (min(numbers), max(numbers)) if numbers else None
