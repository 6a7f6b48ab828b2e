"""Sources in plain Python that a function changes: what is delivered, selected, read or repaired."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from mutations import Method, mutate

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.checks.log_steps import LogName
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import ChangeEvent, Sequences
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.merge.facts import ObjectFacts
from lakeward.core.ports import Batch
from lakeward.plugins.testing import Item

Kind: TypeAlias = type[MemorySource]
Selected: TypeAlias = Callable[[MemorySource, Dimension, ObjectHistory, ObjectSelection], ObjectSelection]

END = 1000
"""The order after all objects of the one partition of a topic."""


class LogSource(MemorySource):
    """A source whose sequences are positions in one log."""

    def __init__(self, log: Callable[[ChangeEvent], LogName] = lambda _: LogName("bin.")) -> None:
        MemorySource.__init__(self, sequences=Sequences.PLACES, logs=log)


class TopicSource(MemorySource):
    """A source whose objects are of one partition of a topic."""

    def __init__(self) -> None:
        MemorySource.__init__(self, sequences=Sequences.PLACES, partition_end=lambda _: END)


def changed_items(change: Callable[[Item, int], Item], kind: Kind = MemorySource) -> Kind:
    """Return a source to which other rows are delivered. `change` gets the order of the object too."""

    def put(
        right: Method, _: MemorySource, table: TableName, order: int, items: Frame, *more: Any, **of: Any
    ) -> None:
        right(table, order, [change(item, order) for item in items], *more, **of)

    return mutate(kind, "changed items", put=put)


def changed_orders(change: Callable[[int], int]) -> Kind:

    def put(
        right: Method, _: MemorySource, table: TableName, order: int, items: Frame, *more: Any, **of: Any
    ) -> None:
        right(table, change(order), [with_place(item, object=change(order)) for item in items], *more, **of)

    return mutate(MemorySource, "changed orders", put=put)


def changed_batches(
    change: Callable[[Batch[Frame], ObjectSelection, int], Batch[Frame]],
    declared: Sequences | None = None,
    kind: Kind = MemorySource,
) -> Kind:
    """Return a source that changes each batch by its selection and epoch, and declares these sequences."""
    methods: dict[str, Method] = {"read": lambda right, _, dimension, *of: change(right(dimension, *of), *of)}
    if declared is not None:
        methods["__init__"] = lambda right, _: right(sequences=declared)
    return mutate(kind, "changed batches", **methods)


def changed_rows(change: Callable[[Frame], Frame], declared: Sequences | None = None) -> Kind:
    """Return a source that changes the rows of its batches, and declares these sequences."""
    return changed_batches(lambda batch, *_: replace(batch, frame=change(batch.frame)), declared)


def changed_facts(change: Callable[[Batch[Frame], ObjectSelection, int], Mapping[str, Any]]) -> Kind:
    """Return a source that changes these facts of its batches."""
    return changed_batches(lambda batch, *of: replace(batch, facts=replace(batch.facts, **change(batch, *of))))


def changed_objects(change: Callable[[ObjectFacts, ObjectSelection], ObjectFacts], kind: Kind) -> Kind:
    """Return a source of a kind that changes the facts of each object by the selection."""

    def changed(batch: Batch[Frame], selection: ObjectSelection, _: int) -> Batch[Frame]:
        objects = tuple(change(one, selection) for one in batch.facts.objects)
        return replace(batch, facts=replace(batch.facts, objects=objects))

    return changed_batches(changed, kind=kind)


def changed_reads(
    change: Callable[[MemorySource, Dimension, ObjectSelection], ObjectSelection], kind: Kind = MemorySource
) -> Kind:
    """Return a source of a kind that reads another selection than the given one."""

    def read(right: Method, own: MemorySource, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Any:
        return right(dimension, change(own, dimension, selection), epoch)

    return mutate(kind, "changed reads", read=read)


def changed_selections(change: Selected, kind: Kind = MemorySource) -> Kind:
    return mutate(kind, "changed selections", select_objects=lambda right, own, *of: change(own, *of, right(*of)))


def changed_histories(change: Callable[[MemorySource, Dimension, ObjectHistory], ObjectHistory]) -> Kind:
    return mutate(
        MemorySource,
        "changed histories",
        select_objects=lambda right, own, dimension, object_history: right(
            dimension, change(own, dimension, object_history)
        ),
    )


def with_place(item: Item, **place: int) -> Item:
    """Return an item with other parts of its position."""
    return replace(item, position=item.position._replace(**place))


def listed_objects(source: MemorySource, dimension: Dimension) -> Sequence[SourceObject]:
    """Return the existing objects of a table, in the order of their delivery."""
    return [one.object for one in source.tables.get(dimension.name, [])]
