"""Which folders are snapshots: those below a table's folder, or of a date; those of a column are parts of one."""

from __future__ import annotations

import pytest

from lakeward.adapters.sources.files.paths.snapshot_folders import refuse_nested, snapshot_folder
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError

ORDERS = TableName("shop", "orders")


@pytest.mark.parametrize(
    ("path", "columns", "folder"),
    [
        ("2026-01-01/a.csv", [], "2026-01-01"),
        ("monday/a.csv", [], "monday"),
        ("2026-01-01/Region=eu/a.csv", ["region"], "2026-01-01"),
        ("2026-01-01/region=eu/city=ulm/a.csv", ["region", "city"], "2026-01-01"),
        ("2026/11/21/region=7/a.csv", ["region"], "2026/11/21"),
        ("region=eu/a.csv", ["region"], "region=eu"),
        ("dt=2026-01-01/a.csv", ["dt"], "dt=2026-01-01"),
        ("year=2026/month=1/day=2/a.csv", ["year", "month", "day"], "year=2026/month=1/day=2"),
        ("year=2026/month=1/shop=3/a.csv", ["year", "month", "shop"], "year=2026/month=1"),
        ("2026-01-01/07-30/a.csv", [], "2026-01-01/07-30"),
        ("202601/02/a.csv", [], "202601/02"),
    ],
)
def test_folders_of_columns_are_parts_of_a_snapshot(path: str, columns: list[str], folder: str) -> None:
    found = snapshot_folder(columns)(path)
    assert found == folder
    refuse_nested(ORDERS, [found])


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        ("2026-01-01/region=eu/a.csv", []),
        ("2026-01-01/region=10/a.csv", []),
        ("2026-01-01/eu/a.csv", []),
        ("v1/2026-01-01/a.csv", []),
        ("dt=2026-01-01/region=eu/a.csv", ["dt"]),
        ("2026-01-01/region=eu/x/a.csv", ["region"]),
        ("2026-01-01/1234/5/a.csv", []),
    ],
)
def test_other_folders_within_folders_stop_the_table(path: str, columns: list[str]) -> None:
    with pytest.raises(SourceError, match=r"whether the folder .* is a snapshot, or a part of one") as refused:
        refuse_nested(ORDERS, ["2026-01-01", snapshot_folder(columns)(path)])
    assert "path_columns" in str(refused.value.todo)
