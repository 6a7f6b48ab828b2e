"""The layouts of files of DMS, through commands: the name of an object is a path."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import ITEM, Project

pytestmark = pytest.mark.spark

D = Decimal


def files(project: Project) -> list[list[str]]:
    return [batch["files"] for batch in project.run()["shop.item"]["batches"]]


def test_files_of_one_name_in_segments_and_date_folders_are_different_everywhere(project: Project) -> None:
    """In the batch, in quarantine, in repairs and in `explain`. Nothing is read twice."""
    project.configure(ITEM + '[tables."shop.item".quarantine]\nmax_share = 1.0\n')
    loads = ["LOAD00000001.csv", "part 100%/LOAD00000001.csv", "part+ü/LOAD00000001.csv", "x/LOAD00000001.csv"]
    for key, name in enumerate(loads):
        project.put(name, f"{key},a,1.00\n")
    first, second = "21/11/2026/20261122-000001000.csv", "22/11/2026/20261122-000001000.csv"
    project.put(second, "U,0,d,3.00\nU,1,d,3.00\nU,2,d,x\n")
    project.put(first, "U,0,c,2.00\nU,1,c,2.00\n")
    project.put("archive/20261120-000001000.csv", "D,0,,\n")
    [selection] = [batch["files"] for batch in project.run(code=3)["shop.item"]["batches"]]
    assert sorted(selection[:4]) == sorted(loads)
    assert selection[4:] == [first, second]
    assert project.rows() == [(0, "d", D("3.00")), (1, "d", D("3.00")), (2, "a", D("1.00")), (3, "a", D("1.00"))]
    assert project.run(code=3)["shop.item"]["batches"] == []
    [entry] = project.entries()
    assert (entry["object"], entry["row"]) == (second, 3)
    fixed = project.call("quarantine", "fix", "shop.item", "--at", f"{second}:3", "--to", "rows.toml")
    assert fixed.code == 0, fixed.err
    assert '"price" = "x"' in Path("rows.toml").read_text("utf-8"), "the file is found again"
    assert f"{second}:2" in project.call("explain", "shop.item", "1").out


def test_full_load_and_changes_in_two_folders_and_formats(project: Project) -> None:
    """Also under names that are not those of DMS."""
    project.configure(
        ITEM + '[tables."shop.item".source]\nload = "exports/items"\nload_names = \'full_.*\\.parquet\'\n',
        source='changes = "cdc/{schema}/{table}"',
    )
    for number in (1, 2):
        rows = {
            "id": pa.array([number], pa.int32()),
            "name": ["a"],
            "price": pa.array([D("1.00")], pa.decimal128(8, 2)),
        }
        pq.write_table(pa.table(rows), project.put(f"full_{number}.parquet", b"", "exports/items"))
    project.put("20261121/20261121-100000000.csv", "U,1,b,2.00\n", "cdc/shop/item")
    [selection] = files(project)
    assert sorted(selection[:2]) == ["exports/items/full_1.parquet", "exports/items/full_2.parquet"]
    assert selection[2:] == ["cdc/shop/item/20261121/20261121-100000000.csv"]
    assert project.rows() == [(1, "b", D("2.00")), (2, "a", D("1.00"))]
    assert files(project) == []


def test_an_endpoint_without_deletes_is_read_with_a_warning(project: Project) -> None:
    """Without the setting, a file of changes without Op stops its table with an error that names it."""
    project.put("LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n")
    project.put("20261121-100000000.csv", "2,c,3.00\n3,d,4.00\n")
    assert "say so by `operations` under [source]" in project.fails()
    project.configure(source='operations = "inserts_and_updates"')
    assert (
        'Deletes are lost: the endpoint leaves them out (`operations = "inserts_and_updates"`)'
        in project.call("plan").out
    )
    ran = project.run()["shop.item"]
    assert "Deletes are lost" in ran["warnings"][0]
    assert (ran["counts"]["insert_on_existing"], ran["counts"]["update_on_missing"]) == (0, 0)
    assert project.rows() == [(1, "a", D("1.00")), (2, "c", D("3.00")), (3, "d", D("4.00"))]


def test_a_column_marks_deletes_and_padding_is_removed(project: Project) -> None:
    """Rows end with the delimiter of the endpoint. A text key matches with and without trailing blanks."""
    project.configure(
        '[tables."shop.item"]\nkey = ["id"]\ncolumns = { id = "string", n = "int", is = "string" }\n',
        source="operation_indicator = 'is'\ntrim_padding = true\nrow_delimiter = '|~'",
    )
    project.put("LOAD00000001.csv", "a   ,1,NULL|~b,2,I   |~c,3,NULL|~")
    project.put("20261121-100000000.csv", 'U,a,1,D|~U,b  ,5,U|~I,d,"6",NULL|~U,c,7,X   ')
    assert project.run(code=3)["shop.item"]["counts"]["quarantined"] == 1
    assert project.rows(columns=("id", "n")) == [("b", 5), ("c", 3), ("d", 6)]
    [entry] = project.entries()
    assert (entry["reason"], entry["detail"], entry["key"]) == ("operation", '"X" is not an operation', ["c"])


def test_a_pattern_selects_existing_and_later_tables(project: Project) -> None:
    project.configure('[tables."SHOP.*"]\nkey = ["id"]\n[tables."shop.tmp"]\nskip = true\n')

    def put(table: str, key: int) -> None:
        file = project.put("LOAD00000001.parquet", b"", f"shop/{table}")
        pq.write_table(pa.table({"id": pa.array([key], pa.int32())}), file)

    for key, table in enumerate(("a", "b", "tmp")):
        put(table, key)
    assert sorted(project.run()) == ["shop.a", "shop.b"]
    put("c", 7)
    assert sorted(project.run()) == ["shop.a", "shop.b", "shop.c"]
    assert [project.rows(table, columns=("id",)) for table in ("a", "b", "c")] == [[(0,)], [(1,)], [(7,)]]


def test_the_unreadable_one_of_two_files_of_one_name_is_named(project: Project) -> None:
    project.put("LOAD00000001.csv", "1,a,1.00\n")
    whole = gzip.compress(b"2,b,2.00\n" * 30000)
    project.put("north/LOAD00000001.csv.gz", gzip.compress(b"3,c,3.00\n"))
    project.put("south/LOAD00000001.csv.gz", whole[: len(whole) // 2])
    assert "south/LOAD00000001.csv.gz cannot be read" in project.fails()
