"""Each table format in each write mode: changes into large tables, and how fast these are read afterwards.

The naive job is that of the format's published samples: Iceberg's and Delta's `MERGE INTO`, Hudi's upsert with its
payload for files of DMS (hudi.apache.org/blog/2020/01/20/change-capture-using-aws).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Final

import mirror
from feed import KEY, OP, TABLE, TIME, Feed
from gate import Way, check_equal
from naive import Naive, checksum
from phases import UNCOUNTED, Measured, Say, Size, by_turns, words
from processes import HEAP, Elsewhere
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.delta.session import SETTINGS as DELTA
from lakeward.adapters.formats.hudi.session import SETTINGS as HUDI
from lakeward.adapters.spark.session.compatibility import line
from lakeward.adapters.spark.session.spark_session import Sessions
from lakeward.core.operations.maintain import maintain
from lakeward.core.ports import MaintenancePolicy

MODES: Final = ("merge-on-read", "copy-on-write")
KINDS: Final = {"4.1": ("iceberg", "delta"), "3.5": ("hudi",)}
"""The formats that are measured on a line of Spark."""

BATCHES: Final = 30
READS: Final = 3
COMPACTED: Final = MaintenancePolicy(deleted=1e-6, small=2)


def formats(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Changes of random keys into large tables of each format, then how fast the smaller are read once worn."""
    for kind in KINDS[line()]:
        for mode, rows in product(MODES, size.changes):
            say(f"phase 9: {kind}, {mode}, a table of {rows:,} rows")
            is_worn = rows == min(size.changes)
            yield from _measured(folder / f"{kind} {mode} {rows}", kind, mode, size, rows, say, is_worn=is_worn)


def ways_of(folder: Path, kind: str, mode: str) -> Mapping[str, Worn]:
    """Start both ways to keep a table of a format, each in a process of its own."""
    landing = folder / "landing"
    settings = mirror.write_settings(folder / "lakeward", landing, HEAP, "ordered", kind=kind, write_mode=mode)
    return {
        "naive": Worn(partial(start, folder / "naive", kind, mode)),
        "lakeward": Worn(partial(Kept, settings, kind)),
    }


def _measured(
    folder: Path, kind: str, mode: str, size: Size, rows: int, say: Say, *, is_worn: bool
) -> Iterator[Measured]:
    feed, what, ways = Feed(folder / "landing", rows), f"{kind}, {mode}", ways_of(folder, kind, mode)
    try:
        load = feed.load()
        say(f"  loaded: {words(by_turns(ways, lambda _, way: way.load(load)))}")
        seconds = []
        for pair in range(size.pairs + 1):
            changes = feed.change(size.keys, size.files)
            times = by_turns(ways, lambda _, way, c=changes: way.apply(c), turn=pair)
            say(f"  {size.files} files: {words(times)}{'' if pair else UNCOUNTED}")
            seconds += [times] if pair else []
        check_equal(ways)
        yield Measured(
            what=f"{what}: {size.keys:,} keys into {rows:,} rows, {size.files} files",
            theirs=[times["naive"] for times in seconds],
            ours=[times["lakeward"] for times in seconds],
        )
        if is_worn:
            yield _worn(ways["lakeward"], feed, size, f"{what}, {rows:,} rows", say)
    finally:
        for way in ways.values():
            way.pool.shutdown()


def _worn(ours: Worn, feed: Feed, size: Size, what: str, say: Say) -> Measured:
    for _ in range(BATCHES - size.pairs - 1):
        ours.apply(feed.change(size.keys))
    before, counted = ours.read(), ours.checksum()
    compacted = ours.compact()
    after = ours.read()
    if ours.checksum() != counted:
        raise AssertionError(f"{what}: compaction changed rows")
    say(f"  read: {before:.1f} s after {BATCHES} batches, {after:.1f} s once compacted, in {compacted:.1f} s")
    return Measured(
        what=f"{what}: reading it after {BATCHES} batches, to reading it compacted",
        theirs=[after],
        ours=[before],
        is_share=True,
    )


class Kept(mirror.Mirror):
    """The table as lakeward keeps it, in any format."""

    def __init__(self, settings: Path, kind: str) -> None:
        super().__init__(settings)
        self.kind, self.lake = kind, settings.parent / "lake"

    def checksum(self) -> tuple[int, int]:
        """Return the number of rows, and a number that any other content would change."""
        if self.kind == "iceberg":
            return super().checksum()
        path = str(self.lake / TABLE.schema / TABLE.table)
        return checksum(self.container.spark()().read.format(self.kind).load(path))

    def read(self) -> float:
        """Return the seconds that reading every row takes: the median of some reads."""
        return median(_timed(self.checksum) for _ in range(READS))

    def compact(self) -> float:
        """Write the table anew where it is worn, as `lakeward maintain` does; return the seconds it took."""
        return _timed(lambda: maintain(self.container.job(table=TABLE), COMPACTED))


class Worn(Elsewhere):
    """That table, in another process."""

    def read(self) -> float:
        return float(self._ask("read"))

    def compact(self) -> float:
        return float(self._ask("compact"))


class NaiveDelta(Naive):
    """The table as a job of plain Spark SQL keeps it, in a folder without a catalog."""

    def settings(self) -> Mapping[str, str]:
        return {}

    @property
    def name(self) -> str:
        return f"delta.`{self.folder / TABLE.table}`"

    def create(self, rows: DataFrame) -> None:
        vectors = str(self.mode == "merge-on-read").lower()
        rows.write.format("delta").option("delta.enableDeletionVectors", vectors).save(
            str(self.folder / TABLE.table)
        )


class NaiveHudi(Naive):
    """The table as Hudi's own sample for DMS keeps it; it has the operation as a column."""

    def settings(self) -> Mapping[str, str]:
        return {}

    def create(self, rows: DataFrame) -> None:
        self._write(rows.selectExpr("'I' AS Op", f"timestamp'2026-01-01' AS {TIME}", "*"), "bulk_insert")

    def merge(self, file: Path) -> None:
        self._write(self.changes(file), "upsert")

    def _write(self, rows: DataFrame, operation: str) -> None:
        options = {
            "hoodie.table.name": TABLE.table,
            "hoodie.datasource.write.table.type": self.mode.replace("-", "_").upper(),
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.recordkey.field": KEY,
            "hoodie.datasource.write.precombine.field": TIME,
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.AWSDmsAvroPayload",
        }
        named = rows.withColumnRenamed(OP, "Op")
        named.write.format("hudi").options(**options).mode("append").save(str(self.folder / TABLE.table))

    def checksum(self) -> tuple[int, int]:
        return checksum(self.spark.read.format("hudi").load(str(self.folder / TABLE.table)))


def start(folder: Path, kind: str, mode: str) -> Way:
    """Start Spark with the jars and the settings that lakeward starts it with, and HEAP."""
    of: Mapping[str, tuple[Callable[..., Naive], set[str], Mapping[str, str]]] = {
        "iceberg": (Naive, {"iceberg", "sqlite"}, {}),
        "delta": (NaiveDelta, {"delta"}, DELTA),
        "hudi": (NaiveHudi, {"hudi"}, HUDI),
    }
    make, jars, settings = of[kind]
    folder.mkdir(parents=True, exist_ok=True)
    session: SparkSession = Sessions(jars, {**settings, **HEAP}, folder / "spark.log")()
    return make(session, folder, mode)


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
