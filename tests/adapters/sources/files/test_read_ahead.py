"""Batches of messages that are read ahead: their events are those of batches that are read when they are due."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from feed_reader import rows_of
from item_messages import ITEM, insert_line
from plain_sources import source_of

from lakeward.adapters.sources.files import source as source_module
from lakeward.adapters.sources.files.local.message_columns.reader import MessageBatch
from lakeward.adapters.sources.files.source import FilesSource
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import Limits, ObjectHistory

SETTINGS: Final[Mapping[str, Any]] = {"format": "debezium", "max_files": 2}
HERE: Final = "MainThread"
ROWS: Final = 20


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that read batches, and the first file of each batch."""
    read, threads = MessageBatch.read, list[str]()

    def noted(batch: MessageBatch) -> Any:
        thread = threading.current_thread().name
        threads.append(f"{batch.files[0].item.name} {HERE if thread == HERE else thread.split('_')[0]}")
        return read(batch)

    monkeypatch.setattr(MessageBatch, "read", noted)
    return threads


def write(folder: Path, number: int, note: str = "a") -> Path:
    """Write a file of messages, whose rows have the note."""
    file = folder / "shop" / "item" / f"{number}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        "".join(insert_line(key, key, note) for key in range(100 * number, 100 * number + ROWS)), "utf-8"
    )
    return file


def source(folder: Path, *, reads_ahead: bool = True) -> FilesSource:
    limits = Limits(SETTINGS["max_files"])
    ahead = (lambda _, selection: selection.following(limits)) if reads_ahead else None
    return replace(source_of(folder, SETTINGS, small_batch=1), next_objects=ahead)


def next_batch(
    files: FilesSource, applied: dict[str, SourceObject], dimension: Dimension = ITEM
) -> Sequence[Mapping[str, Any]]:
    """Read the next batch, and return its rows."""
    batch = files.read(dimension, files.select_objects(dimension, ObjectHistory(applied=applied)), 1)
    applied |= {read.object.name: read.object for read in batch.facts.objects}
    return rows_of(batch.frame)


def test_the_next_batch_is_read_ahead_and_has_the_same_events(tmp_path: Path, readers: list[str]) -> None:
    for number in range(1, 6):
        write(tmp_path, number)
    ahead, due = dict[str, SourceObject](), dict[str, SourceObject]()
    files, others = source(tmp_path), source(tmp_path, reads_ahead=False)
    batches = [next_batch(files, ahead) for _ in range(3)]
    assert readers == [f"1.json {HERE}", "3.json read-ahead", "5.json read-ahead"]
    assert batches == [next_batch(others, due) for _ in range(3)]
    assert all(batches)
    assert ahead == due


def test_a_file_that_was_written_again_is_read_again(tmp_path: Path, readers: list[str]) -> None:
    for number in range(1, 4):
        write(tmp_path, number)
    files, applied = source(tmp_path), dict[str, SourceObject]()
    next_batch(files, applied)
    wait_for(files)
    write(tmp_path, 3, note="b")
    assert {row["note"] for row in next_batch(files, applied)} == {"b"}
    assert readers == [f"1.json {HERE}", "3.json read-ahead", f"3.json {HERE}"]


def test_what_could_not_be_read_ahead_is_read_when_it_is_due(tmp_path: Path, readers: list[str]) -> None:
    for number in range(1, 4):
        write(tmp_path, number)
    files, applied = source(tmp_path), dict[str, SourceObject]()
    third = tmp_path / "shop" / "item" / "3.json"
    content, modified = third.read_bytes(), third.stat().st_mtime_ns
    replace_content(third, b"x" * len(content), modified)
    next_batch(files, applied)
    wait_for(files)
    replace_content(third, content, modified)
    assert len(next_batch(files, applied)) == ROWS
    assert readers == [f"1.json {HERE}", "3.json read-ahead", f"3.json {HERE}"]


def test_a_large_batch_is_not_read_ahead(
    tmp_path: Path, readers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events would be in memory beside those of the last one."""
    for number in range(1, 4):
        write(tmp_path, number)
    size = (tmp_path / "shop" / "item" / "3.json").stat().st_size
    monkeypatch.setattr(source_module, "MOST_BYTES_AHEAD", size - 1)
    files, applied = source(tmp_path), dict[str, SourceObject]()
    assert [len(next_batch(files, applied)), len(next_batch(files, applied))] == [2 * ROWS, ROWS]
    assert readers == [f"1.json {HERE}", f"3.json {HERE}"]


def replace_content(file: Path, content: bytes, modified: int) -> None:
    file.write_bytes(content)
    os.utime(file, ns=(modified, modified))


def test_one_table_at_a_time_is_read_ahead(tmp_path: Path, readers: list[str]) -> None:
    other, applied = replace(ITEM, name=TableName("shop", "part")), dict[str, SourceObject]()
    for number in range(1, 4):
        write(tmp_path, number)
    (tmp_path / "shop" / "part").mkdir()
    for file in (tmp_path / "shop" / "item").iterdir():
        text = file.read_text("utf-8").replace('"item"', '"part"')
        (tmp_path / "shop" / "part" / file.name).write_text(text, "utf-8")
    files = source(tmp_path)
    for dimension, known in ((ITEM, applied), (other, {}), (ITEM, applied)):
        assert next_batch(files, known, dimension)
    assert sorted(readers) == [f"1.json {HERE}", f"1.json {HERE}", "3.json read-ahead"]


def test_a_table_without_a_next_batch_does_not_keep_others_from_reading_ahead(
    tmp_path: Path, readers: list[str]
) -> None:
    other = replace(ITEM, name=TableName("shop", "part"))
    (tmp_path / "shop" / "part").mkdir(parents=True)
    for number in range(1, 4):
        text = write(tmp_path, number).read_text("utf-8").replace('"item"', '"part"')
        (tmp_path / "shop" / "part" / f"{number}.json").write_text(text, "utf-8")
    (tmp_path / "shop" / "item" / "3.json").unlink()
    files, applied = source(tmp_path), dict[str, SourceObject]()
    next_batch(files, {})
    wait_for(files)
    assert [len(next_batch(files, applied, other)) for _ in range(2)] == [2 * ROWS, ROWS]
    assert readers == [f"1.json {HERE}", f"1.json {HERE}", "3.json read-ahead"]


def test_a_small_batch_is_not_read_ahead(tmp_path: Path, readers: list[str]) -> None:
    for number in range(1, 4):
        write(tmp_path, number)
    files = replace(source(tmp_path), small_batch=10)
    assert len(next_batch(files, {})) == 2 * ROWS
    wait_for(files)
    assert readers == [f"1.json {HERE}"]


def test_events_are_freed_with_their_batch(tmp_path: Path) -> None:
    """Python collects garbage so rarely that a cycle with them would last for batches."""
    write(tmp_path, 1)
    files = source(tmp_path, reads_ahead=False)
    batch = files.read(ITEM, files.select_objects(ITEM, ObjectHistory()), 1)
    assert batch.frame.rows.num_rows == ROWS
    rows = weakref.ref(batch.frame.rows)
    gc.disable()
    try:
        del batch
        assert rows() is None
    finally:
        gc.enable()


def wait_for(files: FilesSource) -> None:
    """Wait until what is read ahead has been read."""
    ahead = files.ahead_reader.ahead
    assert ahead is not None
    ahead.events.exception()
