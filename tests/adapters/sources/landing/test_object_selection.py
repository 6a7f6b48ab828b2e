"""Choosing files of a folder, and seeing whether they changed while they were read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeward.adapters.sources.dms.paths.file_names import PLACES, STANDARD
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.object_selection import select_files, select_unchanged
from lakeward.adapters.sources.landing.places import Place, Places
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import AlarmRaised
from lakeward.core.ledger.full_loads import Load, LoadStatus
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection
from lakeward.core.schema import Schema

ITEM = TableName("shop", "item")
SECOND = 1_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "shop" / "item" / "LOAD00000001.csv"
    made.parent.mkdir(parents=True)
    return made


def write(file: Path, content: str, second: int) -> None:
    file.write_text(content, "utf-8")
    os.utime(file, (second, second))


def applied(folder: Folder) -> SourceObject:
    ((item,), _) = folder.list(ITEM) or ((), ())
    return SourceObject(item.name, item.order, item.size, item.modified, folder.etag(ITEM, item.name))


def chosen(folder: Folder, object_history: ObjectHistory) -> ObjectSelection:
    return select_files(
        folder,
        Dimension(name=ITEM, schema=Schema(())),
        object_history,
        Limits(),
        lambda _table, listed, _past: listed,
    )


def test_a_load_of_the_size_of_the_one_before_is_the_same_after_it_was_read(tmp_path: Path, file: Path) -> None:
    """Its content was looked at, since its time alone differs: that is no change."""
    folder = Folder(tmp_path, PLACES)
    write(file, "1,a\n", 100)
    before = applied(folder)
    write(file, "1,b\n", 200)
    load = Load(epoch=2, since=1, cut=50, status=LoadStatus(began=150 * SECOND, ended=250 * SECOND))
    selection = chosen(folder, ObjectHistory(applied={before.name: before}, last_applied=before.name, load=load))
    assert selection.load_epoch == 2
    assert select_unchanged(folder, ITEM, selection).objects == selection.objects != ()
    write(file, "1,c\n", 300)
    assert select_unchanged(folder, ITEM, selection).objects == ()


def test_the_archive_is_looked_into_where_a_table_begins(tmp_path: Path, file: Path) -> None:
    (tmp_path / "backup" / "shop" / "item").mkdir(parents=True)
    folder = Folder(tmp_path, PLACES, tmp_path / "backup")
    change = file.with_name("20261121-100000000.csv")
    write(change, "U,1,a\n", 100)
    assert [item.name for item in chosen(folder, ObjectHistory(has_no_batch=True)).objects] == [change.name]
    for name in (".hidden", "LOAD00000002.csv", file.name):
        write(tmp_path / "backup" / "shop" / "item" / name, "1,a\n", 50)
    with pytest.raises(AlarmRaised) as raised:
        chosen(folder, ObjectHistory(has_no_batch=True))
    assert (raised.value.code, raised.value.about) == ("LEDGER-006", (file.name,))
    assert [item.name for item in chosen(folder, ObjectHistory()).objects] == [change.name], "it has rows"
    write(file, "1,a\n", 100)
    assert [item.name for item in chosen(folder, ObjectHistory(has_no_batch=True)).objects] == [
        file.name,
        change.name,
    ]


def test_files_of_two_folders_are_seen_alike_whatever_they_are_called(tmp_path: Path, file: Path) -> None:
    folder = Folder(tmp_path, Places(Place(STANDARD, shared="cdc")))
    write(file, "1,a\n", 100)
    changes = tmp_path / "cdc" / "CDC_TXN-20201117153046033.csv"
    changes.parent.mkdir()
    write(changes, "I,item,shop,2,b\n", 200)
    listed, _ = folder.list(ITEM) or ((), ())
    assert len(listed) == 2
    for items in (listed, listed[:1], listed[1:]):
        assert select_unchanged(folder, ITEM, ObjectSelection(tuple(items))).objects == tuple(items)
