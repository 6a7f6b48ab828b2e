"""A landing folder: which files are those of DMS, what they begin with, what cannot be read."""

from __future__ import annotations

import bz2
import gzip
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakeward.adapters.sources.csv.layout import OP, ExpectedLayout, find_layout
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.dms import build
from lakeward.adapters.sources.dms.paths.file_names import PLACES, STANDARD, Names
from lakeward.adapters.sources.landing.file_head import HEAD_BYTES, MAX_HEAD_BYTES
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.local_store import LocalStore
from lakeward.adapters.sources.landing.places import Place, Places
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.schema import Column, Schema, Type
from lakeward.plugins import Runtime

TABLE = TableName("shop", "orders")


@pytest.fixture
def landing(tmp_path: Path) -> Folder:
    (tmp_path / "shop" / "orders").mkdir(parents=True)
    return Folder(tmp_path, PLACES)


def put(landing: Folder, name: str, content: bytes = b"I,1\n") -> Path:
    file = landing.root / "shop" / "orders" / name
    file.parent.mkdir(parents=True, exist_ok=True)
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
    put(landing, "LOAD00000003.csv/notes.txt")
    put(landing, "_temporary/LOAD00000004.csv")
    found, others = landing.list(TABLE)
    assert [item.name for item in found] == ["LOAD00000001.csv"]
    assert others == ["LOAD00000003.csv/notes.txt", "copy of LOAD00000001.csv", "notes.txt"]


def test_a_table_without_a_folder_has_no_files(landing: Folder) -> None:
    assert landing.list(TableName("shop", "lines")) is None


def named(folder: Folder) -> list[str]:
    found, _ = folder.list(TABLE) or ((), ())
    return [item.name for item in sorted(found, key=lambda item: item.order)]


def test_segments_and_date_folders_are_read_in_the_order_of_their_files(landing: Folder) -> None:
    """As text, the 1st of December comes before the 21st of November."""
    names = [
        "LOAD00000001.csv",
        "LOAD0000000A.csv",
        "SEGMENT1_LOAD00000001.csv",
        "SEGMENT10_LOAD00000001.csv",
        "21/11/2026/20261121-100000000.csv",
        "2026-11-22/20261122-100000000.parquet",
        "01/12/2026/20261201-100000000.csv.gz",
    ]
    for name in [*reversed(names), "archive/20261121-100000000.csv"]:
        put(landing, name)
    assert named(landing) == names
    assert (landing.list(TABLE) or ((), ()))[1] == ["archive/20261121-100000000.csv"]


def test_links_are_not_followed(landing: Folder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "LOAD00000001.csv").write_text("1\n")
    inner = Folder(tmp_path / "landing", PLACES)
    put(inner, "LOAD00000002.csv")
    own = inner.root / "shop" / "orders"
    (own / "LOAD00000001.csv").symlink_to(outside / "LOAD00000001.csv")
    (own / "part").symlink_to(outside)
    (own / "loop").symlink_to(own)
    found, others = inner.list(TABLE) or ((), ())
    assert [item.name for item in found] == ["LOAD00000002.csv"]
    assert others == ["LOAD00000001.csv", "loop", "part"]


def test_a_tables_folder_that_is_a_link_out_of_the_landing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "landing" / "shop").mkdir(parents=True)
    (tmp_path / "landing" / "shop" / "orders").symlink_to(tmp_path / "outside")
    with pytest.raises(SourceError, match="leads out of the landing folder"):
        Folder(tmp_path / "landing", PLACES).list(TABLE)


def test_the_landing_folder_itself_may_be_a_link(landing: Folder, tmp_path: Path) -> None:
    put(landing, "LOAD00000001.csv", b"1,a\n")
    (tmp_path / "link").symlink_to(landing.root)
    linked = Folder(tmp_path / "link", PLACES)
    assert named(linked) == ["LOAD00000001.csv"]
    assert linked.head(TABLE, "LOAD00000001.csv") == "1,a\n"


