"""A source under test: how the kit puts objects into it, and reads it as a new process."""

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
"""The number of rows of an object. A changed object has one more."""

EPOCH: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A source under test without objects. Its tables are `DIMENSION` and `OTHER`.

    - `open`: opens the source as a new process would. Every call opens the same source.
    - `put`: writes an object of a table, at a place among its objects (1 is the first), with these rows in this
      order. An object that is put again replaces the old one. A row is a change with its `time`, or a reject: a
      row whose key is NULL.
    - `rows`: reads the events and rejects of a frame, in any order.
    - `operations`: the operations that the source distinguishes.
    - `texts`: the source texts of the rows of a frame, by position, if `Source.cells` reads them.
    - `holds`: whether the source can hold a text. A line of a log, for example, has no line breaks.
    - `beside`: further columns of the tables, with the text that a row has in each, as in `Source.cells`.
    - `has_places`: False if the source declares `Sequences.PLACES` for all tables, but rows of this one have no
      log position, so their sequences are 0.
    - `has_log`: whether the source reads a log, in which the sequence of a row is its position. If not, the laws
      of logs are closed.
    - `put_load`: writes an object of a full load, like `put`. Its rows are reads or rejects. Without it the laws of
      full loads are closed. `snapshots`: set if only tables with these options have full loads.
    - `put_named`: writes an object whose columns have other names or another order: each name to write, with the
      column of the kit that it holds. Without it the laws of column names are closed.
    - `put_mixed`: writes an object that also has so many rows of other tables. Without it the laws of other tables
      are closed.
    - `put_offsets`: writes an object of the one partition of a topic, at a place among its offsets, written so
      many seconds after a fixed moment. Its rows have sequence 0. Without it the laws of topics are closed.
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
        """The table, with the lateness and sequences that the source declares."""
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
        """Return the rows of an object. The second row of the second object is a reject without a key."""
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
        """Select objects as a new process that knows the applied ones."""
        return self.open().select_objects(self.dimension, history_of(applied, **more)).objects

    def read(self, *applied: SourceObject) -> Read:
        """Select and read the next batch."""
        source = self.open()
        batch = source.read(self.dimension, source.select_objects(self.dimension, history_of(applied)), EPOCH)
        try:
            return Read(batch.facts, list(self.rows(batch.frame)))
        finally:
            batch.close()

    def batches(self) -> Iterator[Read]:
        """Select, read and apply until nothing is left. Yields the batches."""
        applied: list[SourceObject] = []
        while self.take(*applied):
            read = self.read(*applied)
            assert read.objects, "unchanged objects were selected, and none of them was read"
            twice = [item.name for item in read.objects if item in applied]
            assert not twice, f"selected again after they were applied: {twice}"
            applied += read.objects
            yield read


@dataclass(frozen=True, slots=True)
class Read:
    """A batch that was read."""

    facts: BatchFacts
    rows: Sequence[Item]

    @property
    def objects(self) -> Sequence[SourceObject]:
        """The objects that are in it."""
        return [fact.object for fact in self.facts.objects]

    @property
    def by_arrival(self) -> Sequence[Item]:
        """The rows in the order in which they came."""
        return sorted(self.rows, key=lambda item: item.position[2:])


Law: TypeAlias = Callable[[Feed], None]


def history_of(applied: Sequence[SourceObject], **more: Any) -> ObjectHistory:
    """Return the object history of a table with these applied objects."""
    last = applied[-1].name if applied else None
    return ObjectHistory(applied={item.name: item for item in applied}, last_applied=last, **more)


def contents(items: Iterable[Item]) -> Sequence[object]:
    """Return the contents of rows, without their positions."""
    return [words(item) for item in items]


def words(item: Item) -> object:
    """Return the content of a row without its position. Of a delete that is its key alone."""
    if isinstance(item, Reject):
        return item.reason, item.time
    cells = None if item.operation is Operation.DELETE else {name: item.cells.get(name) for name in COLUMNS.names}
    return item.operation, item.key, cells, item.time
