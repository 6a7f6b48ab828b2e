"""Small batches: one file of few changes into a large table, in time and in CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from feed import Feed
from gate import Way, check_equal
from phases import UNCOUNTED, Measured, Say, Size, by_turns, words
from processes import started

_WARM: Final = 3
"""So many batches go before: Java has then compiled what they run."""


def small_batches(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """One file of two events a key, into a large table, to one `MERGE` of the same file."""
    rows = min(size.changes)
    feed = Feed(folder / "landing", rows)
    keys = size.keys // 10
    seconds: list[Mapping[str, float]] = []
    cpu: list[Mapping[str, float]] = []
    with started(folder, folder / "landing") as ways:
        say(f"phase 11: {keys:,} keys into {rows:,} rows")
        load = feed.load()
        say(f"  loaded: {words(by_turns(ways, lambda _, way: way.load(load)))}")
        for pair in range(_WARM + 2 * size.pairs):
            changes, before = feed.change(keys), _cpu(ways)
            taken = by_turns(ways, lambda _, way, c=changes: way.apply(c), turn=pair)
            spent = {name: after - before[name] for name, after in _cpu(ways).items()}
            say(f"  {words(taken)}; CPU {words(spent)}{'' if pair >= _WARM else UNCOUNTED}")
            if pair >= _WARM:
                seconds.append(taken)
                cpu.append(spent)
        check_equal(ways)
    what = f"{keys:,} keys into {rows:,} rows, 1 file of {2 * keys:,} events"
    yield _measured(what, seconds, size.small)
    yield _measured(f"{what}: CPU", cpu, size.small_cpu)


def _cpu(ways: Mapping[str, Way]) -> Mapping[str, float]:
    return {name: way.cpu() for name, way in ways.items()}


def _measured(what: str, taken: Sequence[Mapping[str, float]], bound: float | None) -> Measured:
    theirs, ours = ([one[name] for one in taken] for name in ("naive", "lakeward"))
    return Measured(what=what, theirs=theirs, ours=ours, bound=bound)
