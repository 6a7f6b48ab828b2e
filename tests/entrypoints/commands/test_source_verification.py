"""`lakeward verify --against source`, on tables in plain Python: what it says, its document, its exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from commands import Command
from projects import MEMORY, write
from small_history import HISTORY

from lakeward.adapters import memory
from lakeward.adapters.memory import MemoryLedger, MemoryTable, MemoryTarget
from lakeward.adapters.sources import jdbc
from lakeward.core.checks.log_restart import LOG_ALARM
from lakeward.core.dimension import TableName
from lakeward.core.errors import StoreUnreachable, TableError
from lakeward.core.events import ChangeEvent, Operation, Position, Sequences
from lakeward.core.ledger.objects import Notes
from lakeward.core.merge.fold import Row
from lakeward.core.ports import SourceSnapshot
from lakeward.core.progress import Progress
from lakeward.core.schema import Type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.core.verification.compared_columns import ComparedColumns
from lakeward.core.verification.source_places import SourcePlace
from lakeward.entrypoints import container
from lakeward.entrypoints.commands import verify
from lakeward.entrypoints.settings.configuration import load
from lakeward.entrypoints.settings.patterns import table_name
from lakeward.plugins import Runtime

SETTINGS = """
[catalogue]
kind = "jdbc"
url = "jdbc:postgresql://db/shop"
[tables."shop.item"]
key = ["id"]
columns = { id = "int", name = "string", made = "string" }
"""
ITEM = TableName("shop", "item")
NOW = 1_796_083_200_000_000
HOUR = 3_600_000_000
PLACE = Position(1, 5 * 10**19, 1, 1)


@dataclass
class Database:
    """A table of a database by its keys, whose log is at a place."""

    rows: dict[int, str] = field(default_factory=dict)
    lsn: int | None = 9
    error: Exception | None = None
    asked: list[TableName] = field(default_factory=list)
    snapshots: int = 0
    column: str = "name"

    def describe(self, table: TableName) -> SourceTable | None:
        self.asked.append(table)
        types = {"id": Type("int"), self.column: Type("string"), "secret": Type("string")}
        columns = tuple(SourceColumn(name=name, written=str(type_), type=type_) for name, type_ in types.items())
        return SourceTable(name=table, columns=columns) if table.table != "gone" else None

    @contextmanager
    def snapshot(self, table: SourceTable, columns: ComparedColumns) -> Iterator[SourceSnapshot[Any]]:
        if self.error is not None:
            raise self.error
        self.snapshots += 1
        rows = [{"id": key, self.column: value} for key, value in self.rows.items()]
        events = [ChangeEvent(operation=Operation.READ, position=PLACE, cells=row) for row in rows]
        place = SourcePlace() if self.lsn is None else SourcePlace(None, f"0/{self.lsn}", self.lsn * 10**19)
        yield SourceSnapshot(events, place, lambda: place)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    """Return the database that the catalogue names."""
    made = Database()
    monkeypatch.setattr(jdbc, "build_database", lambda *_: made)
    monkeypatch.setattr(container, "clock", lambda: NOW)
    return made


@pytest.fixture
def lake(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryTable:
    """Return a table with three rows, which is the same as that of the database, and stays, as the ledger does."""
    target, ledger = MemoryTarget(), MemoryLedger()
    monkeypatch.setattr(memory, "build_target", lambda *_: target)
    monkeypatch.setattr(memory, "build_ledger", lambda *_: ledger)
    file = write(tmp_path, MEMORY, '[ledger]\nkind = "memory"', SETTINGS)
    dimension = load(file).dimension(ITEM)
    database.rows = {key: f"name {key}" for key in range(3)}
    rows = {(key,): Row({"id": key, "name": name, "made": "x"}, PLACE) for key, name in database.rows.items()}
    progress = Progress(batch=1, rows=3, high_watermark=PLACE, sequences=Sequences.PLACES)
    made = MemoryTable(dimension, exists=True, rows=rows, progress=progress)
    target.tables[ITEM] = made
    return made


def spoil(lake: MemoryTable) -> None:
    """Alter a row, remove one, and add one."""
    lake.rows[0,] = Row({"id": 0, "name": "other", "made": "x"}, PLACE)
    del lake.rows[1,]
    lake.rows[7,] = Row({"id": 7, "name": "name 7", "made": "x"}, PLACE)


def pass_place(lake: MemoryTable, lsn: int) -> None:
    """Let the table have applied a change at a place of the log."""
    lake.progress = replace(lake.progress, high_watermark=PLACE._replace(sequence=lsn * 10**19))


VERIFY = ("verify", "shop.item", "--against", "source")


def test_a_table_that_is_equal_ends_with_0_and_status_says_through_where(
    lakeward: Command, lake: MemoryTable, database: Database
) -> None:
    ended = lakeward(*VERIFY)
    assert (ended.code, ended.err) == (0, "")
    head, line, *rest = ended.out.splitlines()
    columns = ["table", "rows", "rows of the source", "equal ranges", "keys that differ"]
    assert re.split(" {2,}", head.strip()) == columns
    assert re.split(" {2,}", line.strip()) == ["shop.item", "3", "3", "3 of 3", "0", "equal"]
    assert rest == [
        "shop.item",
        "  verified through 0/9",
        "  not compared: made (the source does not have it), secret (the table does not have it)",
    ]
    assert database.asked == [ITEM]
    assert re.search(r"equal to its source \d+ (s|min|h|d) ago", lakeward("status").out)
    (found,) = lakeward("status", "--json").document["tables"]
    assert found["against_source"] == {
        "outcome": "equal",
        "at": "2026-12-01T00:00:00Z",
        "source_rows": 3,
        "table_rows": 3,
        "differing": 0,
        "verified_through": {"time": None, "log": "0/9"},
        "verified_at": "2026-12-01T00:00:00Z",
    }


def test_what_differs_is_open_until_the_table_has_passed_the_place(
    lakeward: Command, lake: MemoryTable, database: Database
) -> None:
    spoil(lake)
    ended = lakeward(*VERIFY)
    assert (ended.code, ended.err) == (75, "")
    assert "3 3 1 of 4 3 not decided" in " ".join(ended.out.split())
    assert "1 key: the source has a row, the table has none, not decided yet" in ended.out
    assert "`lakeward verify shop.item --against source` after the next runs" in ended.out
    assert "3 keys not decided" in lakeward("status").out
    pass_place(lake, 9)
    ended = lakeward(*VERIFY, "--json")
    assert ended.code == 3
    (found,) = ended.document["tables"]
    assert (found["outcome"], found["differing"], found["ranges"], found["equal_ranges"]) == ("different", 3, 4, 1)
    assert [(one["key"], one["kind"], one["proof"]) for one in found["differences"]] == [
        (["0"], "changed", "passed"),
        (["1"], "missing", "passed"),
        (["7"], "extra", "passed"),
    ]
    assert (found["compared"], [*found["not_compared"]]) == (["id", "name"], ["made", "secret"])
    assert "1 key: the values differ, and the table has applied later changes since" in lakeward(*VERIFY).out
    assert "3 keys differed from its source" in lakeward("status").out


def test_places_of_a_log_that_started_over_are_not_compared(
    lakeward: Command, lake: MemoryTable, database: Database
) -> None:
    spoil(lake)
    ledger: Any = memory.build_ledger({}, Runtime(lambda: None))
    ledger.write("shop.item", Notes(acknowledged={LOG_ALARM: frozenset({"1.json 1 1 7"})}))
    pass_place(lake, 9)
    assert [lakeward(*VERIFY).code for _ in range(2)] == [75, 75], "the places of the table are lifted"


def test_a_format_that_does_not_look_at_tables_whole_says_so(
    lakeward: Command, lake: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = MemoryTarget.open
    monkeypatch.setattr(MemoryTarget, "open", lambda *given: replace(opens(*given), reader=None))
    ended = lakeward(*VERIFY)
    assert (ended.code, "cannot be compared with its source" in ended.err) == (4, True)


def test_it_waits_as_long_as_it_may_for_a_table_whose_place_nothing_tells(
    lakeward: Command, lake: MemoryTable, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(lake)
    database.lsn = None
    ended = lakeward(*VERIFY)
    assert ended.code == 75
    assert "the table has no position in the log of its source" in ended.out
    slept: list[float] = []
    monkeypatch.setattr(verify, "sleep", slept.append)
    monkeypatch.setattr(container, "clock", lambda: NOW + int(sum(slept) * 1_000_000))
    ended = lakeward(*VERIFY, "--wait", "1m")
    assert (ended.code, sum(slept), database.snapshots) == (3, 60, 3)
    assert "1 key: the table has a row, the source has none, for longer than --wait" in ended.out


def test_a_change_that_arrives_while_it_waits_is_no_difference(
    lakeward: Command, lake: MemoryTable, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = lake.rows.pop((1,))

    def apply(_seconds: float) -> None:
        lake.rows[1,] = row
        pass_place(lake, 9)

    monkeypatch.setattr(verify, "sleep", apply)
    ended = lakeward(*VERIFY, "--wait", "1m", "--json")
    assert ended.code == 0, ended.out
    assert ended.document["tables"][0]["comparisons"] == 2


def test_of_a_history_the_current_versions_are_compared(
    lakeward: Command, database: Database, kept_history: MemoryTable, tmp_path: Path
) -> None:
    write(tmp_path, MEMORY, SETTINGS.partition("[tables")[0], HISTORY)
    database.column, database.rows = "city", dict.fromkeys(range(12), "Ulm")
    customer = ("verify", "shop.customer", "--against", "source", "--json")
    (found,) = lakeward(*customer).document["tables"]
    assert (found["outcome"], found["table_rows"], found["compared"]) == ("equal", 12, ["id", "city"])
    database.rows[3] = "Bonn"  # as its first version has it
    (found,) = lakeward(*customer).document["tables"]
    assert [(one["key"], one["kind"]) for one in found["differences"]] == [(["3"], "changed")]


def test_all_keys_are_named_where_that_is_asked_for(
    lakeward: Command, lake: MemoryTable, database: Database
) -> None:
    database.rows |= dict.fromkeys(range(10, 18), "new")
    assert "    … and 3 more (--keys)" in lakeward(*VERIFY).out.splitlines()
    named = lakeward(*VERIFY, "--keys").out
    assert [int(line.split()[0]) for line in named.splitlines() if "(since" in line] == [*range(10, 18)]


@pytest.mark.parametrize(
    ("error", "code"), [(StoreUnreachable("no answer"), 75), (TableError("broken"), 4)], ids=["away", "broken"]
)
def test_a_table_that_cannot_be_compared_hides_no_other(
    lakeward: Command, lake: MemoryTable, database: Database, tmp_path: Path, error: Exception, code: int
) -> None:
    database.error = error
    other = SETTINGS.partition("[tables")[2].replace("shop.item", "shop.place")
    write(tmp_path, MEMORY, SETTINGS, f"[tables{other}")
    document = lakeward("verify", "--against", "source", "--json").document
    assert document["exit_code"] == 4, "nothing was applied to the other one"
    first, second = (table["error"]["what"] for table in document["tables"])
    assert (first, second) == (str(error), "shop.place: nothing was applied to the table yet")
    assert lakeward(*VERIFY).code == code


def test_a_database_that_is_away_is_said_once_for_all_tables(
    lakeward: Command, lake: MemoryTable, database: Database, tmp_path: Path
) -> None:
    other = SETTINGS.partition("[tables")[2].replace("shop.item", "shop.place")
    file = write(tmp_path, MEMORY, '[ledger]\nkind = "memory"', SETTINGS, f"[tables{other}")
    target: Any = memory.build_target({}, Runtime(lambda: None))
    place = TableName("shop", "place")
    target.tables[place] = replace(lake, dimension=load(file).dimension(place))
    database.error = StoreUnreachable("no answer", found="refused", todo="Is it up?")
    ended = lakeward("verify", "--against", "source", "--wait", "1m")
    assert (ended.code, ended.out) == (75, "")
    assert ended.err.splitlines() == [
        "error: 2 tables: no answer",
        "  shop.item: refused",
        "  shop.place: refused",
        "  Is it up?",
    ]


def test_the_database_may_call_the_table_otherwise(
    lakeward: Command, lake: MemoryTable, database: Database, tmp_path: Path
) -> None:
    write(tmp_path, MEMORY, SETTINGS, 'catalogue = { name = "SHOP.item" }')
    assert lakeward(*VERIFY).code == 0
    assert database.asked == [TableName("SHOP", "item")]
    write(tmp_path, MEMORY, SETTINGS, 'catalogue = { name = "shop.gone" }')
    ended = lakeward(*VERIFY)
    assert (ended.code, "the database has no table" in ended.err) == (4, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["verify"], 2, "either --history or --against source"),
        (["verify", "--history", "--against", "source"], 2, "either --history or --against source"),
        (["verify", "--against", "lake"], 2, "lake"),
        (["verify", "--history", "--keys"], 2, "are for --against source"),
        (["verify", "--history", "--wait", "1m"], 2, "are for --against source"),
        (["verify", "--against", "source", "--wait", "soon"], 2, "a duration"),
        (["verify", "shop.gone", "--against", "source"], 1, "shop.gone is not configured"),
    ],
)
def test_wrong_usage_is_said(lakeward: Command, lake: MemoryTable, words: list[str], code: int, said: str) -> None:
    ended = lakeward(*words)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err


def test_without_a_database_in_the_settings_there_is_nothing_to_ask(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, MEMORY, '[tables."shop.item"]\nkey = ["id"]')
    ended = lakeward(*VERIFY)
    assert ended.code == 1
    assert "no database of the source is configured" in ended.err


def test_a_table_without_a_key_is_refused(lakeward: Command, lake: MemoryTable, tmp_path: Path) -> None:
    write(tmp_path, MEMORY, SETTINGS.replace('key = ["id"]\n', ""))
    ended = lakeward(*VERIFY)
    assert ended.code == 4
    assert f"{table_name('shop.item')} has no key" in ended.err
