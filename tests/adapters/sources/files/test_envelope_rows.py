"""Messages that Arrow decodes: each row is that which SQL makes of the message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from envelope_feeds import KEY, TYPES, message
from frames import labelled_rows
from line_feeds import table_of
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.sources.files.event_frame import frame_of
from lakeward.adapters.sources.files.file_columns import inspect_file
from lakeward.adapters.sources.files.json_lines.envelope_rows import EnvelopeRows
from lakeward.adapters.sources.files.json_lines.frames import read_lines
from lakeward.adapters.sources.messages.decoded import UNDECODED
from lakeward.adapters.sources.messages.envelopes import IS_DECODED
from lakeward.core.dimension import ORDERED, Lateness, Within
from lakeward.core.ledger.objects import SourceObject

pytestmark = pytest.mark.spark

FILES, MESSAGES = 16, 150
DAY: Final = Within(86_400_000_000)
FEEDS: Final[Mapping[str, tuple[Mapping[str, Any], tuple[str, ...], Lateness]]] = {
    "values": ({"decimals": "string", "times": "microseconds"}, KEY, DAY),
    "records": (
        {"line": "record", "before_images": "whole", "times": "microseconds", "decimals": "string"},
        KEY,
        ORDERED,
    ),
    "no key": ({"places": "arrival", "times": "microseconds", "decimals": "string"}, (), ORDERED),
}


def test_rows_are_those_of_sql(spark: SparkSession, tmp_path: Path) -> None:
    """Most are decoded by Arrow, though one thing is odd in many of them."""
    (found,) = rows_of_feeds(["records"], tmp_path, spark)
    assert found.by_arrow == found.by_sql
    assert len(found.decoded) > FILES * MESSAGES / 2


@pytest.mark.long
@pytest.mark.lines
def test_rows_of_all_feeds_are_those_of_sql(spark: SparkSession, tmp_path: Path) -> None:
    for found in rows_of_feeds([*FEEDS], tmp_path, spark):
        assert found.by_arrow == found.by_sql
        assert len(found.decoded) > FILES * MESSAGES / 2


class Rows(NamedTuple):
    """The rows of a feed as Arrow and as SQL make them, and the lines that Arrow decodes."""

    by_arrow: set[str]
    by_sql: set[str]
    decoded: set[str]


def rows_of_feeds(feeds: Sequence[str], tmp_path: Path, spark: SparkSession) -> Sequence[Rows]:
    """Return the rows of feeds, read in one job."""
    frames = [frame for sort in feeds for frame in frames_of(sort, tmp_path / sort, spark)]
    found: dict[str, set[str]] = {}
    for label, row in reduce(DataFrame.union, frames).collect():
        found.setdefault(label, set()).add(row)
    return [Rows(found[f"arrow {sort}"], found[f"sql {sort}"], found[f"decoded {sort}"]) for sort in feeds]


def frames_of(sort: str, folder: Path, spark: SparkSession) -> Iterator[DataFrame]:
    """Return the rows of a feed as SQL and as Arrow make them, and the lines that Arrow decodes, with labels."""
    said, key, lateness = FEEDS[sort]
    landing, random = folder / "shop" / "item", Random(sort)
    landing.mkdir(parents=True)
    table = table_of(folder, spark, "shop.item", TYPES, {"format": "debezium", **said}, key=key, lateness=lateness)
    files = []
    for order in range(FILES):
        written = landing / f"{order:02}.json"
        lines = [message(random, is_record=sort == "records") for _ in range(MESSAGES)]
        written.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        files.append(inspect_file(table, SourceObject(written.name, order + 1, written.stat().st_size, 1)))
    usual = EnvelopeRows.of(table)
    assert usual is not None
    paths = [table.path_of(file.item.name) for file in files]
    decoded = usual.decoded(read_lines(spark, paths, table.reading)).where(IS_DECODED)
    yield decoded.selectExpr(f"'decoded {sort}' AS label", "concat(_lakeward_name, _lakeward_line) AS row")
    for label, one in (("sql", table), ("arrow", replace(table, are_many=True, has_others=True))):
        yield labelled_rows(frame_of(one, files).drop(UNDECODED), f"{label} {sort}")
