"""`lakeward verify`, on tables in plain Python: what it says, its document, its exit codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import Command
from projects import MEMORY, ORDERS, write
from small_history import DAY, HISTORY, version

from lakeward.adapters.memory import MemoryTable, MemoryTarget
from lakeward.core.errors import StoreUnreachable, TableError
from lakeward.core.history.options import History
from lakeward.core.history.stored_options import options_of
from lakeward.core.merge.fold import row_of


def test_a_history_that_is_right_ends_with_0_and_says_how_much_was_looked_at(
    lakeward: Command, kept_history: MemoryTable
) -> None:
    ended = lakeward("verify", "--history")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split() for line in ended.out.splitlines()[1:]] == [["shop.customer", "12", "24", "0"]]


def test_keys_that_break_a_rule_are_counted_and_some_of_them_named(
    lakeward: Command, kept_history: MemoryTable
) -> None:
    for key in range(11):
        versions = kept_history.rows[key,].versions
        kept_history.rows[key,] = row_of([replace(versions[0], valid_to=6 * DAY), versions[1]])
    kept_history.rows[11,] = row_of([version(0, 0, "Bonn"), version(5, None, "Ulm")])
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
        "Another program has changed these versions. Correct them in the table by hand: "
        "docs/how-to/quarantine.md#versions-that-were-altered",
    ]
    (found,) = lakeward("verify", "--history", "--json").document["tables"]
    assert (found["keys"], found["versions"]) == (12, 24)
    assert (found["broken"]["overlap"], found["broken"]["empty"]) == (11, 1)
    assert found["examples"][0] == {"key": ["11"], "rule": "empty", "begins": "1970-01-01 00:00:00"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "give either --history"),
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
    lakeward: Command, kept_history: MemoryTable
) -> None:
    kept_history.progress = replace(
        kept_history.progress, history=options_of(replace(kept_history.dimension, history=History(first_load=1)))
    )
    ended = lakeward("verify", "--history")
    assert ended.code == 4
    assert "its history cannot be kept in another way" in ended.err


@pytest.mark.parametrize(("error", "code"), [(TableError("broken"), 4), (StoreUnreachable("no answer"), 75)])
def test_a_table_that_cannot_be_read_hides_no_other(
    lakeward: Command,
    kept_history: MemoryTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Any,
    code: int,
) -> None:
    write(tmp_path, MEMORY, HISTORY, HISTORY.replace("customer", "place"))
    check = MemoryTable.check_history

    def fails(self: MemoryTable, examples: int) -> Any:
        if self is kept_history:
            raise error
        return check(self, examples)

    monkeypatch.setattr(MemoryTable, "check_history", fails)
    document = lakeward("verify", "--history", "--json").document
    assert document["exit_code"] == code
    first, second = document["tables"]
    assert list(first) == ["table", "error"]
    counts = (second["keys"], second["versions"], sum(second["broken"].values()))
    assert counts == (0, 0, 0), "nothing was applied to it yet"


def test_a_format_that_does_not_look_at_tables_whole_says_so(
    lakeward: Command, kept_history: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = MemoryTarget.open
    monkeypatch.setattr(MemoryTarget, "open", lambda *given: replace(opens(*given), reader=None))
    ended = lakeward("verify", "--history")
    assert ended.code == 4
    assert "shop.customer cannot be verified" in ended.err
