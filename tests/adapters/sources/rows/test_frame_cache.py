"""Frames that are kept while tables read them: how long, and what the second of two tables finds."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import StorageLevel
from pyspark.sql import SparkSession

from lakeward.adapters.sources import dms, files
from lakeward.adapters.sources.rows.frame_cache import FrameCache
from lakeward.adapters.spark.execution.parallelism import BYTES_IN_MEMORY
from lakeward.adapters.spark.shaping.shaper import SparkShaper
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.ports import Batch
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.shaping.column_rules import Trim
from lakeward.core.shaping.shaped_source import ShapedSource, TableRules
from lakeward.plugins import Runtime

NAME = TableName("shop", "item")
ALONE = Dimension(
    name=NAME, schema=Schema((Column("id", Type("int")), Column("a", Type("string")))), key=("id",), keeps_text=True
)
MIRROR = replace(ALONE, readers=2)
HISTORY = replace(MIRROR, name=TableName("shop", "item_history"), source_name=NAME)
FIRST, SECOND = SourceObject("f1", 1, 10, 5), SourceObject("f2", 2, 10, 5)


@dataclass
class Frame:
    is_kept: bool = False
    is_in_memory: bool = False

    def where(self, _condition: str) -> Frame:
        return self

    def persist(self, level: StorageLevel) -> Frame:
        self.is_kept, self.is_in_memory = True, level.useMemory
        return self

    def unpersist(self) -> None:
        self.is_kept = False


class Source:
    def __init__(self) -> None:
        self.kept = FrameCache()

    def read(self, dimension: Dimension, *objects: SourceObject) -> tuple[Frame, Callable[[], None]]:
        frame: Any = Frame()
        _, done = self.kept.cache(frame, dimension, objects)
        assert frame.is_kept
        return frame, done


def test_a_frame_of_one_table_is_released_when_the_table_is_done() -> None:
    frame, done = Source().read(ALONE, FIRST)
    done()
    assert not frame.is_kept
    done()


def test_rows_of_large_files_are_kept_on_disk_alone() -> None:
    large = replace(FIRST, size=BYTES_IN_MEMORY)
    frames = [Source().read(ALONE, *objects)[0] for objects in ((FIRST,), (large,), (FIRST, large))]
    assert [frame.is_in_memory for frame in frames] == [True, True, False]


def test_frames_of_the_same_files_are_cached_until_both_tables_release_them() -> None:
    source = Source()
    mirror, mirror_is_done = source.read(MIRROR, FIRST)
    mirror_is_done()
    mirror_is_done()
    assert mirror.is_kept, "the history has not read it yet"
    history, history_is_done = source.read(HISTORY, FIRST)
    again, again_is_done = source.read(MIRROR, FIRST)
    again_is_done()
    assert mirror.is_kept
    assert history.is_kept
    history_is_done()
    assert [frame.is_kept for frame in (mirror, history, again)] == [False] * 3


def test_a_table_that_goes_on_releases_frames_that_the_other_did_not_read() -> None:
    source = Source()
    first, done = source.read(MIRROR, FIRST)
    done()
    source.read(MIRROR, SECOND)
    assert not first.is_kept


def test_a_rewritten_file_is_another_file() -> None:
    source = Source()
    first, done = source.read(MIRROR, FIRST)
    done()
    anew, _ = source.read(HISTORY, replace(FIRST, modified=6))
    assert (first.is_kept, anew.is_kept) == (False, True)
    tagged, _ = source.read(MIRROR, replace(FIRST, modified=6, etag="x"))
    assert (anew.is_kept, tagged.is_kept) == (True, True), "the history has it in hand"


def test_a_frame_in_use_is_cached_while_the_other_table_goes_on() -> None:
    source = Source()
    slow, slow_is_done = source.read(HISTORY, FIRST)
    _, done = source.read(MIRROR, SECOND)
    done()
    assert slow.is_kept
    slow_is_done()
    assert not slow.is_kept


# On Spark, in a session a table.


@dataclass
class Landing:
    """A landing folder with one file, and a source whose tables are worked on in sessions of their own."""

    folder: Path
    kind: str
    sessions: dict[TableName, SparkSession]

    def __post_init__(self) -> None:
        self.table = NAME
        runtime = Runtime(
            lambda: self.sessions[self.table],
            self.folder,
            state=self.folder / "state",
            now=lambda: 1_796_083_200_000_000,
            small_batch=0,
        )
        build = {"dms": dms.build, "files": files.build}[self.kind]
        self.source = build({"path": "landing", "formats": {}}, runtime)
        self.file = self.folder / "landing" / "shop" / "item" / "20261105-100000000.csv"
        self.file.parent.mkdir(parents=True)

    def write(self, *values: str) -> None:
        """Write a row a value, in texts of one length, at the time that the file had before."""
        stood = self.file.stat() if self.file.exists() else None
        head, mark = ("Op,id,a", "I,") if self.kind == "dms" else ("id,a", "")
        rows = [f"{mark}{number},{value}" for number, value in enumerate(values, 1)]
        self.file.write_text("\n".join([head, *rows, ""]), "utf-8")
        if stood is not None and stood.st_size == self.file.stat().st_size:
            os.utime(self.file, ns=(stood.st_atime_ns, stood.st_mtime_ns))

    def read(self, dimension: Dimension, rules: TableRules | None = None) -> Batch[Any]:
        self.table = dimension.name
        dimension = replace(dimension, lateness=self.source.lateness, sequences=self.source.sequences)
        source: Any = self.source
        if rules is not None:
            source = ShapedSource(source, SparkShaper(rules, lambda: self.sessions[self.table], lambda _: b""))
        return source.read(dimension, source.select_objects(dimension, ObjectHistory()), 1)


def values(batch: Batch[Any]) -> list[str]:
    return sorted(row["a"] for row in batch.frame.collect())


@pytest.fixture(params=["dms", "files"])
def landing(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Landing:
    return Landing(tmp_path, request.param, {MIRROR.name: spark, HISTORY.name: spark.newSession()})


@pytest.mark.spark
@pytest.mark.lines
def test_the_second_of_two_tables_does_not_read_the_files_again(landing: Landing) -> None:
    landing.write("Ann", "Bob")
    mirror = landing.read(MIRROR)
    landing.write("Eve", "Ida")  # nothing shows it: whoever reads the file again finds these
    mirror.close()
    history = landing.read(HISTORY)
    assert values(history) == ["Ann", "Bob"]
    assert history.frame.sparkSession is landing.sessions[HISTORY.name]
    landing.read(MIRROR).close()
    assert values(history) == ["Ann", "Bob"], "let go by one, it is kept for the other"
    history.close()
    assert values(landing.read(MIRROR)) == ["Eve", "Ida"]


@pytest.mark.spark
def test_shaped_rows_of_one_table_outlive_those_of_the_other(landing: Landing) -> None:
    rules = TableRules(columns=(Trim(column="a", characters="n"),), source=ALONE.schema)
    landing.write("Ann", "Bob")
    mirror, history = landing.read(MIRROR, rules), landing.read(HISTORY, rules)
    landing.write("Eve", "Ida")
    mirror.close()
    assert values(history) == ["A", "Bob"]


@pytest.mark.spark
def test_a_rewritten_file_is_read_again_while_the_other_table_has_the_old_one(landing: Landing) -> None:
    landing.write("Ann", "Bob")
    mirror = landing.read(MIRROR)
    landing.write("Eve", "Ida", "Una")
    assert values(landing.read(HISTORY)) == ["Eve", "Ida", "Una"]
    assert values(mirror) == ["Ann", "Bob"]
