"""New, dropped and wider columns through commands: the table follows, or says why it stops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from broken_iceberg import COMMITS_COLUMNS_ALONE, NULLS_WHAT_THE_FILES_LACK
from project import Project
from pyiceberg.catalog import load_catalog
from resolution_switches import use_spark_in_commands

from lakeward.adapters.formats.iceberg.writes.change import Change
from lakeward.adapters.formats.shared.resolution.strategies import whole_rows
from lakeward.core.errors import TableError

pytestmark = pytest.mark.spark

HEADER = "Op,id,name,price"
LAYOUTS = ["", 'write_mode = "copy-on-write"', 'partition_by = ["bucket(2, id)"]\nformat_version = 3']
every_layout = pytest.mark.parametrize(
    "layout", [LAYOUTS[0], *[pytest.param(layout, marks=pytest.mark.long) for layout in LAYOUTS[1:]]]
)
"""All but the first take long."""


def item(columns: str = 'id = "int", name = "string", price = "decimal(8,2)"', more: str = "") -> str:
    return f'[tables."shop.item"]\nkey = ["id"]\n{more}\ncolumns = {{ {columns} }}\n'


def put(project: Project, hour: int, header: str, *rows: str) -> None:
    project.put(f"20261121-{hour:02}0000000.csv", "".join(f"{line}\n" for line in (header, *rows)))


def lake_table(project: Project, name: str = "item") -> Any:
    lake = project.folder / "lake"
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{lake / 'catalog.db'}", warehouse=f"file://{lake}")
    return catalog.load_table(("shop", name))


def rows(project: Project, *columns: str) -> list[Any]:
    return project.rows(columns=("id", *columns))


@every_layout
def test_a_column_that_is_missing_keeps_its_values(project: Project, layout: str) -> None:
    """An update creates no row. An inserted row has NULL there, also after a delete."""
    project.configure(item(more=layout))
    put(project, 10, HEADER, *[f"I,{key},a{key},{key}.00" for key in range(1, 5)])
    project.run()
    put(project, 11, "Op,id,name", "U,1,b1", "U,1,c1", "I,5,a5", "D,2,a2", "D,3,a3", "I,3,b3", "I,4,b4")
    plan = project.call("plan", "--json").document["tables"][0]
    assert "The files lack price" in " ".join(plan["warnings"])
    counts = project.run()["shop.item"]["counts"]
    assert (counts["insert_on_existing"], counts["update_on_missing"]) == (1, 0)
    assert project.rows() == [(1, "c1", 1), (3, "b3", None), (4, "b4", None), (5, "a5", None)]
    put(project, 12, HEADER, "U,1,d1,9.00")
    put(project, 13, "Op,id,name", "U,1,e1", "U,7,a7", "D,3,b3", "U,3,c3", "U,4,c4")
    ran = project.run()["shop.item"]
    assert len(ran["batches"]) == 2, "a batch has files of the same columns"
    assert (ran["counts"]["quarantined"], ran["counts"]["update_on_missing"]) == (2, 0)
    assert project.rows() == [(1, "e1", 9), (4, "c4", None), (5, "a5", None)]
    assert [(*entry["key"], entry["reason"]) for entry in project.entries()] == [
        ("7", "incomplete_row"),
        ("3", "incomplete_row"),
    ]
    changes = project.call("status", "--schema", "--json").document["schema_changes"]
    assert [(one["kind"], one["column"], one["file"]) for one in changes] == [
        ("drop", "price", "20261121-110000000.csv"),
        ("drop", "price", "20261121-130000000.csv"),
    ]


def test_a_missing_column_does_not_make_updates_of_existing_rows_fold(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later files lack a dropped column for ever."""
    project.configure(item())
    put(project, 10, HEADER, "I,1,a,1.00", "I,2,a,2.00")
    project.run()
    put(project, 11, "Op,id,name", "U,1,b", "I,3,b", "U,3,c", "U,2,b", "D,2,b", "D,9,b")
    with monkeypatch.context() as patch:
        use_spark_in_commands(patch)
        patch.setattr(whole_rows, "resolve_in_order", None)
        project.run()
    assert project.rows() == [(1, "b", 1), (3, "c", None)]


