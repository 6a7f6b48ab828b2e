"""Whatever order rows come in, and however they are written, the newest row of each key stands."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from fed import fed
from plain_feeds import FORMATS, PlainFeed, draw, moment, reread, row_of, write
from pyspark.sql import SparkSession

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
def test_a_reader_by_the_page_finds_the_newest_rows(format_: str, tmp_path: Path) -> None:
    for seed in range(150):
        folder = tmp_path / str(seed)
        folder.mkdir()
        feed = draw(seed, format_)
        write(feed, folder)
        assert reread(feed, folder) == rows_of(feed), seed


@pytest.mark.parametrize("format_", FORMATS)
def test_a_reader_that_goes_by_arrival_does_not(format_: str, tmp_path: Path) -> None:
    """The law can fail: some history ends otherwise where the order is passed over."""
    feed = draw(1, format_, KEYS)
    write(feed, tmp_path)
    assert reread(feed, tmp_path, by_order=False).keys() != rows_of(feed).keys()


@pytest.mark.spark
@pytest.mark.parametrize("format_", FORMATS)
def test_the_newest_row_of_each_key_stands(spark: SparkSession, format_: str, tmp_path: Path) -> None:
    feed = draw(2, format_, KEYS)
    write(feed, landing(tmp_path))
    found = fed(spark, tmp_path, "shop.item", ["id"], feed.columns, **feed.options)
    assert found.rejects == []
    times = feed.columns["rev"] == "timestamp"
    rows = {int(str(key[0])): dict(cells) for key, cells in found.rows.items()}
    for cells in rows.values() if times else ():
        cells["rev"] = cells["rev"].astimezone(UTC)  # type: ignore[attr-defined]
    wanted = {
        key: {**row, "rev": moment(row["rev"]) if times else row["rev"]} for key, row in rows_of(feed).items()
    }
    assert rows == wanted


@pytest.mark.spark
def test_other_words_give_other_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The law can fail: where a delete is called otherwise, rows are left that should be gone."""
    feed = draw(2, "json", KEYS)
    write(feed, landing(tmp_path))
    wrong = {**feed.options, "operation": {"column": "what", "delete": ["never"]}}
    found = fed(spark, tmp_path, "shop.item", ["id"], feed.columns, **wrong)
    assert {int(str(key[0])) for key in found.rows} > rows_of(feed).keys()
