"""Lines of files that plain Python reads, and what it leaves to Spark (test_small_lines compares the events)."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from line_feeds import TYPES, table_of

from lakeward.adapters.sources.files.local.line_reader import read_lines_of, why_not_local
from lakeward.adapters.spark.frames.local_casts import SparkNeeded


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
def test_a_damaged_file_is_left_to_spark(tmp_path: Path, name: str, data: bytes) -> None:
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
def test_settings_that_need_spark_are_named(
    tmp_path: Path, name: str, types: Mapping[str, str], said: Mapping[str, Any]
) -> None:
    table = table_of(tmp_path, None, "shop.item", types, said)  # type: ignore[arg-type]
    assert why_not_local(table, [name])
