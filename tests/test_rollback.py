"""Tables in Iceberg are taken back to an earlier commit: rows, progress and memory, and the next run goes on."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from project import ITEM, Project
from pyiceberg.catalog import load_catalog

from lakeward.adapters.iceberg.rollback import IcebergVersions
from lakeward.adapters.tables import companion

pytestmark = pytest.mark.spark

D = Decimal
LOAD = "1,a,1.00\n2,b,2.00\n3,c,3.00\n"
CHANGES = [
    "U,2,x,2.00\nD,3,c,3.00\n",
    "U,2,y,9.00\nI,4,d,4.00\n",
    "D,4,d,4.00\nU,1,z,7.00\n",
    "I,5,e,5.00\n",
]
AFTER_ALL = [(1, "z", D("7.00")), (2, "y", D("9.00")), (5, "e", D("5.00"))]
AFTER_FIRST = [(1, "a", D("1.00")), (2, "x", D("2.00"))]


def fed(project: Project) -> None:
    """Run once for the load, and once for each file of changes."""
    project.put("LOAD00000001.csv", LOAD)
    project.run()
    for number, changes in enumerate(CHANGES):
        project.put(f"20261121-1{number}0000000.csv", changes)
        project.run()


def versions(project: Project) -> dict[int, str]:
    """Return the commits that the command lists, by batch."""
    ended = project.call("rollback", "shop.item", "--json")
    assert ended.code == 0, ended.err
    return {found["batch"]: found["name"] for found in ended.document["versions"]}


def take_back(project: Project, batch: int, *more: str) -> dict[str, Any]:
    ended = project.call("rollback", "shop.item", "--to", versions(project)[batch], "--json", *more)
    assert ended.code == 0, ended.err
    return dict(ended.document)


def catalog(project: Project) -> Any:
    return load_catalog("lake", type="sql", uri=f"sqlite:///{project.folder}/lake/catalog.db")


def test_rows_and_progress_go_back_together_and_the_next_run_applies_what_follows(project: Project) -> None:
    fed(project)
    assert [*versions(project)] == [4, 3, 2, 1]
    said = take_back(project, 2, "--dry-run")
    assert (said["batches"], said["done"], len(said["objects"])) == (3, False, 3)
    assert project.rows() == AFTER_ALL
    assert take_back(project, 2)["done"]
    assert project.rows() == AFTER_FIRST
    (status,) = project.call("status", "--json").document["tables"]
    assert (status["batch"], status["rows"]) == (2, 2)
    states = project.call("ledger", "list", "shop.item", "--json").document["states"]
    assert states == {"applied": 2}
    assert [batch["batch"] for batch in project.run()["shop.item"]["batches"]] == [3]
    assert project.rows() == AFTER_ALL
    assert project.run()["shop.item"]["batches"] == []
    assert [*versions(project)] == [2, 1]


def test_it_says_what_it_undoes(project: Project) -> None:
    fed(project)
    listed = project.call("rollback", "shop.item").out
    assert "20261121-130000000.csv" not in listed
    assert "20261121-120000000.csv" in listed
    said = project.call("rollback", "shop.item", "--to", versions(project)[3], "--dry-run").out
    assert "2 batches are undone; their 2 file(s) will be applied again" in said
    assert "Nothing was changed" in said


def test_a_commit_that_is_none_is_refused(project: Project) -> None:
    fed(project)
    ended = project.call("rollback", "shop.item", "--to", "17")
    assert ended.code == 1
    assert "has no snapshot 17" in ended.err
    assert project.rows() == AFTER_ALL


def test_files_that_are_not_there_any_more_are_missed_before_anything_is_changed(project: Project) -> None:
    project.configure(source='landing = "archived"\narchive = "backup"')
    fed(project)
    ended = project.call("rollback", "shop.item", "--to", versions(project)[3])
    assert ended.code == 1
    assert "2 file(s) that were applied since are not there any more" in ended.err
    assert project.rows() == AFTER_ALL
    for number in (2, 3):
        name = f"20261121-1{number}0000000.csv"
        (project.folder / "backup/shop/item" / name).rename(project.folder / "landing/shop/item" / name)
    take_back(project, 3)
    project.run()
    assert project.rows() == AFTER_ALL


@pytest.mark.parametrize("to", [4, 3])
def test_a_crash_in_between_is_taken_up_by_asking_again(
    project: Project, monkeypatch: pytest.MonkeyPatch, to: int
) -> None:
    """The table went back, what stands beside it did not; also where it was trimmed with the batch behind."""
    monkeypatch.setattr(companion, "_TRIM_EVERY", 5)
    fed(project)
    name = versions(project)[to]

    def ends(*_: object) -> None:
        raise RuntimeError("the process ends here")

    with monkeypatch.context() as patch:
        patch.setattr(IcebergVersions, "_bring_back", ends)
        with pytest.raises(RuntimeError):
            project.call("rollback", "shop.item", "--to", name, "--json")
    assert "`lakeward rollback shop.item` takes back what it remembers, too" in project.fails()
    assert take_back(project, to)["done"]
    project.run()
    assert project.rows() == AFTER_ALL


def test_what_was_trimmed_since_comes_back(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion, "_TRIM_EVERY", 2)
    fed(project)
    take_back(project, 1)
    project.run()
    assert project.rows() == AFTER_ALL


def test_a_table_whose_memory_of_then_is_lost_says_so(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion, "_TRIM_EVERY", 2)
    fed(project)
    first = versions(project)[1]
    changes = catalog(project).load_table(("shop", "item__changes"))
    with changes.manage_snapshots() as manage:
        manage.remove_tag("lakeward-before-2")
    assert [*versions(project)] == [4, 3, 2]
    ended = project.call("rollback", "shop.item", "--to", first)
    assert ended.code == 1
    assert "what it remembered at batch 1 was forgotten with batch 2" in ended.err
    assert project.rows() == AFTER_ALL


def test_a_table_that_others_took_back_is_given_the_memory_of_then(project: Project) -> None:
    fed(project)
    second = versions(project)[2]
    table = catalog(project).load_table(("shop", "item"))
    with table.manage_snapshots() as manage:
        manage.rollback_to_snapshot(int(second))
    assert "was rolled back to batch 2" in project.fails()
    take_back(project, 2)
    project.run()
    assert project.rows() == AFTER_ALL


def test_columns_that_batches_added_since_go_and_come_again(project: Project) -> None:
    fed(project)
    more = ITEM.replace('price = "decimal(8,2)"', 'price = "decimal(8,2)", colour = "string"')
    project.configure(tables=more)
    project.put("20261121-200000000.csv", "U,1,z,7.00,red\n")
    project.run()
    columns = ("id", "name", "colour")
    assert (1, "z", "red") in project.rows(columns=columns)
    take_back(project, 5)
    assert "colour" not in catalog(project).load_table(("shop", "item")).schema().column_names
    project.run()
    assert (1, "z", "red") in project.rows(columns=columns)
    assert [row[:1] for row in project.rows(columns=columns)] == [(1,), (2,), (5,)]
