"""A soak: `run --follow` applies a thousand small batches, and neither memory nor time may grow with them.

The table is maintained ten times on the way; that is not measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import mirror
import structlog
from feed import TABLE, Feed
from gate import WrongRows
from phases import Measured, Say, Size
from processes import HEAP, Elsewhere

from lakeward.adapters.formats.iceberg.java import Jvm
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.runtime.follower import follow_tables
from lakeward.entrypoints.runtime.pipeline_run import worker_pool
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.settings.configuration import load

ROWS: Final = 10_000
KEYS: Final = 5
MINUTES: Final = 15
"""Between two batches at the source: what is remembered for a day stops to grow after a hundred."""

MEBIBYTE: Final = 2**20


@dataclass
class Soak:
    """Follows a feed that writes the next file whenever nothing is left to do; its clock is moved by that alone."""

    settings: Path
    landing: Path
    batches: int
    every: int
    maintained: int
    now: float = 0.0
    began: float = 0.0
    cpu: float = 0.0
    seen: dict[str, list[float]] = field(default_factory=dict)

    def run(self) -> Mapping[str, list[float]]:
        """Follow until so many batches are applied; return what was measured, batch by batch."""
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))
        self.feed = Feed(self.landing, ROWS)
        self.feed.load()
        self.container = Container(configured=load(self.settings))
        self.stop = Stop(print, clock=lambda: self.now)
        with worker_pool(self.container) as pool:
            (run,) = follow_tables(self.container, [TABLE], mirror.Unobserved(), self.stop, pool, self._idle)
        self.container.spark().stop()
        if run.error is not None:
            raise run.error
        if (run.batches, run.counts.read) != (1 + self.batches, ROWS + 2 * KEYS * self.batches):
            raise WrongRows(f"{run.batches} batches, of {run.counts.read} rows")
        return self.seen

    def _idle(self, seconds: float) -> bool:
        self.now += seconds
        applied = len(self.seen.get("time", ()))
        if self.began:
            self._note("time", time.perf_counter() - self.began)
            self._note("CPU", mirror.cpu() - self.cpu)
            applied += 1
            if applied % self.every == 0:
                self._weigh()
            if applied % self.maintained == 0:
                self._maintain()
        if applied == self.batches:
            self.stop.ask()
            return False
        self.feed.wait(MINUTES)
        self.feed.change(KEYS)
        self.began, self.cpu = time.perf_counter(), mirror.cpu()
        return False

    def _note(self, what: str, value: float) -> None:
        self.seen.setdefault(what, []).append(value)

    def _weigh(self) -> None:
        java: Any = self.container.spark()().sparkContext._jvm
        java.System.gc()
        runtime = java.Runtime.getRuntime()
        self._note("heap of Java", (runtime.totalMemory() - runtime.freeMemory()) / MEBIBYTE)
        resident = {process: _resident(process) for process in (os.getpid(), *mirror.below(os.getpid()))}
        self._note("Python", resident.pop(os.getpid()))
        self._note("Java", max(resident.values()))

    def _maintain(self) -> None:
        """Do what docs/how-to/follow.md tells users to do at times: small files become one, snapshots expire."""
        jvm = Jvm(self.container.spark()())
        actions = jvm.iceberg.spark.actions.SparkActions.get(jvm.spark._jsparkSession)
        actions.rewriteDataFiles(jvm.table("lake", *TABLE)).option("remove-dangling-deletes", "true").execute()
        actions.expireSnapshots(jvm.table("lake", *TABLE)).expireOlderThan(time.time_ns() // 1_000_000).execute()


def _resident(process: int) -> float:
    """Return the memory of a process, in MiB (Linux only)."""
    with suppress(FileNotFoundError, ProcessLookupError):  # Java starts others now and then, for a moment
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE
    return 0.0


class Way(Elsewhere):
    """A soak in a process of its own."""

    def run(self) -> Mapping[str, list[float]]:
        seen: Mapping[str, list[float]] = self._ask("run")
        return seen


def soak(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Small batches, one after the other: the last tenth of them to the second.

    In the first tenth Java is still being warmed up.
    """
    say(f"phase 5: {size.soak:,} batches of {2 * KEYS} events, followed")
    landing = folder / "landing"
    settings = mirror.write_settings(folder / "lakeward", landing, HEAP)
    way = Way(partial(Soak, settings, landing, size.soak, *(max(1, size.soak // part) for part in (100, 10))))
    seen = way.run()
    way.pool.shutdown()
    for name, values in seen.items():
        tenth = len(values) // 10
        tenths = [median(values[at : at + tenth]) for at in range(0, 10 * tenth, tenth)]
        unit = " s" if name in ("time", "CPU") else " MiB"
        say(f"  {name}, by tenths: " + ", ".join(f"{value:,.2f}{unit}" for value in tenths))
        yield Measured(
            what=f"the last tenth of {size.soak:,} followed batches, to the second: {name}",
            theirs=values[tenth : 2 * tenth],
            ours=values[9 * tenth :],
            bound=size.growth,
            is_share=True,
            unit=unit,
        )
