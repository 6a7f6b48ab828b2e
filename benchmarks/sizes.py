"""Many tables, and a large file."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import cold
import naive
from feed import TABLE, Feed, expected_rows
from formats import KINDS
from gate import check_equal, check_rows
from mirror import Mirror, write_settings
from phases import Measured, Say, Size
from processes import HEAP, Elsewhere, started
from readers import Read

from lakeward.adapters.spark.session.compatibility import line
from lakeward.core.dimension import TableName

FILES: Final = 10
ROWS: Final = 2_000
CHANGES: Final = 1_000


class Application(Elsewhere):
    """All tables of a pipeline in a process that is not ended in between."""

    def __init__(self, settings: Path) -> None:
        super().__init__(partial(Mirror, settings))

    def run(self) -> float:
        """Apply what waits for all tables; return the seconds it took."""
        return float(self._ask("run"))


def feeds(landing: Path, tables: int) -> dict[TableName, Feed]:
    """Return tables with their full loads written; the first is the one that the naive way keeps."""
    names = [TABLE, *(TableName(TABLE.schema, f"{TABLE.table}_{number}") for number in range(2, tables + 1))]
    found = {name: Feed(landing, ROWS, seed, name) for seed, name in enumerate(names)}
    for feed in found.values():
        feed.load()
    return found


def many_tables(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Ten files of each of many tables, in one application; the naive job does one table of them, scaled up."""
    say(f"phase 6: {size.tables} tables with {FILES} files of {CHANGES:,} rows each")
    landing = folder / "landing"
    tables = feeds(landing, size.tables)
    settings = write_settings(folder / "lakeward", landing, HEAP, "ordered", tables=[*tables])
    ours, theirs = Application(settings), Elsewhere(partial(naive.start, folder / "naive", HEAP))
    loaded = [*tables[TABLE].written]
    ours.run()
    theirs.load(loaded)
    files = {name: [feed.change(CHANGES // 2)[0] for _ in range(FILES)] for name, feed in tables.items()}
    times = ours.run()
    scaled = size.tables * theirs.apply(files[TABLE])
    say(f"  naive, scaled up from one table {scaled:.1f} s, lakeward {times:.1f} s")
    check_rows("naive", theirs, expected_rows(tables[TABLE], [*loaded, *files[TABLE]]))
    for way in (ours, theirs):
        way.pool.shutdown()
    for name, feed in tables.items():
        check_rows(f"lakeward, {name}", Read(settings, name), expected_rows(feed, [*feed.written]))
    yield Measured(
        what=f"{size.tables} tables with {FILES} files of {CHANGES:,} rows each (naive: one table, scaled up)",
        theirs=[scaled],
        ours=[times],
        bound=size.side_by_side,
    )


def big_file(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """One large file of new rows, which Spark does not hold in its heap of 1 GiB."""
    feed = Feed(folder / "landing", ROWS)
    with started(folder, folder / "landing") as ways:
        load = feed.load()
        for way in ways.values():
            way.load(load)
        file = feed.append(size.rows_of_1_gb)
        gigabytes = file.stat().st_size / 1e9
        say(f"phase 7: one file of {gigabytes:.2f} GB")
        times = {name: way.apply([file]) for name, way in ways.items()}
        say("  " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in times.items()))
        check_equal(ways)
    yield Measured(
        what=f"one CSV file of {gigabytes:.2f} GB, {size.rows_of_1_gb:,} new rows",
        theirs=[times["naive"]],
        ours=[times["lakeward"]],
        bound=size.load,
    )


def one_application(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Changes of many tables of each format: one application, to one a table, and to one with a table at a time."""
    for kind in KINDS[line()]:
        say(f"phase 8: {kind}, {size.tables} tables with {CHANGES:,} changes each, one application or many")
        yield from _one_application(folder / kind, kind, size, say)


def _one_application(folder: Path, kind: str, size: Size, say: Say) -> Iterator[Measured]:
    landing = folder / "landing"
    tables = feeds(landing, size.tables)
    few, scale = [*tables][: size.apart], size.tables / size.apart
    arms: Mapping[str, tuple[Sequence[TableName], int | None]] = {
        "one": ([*tables], None),
        "apart": (few, None),
        "in turn": ([*tables], 1),
    }
    settings = {
        arm: write_settings(folder / arm, landing, HEAP, "ordered", tables=those, parallel=parallel, kind=kind)
        for arm, (those, parallel) in arms.items()
    }
    for file in settings.values():
        _run(file)
    seconds: dict[str, list[float]] = {arm: [] for arm in arms}
    for _ in range(max(1, size.pairs - 1)):
        for feed in tables.values():
            feed.change(CHANGES // 2)
        seconds["apart"].append(scale * sum(_run(settings["apart"], [table]) for table in few))
        seconds["one"].append(_run(settings["one"]))
        seconds["in turn"].append(_run(settings["in turn"]))
        say("  " + ", ".join(f"{arm} {times[-1]:.1f} s" for arm, times in seconds.items()))
    for arm, (those, _) in arms.items():
        for name in those:
            expected = expected_rows(tables[name], [*tables[name].written])
            check_rows(f"{arm}, {name}", Read(settings[arm], name, kind), expected)
    what = f"{kind}: {size.tables} tables with {CHANGES:,} changes each, one application"
    yield Measured(
        what=f"{what}, to one a table ({size.apart}, scaled up)",
        theirs=seconds["apart"],
        ours=seconds["one"],
        bound=size.together,
    )
    yield Measured(what=f"{what}, to a table at a time in it", theirs=seconds["in turn"], ours=seconds["one"])


def _run(settings: Path, tables: Sequence[TableName] = ()) -> float:
    """Let `lakeward run` apply what waits, in a process from its start to its end; return the seconds it took."""
    began = time.perf_counter()
    command = [cold.LAKEWARD, "run", "--log", "off", "--config", settings, *map(str, tables)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
