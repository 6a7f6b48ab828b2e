"""What the source `jdbc` stages in a bucket, whose objects have no other names: nothing half is ever applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from buckets import Buckets
from fake_database import ODD, Play, Row, of_rows

from lakeward.adapters.sources.jdbc import read_options, staging
from lakeward.adapters.sources.jdbc.source import make_source
from lakeward.adapters.sources.staging.prefix import StagingPrefix
from lakeward.core.errors import ConfigError, SourceError, StoreUnreachable
from lakeward.core.ledger.objects import SourceObject
from lakeward.plugins import Runtime


@dataclass
class BucketPlay(Play):
    s3: Buckets = field(default_factory=Buckets)
    name: str = ""

    @property
    def home(self) -> str:
        odd = "SALES/ORDER~231~20~5b~7bold~3f~2a~7d~5d"
        return f"staging/pipeline/jdbc/{odd if self.table == ODD else 'shop/item'}"

    def objects(self) -> list[str]:
        return self.s3.keys(self.name)

    def staged(self) -> list[str]:
        below = [key.removeprefix(f"{self.home}/") for key in self.objects() if key.endswith(".parquet")]
        return sorted({key.partition("/")[0] for key in below})

    def rows_of(self, item: SourceObject) -> list[Row]:
        path = f"{self.name}/{self.home}/{item.name}"
        found: list[Row] = pq.read_table(path, filesystem=self.database.bucket).to_pylist()
        return found


@pytest.fixture
def play(tmp_path: Path, s3: Buckets) -> BucketPlay:
    name = s3.make()
    found = BucketPlay(tmp_path, settings={"staging": f"s3://{name}/staging/"}, s3=s3, name=name)
    scheme, _, host = s3.endpoint.partition("://")
    secrets = {"access_key": "of a test", "secret_key": "secret word of a test"}
    found.database.bucket = pafs.S3FileSystem(endpoint_override=host, scheme=scheme, **secrets)
    return found


def test_rows_lie_below_the_prefix_until_they_are_applied(play: BucketPlay) -> None:
    of_rows(play, 1, 2, 3)
    play.s3.put(f"s3://{play.name}/staging/other.txt", "of somebody else")
    selection = play.take()
    assert [item.name.partition("/")[2] for item in selection.objects] == ["1.parquet", "2.parquet"]
    assert [key for key in play.objects() if not key.startswith(f"{play.home}/2026")] == ["staging/other.txt"]
    assert (play.run(), play.names) == (1, play.expected)
    assert (len(play.database.queries), play.objects()) == (1, ["staging/other.txt"])
    assert not (play.folder / "staged").exists(), "nothing lies on this machine"


def test_a_table_whose_name_is_no_part_of_a_url_is_staged_as_any_other(play: BucketPlay) -> None:
    play.table = ODD
    of_rows(play, 1, 2, 3)
    selection = play.take()
    assert len(selection.objects) == 2
    assert all(key.startswith(f"{play.home}/2026") for key in play.objects())
    found = play.open().files.folder.path(ODD, selection.objects[0].name)
    assert found == f"s3://{play.name}/{play.home}/{selection.objects[0].name}"
    assert play.open().clean_staging(play.dimension, is_dry=False) == []
    assert (play.run(), play.names, play.objects()) == (1, play.expected, [])


def test_such_a_table_is_staged_on_a_disk(tmp_path: Path) -> None:
    play = of_rows(Play(tmp_path, table=ODD), 1, 2, 3)
    assert (play.run(), play.names) == (1, play.expected)


def test_files_of_attempts_that_were_given_up_are_no_rows(play: BucketPlay) -> None:
    play.database.others = (
        "_temporary/0/_temporary/attempt_1/part-00000.parquet",
        "__magic/job-1/tasks/attempt_1/__base/part-00000.parquet",
        ".part-00000.parquet",
        "_part-00000.parquet",
    )
    of_rows(play, 1, 2, 3)
    selection = play.take()
    assert [item.name.partition("/")[2] for item in selection.objects] == ["1.parquet", "2.parquet"]
    assert (play.run(), play.names, play.objects()) == (1, play.expected, [])


def test_a_query_that_finds_nothing_new_leaves_nothing(play: BucketPlay) -> None:
    play.settings["cursor"] = "updated_at"
    play.snapshots = False
    of_rows(play, 1, 2, 3)
    play.run()
    play.database.put(4, "new", 60)
    play.pass_by(60)
    assert (play.run(), play.names, play.objects()) == (1, play.expected, [])
    play.pass_by(60)
    assert (play.run(), play.objects()) == (0, [])


def test_a_snapshot_that_is_cut_off_leaves_nothing(play: BucketPlay) -> None:
    of_rows(play, 1, 2, 3).database.cut_off = True
    with pytest.raises(StoreUnreachable):
        play.run()
    assert play.objects() == []


def test_a_process_that_dies_before_its_commit_is_followed_by_one_that_applies_the_same(play: BucketPlay) -> None:
    of_rows(play, 1, 2, 3)
    assert play.step(dies=True)
    assert (play.run(), play.names, len(play.database.queries), play.objects()) == (1, play.expected, 1, [])


@pytest.mark.parametrize("written", [0, 1, 2])
def test_half_a_snapshot_is_never_applied(play: BucketPlay, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    of_rows(play, 1, 2, 3)
    with monkeypatch.context() as patched:
        _die_behind(patched, written)
        with pytest.raises(KeyboardInterrupt):
            play.step()
    left = play.objects()
    play.pass_by(60)
    assert (play.run(), play.names) == (1, play.expected)
    assert play.objects() == left, "they may be of a process that works on"
    assert play.open().clean_staging(play.dimension, is_dry=False) == []
    monkeypatch.setattr(staging, "_ABANDONED", -1)
    names = [f"s3://{play.name}/{key}" for key in left]
    assert play.open().clean_staging(play.dimension, is_dry=True) == names
    assert play.objects() == left
    assert play.open().clean_staging(play.dimension, is_dry=False) == names
    assert play.objects() == []


def test_the_next_read_removes_what_was_left_for_a_day(play: BucketPlay, monkeypatch: pytest.MonkeyPatch) -> None:
    of_rows(play, 1)
    play.s3.put(f"s3://{play.name}/{play.home}/.of-a-killed-run/part-0.parquet", "half")
    monkeypatch.setattr(staging, "_ABANDONED", -1)
    play.run()
    assert play.objects() == []


def _die_behind(patched: pytest.MonkeyPatch, written: int) -> None:
    """Let a process die behind so many objects of the snapshot; it tidies up nothing."""
    done: list[str] = []

    def counted(name: str) -> Any:
        method = getattr(StagingPrefix, name)

        def call(self: StagingPrefix, *arguments: Any) -> Any:
            if len(done) >= written:
                raise KeyboardInterrupt
            done.append(name)
            return method(self, *arguments)

        return call

    for name in ("copy", "write"):
        patched.setattr(StagingPrefix, name, counted(name))
    patched.setattr(StagingPrefix, "remove", lambda *_: None)


def test_where_the_feed_begins_lies_beside_the_snapshot(play: BucketPlay) -> None:
    of_rows(play, 1)
    source = play.open()
    selection = source.select_snapshot(play.dimension, play.object_history, "topic", lambda: ["one", "two"])
    assert source.starts(play.dimension, selection.objects[0]) == ["one", "two"]
    (key,) = (key for key in play.objects() if key.endswith("/starts.txt"))
    play.s3.client.delete_object(Bucket=play.name, Key=key)
    with pytest.raises(SourceError, match="its snapshot is not there any more"):
        source.starts(play.dimension, selection.objects[0])


@pytest.mark.parametrize("name", ["/etc", "s3://a/b/c", "s3://shop-lake/a//x", "gs://shop-lake/x"])
def test_what_is_no_prefix_is_refused_by_name(tmp_path: Path, name: str) -> None:
    options = {"url": "jdbc:postgresql://db/shop", "formats": {}, "staging": name}
    with pytest.raises(ConfigError, match=r"staging.* must be a prefix of a bucket"):
        read_options(options, Runtime(lambda: None, base=tmp_path))


def test_where_spark_runs_elsewhere_rows_are_staged_beside_the_lake(play: BucketPlay) -> None:
    options = {"url": "jdbc:postgresql://db/shop", "formats": {}}
    runtime = Runtime(lambda: None, base=play.folder, staging=f"s3://{play.name}/lake/_staging", pipeline="shop")
    settings, tables = read_options(options, runtime)
    made = make_source(settings, tables, play.database, options, runtime)
    assert made.files.folder.root == f"s3://{play.name}/lake/_staging/shop/jdbc"
    assert runtime.jars == {"s3"}
    assert runtime.settings["spark.hadoop.fs.s3.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"
