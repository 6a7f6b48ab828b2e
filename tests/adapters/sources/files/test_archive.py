"""Plain files that go into an archive are of one table each, and no folder lies in that of another table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.adapters.sources.files import build_inventory
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.plugins import Runtime

ORDERS, CUSTOMER = TableName("shop", "orders"), TableName("shop", "customer")


def opened(tmp_path: Path, tables: dict[TableName, dict[str, Any]], landing: str = "archived") -> bool:
    (tmp_path / "landing").mkdir(exist_ok=True)
    options = {"path": "landing", "landing": landing, "tables": tables, "formats": {ORDERS: {}, CUSTOMER: {}}}
    return build_inventory(options, Runtime(lambda: None, tmp_path)) is not None


NESTED = [{ORDERS: {"folder": "inbox"}, CUSTOMER: {"folder": "inbox/customer"}}, {ORDERS: {"folder": "shop"}}]


@pytest.mark.parametrize(
    "tables",
    [
        {ORDERS: {"folder": "inbox"}, CUSTOMER: {"folder": "Inbox"}},
        {ORDERS: {"folder": "inbox", "names": r".*\.csv"}, CUSTOMER: {"folder": "inbox"}},
        *NESTED,
    ],
)
def test_a_folder_that_two_tables_read_is_not_archived(
    tmp_path: Path, tables: dict[TableName, dict[str, Any]]
) -> None:
    """The first would take the files away from the second."""
    with pytest.raises(ConfigError, match="several tables read cannot be archived") as refused:
        opened(tmp_path, tables)
    assert "shop.orders reads" in str(refused.value.found)
    assert tables in NESTED or opened(tmp_path, tables, "kept")


@pytest.mark.parametrize("tables", NESTED)
def test_a_folder_within_that_of_another_table_is_refused(
    tmp_path: Path, tables: dict[TableName, dict[str, Any]]
) -> None:
    with pytest.raises(ConfigError, match=r"the folder of shop\.customer lies within that of shop\.orders"):
        opened(tmp_path, tables, "kept")
    messages = {table: {**own, "format": "debezium"} for table, own in tables.items()}
    assert opened(tmp_path, messages, "kept"), "messages say themselves of which table they are"


def test_folders_of_their_own_and_names_of_their_own_are_archived(tmp_path: Path) -> None:
    assert opened(tmp_path, {ORDERS: {"folder": "inbox"}, CUSTOMER: {"folder": "inbox_2"}})
    names = {table: {"folder": "inbox", "names": rf"{table.table}-.*\.csv"} for table in (ORDERS, CUSTOMER)}
    assert opened(tmp_path, names)
