"""Whatever order rows come in, and however they are written, the newest row of each key stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from feed_reader import read_feed
from plain_feeds import FORMATS, PlainFeed, draw, moment, row_of, write
from pyspark.sql import SparkSession

from lakeward.core.errors import LakewardError, SourceError

KEYS = 150
"""Each key is a history of its own: one job reads them all."""


def landing(folder: Path) -> Path:
    """Return the folder of the table."""
    made = folder / "shop" / "item"
    made.mkdir(parents=True)
    return made


def rows_of(feed: PlainFeed) -> Mapping[int, dict[str, Any]]:
    return {key: row_of(line) for key, line in feed.final.items()}


@pytest.mark.parametrize("format_", FORMATS)
def test_the_table_has_the_newest_row_of_each_key(
    engine: SparkSession | None, format_: str, tmp_path: Path
) -> None:
    feed = draw(2, format_, KEYS)
    write(feed, landing(tmp_path))
    found = read_feed(engine, tmp_path, "shop.item", ["id"], feed.columns, **feed.options)
    assert found.rejects == []
    times = feed.columns["rev"] == "timestamp"
    rows = {int(str(key[0])): dict(cells) for key, cells in found.rows.items()}
    for cells in rows.values() if times else ():
        cells["rev"] = cells["rev"].astimezone(UTC)  # type: ignore[attr-defined]
    wanted = {
        key: {**row, "rev": moment(row["rev"]) if times else row["rev"]} for key, row in rows_of(feed).items()
    }
    assert rows == wanted


def test_other_words_give_other_rows(engine: SparkSession | None, tmp_path: Path) -> None:
    """The law can fail: where a delete is called otherwise, rows are left that should be gone."""
    feed = draw(2, "json", KEYS)
    write(feed, landing(tmp_path))
    wrong = {**feed.options, "operation": {"column": "what", "delete": ["never"]}}
    found = read_feed(engine, tmp_path, "shop.item", ["id"], feed.columns, **wrong)
    assert {int(str(key[0])) for key in found.rows} > rows_of(feed).keys()


TYPES = {"id": "int", "at": "timestamp", "day": "date", "due": "date", "data": "binary", "raw": "binary"}
"""`due` and `raw` have formats."""


@pytest.mark.spark
def test_a_value_is_read_from_json_as_it_is_from_csv(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        (1, "2026-01-01 00:00:00", "2026-01-31", "20260131", "00ff", "AP8="),
        (2, "2026-01-01 00:00:00", 2026, "20260131", "0xABCDEF", None),
        (3, "2026-01-01 00:00:00", None, "2026-01-31", None, None),
        (4, None, None, None, "AP8=", None),
    ]
    files = {
        "csv": [",".join(TYPES), *(",".join("" if cell is None else str(cell) for cell in row) for row in rows)],
        "json": [json.dumps(dict(zip(TYPES, row, strict=True))) for row in rows],
    }
    place = landing(tmp_path)
    for format_, lines in files.items():
        (place / f"1.{format_}").write_text("\n".join(lines) + "\n", "utf-8")
    patterns = {"due": "yyyyMMdd", "raw": "base64"}
    found = [
        read_feed(
            spark,
            tmp_path,
            "shop.item",
            ["id"],
            TYPES,
            patterns=patterns,
            source_zone="America/New_York",
            names=rf".*\.{format_}",
        )
        for format_ in files
    ]
    (csv_rows, csv_rejects), (json_rows, json_rejects) = ((read.rows, read.rejects) for read in found)
    assert (json_rows, json_rejects) == (csv_rows, csv_rejects)
    assert [json_rows.keys(), [reason for reason, _ in json_rejects]] == [{(1,)}, ["cast"] * 3]


@pytest.mark.spark
@pytest.mark.parametrize("coding", ["utf-16", pytest.param("utf-16-be", marks=pytest.mark.long)])
def test_lines_of_json_that_are_no_utf_8_are_named_so(spark: SparkSession, tmp_path: Path, coding: str) -> None:
    (landing(tmp_path) / "1.json").write_bytes('{"id": 1}\n{"id": 2}\n'.encode(coding))
    with pytest.raises(SourceError, match=r"1\.json is no UTF-8") as refused:
        read_feed(spark, tmp_path, "shop.item", ["id"], {"id": "int"})
    assert "iconv" in str(refused.value.todo)


TOLD = {"column": "_cdc.op", "delete": ["D"]}


@pytest.mark.spark
def test_a_path_names_the_operation_the_order_and_the_time(spark: SparkSession, tmp_path: Path) -> None:
    """Fields of a struct are found in JSON and in Parquet; the newest row stands, and a delete is one."""
    place = landing(tmp_path)
    rows = [(1, "U", 3), (1, "D", 5), (2, "D", 2), (2, "U", 4), (3, "U", 1)]
    told = [
        {"id": key, "_cdc": {"op": word, "at": datetime(2026, 11, hour, tzinfo=UTC)}} for key, word, hour in rows
    ]
    lines = [json.dumps(row, default=str) for row in told]
    (place / "1.json").write_text("\n".join(lines[::2]), "utf-8")
    pq.write_table(pa.Table.from_pylist(told[1::2]), place / "2.parquet")
    columns = {"id": "bigint", "_cdc": "struct<op: string, at: timestamp>"}
    found = read_feed(
        spark, tmp_path, "shop.item", ["id"], columns, operation=TOLD, order_by="_cdc.at", time="_cdc.at"
    )
    assert (found.rejects, sorted(found.rows)) == ([], [(2,), (3,)])
    assert {(event.position.sequence, event.time) for event in found.events} == {
        (moment * 1_000_000, moment * 1_000_000) for moment in (int(row["_cdc"]["at"].timestamp()) for row in told)
    }


@pytest.mark.spark
def test_a_row_that_has_an_object_where_its_operation_should_be_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A key of the whole name comes before the path; what neither tells is no word."""
    lines = [
        {"id": 1, "_cdc": {"op": "U"}},
        {"id": 2, "_cdc": {"op": {"code": "D"}}},
        {"id": 3, "_cdc": {"op": ["D"]}},
        {"id": 4, "_cdc": {"op": "U"}, "_cdc.op": "D"},
        {"id": 5, "_cdc": {"op": None}},
        {"id": 6, "_cdc": "D"},
        {"id": 7},
        {"id": 8, "_cdc": {"op": 1}},
    ]
    (landing(tmp_path) / "1.json").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    found = read_feed(spark, tmp_path, "shop.item", ["id"], {"id": "int"}, operation=TOLD)
    assert sorted(found.rows) == [(1,), (8,)]
    assert [reason for reason, _ in found.rejects] == ["operation"] * 5


