"""The phases: what is measured, at which size, and what it must reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

import cold
import mirror
from feed import STAY, TYPES, Feed, expected_rows
from gate import Way, check_equal, check_rows, check_small_feed
from processes import HEAP, IN_PART, MEMORY, Elsewhere, in_part, started

Say: TypeAlias = Callable[[str], None]

UNCOUNTED: Final = " (warms up, not counted)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured, and what must be reached; for changes, by the number of rows in the table.

    `memory` bounds what it costs to remember them. Of `tables`, so many are run `apart`, a process
    each, to be scaled up; `together` says how much faster one process must be. Of a history, `versions` says by
    format how many it has, `history` what it may take of a mirror's time, and `window` how much faster than a job
    of windows it must be. A `small` batch must be so much faster than a `MERGE`, by the number of rows in
    the table, take so much less CPU with the fewest of these, and so much longer with the most. A batch that is
    `followed` may take so much longer than a commit of as many rows.
    Many tables `side_by_side` must be so fast, to the naive job with one after the other; a full `load`, and one
    file of new rows, so fast to a copy; and a start `like` for like may take no longer than so. A `snapshot` of a
    database must be so fast, to a read of it, and so many `events` in `messages`, to a job that parses and ranks
    them. A topic is followed for so many `seconds`, of which the last third may take so much longer than the second
    (`drift`). A `backlog` of so many messages in a broker, or all, must be applied so fast (`drain`), to the job of
    `messages`. Of two numbers of `waiting` messages, the greater one may take so much more memory (`growth`).
    """

    changes: Mapping[int, float | None]
    memory: Mapping[int, float | None]
    many: float | None
    start: float | None
    like: float | None
    keys: int
    files: int
    many_files: int
    naive_files: int
    events_per_file: int
    pairs: int
    starts: int
    batches: int
    growth: float | None
    soak: int
    tables: int
    apart: int
    together: float | None
    rows_of_1_gb: int
    versions: Mapping[str, int]
    history: float | None
    window: float | None
    small: Mapping[int, float | None]
    small_cpu: float | None
    small_growth: float | None
    followed: float | None
    load: float | None
    snapshot: float | None
    messages: float | None
    events: int
    side_by_side: float | None
    seconds: int
    drift: float | None
    backlog: int | None
    drain: float | None
    waiting: tuple[int, int]


FULL: Final = Size(
    changes={1_000_000: 8.0, 5_000_000: 20.0},
    memory={1_000_000: 2.0, 5_000_000: 1.3},
    many=60.0,
    start=1.3,
    like=1.2,
    keys=10_000,
    files=5,
    many_files=500,
    naive_files=20,
    events_per_file=1_000,
    pairs=3,
    starts=5,
    batches=300,
    growth=1.3,
    soak=1_000,
    tables=50,
    apart=5,
    together=3.0,
    rows_of_1_gb=6_500_000,
    versions={"iceberg": 10_000_000, "delta": 5_000_000, "hudi": 5_000_000},
    history=2.0,
    window=6.0,
    small={1_000_000: 5.0, 10_000_000: 25.0},
    small_cpu=6.0,
    small_growth=3.0,
    followed=3.0,
    load=0.65,
    snapshot=0.9,
    messages=3.0,
    events=1_000_000,
    side_by_side=1.5,
    seconds=600,
    drift=1.3,
    backlog=None,
    drain=3.0,
    waiting=(1_000_000, 5_000_000),
)
QUICK: Final = Size(
    changes={20_000: None},
    memory={20_000: None},
    many=None,
    start=None,
    like=None,
    keys=500,
    files=2,
    many_files=20,
    naive_files=2,
    events_per_file=100,
    pairs=1,
    starts=1,
    batches=20,
    growth=None,
    soak=20,
    tables=4,
    apart=2,
    together=None,
    rows_of_1_gb=50_000,
    versions=dict.fromkeys(("iceberg", "delta", "hudi"), 20_000),
    history=None,
    window=None,
    small={20_000: None},
    small_cpu=None,
    small_growth=None,
    followed=None,
    load=None,
    snapshot=None,
    messages=None,
    events=5_000,
    side_by_side=None,
    seconds=10,
    drift=None,
    backlog=2_000,
    drain=None,
    waiting=(2_000, 10_000),
)
"""Too small for a verdict: shows that everything works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A pair of times or numbers, and the bound that their ratio is held to, if any.

    The ratio says how much faster lakeward is, or where `is_share`, how much longer it takes.
    """

    what: str
    theirs: Sequence[float]
    ours: Sequence[float]
    bound: float | None = None
    is_share: bool = False
    unit: str = " s"

    @property
    def ratio(self) -> float:
        """The ratio of the medians."""
        theirs, ours = median(self.theirs), median(self.ours)
        return ours / theirs if self.is_share else theirs / ours

    @property
    def is_met(self) -> bool | None:
        """Whether the bound is kept; None where there is none."""
        if self.bound is None:
            return None
        return self.ratio <= self.bound if self.is_share else self.ratio >= self.bound


