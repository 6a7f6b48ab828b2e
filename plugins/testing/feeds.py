"""A source under test: what is put into it, how it is read as a new process would, and its rows in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from lakeward.core.dimension import Dimension, Snapshots, TableName
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.ports import Source
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.plugins.testing.scripts import Item

COLUMNS: Final = Schema((Column("id", parse_type("bigint")), Column("a", parse_type("string"))))
DIMENSION: Final = Dimension(name=TableName("shop", "orders"), schema=COLUMNS, key=("id",))
OTHER: Final = replace(DIMENSION, name=TableName("shop", "lines"))

BEGIN: Final = 1_700_000_000_000_000
"""The source time before the first change, in microseconds since 1970."""

ROWS: Final = 3
"""The rows of an object; a changed one has another more."""

EPOCH: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A source under test that has no object yet.

    `open` opens it as a new process would: twice, it is the same one. `put` puts an object at a place
    among those of a table, 1 being the first, with these rows in this order, written as the source has
    them; one that is put again takes the place of the one before. A row is a change, at its `time`, or a
    reject: a row whose key is NULL. `rows` reads events and rejects of a frame, in any order. A source
    that does not tell all `operations` apart says those that it does. One that tells the cells of a row by
    its original text gives the `texts` of a frame, by position. One in which not every text can stand (a line
    of a log has no line breaks) says which it `holds`. The tables are those of `DIMENSION` and `OTHER`; where
    they have columns `beside` those, as one by which a source orders its rows, each comes with the text that
    a row has in it, as `Source.cells` tells it. One of a source that says `Sequences.PLACES` for all of its
    tables, in which no row tells a place, is no `has_places`: sequences are 0 there. A source that reads a log
    writes the sequence of a row as its place in that log and says `has_log`; the laws of logs are closed to others.

    `put_load` puts an object of a full load at a place among those of the load, as `put` does among changes:
    each of its rows is a `read`, or a reject. Without it the laws of full loads are closed to the source. One
    that takes full loads of tables with `snapshots` alone says these.

    `put_named` puts an object whose columns have other names or another order. It is given the names to write,
    each with the column of the kit whose cells stand under it. Without it the laws of names are closed.
    `put_mixed` puts an object of a table that also has rows of others, so many of each; without it the laws of
    other tables are closed. `put_offsets` puts an object of the one partition of a topic at a place among its
    offsets, written so many seconds after some moment; its rows have sequence 0 and tell no place. Without it the
    laws of topics are closed.
    """

    open: Callable[[], Source[Any]]
    put: Callable[[Dimension, int, Sequence[Item]], object]
    rows: Callable[[Any], Iterable[Item]]
    operations: Sequence[Operation] = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
    texts: Callable[[Any], Mapping[Position, str]] = lambda _frame: {}
    holds: Callable[[str], bool] = lambda _text: True
    beside: Mapping[Column, Callable[[Item], str]] = field(default_factory=dict)
    has_places: bool = True
    has_log: bool = False
    put_load: Callable[[Dimension, int, Sequence[Item]], object] | None = None
    snapshots: Snapshots | None = None
    put_named: Callable[[Dimension, int, Sequence[Item], Mapping[str, str]], object] | None = None
    put_mixed: Callable[[Dimension, int, Sequence[Item], Mapping[str, int]], object] | None = None
    put_offsets: Callable[[Dimension, int, Sequence[Item], int], object] | None = None

    @property
    def dimension(self) -> Dimension:
        """The table, in the order that the source offers."""
        source, schema = self.open(), Schema((*COLUMNS, *self.beside))
        return replace(DIMENSION, schema=schema, lateness=source.lateness, sequences=source.sequences)

    def written(self, item: ChangeEvent) -> Mapping[str, str]:
        """Return the text that a row has in each column."""
        own = {name: str(cell) for name, cell in item.cells.items()}
        return {**own, **{column.name: text(item) for column, text in self.beside.items()}}

    def deliver(self, *places: int, rows: int = ROWS) -> None:
        """Put objects, in this order."""
        for place in places:
            self.put(DIMENSION, place, self.items(place, rows))

    def items(self, place: int, rows: int = ROWS) -> Sequence[Item]:
        """Return what an object holds: the second row of the second object has no key."""
        return [self._item(place, row) for row in range(1, rows + 1)]

    def _item(self, place: int, row: int) -> Item:
        time = BEGIN + 1_000_000 * (place * 100 + row)
        position, number = Position(1, time, place, row), place * 100 + row
        if (place, row) == (2, 2):
            return Reject(position, Reason.NULL_KEY, time=time)
        operation = self.operations[row % len(self.operations)]
        cells = {"id": number, "a": f"of {number}"}
        return ChangeEvent(operation=operation, position=position, key=(number,), cells=cells, time=time)

    def take(self, *applied: SourceObject, **more: Any) -> Sequence[SourceObject]:
        """Take as a new process does, which knows what was applied."""
        return self.open().select_objects(self.dimension, past(applied, **more)).objects

    def read(self, *applied: SourceObject) -> Read:
        """Take and read the next batch."""
        source = self.open()
        batch = source.read(self.dimension, source.select_objects(self.dimension, past(applied)), EPOCH)
        try:
            return Read(batch.facts, list(self.rows(batch.frame)))
        finally:
            batch.close()

    def batches(self) -> Iterator[Read]:
        """Take, read and apply until nothing is left."""
        applied: list[SourceObject] = []
        while self.take(*applied):
            found = self.read(*applied)
            assert found.objects, "objects were taken that nobody changed, and none of them was read"
            twice = [item.name for item in found.objects if item in applied]
            assert not twice, f"taken again after they were applied: {twice}"
            applied += found.objects
            yield found


@dataclass(frozen=True, slots=True)
class Read:
    """A batch that was read."""

    facts: BatchFacts
    rows: Sequence[Item]

    @property
    def objects(self) -> Sequence[SourceObject]:
        """The objects that are in it."""
        return [known.object for known in self.facts.objects]

    @property
    def by_arrival(self) -> Sequence[Item]:
        """The rows in the order in which they came."""
        return sorted(self.rows, key=lambda item: item.position[2:])


Law: TypeAlias = Callable[[Feed], None]


def past(applied: Sequence[SourceObject], **more: Any) -> ObjectHistory:
    """Return what is known of a table to which these objects were applied."""
    last = applied[-1].name if applied else None
    return ObjectHistory(seen={item.name: item for item in applied}, last=last, **more)


def told(items: Iterable[Item]) -> Sequence[object]:
    """Return what rows say, without their places."""
    return [words(item) for item in items]


def words(item: Item) -> object:
    """Return what a row says, without its place: of a delete its key alone."""
    if isinstance(item, Reject):
        return item.reason, item.time
    cells = None if item.operation is Operation.DELETE else {name: item.cells.get(name) for name in COLUMNS.names}
    return item.operation, item.key, cells, item.time
