"""Files of transactions by the reference reader: the laws of feeds hold for each of the tables that share them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from dms_files import content_of
from endpoints import _LETTERS, AT, ITEM, _row, _style
from hypothesis import given, settings
from hypothesis import strategies as st
from transaction_feeds import CDC_PATH, TABLES, Content, SharedFeed, Telling, dimension_of, read_feed, write_feed
from tries import tries

from lakeward.adapters.memory import Frame, MemoryLedger, MemorySource, MemoryTarget
from lakeward.adapters.sources.csv.layout import OP, OPERATIONS, TIME, ExpectedLayout, has_crlf
from lakeward.adapters.sources.csv.parser import Dialect, fields, fields_in, records
from lakeward.adapters.sources.dms.paths.file_names import read_name, read_transactions
from lakeward.adapters.sources.dms.transactions.layout import find_layout, match_table, table_of
from lakeward.adapters.sources.dms.writer import Change, DmsWriter, Style, TransactionWriter
from lakeward.adapters.sources.landing.places import OWN_FOLDER
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import LakewardError, SchemaConflict, SourceError
from lakeward.core.events import ChangeEvent, Operation
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import BATCH_STEPS, Job, StepObserver, no_observer
from lakeward.core.ports import Batch
from lakeward.plugins.testing.player import Crash

State = Mapping[int, Mapping[str, object]]


@dataclass
class Sharing(MemorySource):
    """A source whose objects have a part for each table; reading the part of one that is `failing` fails."""

    failing: set[TableName] = field(default_factory=set)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        if dimension.name in self.failing:
            raise SourceError(f"{dimension.name} cannot be read")
        return super().read(dimension, selection, epoch)


@dataclass
class MovedThoughFailed(Sharing):
    """Broken on purpose: an object that one table applied counts as applied for all."""

    applied: set[str] = field(default_factory=set)

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        gone = self.applied - object_history.applied.keys()
        own = self.tables.get(dimension.name, [])
        self.tables[dimension.name] = [one for one in own if one.object.name not in gone]
        return super().select_objects(dimension, object_history)

    def archive(self, dimension: Dimension, objects: Sequence[object]) -> Sequence[str]:
        self.applied |= {item.name for item in objects}  # type: ignore[attr-defined]
        return ()


def play(random: Random, content: Content, tables: Sequence[TableName], source: Sharing) -> dict[TableName, State]:
    """Deliver files in batches by chance; processes end anywhere, and some of the tables fail for a while."""
    target, ledger = MemoryTarget(), MemoryLedger()
    source.limits = Limits(files=random.randrange(1, 6))

    def run(table: TableName, observe: StepObserver) -> None:
        ledger_writer, dimension = LedgerWriter(ledger=ledger, now=lambda: 0), dimension_of(table)
        job = Job(dimension=dimension, source=source, opened=target.open(dimension), ledger_writer=ledger_writer)
        with suppress(Crash, LakewardError):  # what an alarm stopped has not the rows that it should have
            apply_changes(job, observe)

    orders = sorted(content)
    while orders:
        size = random.randrange(1, 8)
        for order in orders[:size]:
            for table, events in content[order].items():
                source.put(table, order, events)
        orders = orders[size:]
        source.failing = {table for table in tables if random.random() < 0.3}
        for table in tables:
            run(table, crash(random) if random.random() < 0.5 else no_observer)
    source.failing = set()
    for table in tables:
        run(table, no_observer)
    return {table: rows(target, table) for table in tables}


def crash(random: Random) -> StepObserver:
    step, moment = random.choice(BATCH_STEPS), random.choice(["before", "after"])

    @contextmanager
    def observe(name: str) -> Iterator[None]:
        if (name, moment) == (step, "before"):
            raise Crash
        yield
        if (name, moment) == (step, "after"):
            raise Crash

    return observe


def rows(target: MemoryTarget, table: TableName) -> State:
    kept = target.tables.get(table)
    found = {} if kept is None else kept.rows
    return {row.cells["id"]: dict(row.cells) for row in found.values() if not row.deleted}  # type: ignore[misc]


def truth(written: SharedFeed) -> dict[TableName, State]:
    return {
        table: {key: {"id": key, **image} for key, image in state.items()} for table, state in written.final.items()
    }


@settings(max_examples=tries(25, 50), deadline=None)
@given(st.integers(0, 2**32))
def test_each_table_is_its_database_whatever_the_batches_crashes_and_failures_of_others(seed: int) -> None:
    random = Random(seed)
    with TemporaryDirectory() as folder:
        written = write_feed(random, Path(folder))
        assert play(random, read_feed(written), TABLES, Sharing()) == truth(written)


def schema_before_table(row: str, dialect: Dialect) -> TableName | None:
    named = table_of(row, dialect)
    return None if named is None else TableName(named.table, named.schema)


def by_name_as_text(written: SharedFeed) -> Content:
    """Broken on purpose: the order of files is that of their names as texts."""
    every = read_feed(written)
    orders = {path: read_transactions(path.name).order for path in written.files}  # type: ignore[union-attr]
    by_name = sorted(written.files, key=lambda path: path.name)
    return {rank: every[orders[path]] for rank, path in enumerate(by_name)}


def moved(content: Content) -> Content:
    """Give events the order of the file that they are in now."""
    return {
        order: {table: [_placed(event, order) for event in events] for table, events in own.items()}
        for order, own in content.items()
    }


def _placed(event: ChangeEvent, order: int) -> ChangeEvent:
    return ChangeEvent(
        operation=event.operation, position=event.position._replace(object=order), key=event.key, cells=event.cells
    )


@pytest.mark.parametrize("broken", ["order by text", "table and schema swapped", "moved though failed"])
def test_the_law_can_fail(broken: str, tmp_path: Path) -> None:
    def is_wrong(seed: int) -> bool:
        random = Random(seed)
        written = write_feed(random, tmp_path / f"{seed}")
        telling: Telling = schema_before_table if broken == "table and schema swapped" else table_of
        content = moved(by_name_as_text(written)) if broken == "order by text" else read_feed(written, telling)
        source = MovedThoughFailed() if broken == "moved though failed" else Sharing()
        return play(random, content, TABLES, source) != truth(written)

    assert sum(islice(filter(None, map(is_wrong, range(25))), 4)) == 4


def draw(seed: int, landing: Path) -> tuple[Style, list[tuple[TableName, Change]], list[Path]]:
    """Write rows of two tables by an endpoint whose settings are drawn; return them, and the files in order."""
    random = Random(seed)
    drawn, settings_of = _style(random)
    style = replace(drawn, format="csv", has_header=False, has_op_in_changes=True, load_folder=OWN_FOLDER)
    odd = f"a{style.dialect.delimiter}b" if style.dialect.quote else "b"
    tables = [TableName("shop", "item"), TableName("it's", odd)]
    writers = [DmsWriter(landing, table, ITEM.schema, style) for table in tables]
    changes = [
        (random.choice(tables), Change(random.choice(_LETTERS[settings_of["operations"]]), _row(random, style), AT))
        for _ in range(random.randrange(1, 9))
    ]
    writer, cut = TransactionWriter(landing, CDC_PATH, writers), random.randrange(len(changes) + 1)
    files = [writer.write(part, AT, is_gzip=style.is_gzip) for part in (changes[:cut], changes[cut:])]
    return style, changes, files


def texts_of(style: Style, files: Sequence[Path]) -> list[tuple[TableName | None, tuple[object, ...]]]:
    """Read rows by the rules of the page: table, operation, whether there is a time, and the cells as texts."""
    found: list[tuple[TableName | None, tuple[object, ...]]] = []
    for path in files:
        content = content_of(path)
        dialect = style.dialect if style.row_end != "\r\n" else replace(style.dialect, row_end="\n")
        is_crlf = has_crlf(content, dialect)
        for record in records(content, dialect):
            text = record.text.removesuffix("\r") if is_crlf else record.text
            asked = ExpectedLayout(ITEM, dialect, "Op", style.timestamp_column)
            layout = find_layout(path.name, fields_in(text, dialect), asked)
            row = dict(zip(layout.columns, fields(text, dialect) or (), strict=True))
            cells = [unpadded(row[name], style) for name in ITEM.schema.names]
            found.append((table_of(text, dialect), (row[OP], row.get(TIME) is not None, *cells)))
    return found


def unpadded(cell: object, style: Style) -> object:
    return cell.rstrip(" ") if style.padding and isinstance(cell, str) else cell


def as_texts(change: Change) -> list[object]:
    return [None if cell is None else _text(cell) for cell in change.row]


def _text(cell: object) -> str:
    return f"{cell:%Y-%m-%d %H:%M:%S.%f}" if isinstance(cell, datetime) else str(cell)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_rows_are_read_back_whatever_the_dialect(seed: int) -> None:
    with TemporaryDirectory() as folder:
        style, changes, files = draw(seed, Path(folder))
        has_time = style.timestamp_column is not None
        letters = {Operation(word): letter for letter, word in OPERATIONS.items()}
        written = [(table, (letters[change.operation], has_time, *as_texts(change))) for table, change in changes]
        assert texts_of(style, files) == written


@pytest.mark.parametrize("folder", ["", "2020/11/17/"])
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_names_of_files_of_transactions_are_times(folder: str, ending: str) -> None:
    name = f"{folder}CDC_TXN-20201117153046033.{ending}"
    found = read_transactions(name)
    assert found is not None
    assert (found.is_shared, found.is_load, found.format) == (True, False, "csv")
    assert found.order >> 20 == 1_605_627_046_033
    assert read_name(name) is None, "nobody takes it for a file of one table"


@pytest.mark.parametrize(
    "name",
    [
        *("CDC_TXN-.csv", "CDC_TXN-1.csv", "CDC_TXN-20201317153046033.csv", "CDC_TXN-20201117153046033.parquet"),
        *("20201117-153046033.csv", "LOAD00000001.csv", "archive/CDC_TXN-20201117153046033.csv"),
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert read_transactions(name) is None


def test_a_counter_behind_the_time_is_a_number() -> None:
    names = ["CDC_TXN-20201117153046033.csv", "CDC_TXN-202011171530460339.csv", "CDC_TXN-2020111715304603310.csv"]
    orders = [found.order for name in names if (found := read_transactions(name)) is not None]
    assert orders == sorted(set(orders))
    assert len(orders) == 3


@pytest.mark.parametrize(
    ("row", "table"),
    [
        ("I,Names_03cdcad11a,rdsTempsdb,13,Daniel", TableName("rdsTempsdb", "Names_03cdcad11a")),
        ('U,"a,""b""",c,1', TableName("c", 'a,"b"')),
        ("D,NULL,NULL,1", TableName("NULL", "NULL")),
        ("I,a,b", TableName("b", "a")),
        ("X,b,a,1", TableName("a", "b")),
        ("x,of a,text,1", None),
        ("I,,b,1", None),
        ("I,a", None),
        ('I,"a,b,1', None),
        ("", None),
    ],
)
def test_a_row_says_its_table_before_the_schema(row: str, table: TableName | None) -> None:
    assert table_of(row, Dialect(), [TableName("A", "B")]) == table


