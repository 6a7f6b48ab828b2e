"""`explain` of keys in a table of 5,000,000 rows, to `status`, which reads no rows: each a process of its own.

python benchmarks/explaining.py [--rows N]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import mirror
from feed import KEY, TABLE, Feed
from processes import HEAP, Elsewhere

ROWS = 5_000_000
KEYS = 10_000
BATCHES = 3
TIMES = 5
LAKEWARD = Path(sys.executable).with_name("lakeward")


def main() -> None:
    """Make the table, explain some of its keys, and say what took how long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder:
        settings, keys = make(Path(folder), asked.rows)
        explained = [selection(settings, "explain", str(TABLE), str(key)) for key in keys]
        status = [selection(settings, "status") for _ in keys]
    one, other = median(explained), median(status)
    sys.stdout.write(f"explain {one:.1f} s, status {other:.1f} s, ratio {one / other:.1f}\n")


def make(folder: Path, rows: int) -> tuple[Path, list[int]]:
    """Make a table of so many rows, and change some; return its settings and keys that were changed last."""
    feed = Feed(folder / "landing", rows)
    settings = mirror.write_settings(folder / "lakeward", folder / "landing", HEAP)
    way = Elsewhere(partial(mirror.Mirror, settings))
    way.load(feed.load())
    for _ in range(BATCHES):
        (file,) = feed.change(KEYS)
        way.apply([file])
    way.pool.shutdown()
    return settings, feed.written[file][KEY].to_pylist()[:TIMES]


def selection(settings: Path, *words: str) -> float:
    """Run a command; return the seconds that it took."""
    began = time.perf_counter()
    command = [LAKEWARD, *words, "--config", settings]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
