"""The source `files`, held to the kit: rows that say in columns what they do, and which of two is newer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import landed_feeds
import pyarrow as pa
import pytest
from landed_feeds import Form, Line
from pyspark.sql import SparkSession

from lakeward.adapters.sources import files
from lakeward.core.dimension import Dimension, Snapshots
from lakeward.core.schema import Column, parse_type
from lakeward.plugins.testing import Feed, Item, source_contract
from lakeward.plugins.testing.feeds import Law
from lakeward.plugins.testing.laws.sources import log_restarts, other_tables

pytestmark = pytest.mark.spark

CHANGED = Column("changed", parse_type("timestamp"))
REV = Column("rev", parse_type("bigint"))

OPERATION = {"column": "what", "insert": ["I"], "update": ["U"], "delete": ["D"]}
BY_TIME = {"operation": OPERATION, "order_by": "changed"}
BY_NUMBER = {"operation": OPERATION, "order_by": "rev", "time": "changed"}

TYPES = {
    "id": pa.int64(),
    "a": pa.string(),
    "rev": pa.int64(),
    "changed": pa.timestamp("us", "UTC"),
    "what": pa.string(),
}


def order_of(item: Item) -> int:
    """Return the number that orders a row."""
    return item.position.sequence


def line(item: Item) -> Line:
    """Return a row of a table that is ordered by its time."""
    return {**landed_feeds.own(item), "changed": landed_feeds.written(item), "what": landed_feeds.letter(item)}


def line_with_a_number(item: Item) -> Line:
    """Return a row of a table that is ordered by a number."""
    return {**line(item), "rev": order_of(item)}


def message(item: Item) -> Line:
    """Return a message of Debezium about a change in PostgreSQL, whose transaction has this change alone."""
    image, place = landed_feeds.own(item), order_of(item)
    source = {
        "schema": "shop",
        "table": "orders",
        "ts_us": item.time,
        "lsn": place,
        "sequence": json.dumps([str(place)]),
    }
    operation = {"I": "c", "U": "u", "D": "d"}[landed_feeds.letter(item)]
    images = {"before": image, "after": None} if operation == "d" else {"before": None, "after": image}
    return {"op": operation, "source": source, **images}


CSV = Form(
    name="{}.csv".format,
    lacks="what",
    snapshots=Snapshots(),
    line=line,
    write=lambda lines: landed_feeds.csv(lines, "", lambda text: not text or bool(set(text) & set('",\r\n'))),
    beside={CHANGED: landed_feeds.written},
)
JSON = Form(
    name="20231114-2213{:02}.jsonl".format,
    lacks="what",
    snapshots=Snapshots(),
    line=line_with_a_number,
    write=lambda lines: "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode(),
    beside={REV: lambda item: str(order_of(item)), CHANGED: landed_feeds.written},
)
PARQUET = Form(
    name="part-{:x}.parquet".format,
    lacks="what",
    snapshots=Snapshots(),
    line=lambda item: {**line_with_a_number(item), "changed": landed_feeds.moment(item)},
    write=lambda lines: landed_feeds.parquet(lines, TYPES),
    beside={
        REV: lambda item: str(order_of(item)),
        CHANGED: lambda item: landed_feeds.moment(item).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    },
)
MESSAGES = Form(
    name="{}.jsonl".format,
    has_log=True,
    line=message,
    write=lambda lines: "".join(f"{json.dumps(line)}\n" for line in lines).encode(),
)


def feed(form: Form, options: Mapping[str, Any], spark: SparkSession, folder: Path) -> Feed:
    return landed_feeds.feed(files.build, {**options, "snapshots": "rewritten"}, form, spark, folder)


def of_csv(spark: SparkSession, tmp_path: Path) -> Feed:
    """Files with a header, ordered by numbers in their names; an unquoted field of no text is NULL."""
    return feed(CSV, {**BY_TIME, "names": r"(?P<counter>\d+)\.csv"}, spark, tmp_path)


def of_json(spark: SparkSession, tmp_path: Path) -> Feed:
    """Lines of JSON in files whose names tell their times, and which are moved away when they were applied."""
    names = r"(?P<time>\d{8}-\d{6})\.jsonl"
    return feed(JSON, {**BY_NUMBER, "names": names, "landing": "archived"}, spark, tmp_path)


def of_parquet(spark: SparkSession, tmp_path: Path) -> Feed:
    """Files of Parquet whose names are numbers in hexadecimal, two of which are a batch."""
    names = r"part-(?P<hex>[0-9a-f]+)\.parquet"
    return feed(PARQUET, {**BY_NUMBER, "names": names, "max_files": 2}, spark, tmp_path)


def of_messages(spark: SparkSession, tmp_path: Path) -> Feed:
    """Messages of Debezium, ordered by their places in the log of the database; none is of a full load."""
    options = {"format": "debezium", "names": r"(?P<counter>\d+)\.jsonl"}
    own = landed_feeds.feed(files.build, options, MESSAGES, spark, tmp_path)

    def put_mixed(dimension: Dimension, place: int, items: Sequence[Item], others: Mapping[str, int]) -> None:
        rows = [message(item) for item in items]
        for name, number in others.items():
            schema, _, table = name.partition(".")
            rows += [
                {**row, "source": {**row["source"], "schema": schema, "table": table}}
                for row in map(message, own.items(9, number))
            ]
        landed = tmp_path / "landing" / dimension.name.schema / dimension.name.table / MESSAGES.name(place)
        landed.parent.mkdir(parents=True, exist_ok=True)
        landed.write_bytes(MESSAGES.write(rows))

    return replace(own, put_load=None, put_named=None, put_mixed=put_mixed)


@pytest.mark.parametrize("law", [*log_restarts.LAWS, *other_tables.LAWS])
def test_messages_hold_the_laws_of_logs_and_of_other_tables(law: Law, spark: SparkSession, tmp_path: Path) -> None:
    law(of_messages(spark, tmp_path))


TestCsv = source_contract(of_csv)
TestJson = pytest.mark.long(source_contract(of_json))
TestParquet = pytest.mark.long(source_contract(of_parquet))
TestMessages = pytest.mark.long(source_contract(of_messages))
