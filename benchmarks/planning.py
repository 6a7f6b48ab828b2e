"""Catalyst's work in batches that Spark works out, beside what its queries take, and the length of their plans.

python benchmarks/planning.py [--rows N] [--batches N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from feed import Feed
from mirror import Mirror, write_settings
from processes import HEAP

ROWS: Final = 50_000
KEYS: Final = 1_000
WARM: Final = 3
BATCHES: Final = 5


@dataclass(frozen=True, slots=True)
class Query:
    """A query that Spark ran: what asked for it, the characters of its plan, milliseconds, jobs, and stages."""

    what: str
    characters: int
    milliseconds: int
    jobs: int
    stages: int


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """A batch: its seconds, those of CPU, and those of Catalyst's rules, and its queries in order."""

    seconds: float
    cpu: float
    rules: float
    queries: Sequence[Query]

    @property
    def running(self) -> float:
        """The seconds that the queries took."""
        return sum(query.milliseconds for query in self.queries) / 1000


class SparkWork:
    """What the Spark of this process did; its meter of rules counts those of all sessions."""

    def __init__(self, spark: Any) -> None:
        self.context = spark.sparkContext._jsc.sc()
        self.store = spark._jsparkSession.sharedState().statusStore()
        self.meter = getattr(spark._jvm.org.apache.spark.sql.catalyst.rules, "RuleExecutor$")
        self.seen = -1

    def rules(self) -> float:
        """Return the seconds that rules of analysis and optimization took until now."""
        return float(getattr(self.meter, "MODULE$").getCurrentMetrics().time()) / 1e9

    def queries(self) -> Sequence[Query]:
        """Return the queries since the last call, in order; Spark knows the last ten."""
        self.context.listenerBus().waitUntilEmpty()
        every = self.store.executionsList()
        listed = [every.apply(place) for place in range(every.size())]
        new = sorted((one.executionId(), one) for one in listed if one.executionId() > self.seen)
        self.seen = max([self.seen, *(number for number, _ in new)])
        return [_query(one) for _, one in new]


def _query(one: Any) -> Query:
    took = one.completionTime().get().getTime() - one.submissionTime()
    jobs, stages = one.jobs().size(), one.stages().size()
    return Query(one.description().split()[0], len(one.physicalPlanDescription()), took, jobs, stages)


def main() -> None:
    """Measure batches, and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--batches", type=int, default=BATCHES)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder:
        found = measure(Path(folder), asked.rows, asked.batches)
    wall, cpu, rules, running = (median(values) for values in zip(*map(_seconds, found), strict=True))
    sys.stdout.write(
        f"a batch {wall:.2f} s, CPU {cpu:.2f} s; Catalyst's rules {rules:.2f} s; queries {running:.2f} s\n"
    )
    for query in found[-1].queries:
        sys.stdout.write(
            f"  {query.what}: {query.milliseconds / 1000:.2f} s, {query.jobs} jobs, {query.stages} stages, "
            f"plan of {query.characters:,} characters\n"
        )


def _seconds(selection: ObjectSelection) -> tuple[float, float, float, float]:
    return selection.seconds, selection.cpu, selection.rules, selection.running


def measure(folder: Path, rows: int, batches: int) -> Sequence[ObjectSelection]:
    """Change keys of a table of so many rows, batch by batch; return what each took once Java is warm."""
    feed = Feed(folder / "landing", rows)
    way = Mirror(write_settings(folder / "lakeward", folder / "landing", HEAP, small_batch=0))
    way.load(feed.load())
    for _ in range(WARM):
        way.apply(feed.change(KEYS))
    work, found = SparkWork(way.container.spark()()), []
    for _ in range(batches):
        files = feed.change(KEYS)
        work.queries()
        rules, cpu, began = work.rules(), way.cpu(), time.perf_counter()
        way.apply(files)
        seconds = time.perf_counter() - began
        found.append(ObjectSelection(seconds, way.cpu() - cpu, work.rules() - rules, work.queries()))
    way.container.spark().stop()
    return found


if __name__ == "__main__":
    main()
