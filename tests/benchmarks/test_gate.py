"""The benchmark measures nothing before both ways are shown to be right."""

from pathlib import Path

import pyarrow as pa
import pytest
from feed import KEY, TYPES, Feed, expected_rows
from gate import WrongRows, check_equal, check_small_feed
from mirror import Mirror, write_settings
from naive import Naive
from phases import Measured
from pyspark.sql import SparkSession


class Plain:
    """A way in plain Python, which can be told to go wrong."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.files: list[Path] = []

    def load(self, files: list[Path]) -> float:
        return self.apply(files)

    def apply(self, files: list[Path]) -> float:
        self.files += files
        return 0.0

    def rows(self) -> pa.Table:
        return pa.Table.from_pylist(list(expected_rows(self.feed, self.files).values()))

    def checksum(self) -> tuple[int, int]:
        return self.rows().num_rows, 0


class Loses(Plain):
    def rows(self) -> pa.Table:
        return super().rows().slice(1)


class Doubles(Plain):
    def rows(self) -> pa.Table:
        rows = super().rows()
        return pa.concat_tables([rows, rows.slice(0, 1)])


class Bends(Plain):
    def rows(self) -> pa.Table:
        return pa.Table.from_pylist([{**row, "quantity": 0} for row in super().rows().to_pylist()])


@pytest.mark.spark
def test_both_ways_leave_the_rows_that_plain_python_expects(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "landing", rows=300)
    settings = write_settings(tmp_path / "lakeward", tmp_path / "landing", {})
    ways = {"lakeward": Mirror(settings), "naive": Naive(spark.newSession(), tmp_path / "naive")}
    check_small_feed(ways, feed)
    check_equal(ways)
    assert ways["naive"].rows().column_names == list(TYPES)


def test_a_right_way_passes(tmp_path: Path) -> None:
    feed = Feed(tmp_path, rows=200)
    check_small_feed({"right": Plain(feed)}, feed)


@pytest.mark.parametrize("wrong", [Loses, Doubles, Bends])
def test_a_wrong_way_is_found(wrong: type[Plain], tmp_path: Path) -> None:
    feed = Feed(tmp_path, rows=200)
    with pytest.raises(WrongRows):
        check_small_feed({"right": Plain(feed), "wrong": wrong(feed)}, feed)


def test_tables_that_differ_are_found(tmp_path: Path) -> None:
    feed = Feed(tmp_path, rows=10)
    one, other = Plain(feed), Loses(feed)
    for way in (one, other):
        way.load([])
        way.files = feed.load()
    with pytest.raises(WrongRows, match="differ"):
        check_equal({"one": one, "other": other})


def test_a_ratio_is_held_to_its_bound() -> None:
    faster = Measured(what="faster", theirs=[9.0, 10.0, 99.0], ours=[2.0], bound=3.0)
    assert (faster.ratio, faster.is_met) == (5.0, True)
    slower = Measured(what="start", theirs=[10.0], ours=[14.0], bound=1.3, is_share=True)
    assert (slower.ratio, slower.is_met) == (1.4, False)
    assert Measured(what="recorded", theirs=[1.0], ours=[1.0]).is_met is None


def test_changes_are_of_all_kinds_and_of_as_many_keys_as_asked(tmp_path: Path) -> None:
    feed = Feed(tmp_path, rows=200)
    (file,) = feed.change(100)
    events = feed.written[file]
    assert len(events) == 200
    assert len(set(events[KEY].to_pylist())) == 100
    assert set(events["Op"].to_pylist()) == {"I", "U", "D"}


def test_a_feed_in_part_leaves_out_what_no_update_changes(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "landing", rows=200)
    (load,) = feed.in_part(feed.load(), tmp_path / "in part")
    assert load.is_file()
    (whole,) = feed.change(100)
    (part,) = feed.in_part([whole], tmp_path / "in part")
    assert part.name == whole.name
    columns = ["Op", "committed_at", *TYPES]
    for sent, left_out in zip(whole.read_text().splitlines(), part.read_text().splitlines(), strict=True):
        cells = dict(zip(columns, sent.split(","), strict=False))
        others = dict(zip(columns, left_out.split(","), strict=False))
        wanted = {"customer": "~", "city": "~"} if cells["Op"] == "U" else {}
        assert {name: others[name] for name in ("id", "customer", "status", "city")} == {
            name: wanted.get(name, cells[name]) for name in ("id", "customer", "status", "city")
        }
