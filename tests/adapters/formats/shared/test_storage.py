"""The files of tables: a folder on a disk and one in a bucket answer alike, and no name leads out of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from buckets import Buckets

from lakeward.adapters.aws.s3.access import find_access
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.shared.storage.bucket import BucketFolder
from lakeward.adapters.formats.shared.storage.folder import DiskFolder, Folder
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, StoreUnreachable, TableError

FILES = {"_delta_log/0.json": b"zero", "part=a b/one.parquet": b"1", "two.parquet": b"22"}


@pytest.fixture(params=["disk", "bucket"])
def folder(request: pytest.FixtureRequest, s3: Buckets, tmp_path: Path) -> Folder:
    """A folder of a table with three files, and a file of another whose name begins alike."""
    if request.param == "disk":
        for name, content in {**FILES, "../item2/other": b""}.items():
            (tmp_path / "lake/item" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "lake/item" / name).write_bytes(content)
        return DiskFolder(tmp_path / "lake/item")
    bucket = s3.make()
    for name, content in FILES.items():
        s3.put(f"s3://{bucket}/lake/item/{name}", content)
    for name in ("item2/other", "item/_delta_log/"):  # Hadoop makes such an object for a folder
        s3.put(f"s3://{bucket}/lake/{name}", b"")
    return BucketFolder(f"s3://{bucket}/lake/item", find_access())


def names(folder: Folder) -> list[str]:
    return sorted(file.name for file in folder.files())


def test_its_files_are_listed_with_their_sizes(folder: Folder) -> None:
    assert {file.name: file.size for file in folder.all_files()} == {name: len(FILES[name]) for name in FILES}
    assert names(folder) == ["two.parquet"]
    assert names(folder.within("_delta_log")) == ["0.json"]
    assert all(file.seconds > 1_700_000_000 for file in folder.all_files())


def test_a_folder_that_does_not_exist_is_empty(folder: Folder) -> None:
    assert (folder.holds(), folder.within("_delta_log").holds()) == ("_delta_log", "0.json")
    none = folder.within("none")
    assert (none.holds(), list(none.files()), list(none.all_files())) == (None, [], [])


def test_a_file_is_read_from_anywhere_and_removed(folder: Folder) -> None:
    with folder.open("_delta_log/0.json") as opened:
        opened.seek(1)
        assert opened.read() == b"ero"
    folder.remove("_delta_log/0.json")
    folder.remove("_delta_log/0.json")
    assert folder.within("_delta_log").holds() is None
    with pytest.raises(FileNotFoundError):
        folder.open("_delta_log/0.json").read()


def test_a_file_is_named_relative_to_the_folder_or_in_full(folder: Folder) -> None:
    is_there = folder.existence_check()
    whole = folder.place("two.parquet")
    assert whole == f"{folder}/two.parquet"
    assert folder.place(whole if "://" in whole else f"file:{whole}") == whole
    told = {name: is_there(folder.place(name)) for name in (*FILES, "three.parquet", "two")}
    assert told == {**dict.fromkeys(FILES, True), "three.parquet": False, "two": False}


def test_a_file_in_another_folder_is_found_too(folder: Folder) -> None:
    """Tables that are copied without their files name those of another."""
    is_there, around = folder.existence_check(), str(folder).removesuffix("/item")
    assert (is_there(f"{around}/item2/other"), is_there(f"{around}/item2/none")) == (True, False)


def test_a_lock_of_the_folder_is_free_afterwards(folder: Folder) -> None:
    for _ in range(2):
        with folder.lock("shop.item"):
            pass


@pytest.mark.parametrize("table", ["../../x", "..", "a/b", "s3://other/x", "x#y"])
def test_no_name_leads_out_of_the_warehouse(s3: Buckets, tmp_path: Path, table: str) -> None:
    for given in ("s3://shop-lake/tables", str(tmp_path)):
        places = Places(given, "{schema}", tmp_path)
        found = places.of(TableName("..", table), "__changes")
        namespace, name = found.removeprefix(f"{given}/").split("/")
        assert not {namespace, name} & {"", ".", ".."}


@pytest.mark.parametrize("url", ["s3://shop-lake/my lake", "s3://shop-lake/a%20b", "s3://shop-lake/ä"])
def test_a_prefix_that_is_another_in_a_url_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="cannot hold tables"):
        Places(url, "{schema}", tmp_path)


@pytest.mark.parametrize("url", ["gs://shop-lake/tables", "hdfs://here/tables"])
def test_another_store_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="is neither a folder nor in S3"):
        Places(url, "{schema}", tmp_path)


def test_an_unreachable_table_is_an_error(s3: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = TableName("shop", "item")
    with pytest.raises(ConfigError, match="the bucket no-such-bucket does not exist"):
        Places("s3://no-such-bucket/lake", "{schema}", tmp_path).load(item)
    assert Places(f"s3://{s3.make()}/lake", "{schema}", tmp_path).load(item) is None
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    with pytest.raises(StoreUnreachable, match="S3 does not answer"):
        Places("s3://shop-lake/tables", "{schema}", tmp_path).load(item)


def test_a_log_that_delta_rs_cannot_read_is_said_in_one_line_without_a_secret(s3: Buckets, tmp_path: Path) -> None:
    bucket = s3.make()
    s3.put(f"s3://{bucket}/lake/shop/item/_delta_log/{0:020}.json", "{")
    with pytest.raises(TableError, match="cannot be read") as failed:
        Places(f"s3://{bucket}/lake", "{schema}", tmp_path).load(TableName("shop", "item"))
    assert "\n" not in str(failed.value.found)
    assert "secret word" not in f"{failed.value} {failed.value.found} {failed.value.__cause__}"
