"""Histories as of a time, read by Spark: they equal a mirror of the events up to that time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import outside
import pyarrow as pa
import pytest
from delta_lake import by_duckdb
from hudi_lake import by_hudi_rs
from project import Project, any_kind
from pyspark.sql import SparkSession

from lakeward.adapters.spark.session.compatibility import to_arrow

pytestmark = pytest.mark.spark

TABLE = """
[tables."shop.customer"]
key = ["id"]
mode = "history"
track = { all_but = ["seen"] }
lateness = "30d"
columns = { id = "int", city = "string", tier = "string", seen = "int" }
"""
WAYS = {"times": "", "closed days": "history.closed = true\nhistory.open_end = 9999-12-31\n"}
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
ZONE = "Asia/Kathmandu"
"""The zone of the reader. The time of a query is in UTC in any zone."""


@dataclass(frozen=True)
class Event:
    """A change of a row at a time. Without cells it is a delete."""

    at: datetime
    key: int
    cells: tuple[str, str] | None
    seen: int

    @property
    def line(self) -> str:
        city, tier = self.cells or ("", "")
        operation = "D" if self.cells is None else "U"
        return f"{operation},{self.at:%Y-%m-%d %H:%M:%S.%f},{self.key},{city},{tier},{self.seen}\n"


def events(random: Random, number: int = 120) -> list[Event]:
    """Return random changes of ten rows in three weeks, in order. Several have the same time."""
    hours = sorted(random.choices(range(0, 21 * 24, 6), k=number))
    return [
        Event(
            at=BEGAN + timedelta(hours=hour, microseconds=random.choice([0, 1])),
            key=random.randrange(10),
            cells=None if random.random() < 0.2 else (random.choice("xyz"), random.choice("ab")),
            seen=place,
        )
        for place, hour in enumerate(hours)
    ]


def mirror(happened: list[Event], at: datetime) -> dict[int, tuple[str, str]]:
    """Return the rows after all changes at or before a time, computed in the simplest way."""
    rows: dict[int, tuple[str, str]] = {}
    for event in sorted(happened, key=lambda event: event.at):
        if event.at <= at:
            rows.pop(event.key, None)
            if event.cells is not None:
                rows[event.key] = event.cells
    return rows


def rows_as_of(project: Project, *words: str) -> Any:
    ended = project.call(
        "as-of",
        "shop.customer",
        *words,
        *([] if {"--to", "--sql"}.intersection(words) else ["--limit", "100"]),
        "--json",
    )
    assert ended.code == 0, ended.out + ended.err
    return ended.document


def by_duckdb_as(project: Project, query: str) -> dict[int, tuple[str, str]]:
    """Read a view of the query that is printed for DuckDB, by DuckDB."""
    lake, columns = project.folder / "lake", ("id", "city", "tier", "valid_from", "valid_to")
    columns = columns if "is_current" not in query else (*columns, "is_current")
    match project.kind:
        case "delta":
            rows = by_duckdb(str(lake / "shop" / "customer"))
        case "hudi":
            rows = by_hudi_rs(lake / "shop" / "customer")
        case _:
            rows = outside.by_pyiceberg(lake, "shop", "customer", (*columns, "seen"))
    with duckdb.connect() as connection:
        connection.register("found", rows)
        connection.execute("ATTACH ':memory:' AS lake; CREATE SCHEMA lake.shop")
        connection.execute(f"CREATE TABLE lake.shop.customer AS FROM found; USE lake; SET TimeZone = '{ZONE}'")
        connection.execute(f"CREATE VIEW that_time AS {query}")
        return dict_of(connection.execute("FROM that_time").to_arrow_table())


def by_spark_as(project: Project, query: str, spark: SparkSession) -> dict[int, tuple[str, str]]:
    """Read a view of the query that is printed for Spark, in another session."""
    session, lake = spark.newSession(), project.folder / "lake"
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{lake / 'catalog.db'}",
        ".jdbc.schema-version": "V1",
        ".warehouse": str(lake),
    }
    for name, value in settings.items():
        session.conf.set(f"spark.sql.catalog.lake{name}", value)
    session.conf.set("spark.sql.session.timeZone", ZONE)
    session.sql(f"CREATE TEMPORARY VIEW that_time AS {query}")
    return dict_of(to_arrow(session.table("that_time")))


def dict_of(rows: pa.Table) -> dict[int, tuple[str, str]]:
    found = {row["id"]: (row["city"], row["tier"]) for row in rows.to_pylist()}
    assert len(found) == rows.num_rows, "each key once"
    return found


@any_kind
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_history_as_of_a_time_is_the_mirror_of_the_events_up_to_then(
    project: Project, spark: SparkSession, way: str
) -> None:
    project.configure(TABLE + way, source='timestamp_column = "at"')
    random = Random(f"{project.kind} {way}")
    happened = events(random)
    late = {event.seen for event in random.sample(happened, 30)}
    for name, is_late in (("20261128-100000000.csv", False), ("20261129-100000000.csv", True)):
        some = [event for event in happened if (event.seen in late) is is_late]
        project.put(name, "".join(event.line for event in some), "shop/customer")
        project.run()
    delivered = [event for name in (False, True) for event in happened if (event.seen in late) is name]
    by_day = bool(way)
    for hours in (-1, 30, 330, 900):
        at = BEGAN + timedelta(hours=hours // 24 * 24 if by_day else hours)
        words = f"{at:%Y-%m-%d}" if by_day else f"{at:%Y-%m-%d %H:%M:%S}"
        until = at + timedelta(days=1, microseconds=-1) if by_day else at
        found = rows_as_of(project, words)
        expected = mirror(delivered, until)
        assert {row["id"]: (row["city"], row["tier"]) for row in found["first"]} == expected, at
        assert found["rows"] == len(found["first"]), "each key once"
        assert by_duckdb_as(project, rows_as_of(project, words, "--sql", "duckdb")["sql"]) == expected, at
        if project.kind == "iceberg":
            assert by_spark_as(project, rows_as_of(project, words, "--sql", "spark")["sql"], spark) == expected, at
    assert rows_as_of(project, words, "--to", "then")["rows"] == len(expected)
    written = duckdb.sql(f"SELECT id, city, tier, valid_from, valid_to FROM '{project.folder}/then/*.parquet'")
    assert {key: cells for key, *cells in written.project("id, city, tier").fetchall()} == {
        key: [*cells] for key, cells in expected.items()
    }
    assert written.types[3:] == ["DATE" if by_day else "TIMESTAMP WITH TIME ZONE"] * 2
