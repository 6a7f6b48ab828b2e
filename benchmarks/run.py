"""Measure lakeward against the naive job, as ratios in one run; ends with 1 where a target is missed.

    python benchmarks/run.py [--phase 1 --phase 2 --phase 3] [--quick] [--json]

Both ways run in one Spark with a heap of 1 GiB, over the same files, by turns. First a
small feed goes through both, and their tables must be equal; after each phase they must
be equal again. docs/benchmarks.md has the figures and says what naive is.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog
from feed import KEY, TABLE, TYPES, Feed
from mirror import Mirror, write_settings
from naive import Naive
from pyiceberg.catalog import load_catalog
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
KEYS = 10_000


@dataclass(frozen=True)
class Result:
    """A ratio of naive to ours (of ours to bare in phase 3), and what it must be."""

    what: str
    ours: float
    other: float
    ratio: float
    target: str
    is_met: bool
    is_counted: bool = True


class Pair:
    """The two ways over one feed, in one Spark."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        (folder / "landing").mkdir(parents=True)
        self.feed = Feed(folder / "landing", rows)
        load = self.feed.load()
        self.mirror = Mirror(write_settings(folder, folder / "landing", self._spark()))
        self.mirror.apply()
        self.naive = Naive(self.mirror.container.spark()())
        self.naive.load(load)

    def _spark(self) -> str:
        """The settings of the one Spark: naive's catalog, and the extensions that its MERGE needs."""
        catalog = "spark.sql.catalog.naive"
        given = {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "jdbc",
            f"{catalog}.uri": f"jdbc:sqlite:{self.folder}/naive.db",
            f"{catalog}.jdbc.schema-version": "V1",
            f"{catalog}.warehouse": f"file://{self.folder}/naive",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        }
        settings = ", ".join(f'"{name}" = "{value}"' for name, value in given.items())
        return f'memory = "1g"\nsettings = {{ {settings} }}'

    def close(self) -> None:
        self.mirror.container.spark().stop()

    def turn(self, files: Sequence[Path], naive_files: int | None = None) -> tuple[float, float]:
        """Let both apply the same files; of naive, only so many may be timed, the rest is untimed."""
        ours = self.mirror.apply()
        timed = len(files) if naive_files is None else naive_files
        naive = self.naive.apply(files[:timed])
        self.naive.apply(files[timed:])
        return ours, naive

    def check(self) -> None:
        """Compare the tables, each read by PyIceberg: the same rows, cell by cell."""
        ours, naive = (self._sorted(name) for name in ("lake", "naive"))
        if not ours.equals(naive):
            raise SystemExit(f"the tables differ: {ours.num_rows:,} rows of ours, {naive.num_rows:,} of naive")
        if ours.num_rows != int(self.feed.living.sum()):
            raise SystemExit(
                f"{ours.num_rows:,} rows are in the lake, {int(self.feed.living.sum()):,} at the source"
            )

    def _sorted(self, name: str):
        file = self.folder / ("lake/catalog.db" if name == "lake" else "naive.db")
        catalog = load_catalog(name, type="sql", uri=f"sqlite:///{file}")
        try:
            rows = catalog.load_table(tuple(TABLE)).scan(selected_fields=tuple(TYPES)).to_arrow()
        finally:
            catalog.close()
        return rows.select(list(TYPES)).sort_by(KEY).combine_chunks()


@contextmanager
def pair(rows: int) -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="lakeward-bench-"))
    made = Pair(folder, rows)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder)


def gate() -> None:
    """Both ways give one table over a small feed of many files, or nothing is measured."""
    with pair(2_000) as both:
        for files in (1, 7):
            both.turn(both.feed.change(500, files))
        both.check()


def changes(rows: int, least: float, turns: int) -> list[Result]:
    """Phase 1: 10,000 random keys of so many rows, as 10 files and as one."""
    with pair(rows) as both:
        both.turn(both.feed.change(KEYS, 10))
        many = [both.turn(both.feed.change(KEYS, 10)) for _ in range(turns)]
        both.turn(both.feed.change(KEYS, 1))
        one = [both.turn(both.feed.change(KEYS, 1)) for _ in range(turns)]
        both.check()
    return [
        faster(f"20,000 events in 10 files into {rows:,} rows", many, least),
        faster(f"20,000 events in 1 file into {rows:,} rows", one, least, is_counted=False),
    ]


