"""`lakeward verify`, on tables in plain Python: what it says, its document, its exit codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import Command
from projects import MEMORY, ORDERS, write

from lakeward.adapters import memory
from lakeward.adapters.memory import MemoryTable, MemoryTarget
from lakeward.core.errors import StoreUnreachable, TableError
from lakeward.core.events import Position
from lakeward.core.fold import row_of
from lakeward.core.history.kept import options_of
from lakeward.core.history.options import History
from lakeward.core.history.versions import Version
from lakeward.core.progress import Progress
from lakeward.entrypoints.patterns import table_name
from lakeward.entrypoints.settings import load

HISTORY = """
[tables."shop.customer"]
key = ["id"]
mode = "history"
columns = { id = "int", city = "string" }
"""
DAY = 86_400_000_000


def version(begins: int, ends: int | None, city: str) -> Version:
    cells = {"id": 1, "city": city}
    return Version(begins * DAY, None if ends is None else ends * DAY, cells, Position(1, begins, 1, 1), begins)


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> MemoryTarget:
    """A lake that stays from command to command."""
    target = MemoryTarget()
    monkeypatch.setattr(memory, "build_target", lambda *_: target)
    return target


@pytest.fixture
def table(lake: MemoryTarget, tmp_path: Path) -> MemoryTable:
    """A history of twelve keys, each with two versions."""
    name = table_name("shop.customer")
    dimension = load(write(tmp_path, MEMORY, HISTORY)).dimension(name)
    rows = {(key,): row_of([version(0, 5, "Bonn"), version(5, None, "Ulm")]) for key in range(12)}
    progress = Progress(batch=1, rows=24, history=options_of(dimension))
    return lake.tables.setdefault(name, MemoryTable(dimension, exists=True, rows=rows, progress=progress))


def test_a_history_that_is_right_ends_with_0_and_says_how_much_was_looked_at(
    lakeward: Command, table: MemoryTable
) -> None:
    ended = lakeward("verify", "--history")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split() for line in ended.out.splitlines()[1:]] == [["shop.customer", "12", "24", "0"]]


def test_keys_that_break_a_rule_are_counted_and_some_of_them_named(lakeward: Command, table: MemoryTable) -> None:
    for key in range(11):
        versions = table.rows[key,].versions
        table.rows[key,] = row_of([replace(versions[0], valid_to=6 * DAY), versions[1]])
    table.rows[11,] = row_of([version(0, 0, "Bonn"), version(5, None, "Ulm")])
    ended = lakeward("verify", "shop.customer", "--history")
    assert ended.code == 3
    assert ended.out.splitlines()[1:] == [
        "shop.customer    12        24                      12",
        "shop.customer",
        "  1 key: a version ends where it begins, or before",
        "    11 (valid_from = 1970-01-01 00:00:00)",
        "  11 keys: two versions are valid at once",
        *[f"    {key} (valid_from = 1970-01-06 00:00:00)" for key in (0, 1, 10, 2, 3)],
        "    … and 6 more",
        "Others have changed these versions. Put them right in the table, by hand: "
        "docs/quarantine.md#versions-that-were-altered",
    ]
    (found,) = lakeward("verify", "--history", "--json").document["tables"]
    assert (found["keys"], found["versions"], found["broken"]["overlap"], found["broken"]["empty"]) == (
        12,
        24,
        11,
        1,
    )
    assert found["examples"][0] == {"key": ["11"], "rule": "empty", "begins": "1970-01-01 00:00:00"}


def test_nothing_applied_yet_is_right(lakeward: Command, lake: MemoryTarget, tmp_path: Path) -> None:
    write(tmp_path, MEMORY, HISTORY)
    (found,) = lakeward("verify", "--history", "--json").document["tables"]
    assert (found["keys"], found["versions"], sum(found["broken"].values())) == (0, 0, 0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "say what of them is to be verified: --history"),
        (["shop.orders", "--history"], 1, "shop.orders is a mirror: it has no versions to verify"),
        (["--history"], 1, "lakeward.toml: no table keeps a history"),
    ],
)
def test_what_cannot_be_verified_is_said(
    lakeward: Command, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    write(tmp_path, MEMORY, ORDERS)
    ended = lakeward("verify", *words)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err


def test_versions_that_were_made_in_another_way_are_not_held_against_these_rules(
    lakeward: Command, table: MemoryTable
) -> None:
    table.progress = replace(
        table.progress, history=options_of(replace(table.dimension, history=History(first_load=1)))
    )
    ended = lakeward("verify", "--history")
    assert ended.code == 4
    assert "its history cannot be kept in another way" in ended.err


@pytest.mark.parametrize(("error", "code"), [(TableError("broken"), 4), (StoreUnreachable("no answer"), 75)])
def test_a_table_that_cannot_be_read_hides_no_other(
    lakeward: Command, table: MemoryTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any, code: int
) -> None:
    write(tmp_path, MEMORY, HISTORY, HISTORY.replace("customer", "place"))
    check = MemoryTable.check_history

    def fails(self: MemoryTable, examples: int) -> Any:
        if self is table:
            raise error
        return check(self, examples)

    monkeypatch.setattr(MemoryTable, "check_history", fails)
    document = lakeward("verify", "--history", "--json").document
    assert document["exit_code"] == code
    first, second = document["tables"]
    assert (list(first), second["keys"]) == (["table", "error"], 0)


def test_a_format_that_does_not_look_at_tables_whole_says_so(
    lakeward: Command, table: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = MemoryTarget.open
    monkeypatch.setattr(MemoryTarget, "open", lambda *given: replace(opens(*given), verification=None))
    ended = lakeward("verify", "--history")
    assert ended.code == 4
    assert "shop.customer cannot be verified" in ended.err
