"""A local disk: listed from a name on, as a bucket is, and files moved into an archive."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from lakeward.adapters.sources.landing import local_store
from lakeward.adapters.sources.landing.local_store import LocalStore, content_hash


def put(path: Path, content: bytes = b"1,a\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def hashed(path: Path) -> str:
    with path.open("rb") as file:
        return content_hash(file)


def move(path: Path, target: Path) -> None:
    LocalStore().move(str(path), str(target))


def test_what_sorts_before_the_start_is_left_out(tmp_path: Path) -> None:
    for name in ("20261121-100000000.csv", "20261121-110000000.csv", "LOAD00000001.csv"):
        put(tmp_path / name)
    put(tmp_path / "sub" / "20261121-100000000.csv")
    put(tmp_path / "_sub" / "LOAD00000001.csv")
    (tmp_path / "link").symlink_to(tmp_path / "sub")
    found = {item.name: item.size for item in LocalStore().list(str(tmp_path), "20261121-110000000")}
    assert found == {
        "20261121-110000000.csv": 4,
        "LOAD00000001.csv": 4,
        "link": None,
        "sub/20261121-100000000.csv": 4,
    }


def test_folders_sorted_before_the_start_are_not_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in ("2025/12/31", "2026/11/19", "2026/11/20", "2026/12/01", "p2026"):
        put(tmp_path / day / "a.csv")
    put(tmp_path / "LOAD00000001.csv")
    looked: list[str] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (looked.append(str(path)), scan(path))[1])
    found = [item.name for item in LocalStore().list(str(tmp_path), "2026/11/20/")]
    assert sorted(found) == ["2026/11/20/a.csv", "2026/12/01/a.csv", "LOAD00000001.csv", "p2026/a.csv"]
    assert not [path for path in looked if path.endswith(("2025", "19"))]


def test_a_hash_of_a_large_file_is_of_its_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_store, "HASHED_WHOLE", 30)
    monkeypatch.setattr(local_store, "HASHED_ENDS", 10)
    one, two, middle, end = (
        hashed(put(tmp_path / name, content))
        for name, content in (
            ("one", b"a" * 40),
            ("two", b"a" * 40),
            ("middle", b"a" * 15 + b"b" * 10 + b"a" * 15),
            ("end", b"a" * 39 + b"b"),
        )
    )
    assert one == two == middle != end
    assert hashed(put(tmp_path / "small", b"a" * 30)) != one


def test_what_a_crash_left_under_both_names_is_removed_where_it_came_from(tmp_path: Path) -> None:
    target = put(tmp_path / "backup" / "f.csv")
    move(put(tmp_path / "f.csv"), target)
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]
    assert [path.name for path in target.parent.iterdir()] == ["f.csv"]


def test_another_file_of_the_name_is_not_overwritten(tmp_path: Path) -> None:
    target = put(tmp_path / "backup" / "f.csv", b"of an earlier load\n")
    for content in (b"new\n", b"newer\n"):
        move(put(tmp_path / "f.csv", content), target)
    found = {path.name: path.read_bytes() for path in target.parent.iterdir()}
    assert found == {"f.csv": b"of an earlier load\n", "f.csv.2": b"new\n", "f.csv.3": b"newer\n"}


def test_a_large_file_with_equal_ends_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_store, "HASHED_WHOLE", 30)
    monkeypatch.setattr(local_store, "HASHED_ENDS", 10)
    target = put(tmp_path / "backup" / "f.csv", b"a" * 40)
    changed = b"a" * 15 + b"b" * 10 + b"a" * 15
    move(put(tmp_path / "f.csv", changed), target)
    assert (tmp_path / "backup" / "f.csv.2").read_bytes() == changed


def test_a_file_rewritten_while_it_is_compared_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, target = put(tmp_path / "f.csv"), put(tmp_path / "backup" / "f.csv")
    place = local_store.free_place

    def rewritten(*arguments: Any) -> str | None:
        found = place(*arguments)
        file.write_bytes(b"another night\n")
        return found

    monkeypatch.setattr(local_store, "free_place", rewritten)
    move(file, target)
    assert file.read_bytes() == b"another night\n"


def test_a_file_is_copied_to_another_disk_then_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def on_one_disk(self: Path, target: Path) -> Path:
        if self.parent != Path(target).parent:
            raise OSError(errno.EXDEV, "another disk")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", on_one_disk)
    file = put(tmp_path / "f.csv")
    os.utime(file, (5, 5))
    move(file, tmp_path / "backup" / "f.csv")
    (there,) = (tmp_path / "backup").iterdir()
    assert (there.name, there.stat().st_mtime, file.exists()) == ("f.csv", 5, False)