def test_a_row_of_a_full_load_without_a_column_has_null(project: Project) -> None:
    """It is like an insert: a missing cell does not keep the stored value."""
    project.configure(item())
    project.put("LOAD00000001.csv", "Op,id,name,price\nI,1,a,1.00\nI,2,a,2.00\n")
    project.run()
    project.put("LOAD00000002.csv", "Op,id,name\nI,1,b\nI,3,b\n")
    project.run()
    assert project.rows() == [(1, "b", None), (2, "a", 2), (3, "b", None)]


@every_layout
def test_a_newly_declared_column_is_added(project: Project, layout: str) -> None:
    """Existing rows have NULL, and earlier snapshots do not change."""
    project.configure(item(more=layout))
    put(project, 10, HEADER, "I,1,a,1.00", "I,2,a,2.00")
    project.run()
    before = lake_table(project).current_snapshot().snapshot_id
    columns = 'id = "bigint", name = "string", price = "decimal(10,2)", stock = "int"'
    project.configure(item(columns, layout))
    put(project, 11, f"{HEADER},stock", "U,1,b,12345678.90,7", "I,5000000000,a,1.00,8")
    planned = project.call("plan", "--json").document["tables"][0]
    assert [(one["kind"], one["column"]) for one in planned["schema_changes"]] == [
        ("add", "stock"),
        ("widen", "id"),
        ("widen", "price"),
    ]
    assert len(lake_table(project).schema().fields) == 3 + 5, "a plan changes nothing"
    project.run()
    assert rows(project, "name", "stock") == [(1, "b", 7), (2, "a", None), (5000000000, "a", 8)]
    table = lake_table(project)
    assert table.scan(snapshot_id=before).to_arrow().num_rows == 2
    assert table.current_snapshot().summary.additional_properties["lakeward.schema"] == (
        "column stock (int) is new; column id was int and is bigint; "
        "column price was decimal(8,2) and is decimal(10,2)"
    )
    output = project.call("status", "--schema").out
    assert "column stock (int) is new" in output
    assert "column id was int and is bigint" in output


def test_parquet_files_bring_their_columns_with_them(project: Project) -> None:
    project.configure('[tables."shop.item"]\nkey = ["id"]\n')
    files: list[dict[str, Any]] = [
        {"Op": ["I", "I"], "id": pa.array([1, 2], pa.int32()), "a": ["x", "y"]},
        {"Op": ["U"], "id": pa.array([1], pa.int64()), "a": ["xx"], "b": pa.array([1.5], pa.float32())},
        {"Op": ["U"], "id": pa.array([2], pa.int64()), "b": pa.array([2.5], pa.float64())},
    ]
    folder = project.folder / "landing/shop/item"
    folder.mkdir(parents=True)
    for hour, columns in enumerate(files):
        pq.write_table(pa.table(columns), folder / f"20261121-1{hour}0000000.parquet")
    assert len(project.run()["shop.item"]["batches"]) == 3
    assert rows(project, "a", "b") == [(1, "xx", 1.5), (2, "y", 2.5)]
    assert {f.name: str(f.field_type) for f in lake_table(project).schema().fields[:2]} == {
        "id": "long",
        "a": "string",
    }


DECLARED = 'id = "int", name = "string", price = "decimal(8,2)"'
STOPPING: Mapping[str, tuple[str, str, str, str]] = {
    "it lacks price": ("Op,id,name", "U,1,b", DECLARED, 'schema = { drop = "fail" }'),
    "it lacks id": ("Op,name,price", "U,b,1.00", DECLARED, ""),
    "was string and is date": (HEADER, "U,1,,1.00", DECLARED.replace("string", "date"), ""),
    "two columns differ only in case": ("Op,id,NAME,price", "U,1,b,2.00", DECLARED.replace("name", "NAME"), ""),
}
"""Changes that stop a table, by what its error says: a header, a row, and columns and policies of the settings."""


def test_a_change_of_columns_that_is_not_allowed_stops_the_table(project: Project) -> None:
    put(project, 10, HEADER, "I,1,a,1.00")
    project.run()
    for said, (header, row, columns, more) in STOPPING.items():
        project.configure(item(columns, more))
        put(project, 11, header, row)
        assert said in project.fails()
    project.configure()
    assert project.rows() == [(1, "a", 1)]


