"""`lakeward run --follow` is killed at random times while files arrive. Nothing is lost or applied twice.

The signal cannot be caught. Now and then Java runs a moment longer, in the middle of a commit.
Each process starts Spark itself, so the gate kills one, on one format, and one that follows a database
(`test_live_databases.py`). The law of crashes ends batches of each format at chosen steps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from delta_lake import by_delta_rs
from deltalake import DeltaTable
from followers import SCRIPT, Following
from project import ITEM, Project
from pyiceberg.catalog import load_catalog
from spark import QUICK

from lakeward.adapters.formats.delta.metadata.progress import PROGRESS
from lakeward.adapters.formats.hudi.metadata.timeline import Timeline
from lakeward.adapters.formats.iceberg.metadata.progress import commits_of
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.core.progress import Progress

IS_LONG: Final = "LAKEWARD_LONG" in os.environ
SEED: Final = int(os.environ.get("LAKEWARD_SEED", Random().randrange(1_000_000) if IS_LONG else 8))
"""The seed of the kill times and of the changes. The gate has always the same, `make long` others."""

KILLS: Final = 30 if IS_LONG else 1
pytestmark = [pytest.mark.spark, pytest.mark.timeout(180 * (KILLS + 1))]

KEYS: Final = 40


@dataclass
class Feed:
    """A database of a few rows that changes all the time."""

    project: Project
    random: Random
    rows: dict[int, tuple[int, str, Decimal]] = field(default_factory=dict)
    lines: int = 0
    files: int = 0

    def write(self) -> None:
        """Write a file of changes atomically."""
        changes = []
        for _ in range(self.random.randint(1, 8)):
            key = self.random.randrange(KEYS)
            operation = "I" if key not in self.rows else self.random.choice("UUD")
            row = (key, f"n{self.lines}", Decimal(self.lines).scaleb(-2))
            changes.append(f"{operation},{key},{row[1]},{row[2]:.2f}")
            self.rows[key] = row
            if operation == "D":
                del self.rows[key]
            self.lines += 1
        self.files += 1
        place = f"20261121-{self.files // 60_000:02}{self.files // 1000 % 60:02}00{self.files % 1000:03}.csv"
        written = self.project.folder / "landing.part"
        written.write_text("\n".join(changes) + "\n", "utf-8")
        folder = self.project.folder / "landing/shop/item"
        folder.mkdir(parents=True, exist_ok=True)
        written.rename(folder / place)

    def go_on(self, until: threading.Event) -> None:
        """Write a file, again and again."""
        while not until.wait(self.random.uniform(0.1, 1)):
            self.write()


@pytest.fixture(autouse=True)
def random_seed() -> Iterator[int]:
    """Return the seed, and print it at the end, because earlier output belongs to the commands."""
    yield SEED
    print(f"LAKEWARD_SEED={SEED} draws the same times and changes again")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    """Return a project in which each command starts its own Spark."""
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, capsys)


def configure(project: Project) -> None:
    """Write settings of a follower that lists files every second."""
    project.configure(f"{ITEM}[spark]\nsettings = {{ {QUICK} }}\n")
    settings = project.folder / "lakeward.toml"
    settings.write_text(settings.read_text("utf-8").replace('name = "shop"', 'name = "shop"\npoll = "1s"'), "utf-8")


@pytest.mark.parametrize(
    "kind",
    [
        "iceberg",
        pytest.param("delta", marks=pytest.mark.long),
        pytest.param("hudi", marks=[pytest.mark.hudi, pytest.mark.long]),
    ],
)
def test_killed_at_random_times_the_tables_are_equal_and_no_batch_is_there_twice(
    project: Project, kind: str, random_seed: int
) -> None:
    project.kind = kind
    configure(project)
    feed, is_over, random = Feed(project, Random(random_seed)), threading.Event(), Random(random_seed + 1)
    feed.write()
    writer = threading.Thread(target=feed.go_on, args=(is_over,))
    writer.start()
    started: list[Following] = []
    try:
        for number in range(KILLS):
            following = Following(project.folder, number)
            started.append(following)
            if random.random() < 0.2:
                time.sleep(random.uniform(0, 8))
            else:
                following.wait_for_a_commit()
                time.sleep(random.uniform(0, 3))
            following.end(with_java=random.random() < 0.5)
    finally:
        is_over.set()
        writer.join()
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT, "run", "--json", "--log", "off"],
            capture_output=True,
            text=True,
            check=False,
        )
        for following in started:
            following.clean()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert project.rows() == sorted(feed.rows.values())
    check_batches(project, feed)


def check_batches(project: Project, feed: Feed) -> None:
    """Each batch is once in the table and once in its change log, and each file is in one batch."""
    progresses, records = COMMITS[project.kind](project)
    last = progresses[0]
    assert [progress.batch for progress in progresses] == [*range(last.batch, 0, -1)]
    assert last.totals.read == feed.lines == last.totals.applied + last.totals.superseded
    assert sorted(record["_lakeward_batch"] for record in records) == [*range(1, last.batch + 1)]
    objects = Counter(found[0] for record in records for found in _objects(record))
    assert set(objects.values()) == {1}
    assert len(objects) == feed.files


def commits_by_iceberg(project: Project) -> tuple[list[Progress], list[dict[str, Any]]]:
    """Return the progress of the commits, newest first, and the batch records."""
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{project.folder}/lake/catalog.db")
    progresses = [progress for _, progress in commits_of(catalog.load_table(("shop", "item")))]
    log = catalog.load_table(("shop", "item__changes")).scan("_lakeward_kind = 'batch'")
    return progresses, log.to_arrow().to_pylist()


def commits_by_delta(project: Project) -> tuple[list[Progress], list[dict[str, Any]]]:
    """Return the progress of the commits, newest first, and the batch records."""
    lake = project.folder / "lake/shop"
    said = [json.loads(commit.get("userMetadata") or "{}") for commit in DeltaTable(lake / "item").history()]
    progresses = [Progress.from_json(line[PROGRESS]) for line in said if PROGRESS in line]
    log = by_delta_rs(DeltaTable(lake / "item__changes")).to_pylist()
    return progresses, [row for row in log if row["_lakeward_kind"] == "batch"]


def commits_by_hudi(project: Project) -> tuple[list[Progress], list[dict[str, Any]]]:
    """Return the progress of the commits, newest first, and the batch records."""
    lake = project.folder / "lake/shop"
    progresses = [instant.progress() for instant in Timeline(DiskFolder(lake / "item")).instants()]
    log = by_delta_rs(DeltaTable(lake / "item__changes")).to_pylist()
    records = [row for row in log if row["_lakeward_kind"] == "batch"]
    return [progress for progress in progresses if progress is not None], records


COMMITS: Final = {"iceberg": commits_by_iceberg, "delta": commits_by_delta, "hudi": commits_by_hudi}


def _objects(record: dict[str, Any]) -> list[Any]:
    return list(json.loads(record["_lakeward_record"])["objects"])
