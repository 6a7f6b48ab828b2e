"""Every bad input gives one of three results: an error before anything is written, a quarantined row, or a rule."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import ITEM, Project
from pyiceberg.catalog import Catalog, load_catalog

pytestmark = pytest.mark.spark

LOAD = "LOAD00000001.csv"
CDC = "20261121-100000000.csv"
OTHER = """
[tables."shop.other"]
key = ["id"]
columns = { id = "int" }
"""
D = Decimal


def has_no_table(project: Project) -> bool:
    """Return True if no table was created."""
    return not (project.folder / "lake" / "shop" / "item" / "metadata").exists()


# Errors before anything is written. Other tables continue.


def test_a_corrupt_gzip_file_is_named_and_other_tables_continue(project: Project) -> None:
    project.configure(ITEM + OTHER)
    whole = gzip.compress(b"1,a,1.00\n" * 30000)
    project.put(LOAD + ".gz", whole[: len(whole) // 2])
    project.put(LOAD, "7\n", "shop/other")
    assert f"{LOAD}.gz" in project.fails()
    assert has_no_table(project)
    assert project.rows("other", columns=("id",)) == [(7,)]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (f"{LOAD}.gz", "1,a,1.00\n", f"{LOAD}.gz cannot be read"),
        ("LOAD00000001.parquet", b"PAR1 and nothing else", "LOAD00000001.parquet"),
        (CDC, 'I,1,a,1.00\nI,2,"b,2.00\nI,3,c,3.00\n', "begins on line 2"),
        (CDC, "Op,name,price\n", "it lacks id"),
        (CDC, "Op,id,name,price,color\n", "it has color"),
        (CDC, "id,name,price\n", "it lacks Op"),
    ],
    ids=["no gzip", "no Parquet", "an unclosed quote", "a column less", "a column more", "no operation"],
)
def test_a_file_that_cannot_be_read_is_named_with_what_is_wrong(
    project: Project, name: str, content: bytes | str, said: str
) -> None:
    project.put(name, content)
    assert said in project.fails()
    assert has_no_table(project)


def test_a_parquet_file_that_is_cut_in_its_data_or_has_another_type_is_named(project: Project) -> None:
    names, prices = [f"name {i * 7919}" for i in range(5000)], pa.array([D("1.00")] * 5000, pa.decimal128(8, 2))
    file = project.put("LOAD00000001.parquet", b"")
    pq.write_table(pa.table({"id": pa.array(range(5000), pa.int32()), "name": names, "price": prices}), file)
    data = bytearray(file.read_bytes())
    data[200:4000] = bytes(3800)
    file.write_bytes(bytes(data))
    assert "LOAD00000001.parquet" in project.fails()
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "name": ["a"], "price": ["1.00"]}), file)
    said = project.fails()
    assert ("price" in said, "string" in said) == (True, True)
    assert has_no_table(project)


def test_a_file_of_another_width_throughout_is_refused(project: Project) -> None:
    project.put(LOAD, "1,a,1.00\n2,b,2.00\n")
    project.run()
    project.put(CDC, "I,3,c,3.00,red\nI,4,d,4.00,blue\n")
    assert "the row has 5 fields where 4 are expected" in project.fails()
    assert project.rows() == [(1, "a", D("1.00")), (2, "b", D("2.00"))]


def test_changed_columns_are_refused_if_the_settings_say_so(project: Project) -> None:
    project.put(LOAD, "1,a,1.00\n")
    project.run()
    refusing = '[tables."shop.item".schema]\nadd = "fail"\ndrop = "fail"\n'
    project.configure(ITEM.replace('name = "string"', 'title = "string"') + refusing)
    project.put(CDC, "I,2,b,2.00\n")
    assert "title" in (said := project.fails())
    assert "name" in said
    assert project.rows() == [(1, "a", D("1.00"))]


def test_a_column_with_another_name_is_another_column(project: Project) -> None:
    """Without a map of names, the old column keeps its values, and the new one begins empty."""
    project.put(LOAD, "1,a,1.00\n")
    project.run()
    project.configure(ITEM.replace('name = "string"', 'title = "string"'))
    project.put(CDC, "I,2,b,2.00\n")
    project.run()
    assert project.rows(columns=("id", "name", "title")) == [(1, "a", None), (2, None, "b")]


def test_a_table_of_another_writer_is_not_changed(project: Project) -> None:
    project.configure(ITEM + OTHER)
    project.put(LOAD, "1\n", "shop/other")
    project.put(LOAD, "1,a,1.00\n")
    catalog = catalog_of(project)
    catalog.create_namespace("shop")
    theirs = catalog.create_table(("shop", "item"), pa.schema([("id", pa.int32())]))
    theirs.append(pa.table({"id": pa.array([42], pa.int32())}))
    assert "lakeward did not make it" in project.fails()
    assert catalog.load_table(("shop", "item")).scan().to_arrow().to_pylist() == [{"id": 42}]
    catalog.close()
    assert project.rows("other", columns=("id",)) == [(1,)]


def catalog_of(project: Project) -> Catalog:
    """Create the catalog as another tool that comes first."""
    (project.folder / "lake").mkdir(exist_ok=True)
    uri = f"sqlite:///{project.folder}/lake/catalog.db"
    return load_catalog("lake", type="sql", uri=uri, warehouse=f"file://{project.folder}/lake")


def test_a_table_without_a_folder_may_be_misspelt(project: Project) -> None:
    project.configure(ITEM.replace("shop.item", "shop.itme"))
    project.put(LOAD, "1,a,1.00\n")
    ended = project.call("run", "--once", "--json")
    assert ended.code == 0
    assert any("Did you mean 'shop.item'?" in words for words in ended.document["tables"][0]["warnings"]), ended.out


def test_a_file_that_replaces_an_applied_one_stops_its_table(project: Project) -> None:
    """Otherwise its rows would be applied twice. One of the same name must not change either."""
    project.put(LOAD, "1,a,1.00\n")
    applied = project.put(CDC, "U,1,b,1.00\n")
    project.run()
    project.put(LOAD, "1,a,1.00\n2,b,2.00\n")
    assert project.run(4)["shop.item"]["error"]["code"] == "LEDGER-002"
    project.put(LOAD, "1,a,1.00\n")
    applied.unlink()
    project.put(CDC + ".gz", gzip.compress(b"U,1,c,1.00\n"))
    assert project.run(4)["shop.item"]["error"]["code"] == "LEDGER-001"


def test_a_batch_that_is_mostly_rejects_is_refused_before_anything_is_written(project: Project) -> None:
    project.configure(ITEM + "quarantine = { max_share = 0.05 }\n")
    project.put(CDC, "".join(f"I,{number},a,{'x' if number < 6 else 1}\n" for number in range(100)))
    assert "6 of the 100 rows of one batch cannot be applied" in project.fails()
    planned = project.call("plan")
    assert planned.code == 4
    assert "max_share = 0.05" in planned.err
    assert has_no_table(project)


def test_an_unreadable_key_stops_a_table_with_that_policy(project: Project) -> None:
    project.configure(ITEM + 'quarantine = { unreadable = "stop" }\n')
    project.put(LOAD, "1,a,1.00\n")
    project.put(CDC, "I,2,b,2.00\nI,three,c,3.00\n")
    assert f"{CDC} has 1 row whose key cannot be read" in project.fails()
    assert has_no_table(project)


def test_a_missing_landing_folder_is_a_mistake_in_the_settings(project: Project) -> None:
    (project.folder / "landing").rmdir()
    ended = project.call("run", "--once", "--json")
    assert ended.code != 0
    assert "does not exist" in ended.out
    assert "Traceback" not in ended.out + ended.err


def test_an_unseen_file_below_the_high_water_mark_stops_its_table(project: Project) -> None:
    project.put(LOAD, "1,a,1.00\n")
    project.put("20261121-100000002.csv", "U,1,b,1.00\n")
    project.run()
    project.put("20261121-100000001.csv", "U,1,late,1.00\n")
    error = project.run(4)["shop.item"]["error"]
    assert error["code"] == "LEDGER-001"
    assert "20261121-100000001.csv" in error["what"] + error["found"]
    assert project.rows() == [(1, "b", D("1.00"))]


def test_an_unknown_iceberg_property_is_refused_with_the_nearest_name(project: Project) -> None:
    project.configure(ITEM + 'properties = { "write.parquet.compresion-codec" = "zstd" }\n')
    project.put(LOAD, "1,a,1.00\n")
    assert "write.parquet.compression-codec" in project.fails()
    assert has_no_table(project)


# Rows in quarantine.


def test_rows_that_do_not_parse_wait_with_reason_and_text(project: Project) -> None:
    rows = [
        "I,1,a,1.00",
        "I,2,b",
        "I,3,c,3.00,more",
        "I,4,d,1.239",
        "X,5,e,5.00",
        "I,NULL,f,6.00",
        "I,seven,g,7.00",
        'I,8,h"i",8.00',
    ]
    project.put(LOAD, "9,loaded,9.00\n")
    project.put(CDC, "\n".join(rows) + "\n")
    table = project.run(3)["shop.item"]
    assert project.rows() == [(1, "a", D("1.00")), (9, "loaded", D("9.00"))]
    found = {entry["row"]: (entry["reason"], entry["text"]) for entry in project.entries()}
    assert found == {
        2: ("unreadable", rows[1]),
        3: ("unreadable", rows[2]),
        4: ("cast", rows[3]),
        5: ("operation", rows[4]),
        6: ("null_key", rows[5]),
        7: ("unreadable", rows[6]),
        8: ("unreadable", rows[7]),
    }
    assert table["counts"]["quarantined"] == 7
    assert table["progress"]["inexact_since"] == CDC, "the first file with an unreadable row"
    assert table["progress"]["held"] == 2


def test_a_row_that_is_not_utf_8_waits_and_the_table_continues(project: Project) -> None:
    project.put(LOAD, b"1,ok,1.00\n2,\xff\xfe,1.00\n")
    project.run(3)
    [entry] = project.entries()
    assert entry["text"] == "0x" + b"2,\xff\xfe,1.00".hex().upper()
    project.put(CDC, "U,1,still,1.00\n")
    project.run(3)
    assert project.rows() == [(1, "still", D("1.00"))]


def test_waiting_events_are_applied_after_a_discard(project: Project) -> None:
    project.put(LOAD, "1,a,1.00\n2,b,2.00\n")
    project.put(CDC, "U,1,c,not a price\nU,1,d,4.00\nU,2,e,5.00\n")
    project.run(3)
    assert project.rows() == [(1, "a", D("1.00")), (2, "e", D("5.00"))]
    assert "nothing new\n   1 key is held: later events wait" in project.call("plan").out
    [entry] = project.entries()
    assert entry["waits"] == 1
    assert "not a price" in project.call("quarantine", "show", "shop.item", "1").out
    given_up = project.call("quarantine", "discard", "shop.item", "1")
    assert given_up.code == 0
    assert "1 row that waited is settled" in given_up.out
    assert project.rows() == [(1, "d", D("4.00")), (2, "e", D("5.00"))]
    assert project.entries() == []
    assert project.run()["shop.item"]["progress"]["held"] == 0


def test_null_texts_and_line_ends_within_quotes_are_told_apart(project: Project) -> None:
    project.put(LOAD, b'1,NULL,NULL\n2,,0.00\n3,"NULL",1\n4,"",2\n5,"a\r\nb",1.00\n6,"c\nd",2.00\n7,e\r,3.00\n')
    project.run()
    assert project.rows()[0] == (1, None, None)
    assert [name for _, name, _ in project.rows()][1:] == ["", "NULL", "", "a\r\nb", "c\nd", "e\r"]


def test_updates_of_a_table_without_a_key_are_announced_by_plan_and_quarantined(project: Project) -> None:
    project.configure(ITEM.replace('key = ["id"]\n', ""))
    project.put(CDC, "I,1,a,1.00\nI,1,a,1.00\nU,1,b,2.00\n")
    assert "has no key" in project.call("plan").out
    project.run()
    assert project.rows() == [(1, "a", D("1.00")), (1, "a", D("1.00"))]
    (entry,) = project.entries()
    assert (entry["reason"], entry["object"], entry["row"]) == ("no_key", CDC, 3)
    assert json.loads(entry["text"]).items() >= {"id": 1, "name": "b", "price": 2.0}.items()


# Names.

HOSTILE = 'Robert\'); DROP TABLE "x".`y` -- ; SELECT'
NAMES = ["odd.name", "Größe 漢字", "a b", 'quo"te', "tick`s", "select", "--", "it's", HOSTILE, "{schema}", "a%b"]


def test_odd_names_of_tables_and_columns_work(project: Project) -> None:
    """Each name is a column of one table, and a table of its own."""
    columns = ["id", *NAMES]
    written = ", ".join(f"{_toml(name)} = 'string'" for name in columns).replace("'string'", '"string"')
    tables = [f"[tables.{_toml(_quoted_table(name))}]\nkey = ['id']\ncolumns = {{ {written} }}\n" for name in NAMES]
    project.configure("\n".join(tables))
    for name in NAMES:
        project.put(LOAD, ",".join(f"v{i}" for i in range(len(columns))) + "\n", f"shop/{name}")
    project.run()
    for name in NAMES:
        assert project.rows(name, columns=tuple(columns)) == [tuple(f"v{i}" for i in range(len(columns)))]
    made = {path.name for path in project.folder.iterdir()}
    assert made == {"lakeward.toml", "landing", "lake", "state"}


def _toml(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _quoted_table(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'shop."{doubled}"'


# Disk space and permissions.


def test_an_unreadable_folder_and_a_warehouse_that_cannot_be_created_are_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.put(LOAD, "1,a,1.00\n")
    (project.folder / "lake").write_text("a file is in the way")
    assert str(project.folder / "lake") in project.fails()
    (project.folder / "lake").unlink()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("lakeward.adapters.sources.landing.local_store.os.scandir", refuse)
    assert "Permission denied" in project.fails()


# Formats that a column cannot have.


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ('tags = "list<int>"', "CSV has no such values"),
        ('size = { type = "int", format = "yyyy" }', "is no format of the column size"),
        ('at = { type = "timestamp_ntz", format = "yyyy-MM-dd HH:mm:ssXXX" }', "has a zone"),
        ('at = { type = "timestamp", format = "yyyy-MM-dd hh:mm" }', "lacks a half of the day"),
        ('day = { type = "date", format = "d.M." }', "lacks a year"),
        ('day = { type = "date", format = "M/yyyy" }', "lacks a month or a day"),
        ('data = { type = "binary", format = "base65" }', "It may be hex, base64, utf-8."),
        ('day = { type = "date", format = "d-M-yy bbb" }', "is no pattern for the column day"),
    ],
)
def test_an_impossible_column_format_is_refused_by_run_and_plan(project: Project, column: str, said: str) -> None:
    project.configure(f'[tables."shop.item"]\nkey = ["id"]\n[tables."shop.item".columns]\nid = "int"\n{column}\n')
    project.put(LOAD, "1,x\n")
    assert said in project.fails()
    planned = project.call("plan")
    assert planned.code == 4
    assert said in planned.err
    assert "Traceback" not in planned.err


def test_the_repeated_hour_in_autumn_keeps_its_order(project: Project) -> None:
    """Commit times are in UTC for any zone of the columns."""
    project.configure(source='timestamp_column = "ts"\nsource_zone = "Europe/Berlin"')
    project.put("20261025-005900000.csv", "I,2026-10-25 00:59:00,1,first,1.00\n")
    project.put("20261025-011000000.csv", "U,2026-10-25 01:10:00,1,second,1.00\n")
    project.run()
    assert [name for _, name, _ in project.rows()] == ["second"]


def test_a_row_with_a_character_that_ends_parsing_is_refused_alone(project: Project) -> None:
    """The rest of that row is not read as a row of its own."""
    project.configure(ITEM.replace('id = "int"', 'id = "string"'))
    project.put("LOAD00000001.csv", "a,one,1.00\nb\uffffc,two,2.00\nd,three,3.00\n")
    project.run(3)
    assert [row[:2] for row in project.rows()] == [("a", "one"), ("d", "three")]
    (entry,) = project.entries()
    assert (entry["reason"], entry["row"]) == ("unreadable", 2)
    assert "U+FFFF" in entry["detail"]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["iceberg", "delta", pytest.param("hudi", marks=pytest.mark.hudi)])
def test_a_text_may_have_any_character_where_statistics_are_cut(project: Project, kind: str) -> None:
    """Statistics replace the last character by the next one, and some characters have none."""
    edges = ("\ud7ff", "\ue000", "\ufffd", "\U0010ffff")
    names = [f"{edge * (length - 1)}{edge}x" for edge in edges for length in (16, 32)]
    names += [f"{'a' * (length - 1)}{edge}x" for edge in edges for length in (16, 32)]
    project.kind = kind
    project.configure()
    rows = [f"I,{number},{name},1.00" for number, name in enumerate(names)]
    rejects = [f"U,{number},{name},many" for number, name in enumerate(names)]
    project.put(CDC, "".join(f"{line}\n" for line in [*rows, *rejects]))
    project.run(code=3)
    assert [name for _, name, _ in project.rows()] == names
    assert len(project.entries()) == len(names)