def gate(folder: Path, say: Say) -> None:
    """Check that both ways are right; raises WrongRows where one is not."""
    say("gate: a small feed, compared row by row with plain Python")
    feed = Feed(folder / "landing", rows=1_000)
    with started(folder, folder / "landing") as ways:
        check_small_feed(ways, feed)


def random_changes(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Changes of random keys into large tables, in several files and in one."""
    for rows, bound in size.changes.items():
        yield from _random_changes(folder / str(rows), size, rows, bound, say)


def _random_changes(folder: Path, size: Size, rows: int, bound: float | None, say: Say) -> Iterator[Measured]:
    feed = Feed(folder / "landing", rows)
    seconds: dict[int, list[Mapping[str, float]]] = {size.files: [], 1: []}
    parts = in_part(folder / "landing")
    with started(folder, folder / "landing", MEMORY, IN_PART) as ways:
        say(f"phase 1: a table of {rows:,} rows")
        load = dict.fromkeys(ways, feed.load())
        load[IN_PART] = feed.in_part(load[IN_PART], parts)
        say(f"  loaded: {words(by_turns(ways, lambda name, way: way.load(load[name])))}")
        for pair in range(size.pairs + 1):
            for files, found in seconds.items():
                changes = dict.fromkeys(ways, feed.change(size.keys, files))
                changes[IN_PART] = feed.in_part(changes[IN_PART], parts)
                times = by_turns(ways, lambda name, way, c=changes: way.apply(c[name]), turn=pair)
                say(f"  {files} file(s): {words(times)}{'' if pair else UNCOUNTED}")
                if pair:
                    found.append(times)
        check_equal(ways)
    for files, found in seconds.items():
        yield Measured(
            what=f"{size.keys:,} keys into {rows:,} rows, {files} file(s) of {2 * size.keys // files:,} events",
            theirs=[times["naive"] for times in found],
            ours=[times["lakeward"] for times in found],
            bound=bound if files > 1 else None,
        )
    yield Measured(
        what=f"the same {size.files} files, remembered for a day, to not remembered",
        theirs=[times["lakeward"] for times in seconds[size.files]],
        ours=[times[MEMORY] for times in seconds[size.files]],
        bound=size.memory[rows],
        is_share=True,
    )
    yield Measured(
        what=f"the same {size.files} files, {len(STAY)} of {len(TYPES)} cells of an update not sent, to all sent",
        theirs=[times[MEMORY] for times in seconds[size.files]],
        ours=[times[IN_PART] for times in seconds[size.files]],
        is_share=True,
    )


def many_files(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Many small files: all of them for lakeward, a few for the naive way, scaled up."""
    feed = Feed(folder / "landing", rows=size.many_files * size.events_per_file // 5)
    scale = size.many_files / size.naive_files
    given: dict[str, list[Path]] = {"lakeward": [], "naive": []}
    seconds: list[Mapping[str, float]] = []
    with started(folder, folder / "landing") as ways:
        say(f"phase 2: {size.many_files} files of {size.events_per_file:,} rows")
        load = feed.load()
        by_turns(ways, lambda _, way: way.load(load))
        for pair in range(size.pairs + 1):
            files = [file for _ in range(size.many_files) for file in feed.change(size.events_per_file // 2)]
            parts = {"lakeward": files, "naive": files[: size.naive_files]}
            times = by_turns(ways, lambda name, way, p=parts: way.apply(p[name]), turn=pair)
            say(f"  {size.naive_files} of them naively: {words(times)}{'' if pair else UNCOUNTED}")
            if pair:
                seconds.append(times)
            for name, part in parts.items():
                given[name] += part
        for name, way in ways.items():
            check_rows(name, way, expected_rows(feed, [*load, *given[name]]))
    yield Measured(
        what=f"{size.many_files} CSV files of {size.events_per_file:,} rows (naive: {size.naive_files}, scaled up)",
        theirs=[scale * times["naive"] for times in seconds],
        ours=[times["lakeward"] for times in seconds],
        bound=size.many,
    )


def first_row(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """From the start of a process to its first committed row, with the cache as `jars fetch` leaves it."""
    say("phase 3: from the start of the process to the first row")
    plain, archived = (cold.cache(folder / name) for name in ("plain", "archived"))
    archive = cold.archive(archived)
    starts: Mapping[str, Callable[[Path], float]] = {
        "bare": lambda own: cold.bare(own, plain, HEAP),
        "bare, archive": lambda own: cold.bare(own, archived, {**HEAP, **archive}),
        "lakeward": lambda own: cold.lakeward(own, plain, HEAP),
        "lakeward, archive": lambda own: cold.lakeward(own, archived, HEAP),
    }
    seconds = []
    for start in range(size.starts):
        order = list(starts) if start % 2 else list(starts)[::-1]
        seconds.append({name: starts[name](folder / f"{start} {name}") for name in order})
        say(f"  {words(seconds[-1])}")
    times = {name: [times[name] for times in seconds] for name in starts}
    what = "start of the process to the first committed row"
    pairs = {
        what: ("bare", "lakeward, archive", size.start),
        f"{what}, without an archive of classes": ("bare", "lakeward", size.like),
        f"{what}, both with the archive": ("bare, archive", "lakeward, archive", size.like),
    }
    for name, (theirs, ours, bound) in pairs.items():
        yield Measured(what=name, theirs=times[theirs], ours=times[ours], bound=bound, is_share=True)


def many_batches(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Small batches of a quarter of an hour each, where changes may come a day late.

    A day is over in the first third; from then on neither what is remembered nor the time of a batch may grow.
    """
    feed = Feed(folder / "landing", rows=10_000)
    way = Elsewhere(partial(mirror.Mirror, mirror.write_settings(folder / "lakeward", folder / "landing", HEAP)))
    say(f"phase 4: {size.batches} batches of {2 * size.keys // 100:,} events")
    way.load(feed.load())
    seen: dict[str, list[float]] = {"time": [], "CPU": [], "entries remembered": []}
    for batch in range(size.batches):
        feed.wait(minutes=15)
        before = way.cpu()
        seen["time"].append(way.apply(feed.change(size.keys // 100)))
        seen["CPU"].append(way.cpu() - before)
        seen["entries remembered"].append(way.remembered())
        if batch % 25 == 24:
            say(f"  batch {batch + 1}: " + ", ".join(f"{k} {median(v[-10:]):,.2f}" for k, v in seen.items()))
    way.pool.shutdown()
    third = size.batches // 3
    for name, values in seen.items():
        yield Measured(
            what=f"the last third of {size.batches} batches, to the middle one: {name}",
            theirs=values[third : 2 * third],
            ours=values[2 * third :],
            bound=size.growth,
            is_share=True,
            unit="" if name == "entries remembered" else " s",
        )


def by_turns(ways: Mapping[str, Way], measure: Callable[[str, Way], float], turn: int = 0) -> Mapping[str, float]:
    """Measure one way after the other; who is first changes with the turn."""
    order = list(ways.items())
    return {name: measure(name, way) for name, way in (order if turn % 2 else order[::-1])}


def words(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {times:.1f} s" for name, times in sorted(seconds.items()))


PHASES: Final[Mapping[int, Callable[[Path, Size, Say], Iterator[Measured]]]] = {
    1: random_changes,
    2: many_files,
    3: first_row,
    4: many_batches,
}
