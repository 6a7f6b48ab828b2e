"""The plugins in `examples/`: installed with pip, found by their entry points, and tested with the kit."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import venv
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import Command, Ended
from projects import write
from repository import ROOT

from lakeward.core.merge.facts import Capability
from lakeward.entrypoints.cli import main
from lakeward.plugins.testing import LAWS
from lakeward.plugins.testing.bench import COLUMNS
from lakeward.plugins.testing.laws.sources import (
    column_names,
    full_loads,
    log_restarts,
    object_selection,
    other_tables,
    topic_restarts,
)

TABLE, SOURCE = "lakeward-sqlite-table", "lakeward-outbox-source"
_LACKING = (
    *(Capability.ROLLBACK, Capability.MAINTAIN, Capability.HISTORY, Capability.BITEMPORAL),
    *(Capability.NUMBERS, Capability.SOFT_DELETE),
)
LACKS = {
    COLUMNS,
    "full loads",
    "a log of the source",
    "names of columns in objects",
    "rows of several tables in an object",
    "topics whose messages arrival orders",
    *(item.value for item in _LACKING),
}
CLOSED = len([law for law in LAWS if LACKS & law.needs])
NOT_RUN = len([*full_loads.LAWS, *log_restarts.LAWS, *column_names.LAWS, *other_tables.LAWS, *topic_restarts.LAWS])
GREEN = {
    TABLE: f"TestSqliteTable: {len(LAWS) - CLOSED} held, 0 failed, {CLOSED} closed",
    SOURCE: f"TestOutboxSource: {len(object_selection.LAWS) - NOT_RUN} held, 0 failed, {NOT_RUN} closed",
}


def kit(site: Path | None, folder: Path, example: str, *options: str, python: str = sys.executable) -> str:
    """Return what pytest prints for the tests of an example."""
    tests = ROOT / "examples" / example / "tests"
    shutil.copytree(tests, folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    path = "" if site is None else os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "tests"]
    environment = {**os.environ, "PYTHONPATH": path, "EXAMPLES": "1", "PYTEST_ADDOPTS": ""}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def test_every_example_is_tested_here() -> None:
    plugins = {path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml")}
    assert plugins == {*GREEN}
    assert {path.name for path in (ROOT / "examples").iterdir()} == {*plugins, "airflow"}


@pytest.mark.parametrize("example", GREEN)
def test_the_laws_of_an_example_hold_and_only_declared_ones_are_closed(
    site: Path, tmp_path: Path, example: str
) -> None:
    printed = kit(site, tmp_path, example)
    assert GREEN[example] in printed, printed[-3000:]
    closed = re.findall(r"not run(?:, for want of ([^:]*))?", printed)
    assert {name for by in closed for name in by.split(", ")} <= LACKS
    assert re.search(r"^\d+ passed(, \d+ skipped)? in ", printed, re.MULTILINE), printed[-3000:]


@pytest.mark.long
@pytest.mark.parametrize("example", GREEN)
def test_the_laws_of_an_example_hold_in_an_environment_of_its_own(
    wheel: Path, tmp_path: Path, example: str
) -> None:
    """Its environment has the wheel with its extra `testing` (from the network) and the example alone."""
    venv.create(tmp_path / "env", with_pip=True)
    python, copy = str(tmp_path / "env/bin/python"), tmp_path / example
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "examples" / example, copy, ignore=ignored)
    install = [python, "-m", "pip", "install", "--quiet", f"{wheel}[testing]", str(copy)]
    subprocess.run(install, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""})
    printed = kit(None, tmp_path, example, python=python)
    assert GREEN[example] in printed, printed[-3000:]


OF_TABLE, OF_OUTBOX = "lakeward_sqlite_table/table.py", "lakeward_outbox_source/outbox.py"
REJECTS = "return Reject(place, Reason.NULL_KEY, time=row.at)"


@pytest.mark.parametrize(
    ("example", "module", "right", "wrong", "law"),
    [
        (TABLE, OF_TABLE, "WHERE {OWN[0]} = ?", "WHERE {OWN[0]} <> ?", "a_delete_removes_a_row"),
        (TABLE, OF_TABLE, '("memory", "remembered", ', '("remembered", ', "a_late_change_overwrites"),
        (SOURCE, OF_OUTBOX, "sum(length(row)), max(at)", "0, 0", "changed_after_it_was_applied"),
        (SOURCE, "lakeward_outbox_source/source.py", REJECTS, "key = (0,)", "objects_are_read_in_order"),
    ],
    ids=["deletes the others", "forgets what it trimmed", "sees no change", "makes a key of nothing"],
)
def test_the_laws_fail_on_a_broken_example(
    site: Path, tmp_path: Path, example: str, module: str, right: str, wrong: str, law: str
) -> None:
    spoilt = Path(shutil.copytree(site, tmp_path / "site"))
    code = (spoilt / module).read_text("utf-8")
    assert right in code
    (spoilt / module).write_text(code.replace(right, wrong), "utf-8")
    printed = kit(spoilt, tmp_path, example, "-k", law)
    assert " 0 held, 1 failed" in printed, printed[-3000:]


# From an outbox into SQLite: a whole pipeline of plugins, and no Spark.

SETTINGS = """
    [pipeline]
    name = "shop"
    [source]
    kind = "outbox"
    file = "app.db"
    [target]
    kind = "sqlite"
    [tables."shop.orders"]
    key = ["id"]
    columns = { id = "bigint", state = "string" }
