"""`history.md` and `why-not-window-functions.md`: versions on them are what the core makes of the events.

An example is a section: keys of its table as TOML, events, and the versions after them. One without events has
those of its chapter; versions behind a second table of events are of both.
"""

from __future__ import annotations

import re
import sqlite3
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pages import fences, sections, tables, text

from lakeward.core.dimension import Dimension, Mode, TableName
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Key, Operation, Position
from lakeward.core.history.bitemporal import KnownVersions, update_known_versions
from lakeward.core.history.instants import instant_of
from lakeward.core.history.options import History, Kind
from lakeward.core.history.reloads import rows_before_load
from lakeward.core.history.surrogate_numbers import NO_NUMBERS, Numbers, assign_numbers
from lakeward.core.history.version_rows import rows as shown_rows
from lakeward.core.merge.fold import Row, apply, columns_of
from lakeward.core.schema import Type
from lakeward.core.text.values import from_text, to_text
from lakeward.entrypoints.settings.configuration import validate
from lakeward.entrypoints.settings.models.history import HistorySettings

PAGE, WINDOWS = "docs/explanation/history.md", "docs/explanation/why-not-window-functions.md"
NAME = TableName("shop", "customer")
TYPES = {
    "id": "int",
    "userId": "int",
    "sequenceNum": "bigint",
    "changed_at": "timestamp",
    "updated_at": "timestamp",
}
OF_EVENTS = ("batch", "when", "run", "what")

Table = list[dict[str, str]]


@dataclass
class Example:
    """A section with versions: its settings, and its tables in order."""

    title: str
    settings: Mapping[str, Any]
    tables: Sequence[Table] = field(default_factory=list)

    @property
    def events(self) -> Table:
        return [row for table in self.tables if "what" in table[0] for row in table]


def examples(page: str) -> Iterator[Example]:
    for chapter in re.split(r"^## ", text(page), flags=re.MULTILINE)[1:]:
        opening, *parts = re.split(r"^### ", chapter, flags=re.MULTILINE)
        shared = [table for table in tables(opening) if "what" in table[0]]
        for part in parts or [opening]:
            actual = [table for table in tables(part) if {"what", "id", "userId"} & table[0].keys()]
            if any("what" not in table[0] for table in actual):
                has_events = any("what" in table[0] for table in actual)
                yield Example(part.splitlines()[0], settings_of(part), actual if has_events else [*shared, *actual])


def settings_of(part: str) -> Mapping[str, Any]:
    (content, *_) = [*re.findall(r"^```toml\n(.*?)^```$", part, re.MULTILINE | re.DOTALL), ""]
    return tomllib.loads(content)


def dimension_of(example: Example) -> Dimension:
    names = [name for name in example.events[0] if name not in OF_EVENTS]
    table = {
        "key": [names[0]],
        "mode": "history",
        "columns": {name: TYPES.get(name, "string") for name in names},
        **example.settings,
    }
    parts = {"pipeline": {"name": "x"}, "source": {"kind": "dms"}, "target": {"kind": "iceberg"}}
    return validate({**parts, "tables": {str(NAME): table}}, Path("lakeward.toml")).dimension(NAME)


