"""Small batches: one file of few changes into a large table, in time and in CPU, and ten changes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from feed import Feed
from gate import Way, check_equal
from phases import UNCOUNTED, Measured, Say, Size, by_turns, words
from processes import started

_WARM: Final = 3
"""So many batches go before: Java has then compiled what they run."""

_COUNTED: Final = 10
_KEYS: Final = 5


@dataclass(slots=True)
class _BatchTimes:
    """What each batch took of each way: seconds, and seconds of CPU."""

    seconds: list[Mapping[str, float]] = field(default_factory=list)
    cpu: list[Mapping[str, float]] = field(default_factory=list)


def small_batches(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """One file of two events a key, into a large table and a larger one, to one `MERGE` of the same file."""
    keys, ours = size.keys // 10, []
    for rows, bound in size.small.items():
        say(f"phase 11: {keys:,} keys into {rows:,} rows")
        times = _small_batches(folder / str(rows), rows, keys, size, say)
        what = f"{keys:,} keys into {rows:,} rows, 1 file of {2 * keys:,} events"
        measured = _measured(what, times.seconds, bound)
        ours.append(measured.ours)
        yield measured
        yield _measured(f"{what}: CPU", times.cpu, size.small_cpu if rows == min(size.small) else None)
    if len(ours) > 1:
        what = f"the same, into {max(size.small):,} rows, to {min(size.small):,}"
        yield Measured(what=what, theirs=ours[0], ours=ours[-1], bound=size.small_growth, is_share=True)


def _small_batches(folder: Path, rows: int, keys: int, size: Size, say: Say) -> _BatchTimes:
    feed, times = Feed(folder / "landing", rows), _BatchTimes()
    with started(folder, folder / "landing") as ways:
        load = feed.load()
        say(f"  loaded: {words(by_turns(ways, lambda _, way: way.load(load)))}")
        for pair in range(_WARM + 2 * size.pairs if rows == min(size.small) else _WARM + 1):
            changes, before = feed.change(keys), _cpu(ways)
            seconds = by_turns(ways, lambda _, way, c=changes: way.apply(c), turn=pair)
            spent = {name: after - before[name] for name, after in _cpu(ways).items()}
            say(f"  {words(seconds)}; CPU {words(spent)}{'' if pair >= _WARM else UNCOUNTED}")
            if pair >= _WARM:
                times.seconds.append(seconds)
                times.cpu.append(spent)
        check_equal(ways)
    return times


def followed(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Ten changes at a time, once a hundred batches went before, to a commit of ten rows in a session as warm."""
    feed, theirs, ours = Feed(folder / "landing", 10 * size.keys), [], []
    batches = size.batches // 3
    say(f"phase 13: {batches} batches of {2 * _KEYS} events")
    with started(folder, folder / "landing") as ways:
        load = feed.load()
        for way in ways.values():
            way.load(load)
        for _ in range(batches):
            ours.append(ways["lakeward"].apply(feed.change(_KEYS)))
            theirs.append(ways["naive"].commit(2 * _KEYS))
    say(f"  a commit {median(theirs[-_COUNTED:]):.2f} s, a batch {median(ours[-_COUNTED:]):.2f} s")
    what = f"{2 * _KEYS} events into {10 * size.keys:,} rows, batch {batches}, to a commit of as many rows"
    yield Measured(what=what, theirs=theirs[-_COUNTED:], ours=ours[-_COUNTED:], bound=size.followed, is_share=True)


def _cpu(ways: Mapping[str, Way]) -> Mapping[str, float]:
    return {name: way.cpu() for name, way in ways.items()}


def _measured(what: str, selection: Sequence[Mapping[str, float]], bound: float | None) -> Measured:
    theirs, ours = ([one[name] for one in selection] for name in ("naive", "lakeward"))
    return Measured(what=what, theirs=theirs, ours=ours, bound=bound)
