"""`run --follow` as a service: files appear, all its processes get SIGTERM, and PyIceberg reads the table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from project import ITEM, Project

SCRIPT = "from lakeward.entrypoints.cli import run; run()"
ORDER = ITEM.replace("shop.item", "shop.order")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    """Return a project in which each command starts its own Spark."""
    monkeypatch.chdir(tmp_path)
    made = Project(tmp_path, capsys)
    made.configure()
    return made


@contextmanager
def service(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a process group of its own, like a service."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "run", "--log", "json", "--json", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def wait_for_commits(process: subprocess.Popen[str], batches: int) -> set[str]:
    """Wait for so many commits, and return the tables."""
    tables = []
    assert process.stderr is not None
    while len(tables) < batches:
        line = process.stderr.readline()
        assert line, "it has ended"
        said = json.loads(line) if line.startswith("{") else {"event": line}
        tables += [said["table"]] if said["event"] == "committed" else []
    return set(tables)


@pytest.mark.spark
def test_a_folder_is_followed_until_all_processes_of_the_service_get_sigterm(project: Project) -> None:
    project.configure(tables=ITEM + ORDER + '\n[spark]\nmemory = "512m"\n')
    settings = project.folder / "lakeward.toml"
    settings.write_text(settings.read_text("utf-8").replace('name = "shop"', 'name = "shop"\npoll = "1s"', 1))
    project.put("LOAD00000001.csv", "1,one,1.00\n")
    with service(project.folder, "--follow") as process:
        assert wait_for_commits(process, 1) == {"shop.item"}
        project.put("20261121-090000000.csv", "U,1,two,2.00\nI,2,two,2.00\n")
        project.put("LOAD00000001.csv", "7,seven,7.00\n", table="shop/order")
        assert wait_for_commits(process, 2) == {"shop.item", "shop.order"}
        assert project.call("status", "--json").code == 0
        project.put("20261121-090100000.csv", "D,1,two,2.00\n")
        os.killpg(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    batches = {table["table"]: table["progress"]["batch"] for table in json.loads(out)["tables"]}
    names = {row[:2] for row in project.rows()}
    assert names == ({(1, "two"), (2, "two")} if batches["shop.item"] == 2 else {(2, "two")}), (
        "the last waits, or not"
    )
    assert [row[:2] for row in project.rows("order")] == [(7, "seven")]


@pytest.mark.spark
def test_sigterm_while_spark_starts_ends_a_run_as_documented(project: Project) -> None:
    project.put("LOAD00000001.csv", "1,one,1.00\n")
    log = project.folder / "state" / "spark.log"
    with service(project.folder, "--once") as process:
        while not log.exists():
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.05)
        os.killpg(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 75, err
    assert json.loads(out)["exit_code"] == 75
