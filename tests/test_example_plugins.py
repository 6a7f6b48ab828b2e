"""The plugins in `examples/`, as others have them: installed with pip, found by their entry point, proved."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

TABLE = "lakeward-sqlite-table"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example, installed from a copy (building leaves files behind), and without the network."""
    source, target = tmp_path_factory.mktemp("source") / TABLE, tmp_path_factory.mktemp("site")
    left = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "examples" / TABLE, source, ignore=left)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", target, source], check=True)
    return target


def in_a_process(site: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python with what is installed there, in a folder."""
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "EXAMPLES": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def kit(site: Path, folder: Path, *options: str) -> str:
    """Return what pytest prints of the example's own tests."""
    shutil.copytree(
        ROOT / "examples" / TABLE / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__")
    )
    return in_a_process(site, folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "tests").stdout


def test_the_kit_of_the_example_is_green_and_closed_are_changes_of_columns_alone(
    site: Path, tmp_path: Path
) -> None:
    printed = kit(site, tmp_path)
    assert "TestSqliteTable: 52 held, 0 failed, 2 closed" in printed, printed[-3000:]
    assert printed.count("not run, for want of changes of columns: corpus_") == 2


@pytest.mark.parametrize(
    ("right", "wrong", "law"),
    [
        (
            "DELETE FROM {self.name} WHERE {OWN[0]} = ?",
            "DELETE FROM {self.name} WHERE {OWN[0]} <> ?",
            "a_delete_takes",
        ),
        ('("memory", "remembered", ', '("remembered", ', "a_late_change_overwrites"),
    ],
    ids=["deletes the others", "forgets what it trimmed"],
)
def test_the_kit_is_red_where_the_example_is_spoilt(
    site: Path, tmp_path: Path, right: str, wrong: str, law: str
) -> None:
    spoilt = Path(shutil.copytree(site, tmp_path / "site"))
    module = spoilt / "lakeward_sqlite_table" / "table.py"
    code = module.read_text("utf-8")
    assert right in code
    module.write_text(code.replace(right, wrong), "utf-8")
    printed = kit(spoilt, tmp_path, "-k", law)
    assert " 0 held, 1 failed" in printed, printed[-3000:]


def test_its_entry_point_registers_it(site: Path, tmp_path: Path) -> None:
    code = "from lakeward.entrypoints.cli import main; main(['plugins'])"
    assert "lakeward_sqlite_table" in in_a_process(site, tmp_path, "-c", code).stdout