def test_a_narrower_type_stops_the_table_or_the_table_keeps_its_own(project: Project) -> None:
    project.configure(item('id = "int", name = "string", price = "decimal(12,2)"'))
    put(project, 10, HEADER, "I,1,a,1.00")
    project.run()
    project.configure(item())
    put(project, 11, HEADER, "U,1,b,2.00")
    assert "column price was decimal(12,2) and is decimal(8,2)" in project.fails()
    project.configure(item(more='schema = { narrow = "evolve" }'))
    assert "the table keeps its own type" in project.call("plan").out
    project.run()
    (change,) = project.call("status", "--schema", "--json").document["schema_changes"]
    assert (change["kind"], change["policy"]) == ("narrow", "evolve")
    assert project.rows() == [(1, "b", 2)]
    assert str(lake_table(project).schema().find_field("price").field_type) == "decimal(12, 2)"


def test_a_new_column_is_refused_until_its_type_is_declared_or_it_is_ignored(project: Project) -> None:
    put(project, 10, HEADER, "I,1,a,1.00")
    project.run()
    put(project, 11, "Op,id,stock,name,price", "U,1,7,b,2.00")
    assert "it has stock, which the table has not" in project.fails()
    project.configure(item(more='schema = { add = "ignore" }'))
    project.run()
    assert project.rows() == [(1, "b", 2)]
    assert "stock" not in lake_table(project).schema().column_names
    project.configure(
        item('id = "int", name = "string", price = "decimal(8,2)", stock = "int"', 'schema = { add = "fail" }')
    )
    put(project, 12, "Op,id,stock,name,price", "U,1,7,c,2.00")
    assert "column stock (int) is new" in project.fails()


def test_columns_and_rows_change_in_one_commit(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    put(project, 10, HEADER, "I,1,a,1.00")
    project.run()
    project.configure(item('id = "int", name = "string", price = "decimal(8,2)", stock = "int"'))
    put(project, 11, f"{HEADER},stock", "U,1,b,2.00,7")

    def fail(*_: object) -> None:
        raise TableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Change, "commit", fail)
        project.run(code=4)
    assert "stock" not in lake_table(project).schema().column_names
    assert project.rows() == [(1, "a", 1)]
    project.run()
    assert rows(project, "name", "stock") == [(1, "b", 7)]


@pytest.mark.parametrize("mode", ["mirror", "history"])
def test_rows_without_a_column_do_not_wait_behind_a_held_key(project: Project, mode: str) -> None:
    """Otherwise their missing column would be forgotten, and NULL would replace a value."""
    project.configure(item(more=f'mode = "{mode}"'))
    put(project, 10, HEADER, "I,1,a,1.00", "U,1,b,many")
    project.run(code=3)
    put(project, 11, "Op,id,name", "U,1,c")
    assert "would wait behind a held key" in project.fails()
    project.call("quarantine", "discard", "shop.item", "1")
    project.run()
    assert project.rows() == [(1, "c", 1)]


def test_a_waiting_row_and_its_quarantine_follow_a_wider_key(project: Project) -> None:
    put(project, 10, HEADER, "I,1,a,1.00", "U,1,b,many", "U,1,c,3.00")
    project.run(code=3)
    project.configure(item('id = "bigint", name = "string", price = "decimal(8,2)", stock = "int"'))
    put(project, 11, f"{HEADER},stock", "U,1,d,4.00,7", "I,5000000000,a,none,8", "I,5000000001,a,1.00,8")
    project.run(code=3)
    project.call("quarantine", "discard", "shop.item", "1")
    assert rows(project, "name", "stock") == [(1, "d", 7), (5000000001, "a", 8)]


def test_a_row_in_quarantine_does_not_block_files_without_a_column(project: Project) -> None:
    put(project, 10, "Op,id,name", "I,1,a", "I,2,b", "I,9999999999,c")
    assert project.run(code=3)["shop.item"]["counts"]["quarantined"] == 1
    put(project, 11, HEADER, "U,1,b,many")
    project.run(code=3)
    put(project, 12, "Op,id,name", "U,2,bb")
    project.run(code=3)
    assert project.rows() == [(1, "a", None), (2, "bb", None)]


