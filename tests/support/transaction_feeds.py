"""Feeds of many tables in files of transactions: one log has the changes of several databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from dms_files import content_of

from lakeward.adapters.sources.csv.layout import OP, OPERATIONS, ExpectedLayout
from lakeward.adapters.sources.csv.parser import Dialect, fields_in, records
from lakeward.adapters.sources.dms.paths.file_names import read_transactions
from lakeward.adapters.sources.dms.transactions.layout import find_layout, table_of
from lakeward.adapters.sources.dms.writer import Change, DmsWriter, Style, TransactionWriter
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.plugins.testing.simulated_database import SCHEMA, Features, State, feed

TABLES = (TableName("a", "b"), TableName("b", "a"), TableName("odd, one", 'say "so"'), TableName("a", "c"))
"""Two tables with exchanged schema and name, and one whose names must be quoted."""

CDC_PATH = "cdc/all"
AT = datetime(2026, 11, 21, 10, tzinfo=UTC)

Content = Mapping[int, Mapping[TableName, list[ChangeEvent]]]
Telling = Callable[[str, Dialect], TableName | None]


@dataclass
class SharedFeed:
    """Files of transactions below a landing folder in the order of writing, and the true rows."""

    landing: Path
    tables: Sequence[TableName]
    files: list[Path] = field(default_factory=list)
    final: dict[TableName, State] = field(default_factory=dict)


def dimension_of(table: TableName) -> Dimension:
    return Dimension(name=table, schema=SCHEMA, key=("id",))


def write_feed(random: Random, landing: Path, tables: Sequence[TableName] = TABLES) -> SharedFeed:
    """Run a random database for each table, and write all changes as one log. Few files have their own time."""
    written, events = SharedFeed(landing, tables), {}
    for table in tables:
        source = feed(random, Features(sequence="none", transactions=14))
        events[table] = sorted(source.events, key=lambda event: event.position)
        written.final[table] = source.final
    log = [table for table, own in events.items() for _ in own]
    random.shuffle(log)
    rest = {table: iter(own) for table, own in events.items()}
    changes = [(table, change_of(next(rest[table]))) for table in log]
    writer = TransactionWriter(landing, CDC_PATH, [DmsWriter(landing, table, SCHEMA, Style()) for table in tables])
    at = AT
    while changes:
        size = random.randrange(1, 4)
        written.files.append(writer.write(changes[:size], at, is_gzip=random.random() < 0.2))
        changes, at = changes[size:], at + timedelta(milliseconds=random.choice([0, 0, 0, 0, 1]))
    return written


def change_of(event: ChangeEvent) -> Change:
    cells = {"id": (event.key or (None,))[0], **event.cells}
    return Change(event.operation, [cells.get(name) for name in SCHEMA.names])


def items_of(path: Path, order: int, telling: Telling = table_of) -> Iterator[tuple[TableName, ChangeEvent]]:
    """Read a file by the rules of the pages, in plain Python. Unrouted rows are skipped."""
    dialect = Dialect()
    for record in records(content_of(path), dialect):
        table = telling(record.text, dialect)
        if table is None or record.fields is None:
            continue
        dimension = dimension_of(table)
        layout = find_layout(
            path.name, fields_in(record.text, dialect), ExpectedLayout(dimension, dialect, "Op", None)
        )
        row = dict(zip(layout.columns, record.fields, strict=True))
        cells = {name: None if row[name] is None else int(str(row[name])) for name in SCHEMA.names}
        yield (
            table,
            ChangeEvent(
                operation=Operation(OPERATIONS[str(row[OP])]),
                position=Position(1, 0, order, record.line),
                key=(cells["id"],),
                cells=cells,
            ),
        )


def read_feed(written: SharedFeed, telling: Telling = table_of) -> Content:
    """Return the rows of each table in each file, by the order of its name."""
    events: dict[int, dict[TableName, list[ChangeEvent]]] = {}
    for path in written.files:
        name = read_transactions(path.relative_to(written.landing / CDC_PATH).as_posix())
        assert name is not None
        own = events.setdefault(name.order, {})
        for table, event in items_of(path, name.order, telling):
            own.setdefault(table, []).append(event)
    return events
