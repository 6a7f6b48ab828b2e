"""Files that plain Python reads give the rows that Spark reads, to the letter; what it leaves to Spark is told."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from both_readers import ask_both
from line_feeds import IN_THE_GATE, LONG, TYPES, odd_feeds, real_feeds, table_of
from pyspark.sql import SparkSession

from lakeward.adapters.sources.files.local.line_reader import read_lines_of, read_rows, why_not_local
from lakeward.adapters.sources.files.local.rows import Line
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.source_rows import HAS_IMAGE
from lakeward.core.dimension import Match


@pytest.mark.long  # test_small_lines holds the events that are made of them to Spark's
@pytest.mark.spark
def test_lines_are_read_alike(spark: SparkSession, tmp_path: Path) -> None:
    """One job of Spark reads them all."""
    odd, real = odd_feeds(tmp_path / "odd", spark), real_feeds(tmp_path / "real", spark)
    feeds = {sort: feed for sort, feed in {**odd, **real}.items() if LONG or sort in IN_THE_GATE}
    for sort, answer in zip(feeds, ask_both(spark, list(feeds.values())), strict=True):
        assert not answer.differences(), (sort, *answer.differences()[:5])
        assert len(answer.local) > 2 * len(answer.left), (sort, sorted(set(answer.left)))
        assert sort in odd or not answer.left, (sort, answer.left)


def lines_of(folder: Path, name: str, data: bytes) -> list[tuple[int, str]]:
    (folder / name).write_bytes(data)
    table = table_of(folder, None, "shop.item", TYPES, {"format": "debezium", "folder": ""})  # type: ignore[arg-type]
    return [(line.number, line.text) for line in read_lines_of(table, [name])]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [(1, "")]),
        (b"a\r\n\nb", [(1, "a\r"), (2, ""), (3, "b")]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\xef\xbb\xbf\xef\xbb\xbf{}\n", [(1, "\ufeff{}")]),
        ("a\u2028b\x0bc".encode(), [(1, "a\u2028b\x0bc")]),
    ],
)
def test_lines_end_where_spark_ends_them(tmp_path: Path, data: bytes, lines: list[tuple[int, str]]) -> None:
    assert lines_of(tmp_path, "a.json", data) == lines
    packed = gzip.compress(data[:1]) + gzip.compress(data[1:])
    assert lines_of(tmp_path, "a.json.gz", packed) == lines


@pytest.mark.parametrize(("name", "data"), [("a.json", b"\xff\n"), ("a.json.gz", gzip.compress(b"{}")[:-9])])
def test_a_file_that_is_not_as_its_name_says_is_left_to_spark(tmp_path: Path, name: str, data: bytes) -> None:
    with pytest.raises(SparkNeeded):
        lines_of(tmp_path, name, data)


@pytest.mark.parametrize(
    ("name", "types", "said"),
    [
        ("a.csv", TYPES, {"format": "csv"}),
        ("a.json.zst", TYPES, {"format": "json"}),
        ("a.json.GZ", TYPES, {"format": "json"}),
        ("dt=1/a.json", {**TYPES, "dt": "int"}, {"format": "json", "path_columns": ["dt"]}),
        ("a.json", {**TYPES, "list": "list<date>"}, {"format": "json"}),
        ("a.json", TYPES, {"format": "debezium", "unavailable_value": "true"}),
    ],
)
def test_what_settings_leave_to_spark_is_said(
    tmp_path: Path, name: str, types: Mapping[str, str], said: Mapping[str, Any]
) -> None:
    table = table_of(tmp_path, None, "shop.item", types, said)  # type: ignore[arg-type]
    assert why_not_local(table, [name])


def test_a_message_of_dms_has_an_image_where_each_column_is_told(tmp_path: Path) -> None:
    """A row that is gone tells it by its own cells, too."""
    whole = {"id": 1, "note": None, "size": 0.5}
    told: list[tuple[str, Any, Any]] = [
        *[("update", whole, whole), ("update", whole, {"id": 1}), ("update", whole, None)],
        *[("delete", whole, None), ("delete", {"id": 1}, whole), ("delete", {"id": 1}, None)],
    ]
    lines = [
        json.dumps({"data": data, "metadata": {"operation": said}, "before-image": image})
        for said, data, image in told
    ]
    types = {"id": "int", "note": "string", "size": "double"}
    table = table_of(tmp_path, None, "shop.item", types, {"format": "dms-json"}, key=[], match=Match.IMAGE)  # type: ignore[arg-type]
    rows = read_rows(table, [Line("a.json", number, line) for number, line in enumerate(lines, 1)], {})
    assert rows[HAS_IMAGE] == [True, False, False, True, True, False]