"""

Commit = Callable[..., None]


@pytest.fixture
def lakeward(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run a command in a folder with settings, and with the examples installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEWARD_CONFIG", raising=False)
    monkeypatch.syspath_prepend(str(site))
    write(tmp_path, SETTINGS)

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run


@pytest.fixture
def commit(lakeward: Command, tmp_path: Path) -> Commit:
    """Commit changes as an application does: operation and row, each in the order given."""
    from lakeward_outbox_source.outbox import SCHEMA  # noqa: PLC0415  # it is installed by now

    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        database.execute(SCHEMA)

    def add(txn: int, *changes: tuple[str, dict[str, Any]], name: str = "orders") -> None:
        with closing(sqlite3.connect(tmp_path / "app.db")) as database, database:
            for number, (operation, row) in enumerate(changes, start=1):
                values = (txn, number, 1_700_000_000_000_000 + txn, "shop", name, operation, json.dumps(row))
                database.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    return add


def rows(folder: Path) -> list[Any]:
    with closing(sqlite3.connect(folder / "lake.db")) as database:
        return database.execute('SELECT id, state FROM "shop.orders" ORDER BY id').fetchall()


def test_their_entry_points_register_them(lakeward: Command) -> None:
    listed = {
        (one["kind"], one["name"], one["module"]) for one in lakeward("plugins", "--json").document["plugins"]
    }
    assert ("source", "outbox", "lakeward_outbox_source") in listed
    assert ("table format", "sqlite", "lakeward_sqlite_table") in listed


def test_a_run_from_one_into_the_other_ends_with_0(lakeward: Command, commit: Commit, tmp_path: Path) -> None:
    commit(1, ("insert", {"id": 1, "state": "new"}), ("insert", {"id": 2, "state": "new"}))
    commit(2, ("update", {"id": 1, "state": "paid"}), ("delete", {"id": 2}))
    ended = lakeward("run")
    assert (ended.code, rows(tmp_path)) == (0, [(1, "paid")])
    assert "4 read = 2 applied + 2 superseded" in ended.out
    commit(3, ("update", {"id": 1, "state": "sent"}), ("insert", {"id": 2, "state": "new"}))
    assert "2 read = 2 applied" in lakeward("run").out
    assert lakeward("run", "--json").document["tables"][0]["batch_count"] == 0
    assert rows(tmp_path) == [(1, "sent"), (2, "new")]
    (table,) = lakeward("status", "--json").document["tables"]
    assert (table["batch"], table["rows"], table["held"]) == (2, 2, 0)
    assert "applied: state sent" in lakeward("explain", "shop.orders", "1").out


def test_such_a_run_does_not_need_spark(lakeward: Command, commit: Commit, site: Path) -> None:
    commit(1, ("insert", {"id": 1, "state": "new"}))
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['pyspark', 'py4j', 'boto3', 'botocore']))\n"
        "from lakeward.entrypoints.cli import main\n"
        "sys.exit(main(['run']) or main(['explain', 'shop.orders', '1']))"
    )
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "applied: state new" in ran.stdout


def test_a_plan_creates_no_database_and_says_what_the_run_will_do(
    lakeward: Command, commit: Commit, tmp_path: Path
) -> None:
    commit(1, ("insert", {"id": 1, "state": "new"}))
    commit(2, ("insert", {"id": 1}), name="lines")
    ended = lakeward("plan")
    assert ended.code == 0
    assert "creates the table, 2 columns" in ended.out
    assert "1 file, 1 row: 1 insert" in ended.out
    assert "not configured, and not read: shop.lines" in ended.out
    assert not (tmp_path / "lake.db").exists()


def test_a_row_that_does_not_fit_holds_its_key_until_it_is_repaired(
    lakeward: Command, commit: Commit, tmp_path: Path
) -> None:
    commit(1, ("insert", {"id": 1, "state": 7}), ("insert", {"id": 2, "state": "new"}))
    commit(2, ("update", {"id": 1, "state": "paid"}))
    assert lakeward("run").code == 3
    assert rows(tmp_path) == [(2, "new")]
    assert lakeward("quarantine", "fix", "shop.orders", "1", "--to", "fix.toml").code == 0
    text = (tmp_path / "fix.toml").read_text("utf-8")
    assert '"state" = "7"' in text
    repaired = text.replace('operation = ""', 'operation = "insert"').replace('"state" = "7"', '"state" = "new"')
    (tmp_path / "fix.toml").write_text(repaired, "utf-8")
    assert lakeward("quarantine", "fix", "shop.orders", "--from", "fix.toml").code == 0
    assert lakeward("quarantine", "replay", "shop.orders", "1").code == 0
    assert rows(tmp_path) == [(1, "paid"), (2, "new")]
    assert lakeward("run").code == 0


def test_rules_of_columns_are_carried_out_on_its_frames(lakeward: Command, commit: Commit, tmp_path: Path) -> None:
    write(tmp_path, SETTINGS, '[[tables."shop.orders".rules]]\nrule = "default"\ncolumn = "state"\nvalue = "new"\n')
    commit(1, ("insert", {"id": 1, "state": None}))
    assert (lakeward("run").code, rows(tmp_path)) == (0, [(1, "new")])


def test_a_wrong_key_of_the_settings_is_answered_with_the_nearest(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, SETTINGS.replace("file = ", "fiel = "))
    ended = lakeward("run")
    assert ended.code == 1
    assert "[source] has no key 'fiel'" in ended.err
    assert "Did you mean 'file'?" in ended.err


def test_a_missing_database_stops_the_table_with_an_error(lakeward: Command, tmp_path: Path) -> None:
    ended = lakeward("run", "--log", "off")
    assert ended.code == 4
    assert f"error: the outbox in {tmp_path / 'app.db'} cannot be read" in ended.err
    assert "Traceback" not in ended.err