@pytest.mark.parametrize("name", ["../../secret.csv", "part/../../../secret.csv", "/etc/passwd"])
def test_no_name_leads_out_of_the_landing_folder(landing: Folder, name: str) -> None:
    with pytest.raises(SourceError, match="leads out of the landing folder"):
        landing.head(TABLE, name)


def test_the_folder_of_exactly_that_name_counts_and_of_two_others_neither(tmp_path: Path) -> None:
    for name in ("Orders", "ORDERS"):
        (tmp_path / "shop" / name).mkdir(parents=True)
    with pytest.raises(SourceError, match="its folder is ambiguous") as refused:
        Folder(tmp_path, PLACES).list(TABLE)
    assert "shop/ORDERS and shop/Orders" in str(refused.value.found)
    (tmp_path / "shop" / "orders").mkdir()
    assert Folder(tmp_path, PLACES).list(TABLE) == ([], [])


SPLIT = Places(Place(STANDARD, load="full/{schema}/{table}", changes="cdc/{schema}/{table}"))


def test_a_full_load_and_its_changes_may_lie_apart(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SPLIT)
    paths = ["full/shop/orders/LOAD00000001.csv", "cdc/shop/orders/20261121/20261121-100000000.csv"]
    strange = ["full/shop/orders/20261121-100000000.csv", "cdc/shop/orders/LOAD00000001.csv"]
    for path in paths + strange:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    found, others = folder.list(TABLE) or ((), ())
    assert [item.name for item in found] == paths
    assert others == sorted(strange)
    assert [folder.head(TABLE, name) for name in paths] == paths
    assert [SPLIT.of(TABLE).known(TABLE, name).is_load for name in paths] == [True, False]
    assert folder.tables() == [TABLE]
    with pytest.raises(ValueError, match="no name that a file of"):
        SPLIT.of(TABLE).known(TABLE, strange[0])


def test_changes_may_lie_within_the_folder_of_the_full_load(tmp_path: Path) -> None:
    folder = Folder(tmp_path, Places(Place(STANDARD), {TABLE: Place(STANDARD, changes="shop/orders/cdc")}))
    for path in ("LOAD00000001.csv", "cdc/20261121-100000000.csv", "cdc/LOAD00000001.csv"):
        put(folder, path)
    found, others = folder.list(TABLE) or ((), ())
    assert [(i.name, folder.places.of(TABLE).known(TABLE, i.name).is_load) for i in found] == [
        ("shop/orders/LOAD00000001.csv", True),
        ("shop/orders/cdc/LOAD00000001.csv", True),
        ("shop/orders/cdc/20261121-100000000.csv", False),
    ]
    assert others == []


def test_files_of_any_name_are_found_by_patterns(tmp_path: Path) -> None:
    names = Names(load=re.compile(r"export/.*\.txt"), changes=re.compile(r"delta_(?P<counter>\d+)"))
    folder = Folder(tmp_path, Places(Place(names)))
    for name in ("export/all orders.txt", "delta_9", "delta_10", "LOAD00000001.csv"):
        put(folder, name)
    assert named(folder) == ["export/all orders.txt", "delta_9", "delta_10"]


def test_a_file_that_both_patterns_take_is_refused(tmp_path: Path) -> None:
    names = Names(load=re.compile(r".*\.csv"), changes=re.compile(r".*/(?P<counter>\d+)\.csv"))
    folder = Folder(tmp_path, Places(Place(names, load="{schema}/{table}", changes="{schema}/{table}/cdc")))
    put(folder, "cdc/sub/1.csv")
    with pytest.raises(ConfigError, match="both of its full load and of its changes"):
        folder.list(TABLE)


def test_a_landing_folder_that_is_missing_is_a_mistake_in_the_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the landing folder .*nowhere does not exist") as refused:
        Folder(tmp_path / "nowhere", PLACES).list(TABLE)
    assert "`path` under [source]" in str(refused.value.todo)


