"""Renamed columns: the table follows, no data is rewritten, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import Project
from pyiceberg.catalog import load_catalog

from lakeward.adapters.formats.iceberg.writes.change import Change
from lakeward.core.errors import TableError

pytestmark = pytest.mark.spark

BEFORE = 'id = "int", name = "string", price = "decimal(8,2)"'
AFTER = 'no = "bigint", title = "string", price = "decimal(8,2)"'
RENAME = 'schema.rename = { id = "no", name = "title" }'
LAYOUTS = [
    'partition_by = ["name"]\nsort_by = ["id"]',
    'write_mode = "copy-on-write"',
    'partition_by = ["bucket(2, id)"]\nformat_version = 3',
]


def item(key: str, columns: str, more: str = "") -> str:
    return f'[tables."shop.item"]\nkey = ["{key}"]\n{more}\ncolumns = {{ {columns} }}\n'


def put(project: Project, hour: int, header: str, *rows: str) -> None:
    project.put(f"20261121-{hour:02}0000000.csv", "".join(f"{line}\n" for line in (header, *rows)))


def lake_table(project: Project, name: str = "item") -> Any:
    lake = project.folder / "lake"
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{lake / 'catalog.db'}", warehouse=f"file://{lake}")
    return catalog.load_table(("shop", name))


def rows(project: Project, *columns: str) -> list[Any]:
    return project.rows(columns=columns or ("no", "title", "price"))


def files_of(table: Any) -> set[str]:
    return {task.file.file_path for task in table.scan().plan_files()}


@pytest.mark.parametrize(
    "layout", [LAYOUTS[0], *[pytest.param(one, marks=pytest.mark.long) for one in LAYOUTS[1:]]]
)
def test_a_table_follows_new_names_and_files_may_have_either(project: Project, layout: str) -> None:
    """Key, partitions and sort order follow in the commit of the rows, together with a wider type."""
    project.configure(item("id", BEFORE, layout))
    put(project, 10, "Op,id,name,price", "I,1,a,1.00", "I,2,a,2.00", "I,3,b,3.00")
    project.run()
    ids = {field.name: field.field_id for field in lake_table(project).schema().fields}
    project.configure(item("no", AFTER, f"{RENAME}\n{layout}" if "bucket" not in layout else RENAME))
    put(project, 11, "Op,no,title,price", "U,1,c,1.50", "D,2,a,2.00", "I,5,e,5.00")
    put(project, 12, "Op,id,name,price", "U,3,d,3.50", "I,4,d,4.00")
    if "bucket" in layout:
        project.configure(item("no", AFTER.replace("bigint", "int"), RENAME))
    planned = project.call("plan", "--json").document["tables"][0]
    changes = [(one["kind"], one["column"], one["before"], one["after"]) for one in planned["schema_changes"]]
    assert changes[:2] == [("rename", "id", "id", "no"), ("rename", "name", "name", "title")]
    assert "column name is called title now: the table follows" in project.call("plan").out
    assert "title" not in lake_table(project).schema().column_names, "a plan changes nothing"
    (run,) = project.run().values()
    assert len(run["batches"]) == 1
    assert rows(project) == [(1, "c", 1.5), (3, "d", 3.5), (4, "d", 4), (5, "e", 5)]
    table = lake_table(project)
    now = {field.name: field.field_id for field in table.schema().fields}
    assert (now["no"], now["title"]) == (ids["id"], ids["name"])
    assert "column id is called no now" in table.current_snapshot().summary.additional_properties["lakeward.schema"]
    put(project, 13, "Op,no,name,price", "U,1,f,1.75")
    project.run()
    assert rows(project)[0] == (1, "f", 1.75)
    schema_changes = project.call("status", "--schema", "--json").document["schema_changes"]
    assert [(one["before"], one["after"]) for one in schema_changes if one["kind"] == "rename"] == [
        ("id", "no"),
        ("name", "title"),
    ]


def test_a_rename_writes_no_row(project: Project) -> None:
    put(project, 10, "Op,id,name,price", "I,1,a,1.00")
    project.run()
    before = lake_table(project)
    project.configure(item("id", BEFORE.replace("name", "title"), 'schema.rename = { name = "title" }'))
    put(project, 11, "Op,id,title,price", "I,2,b,2.00")
    project.run()
    assert files_of(before) < files_of(lake_table(project))
    assert lake_table(project).scan(snapshot_id=before.current_snapshot().snapshot_id).to_arrow().num_rows == 1
    assert rows(project, "id", "title") == [(1, "a"), (2, "b")]


def test_held_and_waiting_rows_follow_a_rename(project: Project) -> None:
    """Also if a row in quarantine is settled before any file comes."""
    put(project, 10, "Op,id,name,price", "I,1,a,1.00", "U,1,b,many", "U,1,c,3.00", "I,2,a,1.00", "U,2,b,many")
    project.run(code=3)
    project.configure(item("no", AFTER, RENAME))
    put(project, 11, "Op,no,title,price", "U,1,d,4.00", "U,2,c,2.00", "I,3,a,3.00")
    assert project.run(code=3)["shop.item"]["counts"]["waiting"] == 2
    assert rows(project) == [(1, "a", 1), (2, "a", 1), (3, "a", 3)]
    assert project.call("quarantine", "discard", "shop.item", "1").code == 0
    assert rows(project)[0] == (1, "d", 4)
    columns = AFTER.replace("title", "label")
    project.configure(item("no", columns, 'schema.rename = { id = "no", name = "label", title = "label" }'))
    assert "label" not in lake_table(project).schema().column_names
    project.call("quarantine", "discard", "shop.item", "2")
    assert rows(project, "no", "label", "price") == [(1, "d", 4), (2, "c", 2), (3, "a", 3)]


@pytest.mark.long
def test_unsent_cells_follow_a_rename(project: Project) -> None:
    """Partial events and old keys are remembered by name, and a rename may be removed again."""
    source, nothing = 'timestamp_column = "at"\nno_sup_value = "~"\nbefore_image_prefix = "BI_"', "~"
    head = "Op,at,id,name,price,BI_id"
    project.configure(item("id", BEFORE), source)
    put(project, 10, head, "I,2026-11-21 10:00:00,1,a,1.00,", f"U,2026-11-21 10:00:05,1,{nothing},5.00,1")
    put(project, 11, head, f"U,2026-11-21 10:00:06,9,{nothing},6.00,1")
    project.run()
    assert project.rows() == [(9, "a", 6)]
    project.configure(item("no", AFTER.replace("bigint", "int"), RENAME), source)
    put(project, 12, "Op,at,no,title,price,BI_no", "U,2026-11-21 10:00:03,1,late,3.00,1")
    project.run()
    assert rows(project) == [(9, "late", 6)]
    project.configure(item("no", AFTER.replace("bigint", "int")), source)
    put(project, 13, "Op,at,no,title,price,BI_no", "U,2026-11-21 10:00:04,1,later,4.00,1")
    project.run()
    assert rows(project) == [(9, "later", 6)]
    assert "later" in project.call("explain", "shop.item", "9").out


def crash_before_the_commit(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise TableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Change, "commit", fail)
        project.run(code=4)


def test_a_crash_leaves_no_half_of_a_rename(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    put(project, 10, "Op,id,name,price", "I,1,a,1.00", "U,1,b,many")
    project.run(code=3)
    project.configure(item("no", AFTER, RENAME))
    put(project, 11, "Op,no,title,price", "U,1,c,2.00", "I,2,a,2.00")
    crash_before_the_commit(project, monkeypatch)
    assert project.rows() == [(1, "a", 1)]
    assert project.run(code=3)["shop.item"]["counts"]["waiting"] == 1
    assert rows(project) == [(1, "a", 1), (2, "a", 2)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "columns", "map_"),
    [("id", BEFORE, ""), ("no", AFTER.replace("title", "label"), 'schema.rename = { id = "no", name = "label" }')],
)
def test_a_rename_can_be_removed_from_the_settings_after_a_crash(
    project: Project, monkeypatch: pytest.MonkeyPatch, key: str, columns: str, map_: str
) -> None:
    """The side tables had the new names already, and get back those of the table."""
    put(project, 10, "Op,id,name,price", "I,1,a,1.00", "U,1,b,many", "U,1,c,3.00", "I,3,a,1.00", "U,3,b,many")
    project.run(code=3)
    project.configure(item("no", AFTER, RENAME))
    put(project, 11, "Op,no,title,price", "U,1,d,4.00", "U,4,x,many")
    crash_before_the_commit(project, monkeypatch)
    assert {"no", "title"} < set(lake_table(project, "item__changes").schema().column_names)
    assert "no" in lake_table(project, "item__quarantine").schema().column_names
    (project.folder / "landing/shop/item/20261121-110000000.csv").unlink()
    project.configure(item(key, columns, map_))
    put(project, 12, "Op,id,name,price", "I,2,b,2.00", "U,3,c,5.00")
    assert project.call("ack", "shop.item", "LEDGER-003", "--reason", "of a map that is taken back").code == 0
    assert project.run(code=3)["shop.item"]["counts"]["waiting"] == 1
    assert project.call("quarantine", "discard", "shop.item", "1").code == 0
    project.call("quarantine", "discard", "shop.item", "3")
    names = ("id", "name", "price") if not map_ else ("no", "label", "price")
    assert rows(project, *names) == [(1, "c", 3), (2, "b", 2), (3, "c", 5)]
    assert set(names) < set(lake_table(project, "item__changes").schema().column_names)


def test_a_row_repaired_before_a_rename_has_the_new_names(project: Project) -> None:
    put(project, 10, "Op,id,name,price", "I,1,a,1.00", "U,1,b,many")
    project.run(code=3)
    project.call("quarantine", "fix", "shop.item", "1")
    file = project.folder / "shop.item.fix.toml"
    file.write_text(file.read_text("utf-8").replace('"many"  #', '"2.00"  #'), "utf-8")
    assert project.call("quarantine", "fix", "shop.item", "--from", file.name).code == 0
    project.configure(item("no", AFTER, RENAME))
    put(project, 11, "Op,no,title,price", "I,2,b,2.00")
    project.run(code=3)
    project.configure(item("no", AFTER))
    refused = project.call("quarantine", "replay", "shop.item")
    assert (refused.code, "it has id, which the table has not" in refused.err) == (1, True)
    project.configure(item("no", AFTER, RENAME))
    replayed = project.call("quarantine", "replay", "shop.item")
    assert replayed.code == 0, replayed.err
    assert rows(project) == [(1, "b", 2), (2, "b", 2)]


def test_parquet_files_may_have_either_name(project: Project) -> None:
    project.configure('[tables."shop.item"]\nkey = ["id"]\n')
    folder = project.folder / "landing/shop/item"
    folder.mkdir(parents=True)

    def deliver(hour: int, **columns: object) -> None:
        pq.write_table(pa.table({"Op": ["I"], **columns}), folder / f"20261121-{hour}0000000.parquet")

    deliver(10, id=[1], name=["a"])
    project.run()
    project.configure(f'[tables."shop.item"]\nkey = ["no"]\n{RENAME}')
    deliver(11, no=[2], title=["b"])
    deliver(12, id=[3], name=["c"])
    deliver(13, no=[4], name=["d"])
    assert len(project.run()["shop.item"]["batches"]) == 1
    assert rows(project, "no", "title") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    deliver(14, no=[5], name=["e"], title=["E"])
    assert "has a column by two names | it has name and title" in project.fails()


Prepare = Callable[[Project], None]


def _both_in_a_file(project: Project) -> None:
    project.configure(item("id", BEFORE.replace("name", "title"), 'schema.rename = { name = "title" }'))
    put(project, 11, "Op,id,name,title,price", "U,1,b,c,2.00")


def _both_in_the_table(project: Project) -> None:
    project.configure(item("id", f'{BEFORE}, title = "string"'))
    put(project, 11, "Op,id,name,title,price", "U,1,b,c,2.00")
    project.run()
    project.configure(item("id", BEFORE.replace("name", "title"), 'schema.rename = { name = "title" }'))
    put(project, 12, "Op,id,title,price", "U,1,d,2.00")


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (_both_in_a_file, "it has name and title, which are one column"),
        (_both_in_the_table, "the column name cannot be called title | the table has both name and title"),
    ],
)
def test_two_columns_never_become_one(project: Project, prepare: Prepare, said: str) -> None:
    put(project, 10, "Op,id,name,price", "I,1,a,1.00")
    project.run()
    prepare(project)
    before = lake_table(project).current_snapshot()
    assert said in project.fails()
    assert lake_table(project).current_snapshot() == before
