"""The version that a row finds is the one that was valid, in each unit and at both ends of a version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from frames import to_frame
from pyspark.sql import SparkSession

from lakeward.adapters.formats.shared.joined.joined_sources import SourceReader
from lakeward.adapters.formats.shared.rows.system_columns import row_columns
from lakeward.adapters.spark.joined.joined_rows import join_frames
from lakeward.adapters.spark.joined.source_frames import sources_of
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Cell, Position
from lakeward.core.history.instants import instant_of_value
from lakeward.core.history.options import ByColumn, History, Surrogate, ValidityColumns
from lakeward.core.history.version_rows import rows as shown_rows
from lakeward.core.history.versions import Version
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import JoinDeclaration, Source
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.plan import JoinPlan, JoinProgress, SourceCommit
from lakeward.core.schema import Column, Schema, Type, parse_type

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

MIDNIGHT = datetime(2026, 11, 22, 15, tzinfo=UTC)
"""When a day begins in Tokyo."""
DAY, MICRO = timedelta(days=1), timedelta(microseconds=1)
LOCAL = datetime(2026, 11, 23)
FIRST = date(1970, 1, 1).toordinal()
FAR = date(9999, 12, 31).toordinal() - FIRST

BY_TIME = History(validity_columns=ValidityColumns(surrogate=Surrogate.HASH))
NO_ZONE = History(
    validity_columns=ValidityColumns(type=Type("timestamp_ntz"), open_end=FAR * 86_400_000_000, is_current=None)
)
BY_DAY = History(zone="Asia/Tokyo", validity_columns=ValidityColumns(type=Type("date")))
CLOSED = replace(
    BY_DAY, validity_columns=replace(BY_DAY.validity_columns, closed=True, open_end=FAR, is_current=None)
)
NUMBERED = History(validity=ByColumn("number"), validity_columns=ValidityColumns(type=Type("bigint")))
DECIMAL = replace(NUMBERED, validity_columns=replace(NUMBERED.validity_columns, type=Type("decimal", 20, 0)))

MOMENTS: Mapping[str, Sequence[Cell]] = {
    "at": [MIDNIGHT + moved for moved in (-DAY - MICRO, -DAY, -MICRO, 0 * DAY, MICRO, DAY - MICRO, DAY)],
    "utc": [(MIDNIGHT + moved).replace(tzinfo=None) for moved in (-DAY - MICRO, -DAY, -MICRO, 0 * DAY, DAY)],
    "local": [LOCAL + moved for moved in (-DAY - MICRO, -DAY, -MICRO, 0 * DAY, DAY - MICRO, DAY)],
    "day": [date(2026, 11, day) for day in (21, 22, 23, 24)],
    "number": [5, 6, 7, 8],
    "whole": [Decimal(number) for number in (5, 6, 7, 8)],
}
ORDERS = {"at": "timestamp", "utc": "timestamp_ntz", "local": "timestamp_ntz", "day": "date", "number": "int"}
ORDERS |= {"whole": "decimal(20,0)"}
CASES = [
    (history, at, change)
    for history, asked, change in [
        (BY_TIME, ("at", "utc"), int(MIDNIGHT.timestamp()) * 1_000_000),
        (NO_ZONE, ("at", "utc"), int(MIDNIGHT.timestamp()) * 1_000_000),
        (BY_DAY, ("at", "local", "day"), LOCAL.toordinal() - FIRST),
        (CLOSED, ("at", "local", "day"), LOCAL.toordinal() - FIRST),
        (NUMBERED, ("number", "whole"), 7),
        (DECIMAL, ("number", "whole"), 7),
    ]
    for at in asked
]


def table(of: str, history: History | None = None, /, **columns: str) -> Dimension:
    schema = Schema(tuple(Column(column, parse_type(type_)) for column, type_ in columns.items()))
    return Dimension(name=TableName("shop", of), schema=schema, key=("id",), history=history)


def joining_of(history: History, at: str) -> JoinDefinition:
    """Return facts of which the customers are looked up; what finds none has the name 'none'."""
    orders = table("orders", id="int", customer="int", **ORDERS)
    customer = table("customer", history, id="int", name="string", number="bigint")
    found = Source(
        table=customer.name,
        columns={"name": "name", "since": "valid_from"},
        on=("id",),
        to=("customer",),
        at=at,
        otherwise={"name": "none"},
    )
    joined = JoinDeclaration(
        name=TableName("dw", "facts"),
        sources={"orders": Source(table=orders.name, columns={"id": "id"}), "customer": found},
    )
    return validate_joined(joined, {one.name: one for one in (orders, customer)})


def versions_of(history: History, change: int) -> Mapping[int, Sequence[Version]]:
    """Return two versions of the customer 1, of whom the name changes, and one of 2, who goes then."""
    unit = 1 if history.by_day or change == 7 else 86_400_000_000
    place = Position(1, 1, 1, 1)
    ann, bea, cleo = ({"id": n, "name": name, "number": n} for n, name in ((1, "Ann"), (1, "Bea"), (2, "Cleo")))
    first = Version(change - unit, change, ann, place, change - unit)
    return {
        1: [first, Version(change, None, bea, place, change)],
        2: [replace(first, cells=cleo)],
    }


def facts(at: str) -> Sequence[Mapping[str, Cell]]:
    """Return orders of both customers at all moments, and at none."""
    moments = [*MOMENTS[at], None]
    return [
        {**dict.fromkeys(ORDERS), "id": 10 * customer + number, "customer": customer, at: moment}
        for customer in (1, 2)
        for number, moment in enumerate(moments)
    ]


def expected(joining: JoinDefinition, history: History, at: str, change: int) -> Mapping[object, object]:
    """Return the name and the beginning of the version that plain Python finds for each order."""
    found: dict[object, object] = {}
    for order in facts(at):
        instant, customer = instant_of_value(order[at], history), int(str(order["customer"]))
        versions = versions_of(history, change)[customer]
        shown = shown_rows(joining.tables["customer"], (customer,), tuple(versions), {})
        found[order["id"]] = ("none", None)
        for one, cells in zip(versions, shown, strict=True):
            if (
                instant is not None
                and one.valid_from <= instant
                and (one.valid_to is None or instant < one.valid_to)
            ):
                found[order["id"]] = (cells["name"], _without_zone(cells["valid_from"]))
    return found


def _without_zone(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


LINEAGE = SimpleNamespace(commit_showing={1: "now"}.get)


def by_spark(
    spark: SparkSession, joining: JoinDefinition, found: Mapping[str, Sequence[Mapping[str, Cell]]]
) -> Any:
    progress = JoinProgress(batch=1, digest="", passed={name: SourceCommit(1, "now") for name in found})
    plan = JoinPlan(joining=joining, progress=progress)
    frames = {}
    for name, source in sources_of(joining).items():
        stored = source.table.stored.schema
        listed = ", ".join(f"{column.name} {ddl(column.type)}" for column in stored)
        beside = [f"CAST(NULL AS {ddl(type_)}) AS {own}" for own, type_ in row_columns(source.table).items()]
        cells = [tuple(one[column.name] for column in stored) for one in found[name]]
        frame = to_frame(spark, cells, listed).selectExpr("*", *beside)
        table: Any = SimpleNamespace(lineage=lambda: LINEAGE, as_of={"now": frame}.get)
        frames[name] = SourceReader(source, table, plan).rows()
    shown = join_frames(joining, frames, None).select("id", "name", "since").collect()
    return {id_: (name, since) for id_, name, since in shown}


def check(spark: SparkSession, history: History, at: str, change: int) -> None:
    joining = joining_of(history, at)
    customers = [
        shown
        for key, versions in versions_of(history, change).items()
        for shown in shown_rows(joining.tables["customer"], (key,), tuple(versions), {})
    ]
    right = expected(joining, history, at, change)
    assert {name for name, _ in right.values()} == {"Ann", "Bea", "Cleo", "none"}
    assert by_spark(spark, joining, {"orders": facts(at), "customer": customers}) == right


@pytest.mark.parametrize(("history", "at", "change"), CASES)
def test_a_fact_finds_the_version_that_is_valid_at_its_time(
    active: SparkSession, history: History, at: str, change: int
) -> None:
    check(active, history, at, change)
