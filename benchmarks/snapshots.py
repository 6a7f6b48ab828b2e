"""A snapshot of a table of PostgreSQL, to what Spark takes to read the same ranges and write them as Parquet."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from feed import KEY, TABLE
from mirror import Mirror, fill_settings
from phases import UNCOUNTED, Measured, Say, Size, by_turns, words
from processes import HEAP, Elsewhere

from lakeward.core.ledger.full_loads import Load
from lakeward.core.ledger.selection import ObjectHistory

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
import servers
from databases import in_a_folder

_RANGES: Final = 4
"""In so many ranges lakeward reads a large table of PostgreSQL."""

_ROWS: Final = """
CREATE SCHEMA shop;
CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer bigint, status text, city text, note text, quantity int,
    price numeric(12,2), discount double precision, is_paid boolean, ordered_on date, shipped_at timestamptz,
    channel text);
INSERT INTO shop.orders SELECT n, n::bigint * 7919 % 1000000, (ARRAY['open', 'paid', 'shipped'])[n % 3 + 1], 'Köln',
    'two words ' || n, n % 100, n % 1000000 / 100.0, n % 100 / 100.0, n % 2 = 0, DATE '2026-01-01' + n % 300,
    CASE WHEN n % 5 > 0 THEN TIMESTAMPTZ '2026-01-01 00:00:00+00' + n * INTERVAL '1 second' END, 'web'
    FROM generate_series(1, {rows}) n;
ANALYZE shop.orders;
"""

_OF_TABLE: Final = 'full_loads = "snapshot"'
_SETTINGS: Final = """
[pipeline]
name = "benchmark"
[source]
kind = "jdbc"
url = "{server.url}"
user = "{server.user}"
password = {{ env = "DB_PASSWORD" }}
"""


class Staging(Mirror):
    """The source `jdbc` alone: a table is read and staged, and nothing of it is applied."""

    def load(self, _files: Sequence[Path] = ()) -> float:
        """Read the whole table; return the seconds it took."""
        source = self.container.source()
        dimension = self.container.configured().dimension(TABLE, source.lateness, source.sequences)
        shutil.rmtree(source.staging.root, ignore_errors=True)
        source.staging.root.mkdir(parents=True)
        began = time.perf_counter()
        selection = source.select_objects(
            dimension, ObjectHistory(load=Load(epoch=1, settles=0), has_no_batch=True)
        )
        seconds = time.perf_counter() - began
        rows = self.container.spark()().read.parquet(f"file://{source.staging.root}/{TABLE.schema}/{TABLE.table}/*")
        return _counted(seconds, rows.count() if selection.objects else 0)


class Bare(Mirror):
    """Spark alone, started with the same settings."""

    def load(self, _files: Sequence[Path] = ()) -> float:
        """Read the whole table in ranges, and write it; return the seconds it took."""
        spark, options = self.container.spark()(), self.container.source().options
        login = {"user": str(options.user), "password": os.environ["DB_PASSWORD"], "fetchsize": "10000"}
        folder, rows = f"{os.environ['BARE']}/rows", int(os.environ["ROWS"])
        began = time.perf_counter()
        found = spark.read.jdbc(options.url, str(TABLE), KEY, 1, rows + 1, _RANGES, properties=login)
        found.write.mode("overwrite").parquet(f"file://{folder}")
        seconds = time.perf_counter() - began
        return _counted(seconds, spark.read.parquet(f"file://{folder}").count())


def _counted(seconds: float, rows: int) -> float:
    """Return the seconds, where all rows were read."""
    if rows != int(os.environ["ROWS"]):
        raise AssertionError(f"{rows:,} rows were read")
    return seconds


def snapshots(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Read a large table of a database that runs beside, whole, again and again."""
    rows = max(size.changes)
    say(f"phase 14: a snapshot of {rows:,} rows of PostgreSQL")
    with in_a_folder(servers.postgresql) as server:
        server.tell(_ROWS.format(rows=rows))
        os.environ |= {"DB_PASSWORD": server.password, "ROWS": str(rows), "BARE": str(folder)}
        settings = fill_settings(folder, _SETTINGS, HEAP, of_table=_OF_TABLE, server=server)
        ways = {"bare": Elsewhere(partial(Bare, settings)), "lakeward": Elsewhere(partial(Staging, settings))}
        seconds: list[Mapping[str, float]] = []
        for pair in range(size.pairs + 1):
            times = by_turns(ways, lambda _, way: way.load(()), turn=pair)
            say(f"  {words(times)}{'' if pair else UNCOUNTED}")
            seconds += [times] if pair else []
        for way in ways.values():
            way.pool.shutdown()
    yield Measured(
        what=f"a snapshot of {rows:,} rows of PostgreSQL, staged, to Spark's own read of as many ranges",
        theirs=[times["bare"] for times in seconds],
        ours=[times["lakeward"] for times in seconds],
        bound=size.snapshot,
    )
