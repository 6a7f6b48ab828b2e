"""Wrong declarations of joined tables are refused: the error says what is wrong, what was found, what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from types_of_columns import columns

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.events import Sequences
from lakeward.core.history.options import ByColumn, ByRun, History, Kind, Surrogate, ValidityColumns
from lakeward.core.joined.check import type_of, validate_joined
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, JoinType, Source
from lakeward.core.schema import Type, parse_type

SHOP = "shop"


def table(of: str, *key: str, **types: str) -> Dimension:
    return Dimension(name=TableName(SHOP, of), schema=columns(**types), key=key)


MOMENTS = {"at": "timestamp", "day": "date", "number": "int", "price": "decimal(8,2)"}
"""The columns of orders that a lookup may name."""
TABLES = {
    found.name: found
    for found in (
        table("customer", "id", id="int", name="string", region="string", seen="timestamp", tags="list<string>"),
        table("address", "id", id="int", customer="bigint", city="string", moved="date", tags="list<string>"),
        table("orders", "id", id="int", customer="int", amount="double", tags="list<string>", **MOMENTS),
        table("log", line="string"),
    )
}
CUSTOMER = Source(table=TableName(SHOP, "customer"), columns={"id": "id", "name": "name"})
ADDRESS = Source(table=TableName(SHOP, "address"), columns={"city": "city"}, on=("id",), to=("id",))
ORDERS = Source(
    table=TableName(SHOP, "orders"), on=("customer",), to=("id",), aggregates={"orders": Aggregate(Function.COUNT)}
)
FACT = Source(table=TableName(SHOP, "orders"), columns={"id": "id"})
LOOKUP = Source(
    table=TableName(SHOP, "customer"),
    columns={"customer_key": "version_key", "name": "name"},
    on=("id",),
    to=("customer",),
    at="at",
    otherwise={"customer_key": "-1"},
)
HISTORY = History()
HASHED = History(validity_columns=ValidityColumns(surrogate=Surrogate.HASH))
KEYED_BY_DAY = History(validity_columns=ValidityColumns(type=Type("date"), surrogate=Surrogate.NUMBER))
NUMBERED = History(validity=ByColumn("id"), validity_columns=ValidityColumns(type=Type("bigint")))
BY_DAY = History(validity_columns=ValidityColumns(type=Type("date")))
IN_TOKYO, BY_RUN = replace(BY_DAY, zone="Asia/Tokyo"), replace(BY_DAY, validity=ByRun())
BY_NUMBER = History(validity_columns=ValidityColumns(surrogate=Surrogate.NUMBER))


def joined(
    history: History | None = None, unknown: Mapping[str, str] | None = None, **sources: Source
) -> JoinDeclaration:
    return JoinDeclaration(name=TableName("dw", "dim"), sources=sources, history=history, unknown=unknown)


def customer(
    history: History | None = None, unknown: Mapping[str, str] | None = None, **changed: object
) -> JoinDeclaration:
    return joined(history, unknown, customer=replace(CUSTOMER, **changed))


def address(history: History | None = None, **changed: object) -> JoinDeclaration:
    return joined(history, customer=CUSTOMER, address=replace(ADDRESS, **changed))


def orders(**changed: object) -> JoinDeclaration:
    return joined(customer=CUSTOMER, orders=replace(ORDERS, **changed))


def facts(lookup: Source = LOOKUP, orders: Source = FACT, **more: Source) -> JoinDeclaration:
    return joined(orders=orders, customer=lookup, **more)


def looked_up(**changed: object) -> JoinDeclaration:
    return facts(replace(LOOKUP, **changed))


def aggregate(function: Function, column: str | None = None, by: str | None = None) -> JoinDeclaration:
    return orders(aggregates={"made": Aggregate(function, column, by)})


def with_history(tables: Mapping[TableName, Dimension], **histories: History) -> dict[TableName, Dimension]:
    return {name: replace(found, history=histories.get(name.table)) for name, found in tables.items()}


def test_a_joined_table_has_the_selected_columns_and_the_key_or_groups_of_the_driving_source() -> None:
    sums = {"orders": Aggregate(Function.COUNT), "last_tags": Aggregate(Function.LATEST, "tags", "id")}
    city = {"city": Aggregate(Function.MIN, "city")}
    found = validate_joined(
        joined(
            customer=replace(CUSTOMER, columns={"customer_id": "id", "again": "id", "name": "name"}),
            address=replace(ADDRESS, on=("customer",), columns={}, aggregates=city),
            orders=replace(ORDERS, aggregates=sums),
        ),
        TABLES,
    )
    own = "customer_id int, again int, name string, city string, orders bigint, last_tags list<string>"
    assert found.dimension.key == ("customer_id",)
    assert ", ".join(f"{column.name} {column.type}" for column in found.dimension.schema) == own
    grouped = replace(ORDERS, to=(), columns={"who": "customer"})
    assert validate_joined(joined(orders=grouped), TABLES).dimension.key == ("who",)


GROUPED = replace(ORDERS, to=(), columns={"customer": "customer"})
DATED_BY_ITSELF = "its validity or first_load is set, or the validity of a source"
WRONG = [
    ("it has no source", joined()),
    ("a table that a source feeds has its name", replace(joined(customer=CUSTOMER), name=CUSTOMER.table)),
    ("customer is made of shop.nobody, which is no table here", customer(table=TableName(SHOP, "nobody"))),
    ("shop.log has no key", joined(log=Source(table=TableName(SHOP, "log")))),
    ("customer has no column nose", customer(columns={"id": "id", "nose": "nose"})),
    ("id of customer is not among its columns", customer(columns={"name": "name"})),
    ("customer drives, and is joined to another", customer(to=("id",))),
    ('customer drives, and has `way = "inner"`', customer(way=JoinType.INNER)),
    (
        "address is joined to orders, which is no source before it",
        joined(customer=CUSTOMER, address=replace(ADDRESS, beside="orders"), orders=ORDERS),
    ),
    ("address is joined on id, id", address(on=("id", "id"), to=("id", "region"))),
    ("address is joined to id, id", address(on=("id", "city"), to=("id", "id"))),
    ("address is joined on id to nothing", address(to=())),
    ("address has no column nose", address(on=("nose",))),
    ("customer has no column nose", address(to=("nose",))),
    ("address.id is an int, customer.name a string", address(to=("name",))),
    ("address.tags is a list<string>, customer.tags a list<string>", address(on=("tags",), to=("tags",))),
    ("address may have several rows for one customer: its key is id", address(on=("customer",))),
    ("address is joined to id, and several rows of orders make one", joined(orders=GROUPED, address=ADDRESS)),
    ("of orders amount is taken, and several rows of it make one", orders(columns={"amount": "amount"})),
    ("sum of orders is given nothing", aggregate(Function.SUM)),
    ("latest of orders is given amount", aggregate(Function.LATEST, "amount")),
    ("max of orders is given amount, id", aggregate(Function.MAX, "amount", "id")),
    ("orders has no column nose", aggregate(Function.MAX, "nose")),
    ("sum of orders.amount, which is a double", aggregate(Function.SUM, "amount")),
    ("max of orders.tags, which is a list<string>", aggregate(Function.MAX, "tags")),
    ("orders.tags is a list<string>", aggregate(Function.LATEST, "amount", "tags")),
    ("two columns name", address(columns={"Name": "city"})),
    ("a column _lakeward_row", address(columns={"_lakeward_row": "id"})),
    ("customer has a validity column, or is as_now", customer(validity="seen")),
    ("address has a validity column, or is as_now", address(as_now=True)),
    ("its unknown row has nose", customer(unknown={"nose": "long"})),
    (
        "tags of its unknown row is 'a', and the column a list<string>",
        customer(unknown={"tags": "a"}, columns={"id": "id", "tags": "tags"}),
    ),
    ("id of its unknown row is 'none', and the column an int", customer(unknown={"id": "none"})),
]
HISTORIES_OF_MIRRORS = [
    ("address is as_now, and a mirror", address(HISTORY, as_now=True)),
    (
        "address has a validity column, and versions begin on the day of the run",
        address(BY_RUN, validity="moved"),
    ),
    ("it is to say which key a row had before (`previous_key`)", address(History(previous_key=True))),
    ('its versions are made anew, and have no numbers to keep (`surrogate = "number"`)', address(BY_NUMBER)),
    (
        "its versions are dated by its column seen",
        customer(History(validity=ByColumn("seen")), columns={"id": "id", "seen": "seen"}),
    ),
    (
        "the validity column of address is a date, those of the joined table a timestamp",
        address(HISTORY, validity="moved"),
    ),
    (
        "the validity column of address is a string, those of the joined table a date",
        address(BY_DAY, validity="city"),
    ),
]
HISTORIES_OF_HISTORIES = [
    (
        "shop.customer also has versions that are not believed any more (`known`)",
        address(HISTORY),
        [History(is_bitemporal=True), HISTORY],
    ),
    (
        "of customer current_name, is_current is taken, which its history adds",
        customer(columns={"id": "id", "now": "current_name", "open": "is_current"}),
        [History(kinds={"name": Kind.CURRENT})],
    ),
    (
        "customer is a history, address a mirror, of which nothing tells how it was",
        address(HISTORY),
        [HISTORY],
    ),
    (
        "customer drives, as it is now",
        joined(HISTORY, customer=replace(CUSTOMER, as_now=True), address=ADDRESS),
        [HISTORY, HISTORY],
    ),
    (DATED_BY_ITSELF, address(BY_RUN), [BY_DAY, BY_DAY]),
    (DATED_BY_ITSELF, customer(HISTORY, validity="seen"), [HISTORY]),
    ("customer: timestamp, address: date UTC, dw.dim: timestamp", address(HISTORY), [HISTORY, BY_DAY]),
    ("customer: date UTC, address: date UTC, dw.dim: date Asia/Tokyo", address(IN_TOKYO), [BY_DAY, BY_DAY]),
    ("versions of customer are dated by numbers", address(HISTORY), [NUMBERED, HISTORY]),
]
NO_OTHERWISE = "says what there is otherwise, and no row finds none of it, or several rows make one"
AT = "customer is looked up at orders.at"
COUNTED = replace(LOOKUP, columns={}, aggregates={"n": Aggregate(Function.COUNT)}, otherwise={})
LOOKUPS = [
    (f"{AT}, and the joined table is a history", replace(facts(), history=HASHED), [HASHED]),
    (f"{AT}, and shop.customer is a mirror, which forgets how it was", facts(), []),
    (f"{AT}, and n are made of several rows", facts(COUNTED), [HASHED]),
    ("orders drives, and is joined to another", facts(orders=replace(FACT, at="at")), [HASHED]),
    ("orders has no column when", looked_up(at="when"), [HASHED]),
    ("orders.day is a date, and versions of customer are dated by times", looked_up(at="day"), [HASHED]),
    ("orders.number is an int, and versions of customer are dated by days", looked_up(at="number"), [KEYED_BY_DAY]),
    ("orders.at is a timestamp, and versions of customer are dated by numbers", facts(), [NUMBERED]),
    (
        "orders.price is a decimal(8,2), and versions of customer are dated by numbers",
        looked_up(at="price"),
        [NUMBERED],
    ),
    ("customer is joined to customer, at, and several rows of orders make one", facts(orders=GROUPED), [HASHED]),
    ("customer has no column version_key", facts(), [HISTORY]),
    ("of customer version_key is taken, which its history adds", looked_up(at=None), [HASHED]),
    ("otherwise there is since of customer", looked_up(otherwise={"since": "1970-01-01"}), [HASHED]),
    (
        "otherwise customer_key is 'none', and the column a bigint",
        looked_up(otherwise={"customer_key": "none"}),
        [KEYED_BY_DAY],
    ),
    (f"customer {NO_OTHERWISE}", looked_up(way=JoinType.INNER), [HASHED]),
    (f"orders {NO_OTHERWISE}", facts(orders=replace(FACT, otherwise={"id": "-1"})), [HASHED]),
    (f"customer {NO_OTHERWISE}", facts(replace(COUNTED, at=None, otherwise={"n": "-1"})), [HASHED]),
]


MIRRORS = [(found, wrong, []) for found, wrong in (*WRONG, *HISTORIES_OF_MIRRORS)]


@pytest.mark.parametrize(("found", "wrong", "histories"), [*MIRRORS, *HISTORIES_OF_HISTORIES, *LOOKUPS])
def test_a_wrong_declaration_is_refused_with_what_was_found_and_what_to_do(
    found: str, wrong: JoinDeclaration, histories: Sequence[History]
) -> None:
    """The first of the histories is that of customers, the second that of addresses; all others are mirrors."""
    with pytest.raises(ConfigError, match="it cannot be joined like this") as error:
        validate_joined(wrong, with_history(TABLES, **dict(zip(("customer", "address"), histories, strict=False))))
    assert error.value.found == found
    assert error.value.todo


def test_a_column_of_a_similar_name_is_proposed() -> None:
    with pytest.raises(ConfigError, match=r"customer has no column nam\nDid you mean 'name'\?"):
        validate_joined(customer(columns={"id": "id", "name": "nam"}), TABLES)


def test_rows_without_source_times_need_a_validity_column_or_the_date_of_the_run() -> None:
    tables = {name: replace(found, sequences=Sequences.UNIQUE) for name, found in TABLES.items()}
    dated = replace(CUSTOMER, validity="seen")
    with pytest.raises(ConfigError, match="the rows of address do not keep when they were changed"):
        validate_joined(joined(BY_DAY, customer=dated, address=ADDRESS), tables)
    assert validate_joined(joined(BY_DAY, customer=dated, address=replace(ADDRESS, validity="moved")), tables)
    assert validate_joined(address(BY_RUN), tables)


def test_a_history_has_versions_of_its_sources_unless_they_are_mirrors_or_joined_as_they_are_now() -> None:
    of_both = with_history(TABLES, customer=HISTORY, address=BY_DAY)
    now = {"customer": replace(CUSTOMER, as_now=True), "address": replace(ADDRESS, as_now=True)}
    assert validate_joined(address(HISTORY, as_now=True), with_history(TABLES, customer=HISTORY)).over_time
    assert not validate_joined(address(None), of_both).over_time
    assert not validate_joined(joined(HISTORY, **now), of_both).over_time


COUNT, SUM, _, MAX, LATEST = Function


@pytest.mark.parametrize(
    ("function", "column", "type_"),
    [
        (COUNT, "map<string, int>", "bigint"),
        (SUM, "int", "bigint"),
        (SUM, "bigint", "decimal(38,0)"),
        (SUM, "decimal(12,2)", "decimal(38,2)"),
        (SUM, "string", None),
        (MAX, "string", "string"),
        (LATEST, "list<int>", "list<int>"),
    ],
)
def test_an_aggregate_has_a_type_that_holds_it(function: Function, column: str, type_: str | None) -> None:
    assert type_of(Aggregate(function, "v"), parse_type(column)) == (None if type_ is None else parse_type(type_))


SINCE = {"customer_key": "version_key", "since": "valid_from"}


@pytest.mark.parametrize(
    ("history", "selection", "types", "otherwise"),
    [
        (HASHED, LOOKUP.columns, "customer_key string, name string", "-1"),
        (KEYED_BY_DAY, SINCE, "customer_key bigint, since date", -1),
    ],
)
def test_a_lookup_selects_columns_that_the_history_adds_and_reads_all_versions(
    history: History, selection: Mapping[str, str], types: str, otherwise: object
) -> None:
    city = replace(ADDRESS, beside="customer")
    declared = facts(replace(LOOKUP, columns=selection), city=city)
    found = validate_joined(declared, with_history(TABLES, customer=history))
    own = ", ".join(f"{column.name} {column.type}" for column in found.dimension.schema)
    assert own == f"id int, {types}, city string"
    assert found.otherwise("customer") == {"customer_key": otherwise}
    assert [name for name in found.tables if found.reads_versions(name)] == ["customer"]
