"""A landing folder: which files are those of DMS, what they begin with, what cannot be read."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from lakeward.adapters.dms import build
from lakeward.adapters.dms.folder import HEAD_BYTES, Folder
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, SourceError
from lakeward.plugins import Runtime

TABLE = TableName("shop", "orders")


@pytest.fixture
def landing(tmp_path: Path) -> Folder:
    (tmp_path / "shop" / "orders").mkdir(parents=True)
    return Folder(tmp_path)


def put(landing: Folder, name: str, content: bytes = b"I,1\n") -> Path:
    file = landing.of(TABLE) / name
    file.write_bytes(content)
    return file


def test_the_files_of_a_table_are_listed_with_place_size_and_time(landing: Folder) -> None:
    file = put(landing, "LOAD0000000A.csv", b"1,a\n")
    os.utime(file, ns=(0, 1_700_000_000_123_456_789))
    ((found,), others) = landing.list(TABLE)
    assert (found.name, found.order, found.size) == ("LOAD0000000A.csv", 10, 4)
    assert found.modified == 1_700_000_000_123_456
    assert others == []


def test_files_of_other_names_are_told_apart_and_hidden_ones_are_not_told(landing: Folder) -> None:
    for name in ("LOAD00000001.csv", "notes.txt", "copy of LOAD00000001.csv", "_SUCCESS", ".LOAD00000002.csv"):
        put(landing, name)
    (landing.of(TABLE) / "LOAD00000003.csv").mkdir()
    found, others = landing.list(TABLE)
    assert [item.name for item in found] == ["LOAD00000001.csv"]
    assert others == ["LOAD00000003.csv", "copy of LOAD00000001.csv", "notes.txt"]


def test_a_table_without_a_folder_has_no_files(landing: Folder) -> None:
    assert landing.list(TableName("shop", "lines")) is None


def test_a_landing_folder_that_is_missing_is_a_mistake_in_the_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the landing folder .*nowhere does not exist") as refused:
        Folder(tmp_path / "nowhere").list(TABLE)
    assert "`path` under [source]" in str(refused.value.todo)


def test_a_file_in_the_place_of_a_tables_folder_stops_that_table(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "orders").touch()
    with pytest.raises(SourceError, match=r"shop\.orders: its folder cannot be read") as refused:
        Folder(tmp_path).list(TABLE)
    assert "Other tables go on" in str(refused.value.todo)


def test_a_file_that_grows_is_another_object_than_before(landing: Folder) -> None:
    file = put(landing, "LOAD00000001.csv")
    ((before,), _) = landing.list(TABLE)
    with file.open("ab") as more:
        more.write(b"I,2\n")
    ((after,), _) = landing.list(TABLE)
    assert before != after


@pytest.mark.parametrize("name", ["LOAD00000001.csv", "LOAD00000001.csv.gz"])
def test_the_head_of_a_small_file_is_all_of_it(landing: Folder, name: str) -> None:
    content = "1,Köln\n2,Kiel".encode()
    put(landing, name, gzip.compress(content) if name.endswith(".gz") else content)
    assert landing.head(TABLE, name) == "1,Köln\n2,Kiel"


def test_the_head_of_a_great_file_ends_at_a_rows_end(landing: Folder) -> None:
    put(landing, "LOAD00000001.csv", b"1,abcdefg\n" * HEAD_BYTES)
    head = landing.head(TABLE, "LOAD00000001.csv")
    assert head.endswith("\n")
    assert HEAD_BYTES - 10 <= len(head) <= HEAD_BYTES


def test_the_head_of_a_file_whose_first_row_is_great_has_that_row(landing: Folder) -> None:
    put(landing, "LOAD00000001.csv", b"1," + b"x" * (3 * HEAD_BYTES) + b"\n2,y\n")
    assert landing.head(TABLE, "LOAD00000001.csv").startswith("1,xxx")
    assert "\n" in landing.head(TABLE, "LOAD00000001.csv")


@pytest.mark.parametrize(
    "content",
    [b"I,1\n", gzip.compress(b"I,1\n" * 1000)[:-20], gzip.compress(b"I,1\n" * 1000)[:20] + b"\0" * 40],
    ids=["no gzip", "cut off", "damaged"],
)
def test_a_gzip_file_that_is_none_is_named(landing: Folder, content: bytes) -> None:
    put(landing, "LOAD00000001.csv.gz", content)
    with pytest.raises(SourceError, match=r"shop\.orders: LOAD00000001\.csv\.gz cannot be read") as refused:
        landing.head(TABLE, "LOAD00000001.csv.gz")
    assert "Replace the file by a whole one" in str(refused.value.todo)


def test_a_file_that_went_away_is_named(landing: Folder) -> None:
    with pytest.raises(SourceError, match=r"LOAD00000009\.csv cannot be read"):
        landing.head(TABLE, "LOAD00000009.csv")


def test_applied_files_are_put_away_and_found_there(landing: Folder) -> None:
    kept = Folder(landing.root, landing.root.parent / "backup")
    put(kept, "LOAD00000001.csv", b"1,a\n")
    ((found,), _) = kept.list(TABLE)
    for _ in range(2):
        assert kept.put_away(TABLE, [found]) == ["LOAD00000001.csv"]
    assert kept.list(TABLE) == ([], [])
    assert kept.head(TABLE, "LOAD00000001.csv") == "1,a\n"
    assert Folder(landing.root).put_away(TABLE, [found]) == []


def test_a_file_that_changed_since_it_was_applied_stays(landing: Folder) -> None:
    kept = Folder(landing.root, landing.root.parent / "backup")
    file = put(kept, "LOAD00000001.csv", b"1,a\n")
    ((found,), _) = kept.list(TABLE)
    put(kept, "LOAD00000001.csv", b"1,a\n2,b\n")
    assert kept.put_away(TABLE, [found]) == []
    assert file.exists()


def test_an_archive_that_cannot_be_written_is_said(landing: Folder) -> None:
    (landing.root / "in the way").touch()
    kept = Folder(landing.root, landing.root / "in the way")
    put(kept, "LOAD00000001.csv")
    ((found,), _) = kept.list(TABLE)
    with pytest.raises(SourceError, match="cannot be moved into the archive"):
        kept.put_away(TABLE, [found])


@pytest.mark.parametrize("archive", ["landing", "landing/backup", "./landing/shop"])
def test_an_archive_within_the_landing_folder_is_refused(tmp_path: Path, archive: str) -> None:
    options = {"path": "landing", "landing": "archived", "archive": archive, "formats": {}}
    with pytest.raises(ConfigError, match="lies within the landing folder"):
        build(options, Runtime(lambda: None, tmp_path))
    assert build({**options, "landing": "kept"}, Runtime(lambda: None, tmp_path))
