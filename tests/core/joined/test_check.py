"""What cannot be joined is an error that says what is wrong, what was found and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.events import Sequences
from lakeward.core.history.options import ByColumn, ByRun, History, Kind, Shown, Surrogate
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import Aggregate, Function, Joined, JoinType, Source
from lakeward.core.schema import Column, Schema, Type, parse_type

SHOP = "shop"


def table(of: str, key: str = "id", /, **columns: str) -> Dimension:
    schema = Schema(tuple(Column(column, parse_type(type_)) for column, type_ in columns.items()))
    return Dimension(name=TableName(SHOP, of), schema=schema, key=(key,) if key else ())


TABLES = {
    found.name: found
    for found in (
        table("customer", id="int", name="string", region="string", seen="timestamp", tags="list<string>"),
        table("address", id="int", customer="bigint", city="string", moved="date", tags="list<string>"),
        table("orders", id="int", customer="int", amount="double", tags="list<string>"),
        table("log", "", line="string"),
    )
}
CUSTOMER = Source(table=TableName(SHOP, "customer"), columns={"id": "id", "name": "name"})
ADDRESS = Source(table=TableName(SHOP, "address"), columns={"city": "city"}, on=("id",), to=("id",))
ORDERS = Source(
    table=TableName(SHOP, "orders"), on=("customer",), to=("id",), aggregates={"orders": Aggregate(Function.COUNT)}
)
CITY = {"city": Aggregate(Function.MIN, "city")}
HISTORY = History()
BY_DAY = History(shown=Shown(type=Type("date")))


def joined(history: History | None = None, unknown: Mapping[str, str] | None = None, **sources: Source) -> Joined:
    return Joined(name=TableName("dw", "dim"), sources=sources, history=history, unknown=unknown)


def counted(function: Function, column: str | None = None, by: str | None = None) -> Source:
    return replace(ORDERS, aggregates={"made": Aggregate(function, column, by)})


def with_history(tables: Mapping[TableName, Dimension], **histories: History) -> dict[TableName, Dimension]:
    return {name: replace(found, history=histories.get(name.table)) for name, found in tables.items()}


def test_a_joined_table_has_what_is_taken_and_the_key_of_the_source_that_drives() -> None:
    sums = {"orders": Aggregate(Function.COUNT), "last_tags": Aggregate(Function.LATEST, "tags", "id")}
    found = validate_joined(
        joined(
            customer=replace(CUSTOMER, columns={"customer_id": "id", "name": "name"}),
            address=replace(ADDRESS, on=("customer",), columns={}, aggregates=CITY),
            orders=replace(ORDERS, aggregates=sums),
        ),
        TABLES,
    )
    columns = {column.name: str(column.type) for column in found.dimension.schema}
    assert found.dimension.key == ("customer_id",)
    assert columns == {
        "customer_id": "int",
        "name": "string",
        "city": "string",
        "orders": "bigint",
        "last_tags": "list<string>",
    }


def test_a_key_that_is_taken_twice_is_known_by_its_first_name() -> None:
    twice = replace(CUSTOMER, columns={"number": "id", "again": "id"})
    assert validate_joined(joined(customer=twice), TABLES).dimension.key == ("number",)


def test_a_joined_table_of_groups_has_their_columns_as_its_key() -> None:
    grouped = replace(ORDERS, to=(), columns={"who": "customer"})
    assert validate_joined(joined(orders=grouped), TABLES).dimension.key == ("who",)


WRONG: Mapping[str, Joined] = {
    "it has no source": joined(),
    "a table that a source feeds has its name": replace(joined(customer=CUSTOMER), name=CUSTOMER.table),
    "customer is made of shop.nobody, which is no table here": joined(
        customer=replace(CUSTOMER, table=TableName(SHOP, "nobody"))
    ),
    "shop.log has no key": joined(log=Source(table=TableName(SHOP, "log"))),
    "customer has no column nose": joined(customer=replace(CUSTOMER, columns={"id": "id", "nose": "nose"})),
    "id of customer is not among its columns": joined(customer=replace(CUSTOMER, columns={"name": "name"})),
    "customer drives, and is joined to another": joined(customer=replace(CUSTOMER, to=("id",))),
    'customer drives, and has `way = "inner"`': joined(customer=replace(CUSTOMER, way=JoinType.INNER)),
    "address is joined to orders, which is no source before it": joined(
        customer=CUSTOMER, address=replace(ADDRESS, beside="orders"), orders=ORDERS
    ),
    "address is joined on id, id": joined(
        customer=CUSTOMER, address=replace(ADDRESS, on=("id", "id"), to=("id", "region"))
    ),
    "address is joined to id, id": joined(
        customer=CUSTOMER, address=replace(ADDRESS, on=("id", "city"), to=("id", "id"))
    ),
    "address is joined on id to nothing": joined(customer=CUSTOMER, address=replace(ADDRESS, to=())),
    "address has no column nose": joined(customer=CUSTOMER, address=replace(ADDRESS, on=("nose",))),
    "customer has no column nose:to": joined(customer=CUSTOMER, address=replace(ADDRESS, to=("nose",))),
    "address.id is an int, customer.name a string": joined(
        customer=CUSTOMER, address=replace(ADDRESS, to=("name",))
    ),
    "address.tags is a list<string>, customer.tags a list<string>": joined(
        customer=CUSTOMER, address=replace(ADDRESS, on=("tags",), to=("tags",))
    ),
    "address may have several rows for one customer: its key is id": joined(
        customer=CUSTOMER, address=replace(ADDRESS, on=("customer",))
    ),
    "address is joined to id, and several rows of orders make one": joined(
        orders=replace(ORDERS, to=(), columns={"customer": "customer"}), address=ADDRESS
    ),
    "of orders amount is taken, and several rows of it make one": joined(
        customer=CUSTOMER, orders=replace(ORDERS, columns={"amount": "amount"})
    ),
    "sum of orders is given nothing": joined(customer=CUSTOMER, orders=counted(Function.SUM)),
    "latest of orders is given amount": joined(customer=CUSTOMER, orders=counted(Function.LATEST, "amount")),
    "max of orders is given amount, id": joined(customer=CUSTOMER, orders=counted(Function.MAX, "amount", "id")),
    "orders has no column nose": joined(customer=CUSTOMER, orders=counted(Function.MAX, "nose")),
    "sum of orders.amount, which is a double": joined(customer=CUSTOMER, orders=counted(Function.SUM, "amount")),
    "max of orders.tags, which is a list<string>": joined(customer=CUSTOMER, orders=counted(Function.MAX, "tags")),
    "orders.tags is a list<string>": joined(customer=CUSTOMER, orders=counted(Function.LATEST, "amount", "tags")),
    "two columns name": joined(customer=CUSTOMER, address=replace(ADDRESS, columns={"Name": "city"})),
    "a column _lakeward_row": joined(customer=CUSTOMER, address=replace(ADDRESS, columns={"_lakeward_row": "id"})),
    "customer has a validity column, or is as_now": joined(customer=replace(CUSTOMER, validity="seen")),
    "address has a validity column, or is as_now": joined(customer=CUSTOMER, address=replace(ADDRESS, as_now=True)),
    "its unknown row has nose": joined(customer=CUSTOMER, unknown={"nose": "long"}),
    "tags of its unknown row is 'a', and the column a list<string>": joined(
        customer=replace(CUSTOMER, columns={"id": "id", "tags": "tags"}), unknown={"tags": "a"}
    ),
    "id of its unknown row is 'none', and the column an int": joined(customer=CUSTOMER, unknown={"id": "none"}),
}


@pytest.mark.parametrize(("found", "wrong"), WRONG.items(), ids=WRONG)
def test_what_does_not_fit_is_said(found: str, wrong: Joined) -> None:
    with pytest.raises(ConfigError, match="it cannot be joined like this") as error:
        validate_joined(wrong, TABLES)
    assert error.value.found == found.removesuffix(":to")
    assert error.value.todo


BOTH = {"customer": CUSTOMER, "address": ADDRESS}
OF_HISTORIES: Mapping[str, tuple[Joined, Mapping[str, History]]] = {
    "shop.customer also has versions that are not believed any more (`known`)": (
        joined(HISTORY, customer=CUSTOMER, address=ADDRESS),
        {"customer": History(known=True), "address": HISTORY},
    ),
    "of customer current_name, is_current is taken, which its history adds": (
        joined(
            HISTORY,
            customer=replace(CUSTOMER, columns={"id": "id", "now": "current_name", "open": "is_current"}),
            address=ADDRESS,
        ),
        {"customer": History(kinds={"name": Kind.CURRENT}), "address": HISTORY},
    ),
    "customer is a history, address a mirror, of which nothing tells how it was": (
        joined(HISTORY, **BOTH),
        {"customer": HISTORY},
    ),
    "customer drives, as it is now": (
        joined(HISTORY, customer=replace(CUSTOMER, as_now=True), address=ADDRESS),
        {"customer": HISTORY, "address": HISTORY},
    ),
    "its validity or first_load is set, or the validity of a source": (
        joined(replace(BY_DAY, validity=ByRun()), **BOTH),
        {"customer": BY_DAY, "address": BY_DAY},
    ),
    "its validity or first_load is set, or the validity of a source:own": (
        joined(HISTORY, customer=replace(CUSTOMER, validity="seen"), address=ADDRESS),
        {"customer": HISTORY, "address": HISTORY},
    ),
    "customer: timestamp, address: date UTC, dw.dim: timestamp": (
        joined(HISTORY, **BOTH),
        {"customer": HISTORY, "address": BY_DAY},
    ),
    "customer: date UTC, address: date UTC, dw.dim: date Asia/Tokyo": (
        joined(replace(BY_DAY, zone="Asia/Tokyo"), **BOTH),
        {"customer": BY_DAY, "address": BY_DAY},
    ),
    "address is as_now, and a mirror": (
        joined(HISTORY, customer=CUSTOMER, address=replace(ADDRESS, as_now=True)),
        {},
    ),
    "address has a validity column, and versions begin on the day of the run": (
        joined(replace(BY_DAY, validity=ByRun()), customer=CUSTOMER, address=replace(ADDRESS, validity="moved")),
        {},
    ),
    "it is to say which key a row had before (`previous_key`)": (joined(History(previous_key=True), **BOTH), {}),
    'its versions are made anew, and have no numbers to keep (`surrogate = "number"`)': (
        joined(History(shown=Shown(surrogate=Surrogate.NUMBER)), **BOTH),
        {},
    ),
    "versions of customer are dated by numbers": (
        joined(HISTORY, **BOTH),
        {"customer": History(shown=Shown(type=Type("bigint"))), "address": HISTORY},
    ),
    "its versions are dated by its column seen": (
        joined(
            replace(HISTORY, validity=ByColumn("seen")),
            customer=replace(CUSTOMER, columns={"id": "id", "seen": "seen"}),
        ),
        {},
    ),
    "the validity column of address is a date, those of the joined table a timestamp": (
        joined(HISTORY, customer=CUSTOMER, address=replace(ADDRESS, validity="moved")),
        {},
    ),
    "the validity column of address is a string, those of the joined table a date": (
        joined(BY_DAY, customer=CUSTOMER, address=replace(ADDRESS, validity="city")),
        {},
    ),
}


@pytest.mark.parametrize(("found", "wrong"), OF_HISTORIES.items(), ids=OF_HISTORIES)
def test_sources_of_a_history_say_in_one_way_when_they_are_valid(
    found: str, wrong: tuple[Joined, Mapping[str, History]]
) -> None:
    with pytest.raises(ConfigError) as error:
        validate_joined(wrong[0], with_history(TABLES, **wrong[1]))
    assert error.value.found == found.removesuffix(":own")


def test_a_column_that_is_nearly_named_is_proposed() -> None:
    with pytest.raises(ConfigError, match=r"customer has no column nam\nDid you mean 'name'\?"):
        validate_joined(joined(customer=replace(CUSTOMER, columns={"id": "id", "name": "nam"})), TABLES)


def test_rows_that_do_not_keep_their_times_need_a_column_or_the_run() -> None:
    tables = {name: replace(found, sequences=Sequences.UNIQUE) for name, found in TABLES.items()}
    dated = replace(CUSTOMER, validity="seen")
    with pytest.raises(ConfigError, match="the rows of address do not keep when they were changed"):
        validate_joined(joined(BY_DAY, customer=dated, address=ADDRESS), tables)
    assert validate_joined(joined(BY_DAY, customer=dated, address=replace(ADDRESS, validity="moved")), tables)
    assert validate_joined(joined(replace(BY_DAY, validity=ByRun()), **BOTH), tables)


def test_a_mirror_may_stand_beside_histories_as_it_is_now() -> None:
    tables = with_history(TABLES, customer=HISTORY)
    found = validate_joined(joined(HISTORY, customer=CUSTOMER, address=replace(ADDRESS, as_now=True)), tables)
    assert found.over_time
    assert not validate_joined(joined(None, **BOTH), tables).over_time


def test_a_history_as_it_is_now_is_joined_like_a_mirror() -> None:
    both = {"customer": replace(CUSTOMER, as_now=True), "address": replace(ADDRESS, as_now=True)}
    assert not validate_joined(
        joined(HISTORY, **both), with_history(TABLES, customer=HISTORY, address=BY_DAY)
    ).over_time