PLAIN = {"id": "int", "at": "timestamp"}
ROW = '{"id": 1, "op": "D", "at": "2026-11-01"}'


@pytest.mark.spark
@pytest.mark.parametrize(
    ("lines", "settings", "said"),
    [
        ('{"id": 1, "_cdc": {"op": "D"}}', {"operation": {"column": "_cdc"}}, r"'_cdc'.*operation.*is an object"),
        ('{"id": 1}', {"operation": {"column": "_op"}}, r"no row of 1\.json has '_op', which `operation`"),
        (ROW, {"operation": {"column": "op.code"}}, r"no row of 1\.json has 'op\.code'"),
        ('{"id": 1}\n{"id": 2}\nno JSON', {"order_by": "at"}, r"no row of 1\.json has 'at', which `order_by`"),
        ('{"id": 1, "at": {"ms": 1}}', {"time": "at"}, r"'at', which `time` names, is an object"),
        (ROW, {"operation": {"column": "op"}, "order_by": "at.ms"}, "`order_by` names 'at.ms'"),
    ],
)
def test_a_file_that_has_not_what_the_settings_name_stops_the_table(
    spark: SparkSession, tmp_path: Path, lines: str, settings: Mapping[str, Any], said: str
) -> None:
    (landing(tmp_path) / "1.json").write_text(lines, "utf-8")
    with pytest.raises(LakewardError, match=said):
        read_feed(spark, tmp_path, "shop.item", ["id"], PLAIN, **settings)


@pytest.mark.parametrize(("column", "said"), [("_op", "no row of"), ("_cdc", "cannot be `operation`")])
def test_a_footer_that_has_not_what_the_settings_name_stops_the_table(
    engine: SparkSession | None, tmp_path: Path, column: str, said: str
) -> None:
    pq.write_table(pa.Table.from_pylist([{"id": 1, "_cdc": {"op": "D"}}]), landing(tmp_path) / "1.parquet")
    with pytest.raises(LakewardError, match=said):
        read_feed(engine, tmp_path, "shop.item", ["id"], {"id": "bigint"}, operation={"column": column})


@pytest.mark.spark
def test_csv_has_no_fields_in_a_column(spark: SparkSession, tmp_path: Path) -> None:
    """A column of the whole name is one."""
    file = landing(tmp_path) / "1.csv"
    file.write_text("id,_cdc\n1,D\n", "utf-8")
    with pytest.raises(LakewardError) as refused:
        read_feed(spark, tmp_path, "shop.item", ["id"], {"id": "int"}, operation=TOLD)
    assert "CSV has no fields in a column" in str(refused.value.todo)
    file.write_text("id,_cdc.op\n1,D\n2,U\n", "utf-8")
    assert read_feed(spark, tmp_path, "shop.item", ["id"], {"id": "int"}, operation=TOLD).rows.keys() == {(2,)}
