"""A history: changes into many versions, in order and with some that come late.

Beside it are the mirror of the same changes, and the job of a warehouse: a window over all versions and what came,
which overwrites the table (docs/explanation/why-not-window-functions.md). Both histories must have the same
versions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from feed import KEY, OP, TABLE, TIME, TYPES, Feed
from formats import KINDS, Kept
from gate import WrongRows
from mirror import write_settings
from phases import UNCOUNTED, Measured, Say, Size, by_turns, words
from processes import HEAP, Elsewhere
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.delta.session import SETTINGS as DELTA
from lakeward.adapters.formats.hudi.session import SETTINGS as HUDI
from lakeward.adapters.spark.session.compatibility import line
from lakeward.adapters.spark.session.spark_session import Sessions

LATE: Final = 0.05
WINDOW, HISTORY, MIRROR = "window job", "lakeward, history", "lakeward, mirror"
SHOWN: Final = (*TYPES, "valid_from", "valid_to")


def histories(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Changes of random keys into the history of each format."""
    for kind in KINDS[line()]:
        say(f"phase 10: {kind}, {size.versions[kind]:,} versions")
        yield from _measured(folder / kind, kind, size, say)


def _measured(folder: Path, kind: str, size: Size, say: Say) -> Iterator[Measured]:
    feed = Feed(folder / "landing", size.versions[kind])
    ours = {
        name: write_settings(folder / name, folder / "landing", HEAP, kind=kind, mode=mode)
        for name, mode in ((HISTORY, "history"), (MIRROR, "mirror"))
    }
    ways: Mapping[str, Elsewhere] = {
        WINDOW: Elsewhere(partial(start, folder / WINDOW, kind)),
        HISTORY: Elsewhere(partial(Versions, ours[HISTORY], kind)),
        MIRROR: Elsewhere(partial(Kept, ours[MIRROR], kind)),
    }
    try:
        load = feed.load()
        say(f"  loaded: {words(by_turns(ways, lambda _, way: way.load(load)))}")
        in_order: list[Mapping[str, float]] = []
        late: list[Mapping[str, float]] = []
        for pair in range(size.pairs + 1):
            changes = feed.change(size.keys // 2)
            in_order.append(by_turns(ways, lambda _, way, c=changes: way.apply(c), turn=pair))
            changes = feed.change_but(size.keys // 2, LATE)
            by_turns(ways, lambda _, way, c=changes: way.apply(c), turn=pair)
            changes = feed.change(size.keys // 2)
            late.append(by_turns(ways, lambda _, way, c=changes: way.apply(c), turn=pair))
            say(f"  in order: {words(in_order[-1])}{'' if pair else UNCOUNTED}")
            say(f"  some late: {words(late[-1])}{'' if pair else UNCOUNTED}")
        _check(ways)
    finally:
        for way in ways.values():
            way.pool.shutdown()
    for what, seconds in (("in order", in_order[1:]), (f"{LATE:.0%} of them late", late[1:])):
        times = {name: [selection[name] for selection in seconds] for name in ways}
        about = f"{kind}: {size.keys:,} changes into {size.versions[kind]:,} versions, {what}"
        window = times[WINDOW]
        yield Measured(what=f"{about}, to a window job", theirs=window, ours=times[HISTORY], bound=size.window)
        yield Measured(
            what=f"{about}, to a mirror",
            theirs=times[MIRROR],
            ours=times[HISTORY],
            bound=size.history,
            is_share=True,
        )


def _check(ways: Mapping[str, Elsewhere]) -> None:
    """Compare the versions of both histories; raises WrongRows where they differ."""
    found = {name: ways[name].checksum() for name in (WINDOW, HISTORY)}
    if len(set(found.values())) > 1:
        raise WrongRows(f"the histories differ, as (versions, checksum): {found}")


def _checksum(versions: DataFrame) -> tuple[int, int]:
    hashed = f"CAST(xxhash64({', '.join(SHOWN)}) AS decimal(38,0))"
    count, total = versions.selectExpr("count(*)", f"sum({hashed})").collect()[0]
    return count, int(total)


class Versions(Kept):
    """The history as lakeward keeps it."""

    def checksum(self) -> tuple[int, int]:
        """Return the number of versions, and a number that any other content would change."""
        spark = self.container.spark()()
        if self.kind == "iceberg":
            return _checksum(spark.table(f"lake.{TABLE.schema}.{TABLE.table}"))
        return _checksum(spark.read.format(self.kind).load(str(self.lake / TABLE.schema / TABLE.table)))


class WindowJob:
    """The history as a job of windows keeps it: all versions are read, and written anew, with each file.

    It is a table of Parquet files in two folders by turns, which no format could write faster. What is deleted
    stays as a row that says so.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.batch = spark, folder, 0

    def load(self, files: Sequence[Path]) -> float:
        """Write the full load as the first versions; return the seconds it took."""
        began = time.perf_counter()
        rows = self.spark.read.parquet(*map(str, files))
        self._write(rows.selectExpr(*TYPES, f"CAST({TIME} AS timestamp) AS valid_from", "false AS is_gone"))
        return time.perf_counter() - began

    def apply(self, files: Sequence[Path]) -> float:
        """Splice one file after another in; return the seconds it took."""
        began = time.perf_counter()
        for file in files:
            types = {OP: "string", TIME: "timestamp", **TYPES}
            schema = ", ".join(f"{name} {type_}" for name, type_ in types.items())
            changes = self.spark.read.csv(str(file), schema, nullValue="NULL", escape='"')
            changed = changes.selectExpr(*TYPES, f"{TIME} AS valid_from", f"{OP} = 'D' AS is_gone")
            self._write(self._table().drop("valid_to").unionByName(changed))
        return time.perf_counter() - began

    def checksum(self) -> tuple[int, int]:
        """Return the number of versions, and a number that any other content would change."""
        return _checksum(self._table().where("NOT is_gone"))

    def _table(self) -> DataFrame:
        return self.spark.read.parquet(str(self.folder / f"{TABLE.table}{self.batch % 2}"))

    def _write(self, states: DataFrame) -> None:
        ends = f"lead(valid_from) OVER (PARTITION BY {KEY} ORDER BY valid_from) AS valid_to"
        self.batch += 1
        whole = states.selectExpr("*", ends)
        whole.write.mode("overwrite").parquet(str(self.folder / f"{TABLE.table}{self.batch % 2}"))


def start(folder: Path, kind: str) -> WindowJob:
    """Start Spark with the jars and the settings that lakeward starts it with, and HEAP."""
    jars, settings = {
        "iceberg": ({"iceberg", "sqlite"}, {}),
        "delta": ({"delta"}, DELTA),
        "hudi": ({"hudi"}, HUDI),
    }[kind]
    folder.mkdir(parents=True, exist_ok=True)
    session: SparkSession = Sessions(jars, {**settings, **HEAP}, folder / "spark.log")()
    return WindowJob(session, folder)