def test_a_file_in_the_place_of_a_tables_folder_stops_that_table(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "orders").touch()
    with pytest.raises(SourceError, match=r"shop\.orders: its folder cannot be read") as refused:
        Folder(tmp_path, PLACES).list(TABLE)
    assert "Other tables go on" in str(refused.value.todo)


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("LOAD00000001.csv", bytes),
        ("LOAD00000001.csv.gz", gzip.compress),
        ("a.csv.bz2", bz2.compress),
        ("a.CSV.BZ2", bz2.compress),
    ],
)
def test_the_head_of_a_small_file_is_all_of_it(landing: Folder, name: str, pack: Callable[[bytes], bytes]) -> None:
    put(landing, name, pack("1,Köln\n2,Kiel".encode()))
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


@pytest.mark.parametrize("op", ["", "I,"])
def test_the_head_has_the_first_row_whole_whatever_lines_are_in_its_quotes(landing: Folder, op: str) -> None:
    first = f'{op}1,"{"line" * 4096}' + "\r\na" * HEAD_BYTES + '"\r\n'
    put(landing, "LOAD00000001.csv", (first + f"{op}2,b\r\n" * HEAD_BYTES).encode())
    head = landing.head(TABLE, "LOAD00000001.csv", quote='"')
    assert head.startswith(first)
    assert len(head) < len(first) + 2 * HEAD_BYTES
    schema = Schema((Column("id", Type("int")), Column("note", Type("string"))))
    expected = ExpectedLayout(Dimension(name=TABLE, schema=schema, key=("id",)), Dialect(), "Op", None)
    found = find_layout("LOAD00000001.csv", head, expected, is_load=True)
    assert found.columns == ((OP, "id", "note") if op else ("id", "note"))
    assert (found.has_header, found.is_crlf) == (False, True)


def test_a_quote_that_is_never_closed_is_not_looked_for_without_end(landing: Folder) -> None:
    put(landing, "LOAD00000001.csv", b'1,"a\n' + (b"b" * 4095 + b"\n") * (5 * 1024))
    assert len(landing.head(TABLE, "LOAD00000001.csv", quote='"')) <= MAX_HEAD_BYTES


def test_the_end_of_a_great_row_is_seen_where_it_lies_across_what_is_read_at_once(landing: Folder) -> None:
    put(landing, "LOAD00000001.csv", b"x" * (2 * HEAD_BYTES - 1) + b"|~2,y|~" + b"z" * HEAD_BYTES)
    assert landing.head(TABLE, "LOAD00000001.csv", "|~").endswith("x|~2,y|~")


WHOLE = "Replace the file by a whole one"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        pytest.param("a.csv.gz", b"I,1\n", [WHOLE], id="no gzip"),
        pytest.param("a.csv.gz", gzip.compress(b"I,1\n" * 1000)[:-20], [WHOLE], id="gzip is cut off"),
        pytest.param("a.csv.gz", gzip.compress(b"I,1\n" * 1000)[:20] + b"\0" * 40, [WHOLE], id="gzip is damaged"),
        pytest.param("a.csv.bz2", b"I,1\n", [WHOLE], id="no bzip2"),
        pytest.param("a.csv.bz2", bz2.compress(b"I,1\n" * 1000)[:-20], [WHOLE], id="bzip2 is cut off"),
        # The header would not be seen, and be read as a row by what unpacks the rest.
        *(
            (f"a.csv.{ending}", b"\x28\xb5\x2f\xfd", [f"packed as .{ending}", "gzip (.gz) or bzip2 (.bz2)"])
            for ending in ("zst", "snappy", "lz4", "deflate", "ZST")
        ),
    ],
)
def test_a_packed_file_in_error_is_named(landing: Folder, name: str, content: bytes, words: list[str]) -> None:
    put(landing, name, content)
    with pytest.raises(SourceError, match=rf"shop\.orders: {name} cannot be read") as refused:
        landing.head(TABLE, name)
    assert [word for word in words if word not in f"{refused.value.found} {refused.value.todo}"] == []


