"""Where Spark's workers do not see the staging folder they read copies in a bucket, which go with the commit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from buckets import Buckets
from kafka_feeds import BrokerFeed, feed, no_spark

from lakeward.adapters.sources.files import source
from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.local.json_lines import SmallLines
from lakeward.adapters.sources.files.paths.file_names import FileNames
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Place, Places
from lakeward.adapters.sources.staging.copies import StagedCopies
from lakeward.adapters.sources.staging.prefix import StagingPrefix
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, StoreUnreachable

HOME = "staging/pipeline/kafka/shop/orders/"


def by_spark(table: TableFiles, files: Sequence[File]) -> LocalFrame:
    """Read files as Spark's workers do: from where all of them see them."""
    assert str(table.folder.root).startswith("s3://")
    return LocalFrame(SmallLines(1000).read(table, files), no_spark)


@pytest.fixture
def landing(request: pytest.FixtureRequest) -> str:
    """Return what becomes of applied files of messages; a test may ask for both."""
    return str(getattr(request, "param", "removed"))


@pytest.fixture
def bucket(s3: Buckets) -> str:
    return s3.make()


@pytest.fixture
def read(tmp_path: Path, bucket: str, landing: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerFeed]:
    """Return a topic of which all batches are read by Spark."""
    monkeypatch.setattr(source, "frame_of", by_spark)
    found = feed(tmp_path, 2, staging=f"s3://{bucket}/staging", landing=landing)
    found.change = lambda made: replace(made, files=replace(made.files, small_batch=0))
    yield found
    assert found.apply() == sorted(found.ids)


@pytest.mark.parametrize("landing", ["removed", "kept"], indirect=True)
def test_copies_are_there_from_before_the_read_until_the_commit(read: BrokerFeed, s3: Buckets, bucket: str) -> None:
    s3.put(f"s3://{bucket}/{HOME.replace('orders', 'orders2')}a.json", "of another table")
    read.send(0)
    read.send(1)
    opened = read.open()
    dimension, selection = read.dimension(opened), read.take(opened)
    assert len(s3.keys(bucket)) == 1, "nothing is copied before it is read"
    opened.read(dimension, selection, 1)
    copies = [key for key in s3.keys(bucket) if key.startswith(HOME)]
    assert sorted(key.removeprefix(HOME) for key in copies) == sorted(item.name for item in selection.objects)
    assert read.step()
    assert s3.keys(bucket) == [HOME.replace("orders", "orders2") + "a.json"]


def test_copies_of_a_killed_run_go_with_the_next_commit(read: BrokerFeed, s3: Buckets, bucket: str) -> None:
    read.send()
    assert read.step(crashes=True)
    assert len(s3.keys(bucket)) == 1
    read.lose_staging()
    read.send()
    read.step()
    assert s3.keys(bucket) == []


def test_maintenance_removes_copies_without_files(read: BrokerFeed, s3: Buckets, bucket: str) -> None:
    read.send()
    read.step(crashes=True)
    opened = read.open()
    dimension = read.dimension(opened)
    assert opened.clean_staging(dimension, is_dry=False) == [], "its file waits for a run"
    (key,) = s3.keys(bucket)
    read.lose_staging()
    for is_dry in (True, False):
        assert opened.clean_staging(dimension, is_dry=is_dry) == [f"s3://{bucket}/{key}"]
        assert s3.keys(bucket) == [key][:is_dry]
    read.step()


def test_a_bucket_that_does_not_answer_after_the_commit_fails_no_run(
    read: BrokerFeed, s3: Buckets, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise StoreUnreachable("S3 does not answer", todo="Run again.")

    read.send()
    opened = read.open()
    read.change = lambda _: opened
    with monkeypatch.context() as patched:
        patched.setattr(StagingPrefix, "remove", away)
        assert read.step()
    assert len(s3.keys(bucket)) == 1
    read.send()
    read.step()
    assert s3.keys(bucket) == []


SHOP, OTHER = TableName("shop", "orders"), TableName("shop", "item#1")


@pytest.fixture
def copies(tmp_path: Path, s3: Buckets, bucket: str) -> StagedCopies:
    for table in (SHOP, OTHER):
        file = tmp_path / "kafka" / table.schema / table.table / "a.json"
        file.parent.mkdir(parents=True)
        file.write_text("{}\n", "utf-8")
    names = FileNames(re.compile(".*"), is_messages=True)
    prefix = StagingPrefix(f"s3://{bucket}/staging", s3.client)
    return StagedCopies(Folder(tmp_path / "kafka", Places(Place(names))), prefix)


def test_a_table_whose_name_is_no_part_of_a_url_is_copied(copies: StagedCopies, s3: Buckets, bucket: str) -> None:
    path = copies.share(OTHER, ["a.json"]).path(OTHER, "a.json")
    assert path == f"s3://{bucket}/staging/shop/item~231/a.json"
    assert s3.keys(bucket) == ["staging/shop/item~231/a.json"]
    copies.clean(OTHER)
    assert s3.keys(bucket) == ["staging/shop/item~231/a.json"], "its file is there still"
    copies.share(OTHER, ["a.json"])
    copies.clean(OTHER, ["a.json"])
    assert s3.keys(bucket) == []


def test_a_slow_bucket_keeps_no_other_table_waiting(
    copies: StagedCopies, s3: Buckets, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove, waits = StagingPrefix.remove, list[bool]()

    def remove_slowly(own: StagingPrefix, names: Sequence[str]) -> None:
        monkeypatch.setattr(StagingPrefix, "remove", remove)
        for method, table in ((copies.share, OTHER), (copies.clean, OTHER), (copies.share, SHOP)):
            thread = Thread(target=method, args=(table, ["a.json"]), daemon=True)
            thread.start()
            thread.join(10)
            waits.append(thread.is_alive())
        own.remove(names)

    copies.share(SHOP, ["a.json"])
    monkeypatch.setattr(StagingPrefix, "remove", remove_slowly)
    copies.clean(SHOP)
    assert waits == [False, False, False]
    assert s3.keys(bucket) == ["staging/shop/orders/a.json"]
    copies.clean(SHOP, ["a.json"])
    assert s3.keys(bucket) == [], "what was copied during the look is looked at"


def test_copies_that_may_not_be_deleted_are_tried_again(
    copies: StagedCopies, s3: Buckets, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [{"Key": "staging/shop/orders/a.json", "Code": "AccessDenied", "Message": "no"}]
    copies.share(SHOP, ["a.json"])
    with monkeypatch.context() as patched:
        patched.setattr(s3.client, "delete_objects", lambda **_: {"Errors": errors})
        copies.clean(SHOP, ["a.json"])
        (copies.folder.root / "shop/orders/a.json").unlink()  # type: ignore[operator]
        with pytest.raises(ConfigError, match="access is denied"):
            copies.clean_all(SHOP, is_dry=False)
    copies.clean(SHOP)
    assert s3.keys(bucket) == []


def test_a_small_batch_is_copied_nowhere(tmp_path: Path, s3: Buckets, bucket: str) -> None:
    own = feed(tmp_path, staging=f"s3://{bucket}/staging")
    own.send()
    s3.requests.clear()
    assert own.apply() == [1]
    assert [one.method for one in s3.requests] == ["GET"], "it is asked once for what a killed run has left"


def test_a_prefix_is_a_url_of_a_bucket(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"staging.* must be a prefix of a bucket"):
        feed(tmp_path, staging="/mnt/shared").open()
