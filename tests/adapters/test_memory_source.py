"""The source in plain Python, held to the kit."""

from __future__ import annotations

from itertools import count

from lakeward.adapters.memory import MemorySource
from lakeward.core.events import Sequences
from lakeward.core.ledger import Limits
from lakeward.plugins.testing import Feed, source_contract


def feed(source: MemorySource) -> Feed:
    times = count(1)
    return Feed(
        open=lambda: source,
        put=lambda dimension, place, items: source.put(dimension.name, place, items, modified=next(times)),
        rows=lambda frame: frame,
    )


TestMemory = source_contract(lambda: feed(MemorySource()))
TestObjectByObject = source_contract(lambda: feed(MemorySource(Limits(files=1))))
TestNumbers = source_contract(lambda: feed(MemorySource(sequences=Sequences.UNIQUE)))
TestPlaces = source_contract(lambda: feed(MemorySource(sequences=Sequences.PLACES)))
