"""This process keeps columns of data files. Whatever others do to the table, batches find the rows that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal

import pytest
from project import ITEM, Project
from pyiceberg.catalog import Catalog, load_catalog

from lakeward.adapters.formats.shared.storage import parquet_files

pytestmark = pytest.mark.spark

D = Decimal
LOAD = "1,a,1.00\n2,b,2.00\n3,c,3.00\n"
FIRST, SECOND, THIRD = (f"20261121-1{hour}0000000.csv" for hour in range(3))


@contextmanager
def catalog_of(project: Project) -> Iterator[Catalog]:
    """Open the catalog as another process does."""
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{project.folder}/lake/catalog.db")
    try:
        yield catalog
    finally:
        catalog.close()


def files_of(project: Project) -> tuple[int, int]:
    """Return how many data files and delete files the table has."""
    with catalog_of(project) as catalog:
        snapshot = catalog.load_table(("shop", "item")).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return int(snapshot.summary["total-data-files"] or 0), int(snapshot.summary["total-delete-files"] or 0)


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_goes_with_its_last_row(project: Project, version: int) -> None:
    """Otherwise each batch would look for its keys in all files that were ever written."""
    project.configure(f"{ITEM}format_version = {version}\n")
    project.put("LOAD00000001.csv", LOAD)
    project.run()
    project.put(FIRST, "U,1,x,2.00\nU,2,x,2.00\n")
    project.run()
    assert files_of(project) == (2, 1)
    project.put(SECOND, "D,3,c,3.00\nU,1,y,3.00\n")
    project.run()
    assert files_of(project) == (2, 1)
    assert project.rows() == [(1, "y", D("3.00")), (2, "x", D("2.00"))]


def test_a_batch_opens_only_files_that_no_earlier_one_has_opened(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[str]()
    open_file = parquet_files._Reader.open
    monkeypatch.setattr(
        parquet_files._Reader, "open", lambda self, file: (opened.append(file.path), open_file(self, file))[1]
    )
    project.put("LOAD00000001.csv", LOAD)
    project.run()
    for number in range(4):
        project.put(f"20261121-1{number}0000000.csv", f"U,1,n{number},2.00\n")
        project.run()
    assert len(opened) == len(set(opened)) == 4
    assert project.rows() == [(1, "n3", D("2.00")), (2, "b", D("2.00")), (3, "c", D("3.00"))]


def _delete_a_row(catalog: Catalog) -> None:
    catalog.load_table(("shop", "item")).delete("id = 1")


def _roll_back(catalog: Catalog) -> None:
    table = catalog.load_table(("shop", "item"))
    with table.manage_snapshots() as manage:
        manage.rollback_to_snapshot(table.snapshots()[1].snapshot_id)


def _drop(catalog: Catalog) -> None:
    for name in ("item", "item__changes"):
        catalog.drop_table(("shop", name))


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")  # the other writer's
@pytest.mark.parametrize(
    ("change", "one"),
    [
        pytest.param(_delete_a_row, [], id="a row is deleted"),
        pytest.param(_roll_back, [(1, "x", D("2.00"))], id="the table is rolled back"),
        pytest.param(_drop, [(1, "x", D("2.00"))], id="the table is dropped, and made anew"),
    ],
)
def test_a_batch_finds_the_rows_that_another_writer_has_left(
    project: Project, change: Callable[[Catalog], None], one: Sequence[object]
) -> None:
    project.put("LOAD00000001.csv", LOAD)
    project.run()
    project.put(FIRST, "U,1,x,2.00\n")
    project.run()
    project.put(SECOND, "U,2,x,2.00\n")
    project.run()
    with catalog_of(project) as catalog:
        change(catalog)
    project.put(THIRD, "U,2,y,3.00\nU,3,y,3.00\n")
    project.run()
    assert project.rows() == [*one, (2, "y", D("3.00")), (3, "y", D("3.00"))]