def test_a_new_column_may_have_any_name(project: Project) -> None:
    put(project, 10, HEADER, "I,1,a,1.00")
    project.run()
    columns = """id = "int", name = "string", price = "decimal(8,2)", 'd.ot' = "int", 'a "b" c' = "string" """
    project.configure(item(columns))
    put(project, 11, f'{HEADER},d.ot,"a ""b"" c"', "U,1,b,2.00,7,x", "D,1,b,2.00,7,x", "I,2,c,2.00,8,y")
    project.run()
    assert rows(project, "d.ot", 'a "b" c') == [(2, 8, "y")]


def test_a_partition_column_is_not_widened(project: Project) -> None:
    project.configure(item(more='partition_by = ["truncate(10, id)"]'))
    put(project, 10, HEADER, "I,1,a,1.00")
    project.run()
    project.configure(item('id = "bigint", name = "string", price = "decimal(8,2)"', 'partition_by = ["id"]'))
    put(project, 11, HEADER, "U,1,b,2.00")
    assert "partitioned by truncate[10](id)" in project.fails()
    assert project.rows() == [(1, "a", 1)]


def test_nulls_in_missing_columns_fail_the_test(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    NULLS_WHAT_THE_FILES_LACK(monkeypatch)
    with pytest.raises(AssertionError, match="'c1', None"):
        test_a_column_that_is_missing_keeps_its_values(project, LAYOUTS[0])


def test_columns_in_a_commit_of_their_own_fail_the_test(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    COMMITS_COLUMNS_ALONE(monkeypatch)
    with pytest.raises(AssertionError, match="stock"):
        test_columns_and_rows_change_in_one_commit(project, monkeypatch)


@pytest.mark.parametrize("mode", ["mirror", pytest.param("history", marks=pytest.mark.long)])
def test_an_update_keeps_an_older_value_of_a_later_column(project: Project, mode: str) -> None:
    """The older one comes late. An update of a missing row still creates it."""
    columns, more = 'id = "int", name = "string", price = "decimal(8,2)"', f'lateness = "30d"\nmode = "{mode}"'
    at, header = "2026-11-21 {}:00:00", "Op,at,id,name,price"
    project.configure(item(columns, more), 'timestamp_column = "at"')
    put(project, 10, header, f"I,{at.format(10)},1,a,1.00")
    put(project, 13, header, f"U,{at.format(12)},1,b,2.00", f"U,{at.format(13)},2,b,2.00")
    project.run()
    project.configure(item(columns + ', city = "string"', more), 'timestamp_column = "at"')
    put(project, 11, f"{header},city", f"U,{at.format(11)},1,x,1.00,Bonn", f"D,{at.format(11)},2,x,1.00,Bonn")
    counts = project.run()["shop.item"]["counts"]
    assert (counts["applied"] + counts["stale"], counts["waiting"]) == (2, 0)
    newest = {1: [(1, "b", "Bonn")], 2: [(2, "b", None)]}
    older = [(1, "a", None), (1, "x", "Bonn")] if mode == "history" else []
    found = sorted(project.rows(columns=("id", "name", "city")), key=str)
    assert found == sorted([*older, *newest[1], *newest[2]], key=str)


@pytest.mark.long
def test_a_waiting_update_keeps_an_older_value_of_a_later_column(project: Project) -> None:
    """It did not send the column, which did not exist yet."""
    columns = 'id = "int", name = "string", price = "decimal(8,2)"'
    more = 'lateness = "30d"\nmode = "history"'
    project.configure(item(columns, more), 'timestamp_column = "at"')
    at = "2026-11-21 {}:00:00"
    put(project, 10, "Op,at,id,name,price", f"I,{at.format(10)},1,a,1.00")
    put(project, 13, "Op,at,id,name,price", f"U,{at.format(12)},1,b,much", f"U,{at.format(13)},1,c,3.00")
    project.run(3)
    project.configure(item(columns + ', city = "string"', more), 'timestamp_column = "at"')
    put(project, 11, "Op,at,id,name,price,city", f"U,{at.format(11)},1,b,2.00,Bonn")
    project.run(3)
    assert project.call("quarantine", "discard", "shop.item", "1").code == 0
    found = project.rows(columns=("id", "name", "city"))
    assert sorted(found, key=str) == [(1, "a", None), (1, "b", "Bonn"), (1, "c", "Bonn")]
