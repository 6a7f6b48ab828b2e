"""A bucket as a landing folder: pages, ranges, the archive, and what S3 says in words."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.stub import Stubber
from buckets import Buckets

from lakeward.adapters.aws.s3.access import find_access
from lakeward.adapters.sources.dms import build_inventory
from lakeward.adapters.sources.dms.paths.file_names import PLACES, STANDARD
from lakeward.adapters.sources.landing.bucket_store import BucketStore
from lakeward.adapters.sources.landing.file_head import HEAD_BYTES
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.object_selection import select_files, select_unchanged
from lakeward.adapters.sources.landing.places import Place, Places
from lakeward.adapters.sources.rows.parquet_footers import read_footer
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import AlarmRaised, ConfigError, SourceError, StoreUnreachable
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection
from lakeward.core.ports import Stored
from lakeward.core.schema import Column, Schema, Type
from lakeward.plugins import Runtime

TABLE = TableName("shop", "orders")
CHANGES = [f"20261121-{number // 60:02}{number % 60:02}00000.csv" for number in range(1_200)]


def as_listed(_table: TableName, listed: list[SourceObject], _past: ObjectHistory) -> list[SourceObject]:
    return listed


def take(folder: Folder, object_history: ObjectHistory | None = None) -> ObjectSelection:
    return select_files(
        folder, Dimension(name=TABLE, schema=Schema(())), object_history or ObjectHistory(), Limits(), as_listed
    )  # type: ignore[arg-type]


@pytest.fixture
def bucket(s3: Buckets) -> str:
    return s3.make()


@pytest.fixture
def landing(s3: Buckets, bucket: str) -> Folder:
    root = f"s3://{bucket}/landing"
    return Folder(root, PLACES, store=BucketStore(find_access().client))


@pytest.fixture(scope="module")
def many(s3_server: Buckets) -> str:
    """A bucket with more objects than a page holds."""
    name = s3_server.make()
    s3_server.put_many(f"s3://{name}/landing/shop/orders", ["LOAD00000001.csv", *CHANGES], b"I,1\n")
    s3_server.put_many(f"s3://{name}/landing/shop/orders_old", ["LOAD00000001.csv"], b"I,1\n")
    return name


def test_all_pages_are_listed_and_each_once(s3: Buckets, many: str) -> None:
    folder = Folder(f"s3://{many}/landing", PLACES, store=BucketStore(find_access().client))
    found, others = folder.list(TABLE) or ((), ())
    assert [item.name for item in found] == [*CHANGES, "LOAD00000001.csv"]
    assert others == []
    pages = [request for request in s3.listings("landing/shop/orders/") if request.asked.get("max-keys") != "1"]
    assert [len(request.asked.get("continuation-token", "")) > 0 for request in pages] == [False, True]


def test_from_the_mark_on_only_what_does_not_precede_it_is_listed(s3: Buckets, many: str) -> None:
    folder = Folder(f"s3://{many}/landing", PLACES, store=BucketStore(find_access().client))
    whole = take(folder, ObjectHistory())
    applied = (*whole.objects, *whole.remaining)[:1_150]
    seen = {item.name: item for item in applied}
    object_history = ObjectHistory(
        applied=seen, object_watermark=applied[-1].order, last_applied=applied[-1].name, start=applied[-1].name
    )
    s3.requests.clear()
    selection = take(folder, object_history)
    assert [item.name for item in selection.objects] == CHANGES[1_149:]
    [listing] = s3.listings()
    assert listing.asked["start-after"] < f"landing/shop/orders/{applied[-1].name}"
    assert CHANGES[1_147] < listing.asked["start-after"].removeprefix("landing/shop/orders/")


def test_whether_files_changed_is_looked_up_from_the_first_of_them_on(s3: Buckets, many: str) -> None:
    folder = Folder(f"s3://{many}/landing", PLACES, store=BucketStore(find_access().client))
    last = tuple(item for item in take(folder).remaining if item.name in CHANGES[-3:])
    s3.requests.clear()
    assert select_unchanged(folder, TABLE, ObjectSelection(last)).objects == last
    [listing] = s3.listings()
    assert CHANGES[-5] < listing.asked["start-after"].removeprefix("landing/shop/orders/")


def test_keys_that_hadoop_reads_as_others_are_not_read(s3: Buckets, landing: Folder, bucket: str) -> None:
    names = ("LOAD00000001.csv", "../../LOAD00000002.csv", "a//LOAD00000003.csv", "./LOAD00000004.csv")
    for name in (*names, "a/", "_tmp/LOAD00000005.csv"):
        s3.put(f"s3://{bucket}/landing/shop/orders/{name}", "1\n")
    found, others = landing.list(TABLE) or ((), ())
    assert [item.name for item in found] == ["LOAD00000001.csv"]
    assert others == sorted(names[1:])


def test_tables_are_the_prefixes_where_tables_lie(s3: Buckets, landing: Folder, bucket: str) -> None:
    for key in ("shop/orders/LOAD00000001.csv", "shop/lines/LOAD00000001.csv", "_tmp/x/a.csv", "top.csv"):
        s3.put(f"s3://{bucket}/landing/{key}", "1\n")
    assert list(map(str, landing.tables())) == ["shop.lines", "shop.orders"]
    assert list(landing.folders(TABLE)) == ["shop/orders"]
    split = Places(Place(STANDARD, load="{schema}/{table}/full", changes="{schema}/{table}/cdc"))
    s3.put(f"s3://{bucket}/landing/shop/lines/cdc/20261121-100000000.csv", "1\n")
    apart = Folder(landing.root, split, store=landing.store)
    assert list(map(str, apart.tables())) == ["shop.lines"]


def test_files_of_many_tables_are_seen(s3: Buckets, landing: Folder, bucket: str) -> None:
    assert landing.find_by_prefix("CDC_TXN-") is None
    s3.put(f"s3://{bucket}/landing/changes/ABC.csv", "1\n")
    s3.put(f"s3://{bucket}/landing/changes/CDC_TXN-1.csv", "1\n")
    assert landing.find_by_prefix("CDC_TXN-") == "changes/CDC_TXN-1.csv"


def test_the_head_of_an_object_is_one_range(s3: Buckets, landing: Folder, bucket: str) -> None:
    s3.put(f"s3://{bucket}/landing/shop/orders/LOAD00000001.csv", b"1,abcdefg\n" * HEAD_BYTES)
    landing.list(TABLE)
    s3.requests.clear()
    head = landing.head(TABLE, "LOAD00000001.csv")
    assert HEAD_BYTES - 10 <= len(head) <= HEAD_BYTES
    assert [(request.method, request.range) for request in s3.requests] == [("GET", f"bytes=0-{HEAD_BYTES - 1}")]


@pytest.mark.parametrize("content", ["", "1,Köln\n2,Kiel"])
@pytest.mark.parametrize("name", ["LOAD00000001.csv", "LOAD00000001.csv.gz"])
def test_a_small_object_is_read_whole(s3: Buckets, landing: Folder, bucket: str, name: str, content: str) -> None:
    data = content.encode()
    s3.put(f"s3://{bucket}/landing/shop/orders/{name}", gzip.compress(data) if name.endswith(".gz") else data)
    assert landing.head(TABLE, name) == content


def test_of_a_parquet_file_only_the_footer_is_read(s3: Buckets, landing: Folder, bucket: str) -> None:
    made = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(200_000), pa.int64())}), made, use_dictionary=False)
    s3.put(f"s3://{bucket}/landing/shop/orders/LOAD00000001.parquet", made.getvalue())
    landing.list(TABLE)
    s3.requests.clear()
    with landing.open(TABLE, "LOAD00000001.parquet") as file:
        assert read_footer(file, "shop.orders", "LOAD00000001.parquet").schema == Schema(
            (Column("id", Type("bigint")),)
        )
    assert [request.method for request in s3.requests] == ["HEAD", "GET"]
    first, _, last = str(s3.requests[1].range).removeprefix("bytes=").partition("-")
    assert int(last) - int(first) < HEAD_BYTES < len(made.getvalue())


def test_an_object_is_read_from_anywhere(s3: Buckets, landing: Folder, bucket: str) -> None:
    content = os.urandom(300_000)
    s3.put(f"s3://{bucket}/landing/a", content)
    with landing.store.open(f"s3://{bucket}/landing/a") as file:
        assert file.read(10) == content[:10]
        assert file.seek(-7, os.SEEK_END) == len(content) - 7
        assert file.read() == content[-7:]
        assert file.read() == b""
        file.seek(100_000)
        file.seek(5, os.SEEK_CUR)
        assert file.read(100_000) == content[100_005:200_005]
        file.seek(0)
        assert file.read() == content


def test_an_object_replaced_while_it_is_read_is_not_mixed(s3: Buckets, landing: Folder, bucket: str) -> None:
    s3.put(f"s3://{bucket}/landing/a", b"a" * 200_000)
    with landing.store.open(f"s3://{bucket}/landing/a") as file:
        assert file.read(1) == b"a"
        s3.put(f"s3://{bucket}/landing/a", b"b" * 200_000)
        with pytest.raises(OSError, match="was replaced while it was read"):
            file.read()


def test_an_object_that_went_away_is_named(s3: Buckets, landing: Folder, bucket: str) -> None:
    s3.put(f"s3://{bucket}/landing/shop/orders/LOAD00000001.csv", "1\n")
    for read in (landing.head, lambda table, name: read_footer(landing.open(table, name), str(table), name)):
        with pytest.raises(SourceError, match=r"LOAD00000009\.csv cannot be read"):
            read(TABLE, "LOAD00000009.csv")
    assert landing.etag(TABLE, "LOAD00000009.csv") is None


def test_an_object_of_equal_size_and_new_content_is_rewritten(s3: Buckets, landing: Folder, bucket: str) -> None:
    """The times of S3 are in seconds: the tag tells."""
    s3.put(f"s3://{bucket}/landing/shop/orders/LOAD00000001.csv", "1,a\n")
    [before] = take(landing).objects
    s3.put(f"s3://{bucket}/landing/shop/orders/LOAD00000001.csv", "1,b\n")
    assert select_unchanged(landing, TABLE, ObjectSelection((before,))).objects == ()
    with pytest.raises(AlarmRaised) as raised:
        take(landing, ObjectHistory(applied={before.name: before}, last_applied=before.name))
    assert raised.value.code == "LEDGER-002"


def test_an_emptied_prefix_is_an_alarm_and_no_missing_folder(s3: Buckets, landing: Folder, bucket: str) -> None:
    s3.put(f"s3://{bucket}/landing/shop/orders/LOAD00000001.csv", "1,a\n")
    [before] = take(landing).objects
    s3.client.delete_object(Bucket=bucket, Key="landing/shop/orders/LOAD00000001.csv")
    for folder in (landing, Folder(landing.root, PLACES, store=landing.store)):
        with pytest.raises(AlarmRaised) as raised:
            take(folder, ObjectHistory(applied={before.name: before}, last_applied=before.name))
        assert raised.value.code == "LEDGER-005"


@pytest.fixture
def kept(landing: Folder, bucket: str) -> Folder:
    return Folder(landing.root, PLACES, f"s3://{bucket}/backup", landing.store)


def test_applied_objects_are_put_away_and_found_there(s3: Buckets, kept: Folder, bucket: str) -> None:
    s3.put(f"s3://{bucket}/landing/shop/orders/LOAD00000001.csv", "1,a\n")
    [found] = take(kept).objects
    for _ in range(2):
        assert kept.archive_files(TABLE, [found]) == ["LOAD00000001.csv"]
    assert s3.keys(bucket) == ["backup/shop/orders/LOAD00000001.csv"]
    assert kept.head(TABLE, "LOAD00000001.csv") == "1,a\n"
    assert take(kept, ObjectHistory(applied={found.name: found}, last_applied=found.name)).objects == ()
    assert kept.has_folder(TABLE)
    assert not Folder(kept.root, PLACES, store=kept.store).has_folder(TABLE)


def test_an_object_that_changed_since_it_was_applied_stays(s3: Buckets, kept: Folder, bucket: str) -> None:
    s3.put(f"s3://{bucket}/landing/shop/orders/LOAD00000001.csv", "1,a\n")
    [found] = take(kept).objects
    s3.put(f"s3://{bucket}/landing/shop/orders/LOAD00000001.csv", "1,b\n")
    assert kept.archive_files(TABLE, [found]) == []
    assert s3.keys(bucket) == ["landing/shop/orders/LOAD00000001.csv"]


def test_a_rewritten_object_stays(s3: Buckets, kept: Folder, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put(f"s3://{bucket}/landing/shop/orders/LOAD00000001.csv", "1,a\n")
    [found] = take(kept).objects
    assert isinstance(kept.store, BucketStore)
    copy = kept.store.client.copy

    def rewritten(*arguments: Any, **options: Any) -> None:
        copy(*arguments, **options)
        s3.put(f"s3://{bucket}/landing/shop/orders/LOAD00000001.csv", "1,b\n")

    monkeypatch.setattr(kept.store.client, "copy", rewritten)
    kept.archive_files(TABLE, [found])
    contents = [s3.client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in s3.keys(bucket)]
    assert contents == [b"1,a\n", b"1,b\n"]


def test_a_bucket_that_is_not_there_is_a_mistake_in_the_settings(landing: Folder) -> None:
    with pytest.raises(ConfigError, match="the bucket no-such-bucket does not exist"):
        take(Folder("s3://no-such-bucket/landing", PLACES, store=landing.store))


def test_a_prefix_without_objects_is_a_mistake_in_the_settings(s3: Buckets, landing: Folder, bucket: str) -> None:
    with pytest.raises(ConfigError, match=r"the landing folder s3://.*/landing does not exist"):
        take(landing)
    s3.put(f"s3://{bucket}/landing/shop/lines/LOAD00000001.csv", "1\n")
    assert take(landing).objects == ()


def test_a_server_that_does_not_answer_is_retryable(landing: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    store = BucketStore(find_access().client)
    with pytest.raises(StoreUnreachable) as failed:
        take(Folder(landing.root, PLACES, store=store))
    assert failed.value.retryable


def test_missing_credentials_are_an_error_with_a_hint(landing: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ConfigError, match="there are no credentials") as failed:
        take(Folder(landing.root, PLACES, store=BucketStore(find_access().client)))
    assert "AWS_PROFILE" in str(failed.value.todo)


@pytest.mark.parametrize(
    ("code", "status", "kind", "words"),
    [
        ("AccessDenied", 403, ConfigError, "access is denied"),
        ("ExpiredToken", 400, ConfigError, "the credentials are not valid"),
        ("PermanentRedirect", 301, ConfigError, "is in another region"),
        ("SlowDown", 503, StoreUnreachable, "S3 does not answer"),
        ("Unheard", 500, StoreUnreachable, "S3 does not answer"),
        ("Unheard", 400, SourceError, "cannot be read or written"),
    ],
)
def test_what_s3_refuses_is_said_in_words(
    s3: Buckets, bucket: str, code: str, status: int, kind: type[Exception], words: str
) -> None:
    client = boto3.client("s3", endpoint_url=s3.endpoint)
    with Stubber(client) as stub:
        stub.add_client_error("list_objects_v2", code, "in its own words", status)
        with pytest.raises(kind, match=words) as failed:
            BucketStore(client).resolve(f"s3://{bucket}/landing")
    assert "secret word" not in str(failed.value)


@pytest.mark.parametrize(
    ("path", "archive", "words"),
    [
        ("s3://a-bucket/landing", "s3://a-bucket/landing/backup", "lies within the landing folder"),
        ("s3://a-bucket/landing", "s3a://a-bucket/landing/", "lies within the landing folder"),
        ("s3://a-bucket/landing", "backup/", "is in a bucket, and the archive backup/ is not"),
        ("landing", "s3://a-bucket/backup", "is in a bucket, and the landing folder landing is not"),
        ("s3://a-bucket/a/../b", "s3://a-bucket/backup", "is no URL of a bucket"),
        ("s3://", "s3://a-bucket/backup", "is no URL of a bucket"),
        ("gs://a-bucket/b", "s3://a-bucket/backup", "is neither a folder nor in S3"),
    ],
)
def test_an_invalid_archive_is_refused(s3: Buckets, tmp_path: Path, path: str, archive: str, words: str) -> None:
    options = {"path": path, "archive": archive, "landing": "archived", "formats": {}}
    with pytest.raises(ConfigError, match=words):
        build_inventory(options, Runtime(lambda: None, tmp_path))
    assert s3.requests == []


def test_an_archive_beside_the_landing_folder_may_begin_as_it_does(s3: Buckets, tmp_path: Path) -> None:
    options = {"path": "s3://a-bucket/in", "archive": "s3://a-bucket/in-old", "landing": "archived", "formats": {}}
    runtime = Runtime(lambda: None, tmp_path)
    assert build_inventory(options, runtime)
    assert runtime.jars == {"s3"}
    assert runtime.settings["spark.hadoop.fs.s3a.endpoint"] == s3.endpoint
    assert "secret word" not in str(runtime.settings)


def test_what_is_found_is_what_is_listed(s3: Buckets, landing: Folder, bucket: str) -> None:
    s3.put(f"s3://{bucket}/landing/a.csv", "1\n")
    [listed] = landing.store.list(landing.base, None)
    found = landing.store.stat(f"{landing.base}/a.csv")
    assert found == Stored(f"{landing.base}/a.csv", listed.size, listed.modified, listed.etag)
    assert landing.store.stat(f"{landing.base}/b.csv") is None