def micros(cell_text: str) -> int:
    return int(datetime.fromisoformat(cell_text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def value_in(cell_text: str, type_: Type) -> object:
    """Return the value of a cell of a page. An empty cell was not sent by the source."""
    return UNSET if not cell_text else None if cell_text == "NULL" else from_text(cell_text, type_)


def event_of(of: Dimension, row: Mapping[str, str], place: int) -> tuple[int, ChangeEvent]:
    """Return the event of a row of a page, and the epoch of its full load (0 for a change)."""
    word, _, rest = row["what"].partition(" ")
    operation = Operation.READ if word == "load" else Operation(word.rstrip(","))
    cells = {column.name: value_in(row[column.name], column.type) for column in of.schema}
    time = micros(row["when"]) if "when" in row else None
    epoch = int(rest) if word == "load" else 0
    sequence = time if time is not None else int(row.get("sequenceNum", "0"))
    event = ChangeEvent(
        operation=operation,
        position=Position(epoch or 1, LOAD_SEQUENCE if epoch else sequence, place, 1),
        key=tuple(cells[name] for name in of.key),
        cells=cells,
        old_key=(int(rest.removeprefix("was ")),) if rest.startswith("was ") else None,
        time=time,
    )
    run_at = micros(row["run"]) if "run" in row else time or 0
    return epoch, replace(event, instant=instant_of(event, of.history or History(), run_at))


def fold_events(of: Dimension, events: Table) -> Mapping[Key, Row]:
    """Return the rows after the events: load by load, with the changes after each."""
    read, epoch = [], 1
    for place, row in enumerate(events, 1):
        load, event = event_of(of, row, place)
        epoch = load or epoch
        read.append(replace(event, position=event.position._replace(epoch=epoch)))
    rows: Mapping[Key, Row] = {}
    history = of.history or History()
    for number, several in groupby(read, key=lambda event: event.position.epoch):
        of_epoch = [*several]
        load = [event for event in of_epoch if event.is_load]
        rows = apply(of, rows_before_load(rows, number, load, history, 0) if load else rows, of_epoch).rows
    return rows


def version_table(of: Dimension, rows: Mapping[Key, Row], numbers: Numbers = NO_NUMBERS) -> Table:
    """Return versions in the form of a table of a page."""
    history = of.history or History()
    types = {column.name: column.type for column in history.schema(of.schema, of.key)}
    return [
        {name: cell_text(cell, types[name]) for name, cell in cells.items()}
        for key, row in sorted(rows.items())
        for cells in shown_rows(of, key, row.versions, numbers)
    ]


def numbers_of(of: Dimension, numbers: Numbers, before: Mapping[Key, Row], rows: Mapping[Key, Row]) -> Numbers:
    """Return the surrogate numbers of versions after a batch, by those before it."""
    columns = columns_of(of)
    assert columns is not None
    before_versions, after_versions = ({key: row.versions for key, row in one.items()} for one in (before, rows))
    return assign_numbers(columns, numbers, before_versions, after_versions, max(numbers.values(), default=0))


def known_rows(of: Dimension, events: Table) -> Table:
    """Return the rows of a bitemporal history after the batches of a page."""
    beliefs: dict[Key, KnownVersions] = {}
    arrived = Table()
    for number, batch in groupby(events, key=lambda row: int(row["batch"])):
        arrived += batch
        for key, row in fold_events(of, arrived).items():
            beliefs[key] = update_known_versions(of, key, beliefs.get(key, ()), row.versions, number)
    columns = of.stored.schema
    actual = [one.row(of.history or History(), columns.names) for every in beliefs.values() for one in every]
    actual.sort(key=lambda cells: [*(cells[name] for name in of.stored.key)])
    types = {column.name: column.type for column in columns}
    return [{name: cell_text(cell, types[name]) for name, cell in cells.items()} for cells in actual]


def cell_text(cell: object, type_: Type) -> str:
    """Return a cell as text, in the form of a page: for a time at midnight only the day."""
    return "NULL" if cell is None else to_text(cell, type_).removesuffix(" 00:00:00")


def to_markdown(rows: Table) -> str:
    """Return a table as Markdown, to be copied to the page."""
    lines = [" | ".join(rows[0]), "|".join("---" for _ in rows[0]), *(" | ".join(row.values()) for row in rows)]
    return "\n".join(f"|{line}|" if line.startswith("---") else f"| {line} |" for line in lines)


@pytest.mark.parametrize("example", [*examples(PAGE)], ids=lambda example: example.title)
def test_the_versions_of_an_example_are_those_that_the_core_makes(example: Example) -> None:
    of, events = dimension_of(example), Table()
    rows: Mapping[Key, Row] = {}
    numbers = NO_NUMBERS
    for table in example.tables:
        if "what" in table[0]:
            events += table
        else:
            is_known = of.history is not None and of.history.is_bitemporal
            before, rows = rows, fold_events(of, events)
            numbers = numbers_of(of, numbers, before, rows)
            actual = known_rows(of, events) if is_known else version_table(of, rows, numbers)
            assert table == actual, f"it should be\n{to_markdown(actual)}"


def test_the_settings_that_the_page_begins_with_are_right() -> None:
    parts = {"pipeline": {"name": "x"}, "source": {"kind": "dms"}, "target": {"kind": "iceberg"}}
    content = tomllib.loads(fences(PAGE, "toml")[0].content)
    assert validate({**parts, **content}, Path("lakeward.toml")).dimension(NAME).mode is Mode.HISTORY


def test_every_option_and_every_kind_is_shown_in_an_example() -> None:
    options_of_examples = [example.settings.get("history", {}) for example in examples(PAGE)]
    assert {key for options in options_of_examples for key in options} == set(HistorySettings.model_fields)
    kinds = {number for options in options_of_examples for number in options.get("kinds", {}).values()}
    assert kinds == {kind.value for kind in Kind}


def test_what_was_known_is_read_as_the_page_says() -> None:
    parts = sections(PAGE, 3)
    (_, stored), reading = (
        tables(parts["A late change does not rewrite what was reported"]),
        parts["Reading what was known"],
    )
    (query,) = (fence.content for fence in fences(PAGE, "sql"))
    (right,) = tables(reading)
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE TABLE customer ({', '.join(stored[0])})")
    rows = [[None if cell == "NULL" else cell for cell in row.values()] for row in stored]
    numbers = [*stored[0]].index("known_from")
    rows = [[*row[:numbers], *(None if n is None else int(n) for n in row[numbers:])] for row in rows]
    database.executemany(f"INSERT INTO customer VALUES ({', '.join('?' * len(stored[0]))})", rows)
    actual = database.execute(query).fetchall()
    database.close()
    assert [["NULL" if cell is None else cell for cell in row] for row in actual] == [[*r.values()] for r in right]


def test_a_window_makes_of_the_batches_what_the_page_says_and_the_core_what_was() -> None:
    events, after_versions, right = tables(sections(WINDOWS)["An example"])
    assert after_versions == (actual := run_window_job(events)), f"it should be\n{to_markdown(actual)}"
    of = dimension_of(Example("", {"history": {"is_current": False}}, [events]))
    assert right == (actual := version_table(of, fold_events(of, events))), f"it should be\n{to_markdown(actual)}"


def run_window_job(events: Table) -> Table:
    """Return the result of the job of the page for its batches, one after the other."""
    (job,) = (fence.content for fence in fences(WINDOWS, "sql"))
    database = sqlite3.connect(":memory:")
    names = ("id", "city", "valid_from", "valid_to")
    database.execute(f"CREATE TABLE customer_history ({', '.join(names)})")
    database.execute("CREATE TABLE changes (id, city, committed_at, what)")
    rows: list[tuple[Any, ...]] = []
    for _, batch in groupby(events, key=lambda row: row["batch"]):
        database.execute("DELETE FROM changes")
        changes = [(row["id"], row["city"], row["when"], row["what"]) for row in batch]
        database.executemany("INSERT INTO changes VALUES (?, ?, ?, ?)", changes)
        rows = database.execute(job).fetchall()
        database.execute("DELETE FROM customer_history")
        database.executemany("INSERT INTO customer_history VALUES (?, ?, ?, ?)", rows)
    database.close()
    return [{name: "NULL" if cell is None else cell for name, cell in zip(names, row, strict=True)} for row in rows]
