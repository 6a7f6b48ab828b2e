"""Facts that look their members up: what fits, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.history.options import ByColumn, History, Surrogate, ValidityColumns
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, JoinType, Source
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.schema import Column, Schema, Type, parse_type

HASHED = History(validity_columns=ValidityColumns(surrogate=Surrogate.HASH))
BY_DAY = History(zone="Asia/Tokyo", validity_columns=ValidityColumns(type=Type("date"), surrogate=Surrogate.NUMBER))
NUMBERED = History(validity=ByColumn("number"), validity_columns=ValidityColumns(type=Type("bigint")))

ORDERS = Source(table=TableName("shop", "orders"), columns={"id": "id"})
CUSTOMER = Source(
    table=TableName("shop", "customer"),
    columns={"customer_key": "version_key", "name": "name"},
    on=("id",),
    to=("customer",),
    at="at",
    otherwise={"customer_key": "-1"},
)
CITY = Source(table=TableName("shop", "city"), columns={"title": "title"}, on=("id",), to=("city",))
TYPES = {
    "orders": {
        "id": "int",
        "customer": "int",
        "city": "int",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "day": "date",
        "number": "int",
        "amount": "decimal(8,2)",
        "tags": "list<string>",
    },
    "customer": {"id": "int", "name": "string", "number": "int", "tags": "list<string>"},
    "city": {"id": "int", "title": "string"},
}


def tables(history: History | None = HASHED) -> Mapping[TableName, Dimension]:
    """Return the tables of a shop, of which customers are a history."""
    found = {}
    for of, types in TYPES.items():
        schema = Schema(tuple(Column(column, parse_type(type_)) for column, type_ in types.items()))
        own = history if of == "customer" else None
        found[TableName("shop", of)] = Dimension(
            name=TableName("shop", of), schema=schema, key=("id",), history=own
        )
    return found


def facts(customer: Source = CUSTOMER, orders: Source = ORDERS, **options: object) -> JoinDeclaration:
    return JoinDeclaration(
        name=TableName("dw", "facts"), sources={"orders": orders, "customer": customer}, **options
    )


def looked_up(**changed: object) -> JoinDeclaration:
    return facts(replace(CUSTOMER, **changed))


def test_what_a_history_adds_can_be_taken_with_its_type() -> None:
    number = replace(CUSTOMER, columns={"customer_key": "version_key", "since": "valid_from"})
    types = [
        [(column.name, str(column.type)) for column in validate_joined(facts(of), tables(history)).dimension.schema]
        for of, history in ((CUSTOMER, HASHED), (number, BY_DAY))
    ]
    assert types == [
        [("id", "int"), ("customer_key", "string"), ("name", "string")],
        [("id", "int"), ("customer_key", "bigint"), ("since", "date")],
    ]


def test_what_finds_none_has_what_there_is_otherwise_in_the_type_of_the_column() -> None:
    for history, found in ((HASHED, "-1"), (BY_DAY, -1)):
        assert validate_joined(facts(), tables(history)).otherwise("customer") == {"customer_key": found}


def test_all_versions_are_read_of_what_is_looked_up_alone() -> None:
    joining = validate_joined(facts(), tables())
    assert [joining.reads_versions(name) for name in ("orders", "customer")] == [False, True]
    assert not validate_joined(
        facts(replace(CUSTOMER, at=None, columns={}, otherwise={})), tables()
    ).reads_versions("customer")


NO_OTHERWISE = "says what there is otherwise, and no row finds none of it, or several rows make one"
GROUPED = replace(
    ORDERS, columns={"customer": "customer"}, on=("customer",), aggregates={"n": Aggregate(Function.COUNT)}
)
COUNTED = replace(CUSTOMER, columns={}, aggregates={"n": Aggregate(Function.COUNT)}, otherwise={})
WRONG = [
    ("customer is looked up at orders.at, and the joined table is a history", facts(history=HASHED), HASHED),
    (
        "customer is looked up at orders.at, and shop.customer is a mirror, which forgets how it was",
        facts(),
        None,
    ),
    ("customer is looked up at orders.at, and n are made of several rows", facts(COUNTED), HASHED),
    ("orders drives, and is joined to another", facts(orders=replace(ORDERS, at="at")), HASHED),
    ("orders has no column when", looked_up(at="when"), HASHED),
    ("orders.day is a date, and versions of customer are dated by times", looked_up(at="day"), HASHED),
    ("orders.number is an int, and versions of customer are dated by days", looked_up(at="number"), BY_DAY),
    ("orders.at is a timestamp, and versions of customer are dated by numbers", facts(), NUMBERED),
    (
        "orders.amount is a decimal(8,2), and versions of customer are dated by numbers",
        looked_up(at="amount"),
        NUMBERED,
    ),
    ("customer is joined to customer, at, and several rows of orders make one", facts(orders=GROUPED), HASHED),
    ("customer has no column version_key", facts(), History()),
    ("of customer version_key is taken, which its history adds", looked_up(at=None), HASHED),
    ("otherwise there is since of customer", looked_up(otherwise={"since": "1970-01-01"}), HASHED),
    (
        "otherwise customer_key is 'none', and the column a bigint",
        looked_up(otherwise={"customer_key": "none"}),
        BY_DAY,
    ),
    (
        "otherwise tags is 'a', and the column a list<string>",
        looked_up(columns={"tags": "tags"}, otherwise={"tags": "a"}),
        HASHED,
    ),
    (f"customer {NO_OTHERWISE}", looked_up(way=JoinType.INNER), HASHED),
    (f"orders {NO_OTHERWISE}", facts(orders=replace(ORDERS, otherwise={"id": "-1"})), HASHED),
    (f"customer {NO_OTHERWISE}", facts(replace(COUNTED, at=None, otherwise={"n": "-1"})), HASHED),
]


@pytest.mark.parametrize(("found", "wrong", "history"), WRONG)
def test_a_wrong_lookup_is_refused_with_what_was_found_and_what_to_do(
    found: str, wrong: JoinDeclaration, history: History | None
) -> None:
    with pytest.raises(ConfigError, match="it cannot be joined like this") as error:
        validate_joined(wrong, tables(history))
    assert error.value.found == found
    assert error.value.todo


def test_what_is_joined_by_a_version_need_not_be_looked_up() -> None:
    joined = facts()
    sources = {**joined.sources, "city": replace(CITY, to=("number",), beside="customer")}
    joining: JoinDefinition = validate_joined(replace(joined, sources=sources), tables())
    assert not joining.reads_versions("city")
