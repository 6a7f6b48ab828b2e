"""Two machines run one pipeline: the lease admits one at a time, and a process whose lease ended commits nothing.

The lease saves work. The batch number prevents duplicates, as the test without it shows.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tenancies import Clock, DynamoDb

from lakeward.adapters.memory import MemoryLease, MemoryTable
from lakeward.core.dimension import ORDERED, Dimension
from lakeward.core.errors import CommitConflict, LockedError, TableError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult
from lakeward.core.progress import Progress
from lakeward.entrypoints.runtime.locks.writer_lease import WriterLease
from lakeward.plugins.testing import MemoryLake, Player, Script
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT

KEYS = {"with a key": ("h", "id"), "without a key": ()}
by_key = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)


def script(key: Sequence[str]) -> Script:
    """Three deliveries of two rows each, all of them inserts."""
    events = [
        ChangeEvent(
            operation=Operation.INSERT,
            position=Position(1, at, at, row),
            key=(at, row),
            cells={"h": at, "id": row, "a": at, "b": row},
            time=at,
        )
        for at in (1, 2, 3)
        for row in (1, 2)
    ]
    dimension = Dimension(name=NAME, schema=PACKED, key=tuple(key), lateness=ORDERED, tolerance=TOLERANT)
    return Script(dimension, [events[:2], events[2:4], events[4:]], events)


@dataclass
class Machines:
    """A lake and a lease that machines share."""

    script: Script
    lake: MemoryLake = field(default_factory=MemoryLake)
    clock: Clock = field(default_factory=Clock)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lease = MemoryLease(self.clock)

    def writer_lease(self) -> WriterLease:
        return WriterLease(self.lease, "shop", self.clock)

    def another_takes_over(self) -> None:
        """Let the lease end, and another machine apply all but the last delivery."""
        self.clock.advance(1.1 * self.lease.duration)
        with self.writer_lease() as writer_lease:
            player = Player(self.script, self.lake)
            player.source.arrived = 2
            apply_changes(replace(player.job(), check=writer_lease.check))

    def run(self, sleeps_at: int) -> None:
        """Apply everything on a machine that pauses after one of its checks of the lease."""
        player = Player(self.script, self.lake)
        player.source.arrived = 3
        looks = 0

        with self.writer_lease() as writer_lease:

            def check() -> None:
                nonlocal looks
                looks += 1
                writer_lease.check()
                if looks == sleeps_at:
                    self.another_takes_over()

            try:
                apply_changes(replace(player.job(), check=check))
            except (LockedError, CommitConflict) as error:
                self.errors.append(error.what)

    @property
    def table(self) -> Any:
        return self.lake.open(self.script.dimension).table


def check_that_nothing_is_twice(machines: Machines, sleeps_at: int) -> None:
    """Checks 1 and 3 are before a batch writes anything, 2 and 4 before its commit."""
    machines.run(sleeps_at)
    assert machines.errors == ["this process has lost the lease of the pipeline"]
    assert (machines.table.progress.batch, machines.table.progress.totals.read) == (2, 4)
    machines.run(sleeps_at=0)
    assert (machines.table.progress.batch, machines.table.progress.totals.read) == (3, 6)
    assert machines.lake.rows(machines.script.dimension) == machines.script.truth


@by_key
@pytest.mark.parametrize("sleeps_at", [1, 2, 3, 4])
def test_a_process_that_resumes_after_its_lease_ended_commits_nothing(key: Sequence[str], sleeps_at: int) -> None:
    check_that_nothing_is_twice(Machines(script(key)), sleeps_at)


@by_key
def test_two_machines_that_never_pause_apply_everything(key: Sequence[str]) -> None:
    machines = Machines(script(key))
    machines.run(sleeps_at=0)
    assert machines.errors == []
    assert machines.table.progress.batch == 3
    assert machines.lake.rows(machines.script.dimension) == machines.script.truth


class TakesWhateverComes(MemoryTable):
    """A broken table, which does not check the number of the batch."""

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        self.progress = replace(self.progress, batch=plan.batch - 1)
        return super().commit(plan, resolved, progress)


def test_a_table_without_the_batch_number_is_detected_with_any_lease() -> None:
    with pytest.raises((AssertionError, TableError)):
        check_that_nothing_is_twice(Machines(script(()), MemoryLake(TakesWhateverComes)), sleeps_at=2)


# Two real processes, one of which is stopped.

SETTINGS = """
[pipeline]
name = "shop"
poll = "1s"
[source]
kind = "outbox"
file = "../app.db"
[target]
kind = "sqlite"
file = "../lake.db"
[lease]
kind = "dynamodb"
table = "TABLE"
ttl = "10s"
[tables."shop.orders"]
key = ["id"]
columns = { id = "bigint" }
"""
SCRIPT = "from lakeward.entrypoints.cli import run; run()"


@dataclass
class Host:
    """A folder with its own settings and state, and a database and a lake that others share."""

    folder: Path
    site: Path

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of lakeward."""
        paths = os.pathsep.join(filter(None, [str(self.site), os.environ.get("PYTHONPATH")]))
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str]:
        """Return the exit code of a command and its errors."""
        with self.start(*words) as process:
            _, said = process.communicate()
        return process.returncode, said

    def write(self, number: int) -> None:
        """Write a row as the application."""
        row = (number, 1, time.time_ns() // 1000, "shop", "orders", "insert", json.dumps({"id": number}))
        with closing(sqlite3.connect(self.folder.parent / "app.db")) as database, database:
            database.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def rows(self) -> list[int]:
        """Return the rows of the lake."""
        with closing(sqlite3.connect(self.folder.parent / "lake.db")) as database:
            there = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'shop.orders'").fetchone()
            found = database.execute('SELECT id FROM "shop.orders" ORDER BY 1').fetchall() if there else []
        return [number for (number,) in found]

    def wait_for(self, *numbers: int) -> None:
        """Wait until the lake has these rows."""
        until = time.monotonic() + 60
        while self.rows() != [*numbers]:
            assert time.monotonic() < until, f"there are {self.rows()}"
            time.sleep(0.2)


@pytest.mark.long
def test_a_stopped_follower_is_replaced_and_gives_up_when_it_resumes(
    dynamodb: DynamoDb, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(site))
    from lakeward_outbox_source.outbox import SCHEMA  # noqa: PLC0415  # it is installed by now

    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        database.execute(SCHEMA)
    hosts = [Host(tmp_path / name, site) for name in ("a", "b")]
    for host in hosts:
        host.folder.mkdir()
        (host.folder / "lakeward.toml").write_text(SETTINGS.replace("TABLE", dynamodb.table), "utf-8")
    first, second = hosts
    first.write(1)
    with first.start("run", "--follow", "--log", "off") as follower:
        try:
            first.wait_for(1)
            code, said = second.run("run", "--follow")
            assert (code, "error: another process follows this pipeline" in said) == (75, True), said
            assert f"process {follower.pid} on " in said
            follower.send_signal(signal.SIGSTOP)
            first.write(2)
            while (ended := second.run("run", "--follow", "--max-minutes", "0.3"))[0] == 75:
                time.sleep(1)
            assert ended[0] == 0, ended[1]
            assert second.rows() == [1, 2]
            follower.send_signal(signal.SIGCONT)
            _, said = follower.communicate(timeout=60)
        finally:
            follower.kill()
    assert (follower.returncode, "this process has lost the lease of the pipeline" in said) == (75, True), said
    first.write(3)
    assert first.run("run")[0] == 0
    assert first.rows() == [1, 2, 3]
