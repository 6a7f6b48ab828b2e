"""Joined tables in the settings: their declarations, and the errors of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Command
from projects import MEMORY, write

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.history.options import ByRun, History
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, JoinType, Source
from lakeward.entrypoints.settings.configuration import load

NAME = TableName("dw", "dim")
TABLES = """
[tables."shop.customer"]
key = ["id"]
columns = { id = "int", name = "string", region = "string" }

[tables."shop.address"]
key = ["id"]
columns = { id = "int", city = "string", moved_in = "date" }

[tables."shop.orders"]
key = ["id"]
columns = { id = "bigint", customer = "int", amount = "decimal(8,2)", at = "timestamp" }
"""
CUSTOMER = """
[joined."dw.dim".sources.customer]
table = "Shop.Customer"
columns = ["id", "name"]
"""
ADDRESS = """
[joined."dw.dim".sources.address]
table = "shop.address"
on = ["id"]
columns = { town = "city" }
"""
HISTORY = '[joined."dw.dim"]\nmode = "history"\n[joined."dw.dim".history]\n'
BY_DAY = f'{HISTORY}type = "date"\n'
ORDERS = """
[joined."dw.dim".sources.orders]
table = "shop.orders"
on = ["customer"]
to = ["id"]
way = "inner"
aggregates = { orders = "count", most = { function = "max", column = "amount" } }
"""


def declared(folder: Path, *parts: str) -> JoinDeclaration:
    return load(write(folder, MEMORY, TABLES, *parts)).joined[NAME]


def refusal(folder: Path, *parts: str, tables: str = TABLES) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        load(write(folder, MEMORY, tables, *parts))
    assert refused.value.todo
    return refused.value


def test_settings_become_the_declaration_of_the_core(tmp_path: Path) -> None:
    """A source without `to` is joined to columns of the same names."""
    head = '[joined."dw.dim"]\nunknown = { name = "nobody", id = -2 }\n'
    assert declared(tmp_path, head, CUSTOMER, ADDRESS, ORDERS) == JoinDeclaration(
        name=NAME,
        sources={
            "customer": Source(table=TableName("shop", "customer"), columns={"id": "id", "name": "name"}),
            "address": Source(table=TableName("shop", "address"), columns={"town": "city"}, on=("id",), to=("id",)),
            "orders": Source(
                table=TableName("shop", "orders"),
                on=("customer",),
                to=("id",),
                way=JoinType.INNER,
                aggregates={"orders": Aggregate(Function.COUNT), "most": Aggregate(Function.MAX, "amount")},
            ),
        },
        unknown={"name": "nobody", "id": "-2"},
    )


def test_a_history_and_an_unknown_row_are_options(tmp_path: Path) -> None:
    head = '[joined."dw.dim"]\nmode = "history"\nunknown = true\n[joined."dw.dim".history]\nvalidity = "run"\n'
    found = declared(tmp_path, head, CUSTOMER)
    assert found.unknown == {}
    assert isinstance((found.history or History()).validity, ByRun)
    assert declared(tmp_path, CUSTOMER).unknown is None


def test_options_of_the_table_format_are_keys_of_a_joined_table(tmp_path: Path) -> None:
    found = load(write(tmp_path, MEMORY, TABLES, '[joined."dw.dim"]\npartition_by = ["id"]\n', CUSTOMER))
    assert found.format_options()[NAME] == {"partition_by": ["id"]}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([CUSTOMER.replace("Shop.Customer", "shop.customers")], "customer is made of shop.customers"),
        ([CUSTOMER.replace("columns", "colums")], "has no key 'colums'"),
        ([CUSTOMER, ORDERS.replace('"inner"', '"outer"')], "way"),
        (['[joined."dw.dim"]\nmode = "mirror"\ntrack = ["*"]\n', CUSTOMER], "`track` is for a history: say `mode"),
        ([CUSTOMER, CUSTOMER.replace("dw.", "a.").replace("Shop.Customer", "DW.dim")], "DW.dim is a joined table"),
        ([CUSTOMER.replace("dw.dim", "shop.orders")], "another table has that name"),
        ([CUSTOMER.replace("dw.dim", "dw.*")], "its name is a pattern"),
        ([CUSTOMER.replace("dw.dim", "shop.orders__changes")], "a side table of shop.orders"),
        ([CUSTOMER, ORDERS.replace("orders =", '"" =')], "'' cannot name a column"),
        ([CUSTOMER, ORDERS, "otherwise = { orders = [] }\n"], "otherwise"),
        ([CUSTOMER.replace("sources.customer", 'sources.""')], "'' cannot name a source"),
        ([CUSTOMER, '[tables."shop.log"]\n', CUSTOMER.replace("dim", "b").replace("Customer", "log")], "no key"),
    ],
)
def test_wrong_settings_are_refused_before_anything_starts(tmp_path: Path, parts: list[str], words: str) -> None:
    assert words in str(refusal(tmp_path, *parts))


@pytest.mark.parametrize(
    ("key", "words"), [("key", 'key = ["id"]'), ("lateness", 'lateness = "1d"'), ("schema", "schema = {}")]
)
def test_a_joined_table_has_no_keys_of_tables_that_a_source_feeds(tmp_path: Path, key: str, words: str) -> None:
    refused = refusal(tmp_path, f'[joined."dw.dim"]\n{words}\n', CUSTOMER)
    assert refused.found == (
        f'[joined."dw.dim"]: `{key}` is a key of tables that a source feeds, and a joined table has no such key: '
        "leave it out, or set it under [tables], for the tables that are joined"
    )
    assert "Did you mean" not in str(refused)


def of_zones(*tables: str) -> str:
    """Return the tables, of which these say a zone of their own."""
    found = TABLES
    for table in tables:
        section = f'[tables."{table}"]\n'
        found = found.replace(section, f'{section}source = {{ source_zone = "Asia/Tokyo" }}\n')
    return found


OF_BOTH = of_zones("shop.customer", "shop.address")
ADDRESS_APART = of_zones("shop.address")
CUSTOMER_BY_DAY = ADDRESS_APART.replace(
    '[tables."shop.customer"]\n', '[tables."shop.customer"]\nmode = "history"\nhistory = { type = "date" }\n'
)


@pytest.mark.parametrize(
    ("tables", "history", "address", "zone"),
    [
        (TABLES, BY_DAY, ADDRESS, "Europe/Berlin"),
        (OF_BOTH, BY_DAY, ADDRESS, "Asia/Tokyo"),
        (of_zones("shop.orders"), BY_DAY, ADDRESS, "Europe/Berlin"),
        (ADDRESS_APART, HISTORY, ADDRESS, "Europe/Berlin"),  # without days no common zone is needed
        (OF_BOTH, HISTORY, ADDRESS, "Europe/Berlin"),  # the declaration is the same
        (CUSTOMER_BY_DAY, BY_DAY, f"{ADDRESS}as_now = true\n", "Europe/Berlin"),  # addresses date no version
    ],
)
def test_a_joined_history_cuts_days_in_the_zone_of_the_sources_that_date_its_versions(
    tmp_path: Path, tables: str, history: str, address: str, zone: str
) -> None:
    memory = MEMORY.replace('kind = "memory"', 'kind = "memory"\nsource_zone = "Europe/Berlin"', 1)
    found = load(write(tmp_path, memory, tables, history, CUSTOMER, address)).joined[NAME].history
    assert found is not None
    assert found.zone == zone


@pytest.mark.parametrize("by_day", ['type = "date"', "closed = true", 'validity = "run"'])
def test_a_joined_history_with_days_refuses_sources_of_several_zones(tmp_path: Path, by_day: str) -> None:
    refused = refusal(tmp_path, f"{HISTORY}{by_day}\n", CUSTOMER, ADDRESS, tables=ADDRESS_APART)
    assert (refused.what, refused.found) == (
        "dw.dim: it cannot be joined like this",
        "its sources have times in different zones, and its days are of one zone: customer UTC, address Asia/Tokyo",
    )
    assert "`source_zone`" in (refused.todo or "")


def test_tables_without_declared_columns_are_checked_later(tmp_path: Path) -> None:
    later = TABLES.replace('columns = { id = "int", name = "string", region = "string" }', "")
    wrong = CUSTOMER.replace('["id", "name"]', '["id", "nam"]')
    assert load(write(tmp_path, MEMORY, later, wrong)).joined[NAME].sources["customer"].columns["nam"] == "nam"
    pattern = '[tables."crm.*"]\nkey = ["id"]\n'
    found = load(write(tmp_path, MEMORY, pattern, CUSTOMER.replace("Shop.Customer", "crm.customer")))
    assert found.joined[NAME].sources["customer"].table == TableName("crm", "customer")


def test_a_lake_that_cannot_join_is_refused(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, MEMORY, TABLES, CUSTOMER)
    ended = lakeward("run", "--once")
    assert ended.code == 1
    assert "tables of the kind 'memory' cannot be joined" in ended.err
