"""The source in plain Python, held to the kit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from changed_sources import LogSource
from memory_feeds import feed

from lakeward.adapters.memory import MemorySource
from lakeward.core.dimension import Dimension, Snapshots
from lakeward.core.events import ChangeEvent, Sequences
from lakeward.core.ledger.selection import Limits
from lakeward.core.schema import Column, parse_type
from lakeward.plugins.testing import Feed, Item, source_contract


def with_a_column_beside() -> Feed:
    """A table whose rows say their order in a column of their own."""
    own = feed(MemorySource())

    def put(dimension: Dimension, place: int, items: Sequence[Item]) -> None:
        own.put(dimension, place, [_with_order(item) for item in items])

    return replace(own, put=put, beside={Column("rev", parse_type("bigint")): lambda item: str(order_of(item))})


def _with_order(item: Item) -> Item:
    if isinstance(item, ChangeEvent):
        return replace(item, cells={**item.cells, "rev": order_of(item)})
    return item


def order_of(item: Item) -> int:
    return item.position.sequence


TestMemory = source_contract(lambda: feed(MemorySource()))
TestObjectByObject = source_contract(lambda: feed(MemorySource(Limits(files=1))))
TestNumbers = source_contract(lambda: feed(MemorySource(sequences=Sequences.UNIQUE)))
TestPlaces = source_contract(lambda: feed(MemorySource(sequences=Sequences.PLACES)))
TestLog = source_contract(lambda: feed(LogSource()))
TestColumnsBeside = source_contract(with_a_column_beside)
TestSnapshots = source_contract(lambda: replace(feed(MemorySource()), snapshots=Snapshots()))
