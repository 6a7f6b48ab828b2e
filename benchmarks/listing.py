"""Finding 10 new files in a folder of 1,000,000: everything listed, against the files from the mark on.

The bucket is simulated: names in order, a page of 1,000 a request, start-after. Its answers cost
nothing here, so that what is timed is lakeward's own work; a request of a real one takes some 50 ms.

python benchmarks/listing.py [--files N] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.dms.paths.file_names import PLACES
from lakeward.adapters.sources.dms.source import DmsSource
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.ports import Stored
from lakeward.core.schema import Column, Schema, Type

PAGE = 1000
NEW = 10
SECONDS_A_REQUEST = 0.05

TABLE = TableName("shop", "orders")
DIMENSION = Dimension(name=TABLE, schema=Schema((Column("id", Type("int")),)), key=("id",))


@dataclass
class Bucket:
    """Names in order; `requests` counts the pages that were asked for."""

    names: list[str]
    requests: int = 0

    def resolve(self, folder: str) -> str | None:
        return folder

    def folders(self, _folder: str) -> Sequence[str]:
        return []

    def stat(self, _path: str) -> Stored | None:
        return None

    def open(self, path: str) -> BinaryIO:
        raise FileNotFoundError(path)

    def move(self, path: str, _target: str) -> None:
        raise FileNotFoundError(path)

    def list(self, folder: str, start: str | None) -> Iterator[Stored]:
        """Return what does not sort before `start`, page by page."""
        first = 0 if start is None else bisect_left(self.names, start)
        for page in range(first, len(self.names) + 1, PAGE):
            self.requests += 1
            for name in self.names[page : page + PAGE]:
                yield Stored(name, 1000, 1, "tag")


@dataclass(frozen=True)
class Listed:
    """What finding the new files took: requests, seconds of CPU, and both with the time of requests."""

    requests: int
    seconds: float
    with_requests: float
    found: int


def names_of(files: int) -> list[str]:
    """Return the names of a file of changes a minute."""
    first = datetime(2020, 1, 1, tzinfo=UTC)
    return [f"{first + timedelta(minutes=number):%Y%m%d-%H%M%S}000.csv" for number in range(files)]


def measure(files: int) -> dict[str, Listed]:
    """Find what is new both ways; raises AssertionError where they do not find the same."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / DIMENSION.name.schema / DIMENSION.name.table).mkdir(parents=True)
        bucket = Bucket(names_of(files + NEW))
        source = DmsSource(DmsOptions(path="."), Folder(Path(folder), PLACES, store=bucket), _no_spark)
        selection = source.select_objects(DIMENSION, ObjectHistory())
        applied = (*selection.objects, *selection.remaining)[:files]
        seen = {item.name: item for item in applied}
        past = ObjectHistory(applied=seen, object_watermark=applied[-1].order, last_applied=applied[-1].name)
        whole = _timed(source, bucket, past)
        part = _timed(
            source,
            bucket,
            ObjectHistory(
                applied=seen,
                object_watermark=past.object_watermark,
                last_applied=past.last_applied,
                start=past.last_applied,
            ),
        )
    assert whole[1] == part[1]
    assert len(whole[1]) == NEW
    return {"everything": whole[0], "from the mark on": part[0]}


def _timed(source: DmsSource, bucket: Bucket, past: ObjectHistory) -> tuple[Listed, tuple[SourceObject, ...]]:
    bucket.requests = 0
    began = time.process_time()
    selection: ObjectSelection = source.select_objects(DIMENSION, past)
    seconds = time.process_time() - began
    spent = seconds + SECONDS_A_REQUEST * bucket.requests
    return Listed(bucket.requests, seconds, spent, len(selection.objects)), selection.objects


def _no_spark() -> object:
    raise AssertionError("listing starts no Spark")


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    measured = measure(asked.files)
    whole, part = measured.values()
    ratios = {
        "requests": whole.requests / part.requests,
        "seconds": whole.seconds / part.seconds,
        "with_requests": whole.with_requests / part.with_requests,
    }
    if asked.json:
        document = {"files": asked.files, "ratios": ratios, **{k: asdict(v) for k, v in measured.items()}}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return 0
    for name, found in measured.items():
        sys.stdout.write(
            f"{name}: {found.requests:,} requests, {found.seconds:.2f} s of CPU, "
            f"{found.with_requests:.2f} s with requests of {SECONDS_A_REQUEST * 1000:.0f} ms\n"
        )
    sys.stdout.write(", ".join(f"{name} {ratio:.0f} x" for name, ratio in ratios.items()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