def test_a_table_is_found_without_regard_to_case_where_none_is_spelled_so() -> None:
    there = [TableName("SHOP", "Item"), TableName("x", "y"), TableName("X", "y"), TableName("X", "Y")]
    assert match_table(TableName("shop", "item"), there) == TableName("SHOP", "Item")
    assert match_table(TableName("x", "y"), there) == TableName("x", "y")
    assert match_table(TableName("shop", "no"), there) is None
    with pytest.raises(SourceError, match="its name is ambiguous"):
        match_table(TableName("x", "Y"), there)


def expected(*orders: tuple[str, ...], time: str | None = "ts") -> ExpectedLayout:
    dimension = Dimension(name=TABLES[0], schema=dimension_of(TABLES[0]).schema, key=("id",), orders=orders)
    return ExpectedLayout(dimension, Dialect(), "Op", time)


def test_the_width_of_rows_tells_whether_the_commit_time_is_in_them() -> None:
    row = fields("U,b,a,2026-11-21 10:00:00,1,2,3", Dialect())
    assert row is not None
    assert find_layout("x", len(row), expected()).columns[3:] == (TIME, "id", "a", "b")
    assert find_layout("x", len(row) - 1, expected()).columns[3:] == ("id", "a", "b")
    assert find_layout("x", 11, expected()).columns[3:] == (TIME, "id", "a", "b"), "the rows say that it is wrong"


def test_two_orders_of_one_width_stop_the_table() -> None:
    now, before = ("id", "a", "b"), ("id", "a", "b", "c")
    assert find_layout("x", 8, expected(now, before)).columns[3:] == (TIME, *before)
    with pytest.raises(SchemaConflict, match="are ambiguous") as refused:
        find_layout("x", 7, expected(now, before))
    assert "id, a, b, c; then id, a, b" in (refused.value.found or "")


def test_the_writer_puts_files_where_dms_does(tmp_path: Path) -> None:
    written = write_feed(Random(1), tmp_path)
    assert {path.parent for path in written.files} == {tmp_path / CDC_PATH}
    assert all(read_transactions(path.name) for path in written.files)
