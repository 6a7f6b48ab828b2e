"""Sources in plain Python whose selections or batches are changed by a function: each makes one mistake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.dimension import Dimension
from lakeward.core.events import Sequences
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.ports import Batch
from lakeward.plugins.testing import Item

Kind: TypeAlias = type[MemorySource]


def changed_batches(
    change: Callable[[Batch[Frame], ObjectSelection, int], Batch[Frame]], declared: Sequences = Sequences.TIMES
) -> Kind:
    """Return a source that changes each batch by its selection and epoch, and declares these sequences."""

    class Changed(MemorySource):
        def __init__(self) -> None:
            MemorySource.__init__(self, sequences=declared)

        def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
            return change(MemorySource.read(self, dimension, selection, epoch), selection, epoch)

    return Changed


def changed_rows(change: Callable[[Frame], Frame], declared: Sequences = Sequences.TIMES) -> Kind:
    """Return a source that changes the rows of its batches, and declares these sequences."""
    return changed_batches(lambda batch, *_: replace(batch, frame=change(batch.frame)), declared)


def changed_facts(change: Callable[[Batch[Frame], ObjectSelection, int], Mapping[str, Any]]) -> Kind:
    """Return a source that changes these facts of its batches."""
    return changed_batches(lambda batch, *of: replace(batch, facts=replace(batch.facts, **change(batch, *of))))


def changed_reads(
    change: Callable[[MemorySource, Dimension, ObjectSelection], ObjectSelection], kind: Kind = MemorySource
) -> Kind:
    """Return a source of a kind that reads another selection than the given one."""

    class Changed(kind):  # type: ignore[misc,valid-type]
        def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
            batch: Batch[Frame] = kind.read(self, dimension, change(self, dimension, selection), epoch)
            return batch

    return Changed


def changed_selections(
    change: Callable[[MemorySource, Dimension, ObjectHistory, ObjectSelection], ObjectSelection],
) -> Kind:
    """Return a source that changes its selections."""

    class Changed(MemorySource):
        def select_objects(self, dimension: Dimension, history: ObjectHistory) -> ObjectSelection:
            return change(self, dimension, history, MemorySource.select_objects(self, dimension, history))

    return Changed


def changed_histories(change: Callable[[MemorySource, Dimension, ObjectHistory], ObjectHistory]) -> Kind:
    """Return a source that selects objects by another history."""

    class Changed(MemorySource):
        def select_objects(self, dimension: Dimension, history: ObjectHistory) -> ObjectSelection:
            return MemorySource.select_objects(self, dimension, change(self, dimension, history))

    return Changed


def placed(item: Item, **place: int) -> Item:
    """Return an item with other parts of its position."""
    return replace(item, position=item.position._replace(**place))


def listed(source: MemorySource, dimension: Dimension) -> Sequence[SourceObject]:
    """Return the existing objects of a table, in the order of their delivery."""
    return [one.object for one in source.tables.get(dimension.name, [])]
