"""A source in plain Python as a feed of the kit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from lakeward.adapters.memory import MemorySource
from lakeward.core.dimension import Dimension
from lakeward.core.events import ChangeEvent
from lakeward.core.schema import Column, Schema
from lakeward.plugins.testing import Feed, Item

BEFORE: Final = 100
"""The distance of objects of a full load before those of changes."""


def feed(source: MemorySource) -> Feed:
    """Return a feed of an empty source. Each object is newer than those before it."""
    times = count(1)

    def put(dimension: Dimension, place: int, items: Sequence[Item]) -> None:
        source.put(dimension.name, place, items, modified=next(times))

    def put_load(dimension: Dimension, place: int, items: Sequence[Item]) -> None:
        order = place - BEFORE
        placed = [replace(item, position=item.position._replace(object=order)) for item in items]
        source.put(dimension.name, order, placed, modified=next(times))

    def put_named(dimension: Dimension, place: int, items: Sequence[Item], names: Mapping[str, str]) -> None:
        types = {column.name: column.type for column in dimension.schema}
        schema = Schema(tuple(Column(name, types[own]) for name, own in names.items()))
        source.put(dimension.name, place, [_named(item, names) for item in items], schema, modified=next(times))

    def put_mixed(dimension: Dimension, place: int, items: Sequence[Item], others: Mapping[str, int]) -> None:
        source.put(dimension.name, place, items, modified=next(times), others=others)

    def put_offsets(dimension: Dimension, place: int, items: Sequence[Item], written: int) -> None:
        source.put(dimension.name, place, items, modified=written)

    return Feed(
        open=lambda: source,
        put=put,
        rows=lambda frame: frame,
        put_load=put_load,
        put_named=put_named,
        put_mixed=put_mixed,
        has_log=source.logs is not None,
        put_offsets=None if source.partition_end(1) is None else put_offsets,
    )


def _named(item: Item, names: Mapping[str, str]) -> Item:
    """Return a row with other names of its cells."""
    if not isinstance(item, ChangeEvent):
        return item
    return replace(item, cells={name: item.cells[own] for name, own in names.items()})