def small_files(rows: int, files: int, timed: int) -> list[Result]:
    """Phase 2: many files of 1,000 events; naive's share is scaled up from some of them."""
    with pair(rows) as both:
        both.turn(both.feed.change(1_000, 2))
        ours, some = both.turn(both.feed.change(files * 500, files), timed)
        both.check()
    return [faster(f"{files} files of 1,000 rows into {rows:,} rows", [(ours, some * files / timed)], 15.0)]


def start(turns: int) -> list[Result]:
    """Phase 3: from nothing to the first committed row, as processes, by turns."""
    ours, bare = [], []
    for turn in range(turns + 1):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            rows = folder / "landing" / TABLE.schema / TABLE.table
            rows.mkdir(parents=True)
            (rows / "LOAD00000001.csv").write_text("1,a\n")
            settings = write_settings(
                folder, folder / "landing", 'memory = "1g"', {KEY: "bigint", "name": "string"}, ""
            )
            script = str(Path(sys.executable).with_name("lakeward"))
            took = timed([script, "run", "--once", "--config", str(settings)])
            other = timed([sys.executable, str(HERE / "bare.py"), str(folder / "bare")])
        if turn:  # the first one warms the disk
            ours.append(took)
            bare.append(other)
    mine, theirs = statistics.median(ours), statistics.median(bare)
    ratio = mine / theirs
    return [
        Result("start to first committed row (other: a bare script)", mine, theirs, ratio, "≤ 1.3", ratio <= 1.3)
    ]


def timed(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def faster(what: str, turns: Sequence[tuple[float, float]], least: float, *, is_counted: bool = True) -> Result:
    """Return medians of both, and the median of the ratios of each turn."""
    ours, naive = (statistics.median(column) for column in zip(*turns, strict=True))
    ratio = statistics.median(other / mine for mine, other in turns)
    target = f"≥ {least:g}" if is_counted else "recorded"
    return Result(what, ours, naive, ratio, target, ratio >= least or not is_counted, is_counted)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--phase", type=int, choices=(1, 2, 3), action="append", help="only this one; may be repeated"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to see that it works; targets do not count"
    )
    parser.add_argument("--json", action="store_true", help="print a document instead of a table")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    out = Console(stderr=asked.json)
    out.print("Both ways over a small feed …")
    gate()
    sizes = [(20_000, 3.0)] if asked.quick else [(1_000_000, 3.0), (5_000_000, 5.0)]
    turns = 1 if asked.quick else 3
    phases: dict[int, list[Callable[[], list[Result]]]] = {
        1: [lambda rows=rows, least=least: changes(rows, least, turns) for rows, least in sizes],
        2: [lambda: small_files(sizes[0][0], 20 if asked.quick else 500, 4 if asked.quick else 20)],
        3: [lambda: start(turns)],
    }
    results: list[Result] = []
    for number in asked.phase or phases:
        for measure in phases[number]:
            out.print(f"Phase {number} …  (load {os.getloadavg()[0]:.1f})")
            results += measure()
    if asked.json:
        sys.stdout.write(json.dumps([asdict(result) for result in results], indent=2, ensure_ascii=False) + "\n")
    else:
        out.print(table(results))
    return 0 if asked.quick or all(result.is_met for result in results) else 1


def table(results: Sequence[Result]) -> Table:
    grid = Table("what", "ours", "other", "ratio", "target", "")
    for result in results:
        verdict = ("met" if result.is_met else "MISSED") if result.is_counted else ""
        times = (f"{result.ours:.2f} s", f"{result.other:.2f} s")
        grid.add_row(result.what, *times, f"{result.ratio:.2f}", result.target, verdict)
    return grid


if __name__ == "__main__":
    sys.exit(main())
