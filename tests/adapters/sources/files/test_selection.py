"""Choosing plain files: without Spark, which only reading needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from plain_sources import source_of

from lakeward.adapters.sources.files.inventory import FilesSourceInventory
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.paths.file_names import time_of
from lakeward.adapters.sources.files.source import FilesSource
from lakeward.core.checks.event_order import ARRIVAL, LOG_PLACE, OrderBy
from lakeward.core.dimension import Dimension, Older, Snapshots, TableName
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.ledger.full_loads import Load
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.schema import Column, Schema, Type, parse_type

ORDERS = TableName("shop", "orders")
MESSAGES = {"format": "debezium"}


@pytest.fixture
def source(tmp_path: Path) -> FilesSource:
    return files(tmp_path, "1.csv")


def dimension(snapshots: Snapshots | None = None) -> Dimension:
    columns = Schema((Column("id", Type("int")),))
    return Dimension(name=ORDERS, key=("id",), schema=columns, snapshots=snapshots)


def test_a_full_load_that_no_file_can_be_of_is_not_waited_for(source: FilesSource) -> None:
    """A reload would wait for it for ever, and leave out the files that are there."""
    assert len(source.select_objects(dimension(), ObjectHistory()).objects) == 1
    with pytest.raises(ConfigError, match="none of them is a full load") as refused:
        source.select_objects(dimension(), ObjectHistory(load=Load(epoch=2, since=1, cut=1)))
    assert "--withdraw" in str(refused.value.todo)
    selection = source.select_objects(dimension(Snapshots()), ObjectHistory(load=Load(epoch=2, settles=10)))
    assert selection.awaited is not None, "of snapshots each file is one"


def files(tmp_path: Path, *names: str, **options: object) -> FilesSource:
    """Return a source whose landing folder has files of these names."""
    for name in names:
        file = tmp_path / "shop" / "orders" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("id\n1\n", encoding="utf-8")
    return source_of(tmp_path, options)


DAYS = r"(?P<time>\d{4}-\d{2}-\d{2})/.*"


def test_files_of_a_snapshot_whose_folder_has_its_time_are_counted_from_there(tmp_path: Path) -> None:
    names = ("2026-11-21/part-10.csv", "2026-11-21/part-9.csv", "2026-11-22/part-9.csv")
    source = files(tmp_path, *names, snapshots="folder", names=DAYS)
    load = Load(epoch=1, settles=10)
    selection = source.select_objects(dimension(Snapshots()), ObjectHistory(load=load))
    assert [item.name for item in selection.objects] == ["2026-11-21/part-9.csv", "2026-11-21/part-10.csv"]
    one, other = (item.order for item in selection.objects)
    assert (other - one, time_of(one), time_of(other)) == (1, time_of(one), time_of(one))
    seen = {item.name: item for item in selection.objects}
    files(tmp_path, "2026-11-21/part-1.csv")
    again = source.select_objects(
        dimension(Snapshots()), ObjectHistory(applied=seen, load=Load(epoch=2, settles=10))
    )
    places = {item.name: item.order for item in (*again.objects, *again.remaining)}
    assert places["2026-11-21/part-1.csv"] == other + 1, "those that have a place keep it"
    assert places["2026-11-22/part-9.csv"] > other + 1


def _settled(source: FilesSource, known: ObjectHistory, load: Load) -> ObjectSelection:
    """Select twice, so far apart that the files have settled."""
    first = source.select_objects(dimension(Snapshots()), replace(known, load=load, now=100))
    return source.select_objects(dimension(Snapshots()), replace(known, load=load, now=200, awaited=first.awaited))


def _write_anew(tmp_path: Path, *names: str) -> None:
    for name in names:
        file = tmp_path / "shop" / "orders" / name
        file.write_text("id\n2\n3\n", encoding="utf-8")
        os.utime(file, (2e9, 2e9))


@pytest.mark.parametrize("named", [{"names": DAYS}, {}], ids=["dated", "counted"])
@pytest.mark.parametrize("older", Older)
def test_a_folder_is_selected_whole_again_after_one_of_its_files_changed(
    tmp_path: Path, older: Older, named: dict[str, str]
) -> None:
    parts = ("21/part-9.csv", "21/part-10.csv")
    of = [f"2026-11-{part}" for part in parts]
    for place, written in enumerate([of[:1], of[1:], of, ["2026-11-21/part-11.csv"]]):
        folder = tmp_path / str(place)
        source = files(folder, *of, snapshots="folder", **named)
        first = _settled(source, ObjectHistory(), Load(epoch=1, settles=10)).objects
        known = ObjectHistory(applied={item.name: item for item in first})
        assert [*known.applied] == of
        load = Load(epoch=2, settles=10, older=older)
        assert not _settled(source, known, load).remaining, "nothing is new"
        _write_anew(folder, *written)
        found = _settled(source, known, load)
        assert [item.name for item in found.objects] == list(dict.fromkeys([*of, *written]))
        assert (found.load_epoch, found.excluded, found.is_first) == (2, (), bool(named))


def test_a_snapshot_has_its_partitions_and_files_outside_of_folders_are_ignored(tmp_path: Path) -> None:
    of = ("2026-01-01/region=eu/a.csv", "2026-01-01/region=us/b.csv", "2026-01-02/region=eu/a.csv", "list.csv")
    source = files(tmp_path, *of, snapshots="folder", path_columns=["region"])
    selection = source.select_objects(dimension(Snapshots()), ObjectHistory(load=Load(epoch=1, settles=0)))
    assert [item.name for item in selection.objects] == [*of[:2]]
    assert selection.unrelated_files == ("list.csv",)
    with pytest.raises(SourceError, match="whether the folder 2026-01-01/region=eu is a snapshot"):
        files(tmp_path, snapshots="folder").select_objects(dimension(Snapshots()), ObjectHistory())


def test_an_older_folder_is_spliced_whole_after_one_of_its_files_changed(tmp_path: Path) -> None:
    of = ["2026-11-21/part-9.csv", "2026-11-21/part-10.csv"]
    source = files(tmp_path, *of, snapshots="folder", names=DAYS)
    before = _settled(source, ObjectHistory(), Load(epoch=1, settles=10)).objects
    left = frozenset(item.version for item in before)
    files(tmp_path, "2026-11-22/part-9.csv")
    object_history = ObjectHistory(earlier_versions=left, load=Load(epoch=2, settles=10))
    newest = source.select_objects(dimension(Snapshots()), object_history).remaining
    known = ObjectHistory(applied={item.name: item for item in newest}, earlier_versions=left)
    assert [*known.applied] == ["2026-11-22/part-9.csv"]
    _write_anew(tmp_path, of[1])
    load = Load(epoch=3, settles=10, older=Older.SPLICE)
    found = _settled(source, known, load)
    assert ([item.name for item in found.objects], found.load_epoch, found.is_first) == (of, 2, False)
    skips = replace(load, older=Older.SKIP)
    aside = source.select_objects(dimension(Snapshots()), replace(known, load=skips)).excluded
    assert [item.name for item in aside] == of[1:]
    _write_anew(tmp_path, "2026-11-22/part-9.csv")
    newer = _settled(source, known, skips)
    assert ([item.name for item in newer.objects], newer.is_first) == (["2026-11-22/part-9.csv"], False)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("9223372036854775808.csv", r"(?P<counter>\d+)\.csv"),
        ("10000000000000000.csv", r"(?P<hex>\d+)\.csv"),
        ("2999-12-31.csv", r"(?P<time>.*)\.csv"),
    ],
)
def test_a_file_whose_name_counts_too_far_stops_the_table(tmp_path: Path, name: str, pattern: str) -> None:
    source = files(tmp_path, name, names=pattern)
    with pytest.raises(SourceError, match=f"{name} has no place in the order of files"):
        source.select_objects(dimension(), ObjectHistory())


def test_files_of_keys_and_headers_of_a_sink_are_expected(tmp_path: Path) -> None:
    sidecars = ["t+0+0000000001.keys.json", "t+0+0000000001.headers.json"]
    source = files(tmp_path, "t+0+0000000001.json", "note.txt", *sidecars, format="debezium")
    assert source.select_objects(dimension(), ObjectHistory()).unrelated_files == ("note.txt",)


def test_a_file_whose_name_is_no_utf_8_stops_the_table_or_is_reported(tmp_path: Path) -> None:
    source = files(tmp_path, "1.csv", os.fsdecode(b"note\xff.txt"))
    assert source.select_objects(dimension(), ObjectHistory()).unrelated_files == ("note\\xff.txt",)
    files(tmp_path, os.fsdecode(b"2\xff.csv"))
    with pytest.raises(SourceError, match="the name of a file is no text") as refused:
        source.select_objects(dimension(), ObjectHistory())
    assert "2\\xff.csv" in str(refused.value.found)


def test_snapshots_need_no_order_of_their_rows(tmp_path: Path) -> None:
    def said(**options: str) -> list[str]:
        source = files(tmp_path, "1.csv", **options)
        return [*FilesSourceInventory(source.options, source.folder).cautions(ORDERS)]

    assert [words.split(":")[0] for words in said()] == ["No `order_by` is set"]
    assert [said(order_by="id"), said(format="debezium"), said(snapshots="file")] == [[], [], []]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("x:y/2026-01-01T10:00:00.csv", "its path has a colon in the name of the file"),
        ("x:y/a[1].csv", "its path has a colon and one of []{}*?"),
    ],
)
def test_a_file_that_spark_cannot_read_stops_its_table_before_anything_is_read(
    tmp_path: Path, name: str, found: str
) -> None:
    """One that is none of the table's is left alone, and a colon in the name of a folder alone does no harm."""
    source = files(tmp_path, "x:y/a.csv", "b:c.txt", "a[1].csv")
    selection = source.select_objects(dimension(), ObjectHistory())
    assert {item.name for item in selection.objects} == {"x:y/a.csv", "a[1].csv"}
    source = files(tmp_path, name)
    with pytest.raises(SourceError, match="Spark cannot read x:y/") as refused:
        source.select_objects(dimension(), ObjectHistory())
    assert str(refused.value.found).startswith(found)
    assert f"Rename it without the colon, to {name.replace(':', '-')} say" in str(refused.value.todo)


