"""Which version a row finds on Spark that looks one up: as the core says, in each unit, at both ends of it."""

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
from lakeward.adapters.spark.joined.joined_rows import made
from lakeward.adapters.spark.joined.sides import JoinedSource, sides
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Cell, Position
from lakeward.core.history.options import ByColumn, History, Shown, Surrogate
from lakeward.core.history.version_rows import rows as shown_rows
from lakeward.core.history.versions import Version
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declared import Joined, Source
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.plan import JoinPlan, JoinProgress, SourceCommit
from lakeward.core.joined.rows import SourceRow, rows
from lakeward.core.schema import Column, Schema, Type, parse_type

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

MIDNIGHT = datetime(2026, 11, 22, 15, tzinfo=UTC)
"""When a day begins in Tokyo."""
DAY, MICRO = timedelta(days=1), timedelta(microseconds=1)
LOCAL = datetime(2026, 11, 23)
FIRST = date(1970, 1, 1).toordinal()
FAR = date(9999, 12, 31).toordinal() - FIRST

BY_TIME = History(shown=Shown(surrogate=Surrogate.HASH))
NO_ZONE = History(shown=Shown(type=Type("timestamp_ntz"), open_end=FAR * 86_400_000_000, is_current=None))
BY_DAY = History(zone="Asia/Tokyo", shown=Shown(type=Type("date")))
CLOSED = replace(BY_DAY, shown=replace(BY_DAY.shown, closed=True, open_end=FAR, is_current=None))
NUMBERED = History(validity=ByColumn("number"), shown=Shown(type=Type("bigint")))
DECIMAL = replace(NUMBERED, shown=replace(NUMBERED.shown, type=Type("decimal", 20, 0)))

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


def joining_of(history: History, at: str) -> Joining:
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
    joined = Joined(
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


def by_core(joining: Joining, history: History, at: str, change: int) -> Mapping[object, object]:
    orders = {(cells["id"],): [SourceRow(cells)] for cells in facts(at)}
    customers = {
        (key,): [
            SourceRow(shown, None, one.valid_from, one.valid_to)
            for one, shown in zip(
                versions, shown_rows(joining.tables["customer"], (key,), tuple(versions), {}), strict=True
            )
        ]
        for key, versions in versions_of(history, change).items()
    }
    found = rows(joining, {"orders": orders, "customer": customers})
    return {key[0]: (one.cells["name"], _told(one.cells["since"])) for key, one in found.items()}


def _told(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


LINE = SimpleNamespace(commit_showing={1: "now"}.get)


def by_spark(spark: SparkSession, joining: Joining, found: Mapping[str, Sequence[Mapping[str, Cell]]]) -> Any:
    progress = JoinProgress(batch=1, digest="", passed={name: SourceCommit(1, "now") for name in found})
    plan = JoinPlan(joining=joining, progress=progress)
    frames = {}
    for name, side in sides(joining).items():
        stored = side.table.stored.schema
        listed = ", ".join(f"{column.name} {ddl(column.type)}" for column in stored)
        beside = [f"CAST(NULL AS {ddl(type_)}) AS {own}" for own, type_ in row_columns(side.table).items()]
        cells = [tuple(one[column.name] for column in stored) for one in found[name]]
        frame = to_frame(spark, cells, listed).selectExpr("*", *beside)
        table: Any = SimpleNamespace(lineage=lambda: LINE, as_of={"now": frame}.get)
        frames[name] = SourceReader(side, table, plan).rows()
    shown = made(joining, frames, None).select("id", "name", "since").collect()
    return {id_: (name, since) for id_, name, since in shown}


def check(spark: SparkSession, history: History, at: str, change: int) -> None:
    joining = joining_of(history, at)
    customers = [
        shown
        for key, versions in versions_of(history, change).items()
        for shown in shown_rows(joining.tables["customer"], (key,), tuple(versions), {})
    ]
    right = by_core(joining, history, at, change)
    assert {name for name, _ in right.values()} == {"Ann", "Bea", "Cleo", "none"}
    assert by_spark(spark, joining, {"orders": facts(at), "customer": customers}) == right


@pytest.mark.parametrize(("history", "at", "change"), CASES)
def test_spark_finds_the_version_that_the_core_finds(
    active: SparkSession, history: History, at: str, change: int
) -> None:
    check(active, history, at, change)


def closes_at_the_end(self: JoinedSource, instant: str) -> str:
    return f"{self.begins} <= {instant} AND ({self.ends} IS NULL OR {instant} <= {self.ends})"


def opens_behind_the_start(self: JoinedSource, instant: str) -> str:
    return f"{self.begins} < {instant} AND ({self.ends} IS NULL OR {instant} < {self.ends})"


def closes_before_the_end(self: JoinedSource, instant: str) -> str:
    return f"{self.begins} <= {instant} AND ({self.ends} IS NULL OR {instant} + 1 < {self.ends})"


def says_nothing_otherwise(self: JoinedSource) -> Mapping[str, str]:
    return {}


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("covers", closes_at_the_end),
        ("covers", opens_behind_the_start),
        ("covers", closes_before_the_end),
        ("_otherwise", says_nothing_otherwise),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_lookup_that_is_off_by_one_or_leaves_out_what_is_otherwise_is_seen(
    active: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str, broken: Any
) -> None:
    monkeypatch.setattr(JoinedSource, name, broken)
    with pytest.raises(AssertionError):
        check(active, *CASES[0])
