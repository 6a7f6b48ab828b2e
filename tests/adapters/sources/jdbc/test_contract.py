"""The source `jdbc`, held to those laws of the kit that it can break: an object is what a query found.

A database has rows and no changes, and its objects are made by asking. So the laws of what was written into
objects, of deletes and of objects that somebody changes say nothing of it. Those of its full loads are in
`test_source.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from fake_database import START, FakeDatabase
from sparkless import no_spark

from lakeward.adapters.sources.jdbc import read_options
from lakeward.adapters.sources.jdbc.source import JdbcSource, make_source
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.ports import Batch
from lakeward.core.schema import Column, parse_type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.plugins import Runtime
from lakeward.plugins.testing import Feed, Item
from lakeward.plugins.testing.contract import port_contract
from lakeward.plugins.testing.feeds import BEGIN, COLUMNS, DIMENSION, EPOCH, OTHER
from lakeward.plugins.testing.laws.sources import object_selection, read_rows

LAWS: Final = [
    object_selection.objects_are_selected_until_they_are_applied,
    object_selection.applied_objects_are_not_selected_again,
    object_selection.a_listing_after_the_last_object_selects_the_same,
    object_selection.objects_are_read_the_same_again,
    object_selection.a_table_is_read_under_its_name_in_the_source,
    object_selection.only_applied_objects_are_archived,
    read_rows.each_row_has_a_place_of_its_own,
    read_rows.facts_bound_the_rows,
]
CURSOR: Final = Column("updated_at", parse_type("timestamp"))


class Tables(FakeDatabase):
    """A database of the tables of the kit, each with the time of the last change of a row."""

    def describe(self, table: TableName) -> SourceTable | None:
        columns = [SourceColumn(name=c.name, written=str(c.type), type=c.type) for c in (*COLUMNS, CURSOR)]
        return SourceTable(name=table, columns=tuple(columns), key=("id",))


def updated_at(item: Item) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=item.time or BEGIN)


def make(tmp_path: Path, change: Callable[[JdbcSource], Any] = lambda source: source) -> Feed:
    databases = {table.name: Tables(rows_in_a_file=1000) for table in (DIMENSION, OTHER)}

    def open_source() -> Any:
        options: dict[str, Any] = {"url": "jdbc:postgresql://db/shop", "path": "staged", "cursor": CURSOR.name}
        options |= {"overlap": "1s", "formats": {}}
        runtime = Runtime(no_spark, base=tmp_path, now=lambda: START)
        settings, tables = read_options(options, runtime)
        return change(make_source(settings, tables, databases[DIMENSION.name], options, runtime))

    def put(dimension: Dimension, place: int, items: Sequence[Item]) -> None:
        rows = databases[dimension.name].rows
        for item in items:
            if isinstance(item, ChangeEvent):
                rows.append({**item.cells, CURSOR.name: updated_at(item)})

    beside = {CURSOR: lambda item: str(updated_at(item))}
    return Feed(open=open_source, put=put, rows=rows_of, operations=(Operation.INSERT,), beside=beside)


def rows_of(frame: Any) -> Iterable[Item]:
    assert isinstance(frame, LocalFrame)
    for row in frame.rows.to_pylist():
        place = Position(EPOCH, int(row[names.SEQUENCE]), row[names.OBJECT], row[names.ROW])
        cells: Mapping[str, Any] = {name: row[name] for name in COLUMNS.names}
        operation = Operation(row[names.OPERATION])
        yield ChangeEvent(operation=operation, position=place, key=(row["id"],), cells=cells, time=row[names.TIME])


def make_whole(tmp_path: Path) -> Feed:
    return make(tmp_path)


TestJdbc = port_contract("The laws of a source that is asked.", make_whole, LAWS)


class RemovesWhatItReads(JdbcSource):
    """Keeps nothing of what was read until it is applied."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Any]:
        batch = JdbcSource.read(self, dimension, selection, epoch)
        self.staging.remove(dimension.source, selection.objects)
        return batch


class GoesByItsOwnName(JdbcSource):
    """Reads a table by what the lake calls it."""

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        return JdbcSource.select_objects(self, replace(dimension, source_name=None), object_history)


BROKEN: Final[Mapping[Callable[[Feed], None], type[JdbcSource]]] = {
    object_selection.objects_are_selected_until_they_are_applied: RemovesWhatItReads,
    object_selection.a_table_is_read_under_its_name_in_the_source: GoesByItsOwnName,
}


@pytest.mark.parametrize("law", BROKEN, ids=lambda law: law.__name__)
def test_a_broken_source_breaks_a_law(tmp_path: Path, law: Callable[[Feed], None]) -> None:
    def broken(made: JdbcSource) -> JdbcSource:
        return BROKEN[law](made.options, made.of_tables, made.reader, made.staging, made.files, made.now)

    with pytest.raises((AssertionError, ValueError)):
        law(make(tmp_path, broken))