def test_a_file_that_went_away_is_named(landing: Folder) -> None:
    with pytest.raises(SourceError, match=r"LOAD00000009\.csv cannot be read"):
        landing.head(TABLE, "LOAD00000009.csv")


def test_applied_files_are_put_away_and_found_there(landing: Folder) -> None:
    kept = Folder(landing.root, PLACES, archive=landing.root.parent / "backup")
    put(kept, "LOAD00000001.csv", b"1,a\n")
    ((found,), _) = kept.list(TABLE)
    for _ in range(2):
        assert kept.archive_files(TABLE, [found]) == ["LOAD00000001.csv"]
    assert kept.list(TABLE) == ([], [])
    assert kept.head(TABLE, "LOAD00000001.csv") == "1,a\n"
    assert Folder(landing.root, PLACES).archive_files(TABLE, [found]) == []


def test_a_file_that_changed_since_it_was_applied_stays(landing: Folder) -> None:
    kept = Folder(landing.root, PLACES, archive=landing.root.parent / "backup")
    file = put(kept, "LOAD00000001.csv", b"1,a\n")
    ((found,), _) = kept.list(TABLE)
    put(kept, "LOAD00000001.csv", b"1,a\n2,b\n")
    assert kept.archive_files(TABLE, [found]) == []
    assert file.exists()


class SlowStore(LocalStore):
    """Moves a file as to another disk: for a while it is in neither place whole."""

    def move(self, path: str, target: str) -> None:
        content = Path(path).read_bytes()
        time.sleep(0.05)
        Path(path).unlink()
        time.sleep(0.05)
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).write_bytes(content)


def test_two_tables_of_one_that_put_its_files_away_at_once_wait_for_each_other(landing: Folder) -> None:
    kept = Folder(landing.root, PLACES, archive=landing.root.parent / "backup", store=SlowStore())
    for number in range(1, 4):
        put(kept, f"LOAD0000000{number}.csv", b"1,a\n")
    found, _ = kept.list(TABLE)
    with ThreadPoolExecutor(2) as pool:
        moved = list(pool.map(lambda _: sorted(kept.archive_files(TABLE, found)), range(2)))
    assert moved == [[f"LOAD0000000{number}.csv" for number in range(1, 4)]] * 2


def test_an_archive_that_cannot_be_written_is_said(landing: Folder) -> None:
    (landing.root / "in the way").touch()
    kept = Folder(landing.root, PLACES, archive=landing.root / "in the way")
    put(kept, "LOAD00000001.csv")
    ((found,), _) = kept.list(TABLE)
    with pytest.raises(SourceError, match="cannot be moved into the archive"):
        kept.archive_files(TABLE, [found])


@pytest.mark.parametrize("archive", ["landing", "landing/backup", "./landing/shop"])
def test_an_archive_within_the_landing_folder_is_refused(tmp_path: Path, archive: str) -> None:
    options = {"path": "landing", "landing": "archived", "archive": archive, "formats": {}}
    with pytest.raises(ConfigError, match="lies within the landing folder"):
        build(options, Runtime(lambda: None, tmp_path))
    assert build({**options, "landing": "kept"}, Runtime(lambda: None, tmp_path))


def test_a_folder_in_other_letters_is_found_where_its_schema_is_there_in_two_spellings(tmp_path: Path) -> None:
    for name in ("shop/lines", "SHOP/Orders"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "SHOP" / "Orders" / "LOAD00000001.csv").write_text("1\n")
    folder = Folder(tmp_path, PLACES)
    assert named(folder) == ["LOAD00000001.csv"]
    assert folder.path(TABLE, "LOAD00000001.csv") == str(tmp_path.resolve() / "SHOP/Orders/LOAD00000001.csv")
    (tmp_path / "shop" / "ORDERS").mkdir()
    with pytest.raises(SourceError, match="its folder is ambiguous"):
        Folder(tmp_path, PLACES).list(TABLE)
