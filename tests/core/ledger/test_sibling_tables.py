"""Two tables of the same objects: each advances by itself, and the archive waits for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from memory_jobs import NAME, UPDATE, event, item

from lakeward.adapters.memory import MemorySource, MemoryTarget
from lakeward.adapters.memory.ledger import MemoryLedger
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import TableError
from lakeward.core.history.options import History, ValidityColumns
from lakeward.core.ledger.objects import ObjectState, SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job, SiblingTable
from lakeward.core.ports import TableState
from lakeward.core.schema import Type

VERSIONS = TableName("shop", "item_history")
MIRROR = item()
HISTORY = item(
    name=VERSIONS, source_name=NAME, history=History(validity_columns=ValidityColumns(type=Type("date")))
)
DAY = 86_400_000_000


@dataclass(slots=True)
class Archiving(MemorySource):
    moved: set[str] = field(default_factory=set)

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        return replace(
            MemorySource.select_objects(self, dimension, object_history),
            leftovers=tuple(object_history.applied.values()),
        )

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        self.moved |= {item.name for item in objects}
        return [item.name for item in objects]


class Shop:
    def __init__(self) -> None:
        self.source, self.target, self.ledger = Archiving(), MemoryTarget(), MemoryLedger()
        ledger_writer = LedgerWriter(ledger=self.ledger, now=lambda: 0)
        self.mirror, self.history = (
            Job(
                dimension=one,
                source=self.source,
                opened=self.target.open(one),
                ledger_writer=ledger_writer,
                siblings=[SiblingTable(str(other.name), partial(self.target.table_state, other))],
            )
            for one, other in ((MIRROR, HISTORY), (HISTORY, MIRROR))
        )

    def deliver(self, number: int) -> None:
        self.source.put(NAME, number, [event(UPDATE, number, time=number * DAY, a=number)])

    def states(self, table: TableName) -> list[ObjectState]:
        return [record.state for record in self.ledger.objects(str(table))]


def test_an_object_is_archived_once_both_tables_have_applied_it() -> None:
    shop = Shop()
    for number in (1, 2):
        shop.deliver(number)
        apply_changes(shop.mirror)
    assert shop.source.moved == set()
    assert shop.states(NAME) == [ObjectState.APPLIED] * 2
    apply_changes(shop.history)
    assert shop.source.moved == {"00000001", "00000002"}
    assert shop.states(NAME) == shop.states(VERSIONS) == [ObjectState.ARCHIVED] * 2
    tables = shop.target.tables
    assert [row.cells["a"] for row in tables[NAME].rows.values()] == [2]
    assert [(v.valid_from, v.cells["a"]) for v in tables[VERSIONS].rows[1,].versions] == [(1, 1), (2, 2)]


def test_an_object_that_was_rewritten_meanwhile_is_not_archived() -> None:
    shop = Shop()
    shop.deliver(1)
    apply_changes(shop.mirror)
    [one] = shop.source.tables[NAME]
    shop.source.tables[NAME] = [replace(one, object=replace(one.object, modified=7))]
    apply_changes(shop.history)
    assert shop.source.moved == set()


def test_the_ledger_of_a_new_sibling_table_does_not_count() -> None:
    shop = Shop()
    shop.deliver(1)
    apply_changes(shop.mirror)
    del shop.target.tables[NAME]
    apply_changes(shop.history)
    assert shop.source.moved == set()


def test_no_object_is_archived_where_the_sibling_table_cannot_be_read() -> None:
    def unreadable() -> TableState:
        raise TableError("the catalog does not answer")

    shop = Shop()
    shop.deliver(1)
    apply_changes(shop.mirror)
    apply_changes(replace(shop.history, siblings=[SiblingTable(str(NAME), unreadable)]))
    apply_changes(replace(shop.history, ledger_writer=None))
    assert shop.source.moved == set()


def test_the_next_run_of_either_table_archives_leftovers() -> None:
    shop = Shop()
    shop.deliver(1)
    apply_changes(shop.mirror)
    shop.ledger.known.clear()
    shop.ledger.accounts.clear()
    apply_changes(shop.history)
    assert shop.source.moved == set(), "the ledger that says that the mirror has it is lost"
    apply_changes(shop.mirror)
    assert shop.source.moved == {"00000001"}
