"""The data files of each version of a Delta table, read from its log, are those that delta-rs finds; no Spark."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakeward.adapters.formats.delta.writes import data_files
from lakeward.adapters.formats.delta.writes.data_files import Add, read_log
from lakeward.adapters.formats.shared.storage.folder import DiskFolder

LAST = 12


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 13 versions, some of which remove files, with checkpoints at two of them."""
    folder, chance = tmp_path_factory.mktemp("delta") / "table", random.Random(4)
    deltalake.write_deltalake(folder, pa.table({"id": [0]}))
    for version in range(1, LAST + 1):
        table = DeltaTable(folder)
        if chance.random() < 0.3:
            table.delete(f"id = {chance.randrange(version)}")
        if table.version() < version:
            deltalake.write_deltalake(folder, pa.table({"id": [version]}), mode="append")
        if version in (4, 9):
            DeltaTable(folder).create_checkpoint()
    return folder


@pytest.fixture
def table(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "table"))


def found_in(table: Path, version: int = LAST) -> set[str] | None:
    found = read_log(DiskFolder(table), version)
    return None if found is None else {str(table / add["path"]) for add in found}


def log_of(table: Path, version: int, kind: str = "json") -> Path:
    return table / "_delta_log" / f"{version:020}.{kind}"


@pytest.mark.parametrize("forgets", [False, True])
def test_the_files_of_a_version_are_those_that_delta_rs_finds(table: Path, *, forgets: bool) -> None:
    for version in range(5 if forgets else 0):
        log_of(table, version).unlink()
    versions = range(4 if forgets else 0, LAST + 1)
    expected = {version: set(DeltaTable(table, version=version).file_uris()) for version in versions}
    assert {version: found_in(table, version) for version in versions} == expected


def test_what_a_checkpoint_says_of_a_file_is_what_its_commit_said(table: Path) -> None:
    newest = read_log(DiskFolder(table), 9)
    log_of(table, 9, "checkpoint.parquet").unlink()
    log_of(table, 4, "checkpoint.parquet").unlink()
    replayed = read_log(DiskFolder(table), 9)
    assert newest is not None
    assert replayed is not None
    assert {add["path"]: _said(add) for add in newest} == {add["path"]: _said(add) for add in replayed}


def _said(add: Add) -> Add:
    """Return what is said of a file: whether its rows are new only a commit knows, and NULL says nothing."""
    said = {name: value for name, value in add.items() if name != "dataChange" and value is not None}
    return {**said, "stats": json.loads(add["stats"])}


def _lose_a_commit(table: Path) -> None:
    log_of(table, 11).unlink()


def _lose_the_last_commit(table: Path) -> None:
    log_of(table, LAST).unlink()


def _name_a_file_by_url(table: Path) -> None:
    log = log_of(table, LAST)
    log.write_text(log.read_text().replace('"path":"', '"path":"file:///elsewhere/'))


def _encode_a_path(table: Path) -> None:
    log = log_of(table, LAST)
    log.write_text(log.read_text().replace('"path":"part-', '"path":"part%2D'))


def _keep_files_in_sidecars(table: Path) -> None:
    checkpoint = log_of(table, 9, "checkpoint.parquet")
    rows = pq.read_table(checkpoint)
    named = pa.array([None, {"path": "elsewhere.parquet"}] + [None] * (rows.num_rows - 2))
    pq.write_table(rows.drop_columns("sidecar").append_column("sidecar", named), checkpoint)


@pytest.mark.parametrize(
    "change", [_lose_a_commit, _lose_the_last_commit, _name_a_file_by_url, _encode_a_path, _keep_files_in_sidecars]
)
def test_a_log_of_another_form_is_left_to_delta(table: Path, change: Callable[[Path], None]) -> None:
    assert found_in(table) is not None
    change(table)
    assert found_in(table) is None


def test_a_long_log_is_left_to_delta(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "_MOST_BYTES", 1000)
    assert found_in(table) is None
