"""Full loads into tables that are not there yet, of each format, to a copy by Spark of the same files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from feed import Feed
from formats import KINDS, ways_of
from gate import check_equal
from phases import Measured, Say, Size, by_turns, words

from lakeward.adapters.spark.session.compatibility import line

_MODE = "merge-on-read"


def full_loads(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Load a large table once in each process, as it is once in the life of a table."""
    rows = max(size.changes)
    for kind in KINDS[line()]:
        say(f"phase 12: {kind}, a full load of {rows:,} rows")
        seconds: list[Mapping[str, float]] = []
        for pair in range(size.pairs):
            seconds.append(_loaded(folder / f"{kind} {pair}", kind, rows, pair))
            say(f"  {words(seconds[-1])}")
        yield Measured(
            what=f"{kind}: a full load of {rows:,} rows",
            theirs=[times["naive"] for times in seconds],
            ours=[times["lakeward"] for times in seconds],
            bound=size.load,
        )


def _loaded(folder: Path, kind: str, rows: int, turn: int) -> Mapping[str, float]:
    load, ways = Feed(folder / "landing", rows).load(), ways_of(folder, kind, _MODE)
    try:
        times = by_turns(ways, lambda _, way: way.load(load), turn=turn)
        check_equal(ways)
        return times
    finally:
        for way in ways.values():
            way.pool.shutdown()
