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
from pyspark.sql import DataFrame, SparkSession
from types_of_columns import columns

from lakeward.adapters.formats.shared.joined.joined_sources import SourceReader
from lakeward.adapters.formats.shared.rows.system_columns import row_columns
from lakeward.adapters.spark.joined.joined_rows import join_frames
from lakeward.adapters.spark.joined.source_frames import JoinedSource, sources_of
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
from lakeward.core.schema import Type

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

Rows = Sequence[Mapping[str, Cell]]
MIDNIGHT = datetime(2026, 11, 22, 15, tzinfo=UTC)
"""When a day begins in Tokyo."""
DAY, MICRO = timedelta(days=1), timedelta(microseconds=1)
FAR = (date(9999, 12, 31) - date(1970, 1, 1)).days

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

BY_TIMES = [("timestamp", MIDNIGHT, DAY, MICRO), ("timestamp_ntz", MIDNIGHT.replace(tzinfo=None), DAY, MICRO)]
BY_DAYS = [
    ("timestamp", MIDNIGHT, DAY, MICRO),
    ("timestamp_ntz", datetime(2026, 11, 23), DAY, MICRO),
    ("date", date(2026, 11, 23), DAY, DAY),
]
BY_NUMBERS = [("int", 7, 2, 1), ("decimal(20,0)", Decimal(7), Decimal(2), Decimal(1))]
CASES = [
    (history, *units)
    for history, several in [
        (BY_TIME, BY_TIMES),
        (NO_ZONE, BY_TIMES),
        (BY_DAY, BY_DAYS),
        (CLOSED, BY_DAYS),
        (NUMBERED, BY_NUMBERS),
        (DECIMAL, BY_NUMBERS),
    ]
    for units in several
]
NAMES = {1: ["none", "Ann", "Ann", "Bea", "none"], 2: ["none", "Cleo", "Cleo", "none", "none"]}
"""What orders of both customers find before the first versions, as these begin and end, when the next one begins,
and at no time. The name of customer 1 changes, and 2 is deleted then.
"""


def joining_of(history: History, type_: str) -> JoinDefinition:
    """Return facts of which the customers are looked up; what finds none has the name 'none'."""
    orders = Dimension(
        name=TableName("shop", "orders"), schema=columns(id="int", customer="int", at=type_), key=("id",)
    )
    own = columns(id="int", name="string", number="bigint")
    customer = Dimension(name=TableName("shop", "customer"), schema=own, key=("id",), history=history)
    lookup = {"on": ("id",), "to": ("customer",), "at": "at", "otherwise": {"name": "none"}}
    sources = {
        "orders": Source(table=orders.name, columns={"id": "id"}),
        "customer": Source(table=customer.name, columns={"name": "name"}, **lookup),
    }
    joined = JoinDeclaration(name=TableName("dw", "facts"), sources=sources)
    return validate_joined(joined, {one.name: one for one in (orders, customer)})


def customers(table: Dimension, begins: int, change: int) -> Rows:
    """Return the stored versions of both customers."""
    place = Position(1, 1, 1, 1)
    ann, bea, cleo = ({"id": n, "name": name, "number": n} for n, name in ((1, "Ann"), (1, "Bea"), (2, "Cleo")))
    first = Version(begins, change, ann, place, begins)
    versions = {1: (first, Version(change, None, bea, place, change)), 2: (replace(first, cells=cleo),)}
    return [row for key, of in versions.items() for row in shown_rows(table, (key,), of, {})]


def read(spark: SparkSession, source: JoinedSource, rows: Rows) -> DataFrame:
    """Return the rows of a source as a joined table reads them from a lake."""
    stored = source.table.stored.schema
    listed = ", ".join(f"{column.name} {ddl(column.type)}" for column in stored)
    row_cells = [f"CAST(NULL AS {ddl(type_)}) AS {own}" for own, type_ in row_columns(source.table).items()]
    frame = to_frame(spark, [tuple(one[c.name] for c in stored) for one in rows], listed).selectExpr(
        "*", *row_cells
    )
    lineage = SimpleNamespace(commit_showing={1: "now"}.get)
    table: Any = SimpleNamespace(lineage=lambda: lineage, as_of={"now": frame}.get)
    progress = JoinProgress(batch=1, digest="", passed={source.name: SourceCommit(1, "now")})
    return SourceReader(source, table, JoinPlan(joining=source.joining, progress=progress)).rows()


@pytest.mark.parametrize(("history", "type_", "change", "unit", "step"), CASES)
def test_a_fact_finds_the_version_that_is_valid_at_its_time(
    active: SparkSession, history: History, type_: str, change: Any, unit: Any, step: Any
) -> None:
    joining, begins = joining_of(history, type_), change - unit
    instants = [instant_of_value(at, history) for at in (begins, change)]
    moments = [begins - step, begins, change - step, change, None]
    orders = [{"id": 10 * n + i, "customer": n, "at": at} for n in NAMES for i, at in enumerate(moments)]
    rows = {"orders": orders, "customer": customers(joining.tables["customer"], *map(int, instants))}
    frames = {name: read(active, source, rows[name]) for name, source in sources_of(joining).items()}
    found = join_frames(joining, frames).select("id", "name").orderBy("id").collect()
    assert [name for _, name in found] == [*NAMES[1], *NAMES[2]]
