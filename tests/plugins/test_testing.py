"""The conformance kit as its users see it: what is run, what is closed, and what a report says."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest

from lakeward.adapters.memory import MemoryTable
from lakeward.core.errors import PluginError
from lakeward.core.ports import ChangeLogState
from lakeward.core.progress import Progress
from lakeward.plugins.testing import LAWS, Bench, MemoryLake, table_contract, try_law

LAKE = """
from dataclasses import dataclass

import pytest

from lakeward.adapters.memory import MemoryTable
from lakeward.core.merge.facts import Capability
from lakeward.plugins.testing import Bench, MemoryLake, table_contract


@dataclass(slots=True)
class Simple(MemoryTable):
    capabilities: frozenset[Capability] = frozenset({Capability.TRUNCATE})


@dataclass(slots=True)
class Broken(Simple):
    def rows_after(self, settled):
        return {**self.rows, **{key: row for key, row in settled.rows.items() if row is not None}}


@pytest.fixture(params=["one", "other"])
def layout(request):
    return request.param


LAWS = [
    "a_delete_removes_a_row",
    "a_full_load_replaces_all_rows",
    "a_commit_of_another_writer_hides_no_progress",
    "cells_that_were_not_sent_keep_their_values",
]
TestSimple = table_contract(lambda layout: Bench(lake=MemoryLake(Simple), examples=2), laws=LAWS)
TestBroken = table_contract(lambda: Bench(lake=MemoryLake(Broken), examples=2), laws=LAWS[:1])


@dataclass(slots=True)
class Keeping(MemoryTable):
    capabilities: frozenset[Capability] = frozenset({Capability.HISTORY})


HISTORIES = ["any_order_and_any_crash_give_the_same_history"]
PARTS = ["parts of rows"]
TestKeeping = table_contract(lambda: Bench(lake=MemoryLake(Keeping), examples=2), laws=HISTORIES)
TestParts = table_contract(lambda: Bench(lake=MemoryLake(Keeping), examples=2), laws=HISTORIES, cases=PARTS)
TestNoHistories = table_contract(lambda: Bench(lake=MemoryLake(Simple), examples=2), laws=HISTORIES)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of laws of two tables, one of which never deletes."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "test_tables.py").write_text(LAKE, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tables.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_a_report_says_which_laws_were_run_and_what_closed_the_others(session: str) -> None:
    report = session.split("= laws of lakeward =")[1].splitlines()[1:6]
    assert report == [
        "test_tables.py::TestSimple: 1 held, 0 failed, 3 closed",
        "  not run, for want of foreign commits: a_commit_of_another_writer_hides_no_progress",
        "  not run, for want of reload: a_full_load_replaces_all_rows",
        "  not run, for want of unset: cells_that_were_not_sent_keep_their_values",
        "test_tables.py::TestBroken: 0 held, 1 failed, 0 closed",
    ]
    assert "1 failed, 4 passed, 17 skipped" in session, "a bench is made for each value of a fixture that it names"


def test_a_report_names_each_case_that_was_closed_of_a_law_that_was_run(session: str) -> None:
    law = "any_order_and_any_crash_give_the_same_history"
    report = session.split("= laws of lakeward =")[1].splitlines()[6:15]
    assert report == [
        "test_tables.py::TestKeeping: 1 held, 0 failed, 0 closed",
        f"  not run, for want of key_change, truncate, unset: {law}[of kinds]",
        f"  not run, for want of key_change, unset: {law}[parts of rows]",
        f"  not run, for want of truncate: {law}[tracking one column]",
        f"  not run, for want of truncate: {law}[truncates by hand]",
        "test_tables.py::TestParts: 0 held, 0 failed, 1 closed",
        f"  not run, for want of key_change, unset: {law}[parts of rows]",
        "test_tables.py::TestNoHistories: 0 held, 0 failed, 1 closed",
        f"  not run, for want of history: {law}",
    ]


def test_a_failure_shows_the_rows_that_differ_and_what_was_delivered_of_them(session: str) -> None:
    assert "row (0, 1): found {'h': 0, 'id': 1, 'a': 1, 'b': 10} of (1, 1, 1, 1), expected none" in session
    assert "(1, 2, 2, 1) delete {'h': 0, 'id': 1, 'a': 2, 'b': 20}, at 2" in session


def test_a_class_says_its_laws_in_the_order_in_which_they_are_run() -> None:
    contract = table_contract(lambda: Bench(lake=MemoryLake()))
    assert contract.laws == tuple(law.name for law in LAWS)  # type: ignore[attr-defined]
    assert [law.name for law in LAWS if not law.statement.strip().endswith(".")] == [], "each says what holds"
    assert [name for name in vars(contract) if name.startswith("test_")] == [f"test_{law.name}" for law in LAWS]


def test_an_unknown_law_is_refused_and_the_nearest_named() -> None:
    with pytest.raises(PluginError, match="there is no law a_delete_takes_a_row") as refused:
        table_contract(lambda: Bench(lake=MemoryLake()), laws=["a_delete_takes_a_row"])
    assert "Did you mean 'a_delete_removes_a_row'?" in str(refused.value)


@dataclass(slots=True)
class ForgetsItsObjects(MemoryTable):
    """Says of no object that it was applied."""

    def read_state(self, progress: Progress) -> ChangeLogState:
        return replace(MemoryTable.read_state(self, progress), objects={})


@pytest.mark.timeout(20)
def test_a_table_that_forgets_its_objects_ends_a_play_and_is_told_so() -> None:
    (law,) = [law for law in LAWS if law.name == "an_update_replaces_a_row"]
    with pytest.raises(AssertionError, match=r"the table forgets what it was given.* it lacks 0000/1\."):
        try_law(law, lambda: Bench(lake=MemoryLake(ForgetsItsObjects)))


def test_without_hypothesis_the_kit_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("lakeward.plugins.testing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ImportError, match=r"pip install 'lakeward\[testing\]'"):
        importlib.import_module("lakeward.plugins.testing")
