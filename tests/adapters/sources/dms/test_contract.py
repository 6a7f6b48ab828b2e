"""The source `dms`, held to the kit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import landed_feeds
import pyarrow as pa
import pytest
from landed_feeds import Form, Line
from pyspark.sql import SparkSession

from lakeward.adapters.sources import dms
from lakeward.core.events import LOAD_SEQUENCE
from lakeward.plugins.testing import Feed, Item, source_contract

pytestmark = pytest.mark.spark

DMS = {"timestamp_column": "changed"}

TYPES = {"Op": pa.string(), "changed": pa.string(), "id": pa.int64(), "a": pa.string()}


def line(item: Item) -> Line:
    return {"Op": landed_feeds.letter(item), "changed": landed_feeds.written(item), **landed_feeds.own(item)}


def line_with_a_sequence(item: Item) -> Line:
    """Return a change with its place in the source's own order as well; a row of a full load has none."""
    place = item.position.sequence
    return {**line(item), "seq": None if place == LOAD_SEQUENCE else place}


CSV = Form(
    name="20231114-{:09}.csv".format,
    load="LOAD{:08X}.csv".format,
    lacks="Op",
    line=line,
    write=lambda lines: landed_feeds.csv(lines, "NULL", lambda text: bool(set(text) & set('",\r\n'))),
)
SEQUENCES = replace(CSV, line=line_with_a_sequence, has_log=True)
PARQUET = Form(
    name="20231114-{:09}.parquet".format,
    load="LOAD{:08X}.parquet".format,
    line=line,
    write=lambda lines: landed_feeds.parquet(lines, TYPES),
)


def of_csv(spark: SparkSession, tmp_path: Path) -> Feed:
    """Files of changes as DMS writes them, with a header."""
    return landed_feeds.feed(dms.build, DMS, CSV, spark, tmp_path)


def of_sequences(spark: SparkSession, tmp_path: Path) -> Feed:
    """The same, with a column that has the change sequence."""
    return landed_feeds.feed(dms.build, {**DMS, "sequence_column": "seq"}, SEQUENCES, spark, tmp_path)


def of_parquet(spark: SparkSession, tmp_path: Path) -> Feed:
    """Files of changes as DMS writes them where DataFormat is parquet, the commit time as a text; and archived."""
    return landed_feeds.feed(dms.build, {**DMS, "landing": "archived"}, PARQUET, spark, tmp_path)


TestDms = source_contract(of_csv)
TestParquet = pytest.mark.long(source_contract(of_parquet))
TestSequences = pytest.mark.long(source_contract(of_sequences))