@pytest.mark.parametrize(
    ("said", "snapshots", "order_by"),
    [
        ({"order_by": "at"}, None, str(OrderBy("at", "UTC", ""))),
        ({"order_by": "at", "source_zone": "Asia/Tokyo"}, None, str(OrderBy("at", "Asia/Tokyo", ""))),
        ({"order_by": "on"}, None, str(OrderBy("on", "UTC", "dd/MM/yyyy"))),
        ({}, None, ""),
        ({"order_by": "at"}, Snapshots(), None),
        ({"format": "debezium"}, None, LOG_PLACE),
        ({"format": "debezium", "places": "arrival"}, None, ARRIVAL),
        ({"format": "dms-json"}, None, ARRIVAL),
    ],
)
def test_the_source_names_what_orders_rows(
    source: FilesSource, said: Mapping[str, str], snapshots: Snapshots | None, order_by: str | None
) -> None:
    source.options = FilesOptions.model_validate({"path": source.options.path, **said})
    source.patterns = {dimension().source: {"on": "dd/MM/yyyy"}}
    assert source.order_by(dimension(snapshots)) == order_by


@pytest.mark.parametrize(
    ("type_", "said", "words"),
    [
        ("timestamp", {"source_zone": "Asia/Tokyo"}, "column 1 in the format 'dd/MM/yyyy', times in Asia/Tokyo"),
        ("decimal(5,2)", MESSAGES, "column 1 written as unscaled"),
        ("decimal(5,2)", {**MESSAGES, "decimals": "string"}, "column 1 written as plain"),
        ("timestamp_ntz", {**MESSAGES, "times": "connect"}, "column 1 written as epoch-millis"),
        ("binary", {**MESSAGES, "binary": "bytes"}, "column 1 written as base64"),
        ("binary", {**MESSAGES, "binary": "base64"}, "column 1 written as base64"),
        ("binary", {**MESSAGES, "binary": "hex"}, "column 1 written as hex"),
        ("string", {**MESSAGES, "binary": "hex"}, ""),
    ],
)
def test_the_source_names_how_the_key_is_read(
    source: FilesSource, type_: str, said: Mapping[str, str], words: str
) -> None:
    table = replace(dimension(), schema=Schema((Column("id", parse_type(type_)),)), key=("id",))
    source.options = FilesOptions.model_validate({"path": source.options.path, **said})
    if "format" not in said:
        source.patterns = {table.source: {"id": "dd/MM/yyyy"}}
    assert source.key_form(table) == words
