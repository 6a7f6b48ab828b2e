"""Spark resolves batches of more rows than a small one, and `plan` says what resolves a batch."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from project import ITEM, Project
from pyspark.sql import SparkSession

from lakeward.adapters.formats.shared.column_batches.resolver import COLUMNS
from lakeward.adapters.formats.shared.resolution.steps import verdicts

pytestmark = pytest.mark.spark

ROWS = 3
TABLES = f"""
[spark]
small_batch = {ROWS}
{ITEM}
{ITEM.replace("item", "other")}
"""

TYPES = {
    "id": "bigint",
    "customer": "bigint",
    "status": "string",
    "city": "string",
    "note": "string",
    "quantity": "int",
    "price": "decimal(12,2)",
    "discount": "double",
    "is_paid": "boolean",
    "ordered_on": "date",
    "shipped_at": "timestamp",
    "channel": "string",
}
WIDE = f"""
[spark]
small_batch = 0
[tables."shop.item"]
key = ["id"]
columns = {{ {", ".join(f'{name} = "{type_}"' for name, type_ in TYPES.items())} }}
"""
WITHOUT_KEY = WIDE[WIDE.index("[tables") :].replace("item", "note").replace('key = ["id"]\n', "")
ROW = "7,open,Bonn,a note,3,9.50,0.25,true,2026-01-01,2026-01-01 10:00:00,web"

READ, VERDICTS, WRITE = "collect", "toArrow", "save"
"""The queries of a batch: its files and facts, the verdicts with the change log, and the new rows."""

MOST = {READ: 30_000, VERDICTS: 30_000, WRITE: 10_000}
"""The most characters of the text of each plan. Reading a CSV file of twelve columns takes 20,000 of the first."""


def queries_after(spark: SparkSession, last: int) -> list[tuple[int, str, str]]:
    """Return number, first word and plan of the queries after one, in order."""
    java: Any = spark
    java.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    done = java._jsparkSession.sharedState().statusStore().executionsList()
    found = [done.apply(place) for place in range(done.size())]
    texts = [(one.executionId(), one.description().split()[0], one.physicalPlanDescription()) for one in found]
    return sorted(text for text in texts if text[0] > last)


def count_jobs(spark: SparkSession) -> int:
    """Return the number of jobs that Spark has run."""
    java: Any = spark
    java.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    newest = java.sparkContext._jsc.sc().statusStore().jobsList(None)
    return max((newest.apply(place).jobId() for place in range(newest.size())), default=-1) + 1


@pytest.mark.lines
@pytest.mark.parametrize("project", ["iceberg", "delta"], indirect=True)
def test_a_small_batch_runs_no_job_of_spark(project: Project, spark: SparkSession) -> None:
    """It updates, deletes and adds rows of a table with older rows and deletion vectors.

    It also adds rows to a table without a key.
    """
    tables = WIDE.replace("small_batch = 0", "small_batch = 100") + WITHOUT_KEY
    project.configure(tables, 'timestamp_column = "at"')
    for table in ("shop/item", "shop/note"):
        rows = "".join(f"2026-11-01 10:00:00,{number},{ROW}\n" for number in range(9))
        project.put("LOAD00000001.csv", rows, table)
    project.run()
    before = count_jobs(spark)
    for day in (2, 3, 4):
        events = [("U", day), ("I", day + 20), ("D", day - 2)]
        lines = [f"{word},2026-11-0{day} 10:00:0{n},{key},{ROW}\n" for n, (word, key) in enumerate(events)]
        project.put(f"2026110{day}-100000000.csv", "".join(lines))
        project.put(f"2026110{day}-100000000.csv", lines[1] * 2, "shop/note")
        applied = {table: one["counts"]["applied"] for table, one in project.run().items()}
        assert applied == {"shop.item": 3, "shop.note": 2}
    assert count_jobs(spark) == before
    assert [key for (key,) in project.rows(columns=("id",))] == [3, 4, 5, 6, 7, 8, 22, 23, 24]
    assert [key for (key,) in project.rows("note", columns=("id",))] == [*range(9), 22, 22, 23, 23, 24, 24]


@pytest.mark.parametrize("project", ["iceberg", pytest.param("delta", marks=pytest.mark.long)], indirect=True)
def test_spark_resolves_a_batch_above_the_limit(project: Project) -> None:
    project.configure(TABLES)
    for table, count in (("item", ROWS), ("other", ROWS + 1)):
        rows = "".join(f"I,{number},a,1.00\n" for number in range(count))
        project.put("20261121-100000000.csv", f"Op,id,name,price\n{rows}", f"shop/{table}")
    planned = project.call("plan", "--json").document["tables"]
    assert {one["table"]: one["way"] for one in planned} == {
        "shop.item": "core",
        "shop.other": "Spark: more than 3 rows (`small_batch`)",
    }


MESSAGES = f"""
[spark]
small_batch = {ROWS}
{ITEM}
lateness = "24h"
"""


def message(key: int, name: str, op: str = "u") -> str:
    """Return a message of Debezium, the place of which in the log is its key and the day of its name."""
    row = {"id": key, "name": name, "price": "1.50"}
    place = 1_000 * int(name[1:]) + key
    source = {
        "schema": "shop",
        "table": "item",
        "lsn": place,
        "sequence": f'["{place}","{place}"]',
        "ts_ms": 1_767_225_600_000 + place,
    }
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return json.dumps({**images, "source": source, "op": op, "ts_ms": 1}) + "\n"


@pytest.mark.lines
@pytest.mark.parametrize("project", ["iceberg", "delta"], indirect=True)
def test_a_batch_of_messages_above_the_limit_runs_no_job_of_spark(project: Project, spark: SparkSession) -> None:
    """It is resolved in Arrow columns: into a new table, and with updates, deletes and new rows."""
    source = 'format = "debezium"\ndecimals = "string"'
    project.configure(MESSAGES, source, source_kind="files")
    ways = []
    for day in (1, 2):
        lines = [message(key, f"d{day}") for key in range(4 * day)] + [message(0, "d3", "d")] * (day == 2)
        project.put(f"{day}.json", "".join(lines))
        before = count_jobs(spark)
        (planned,) = project.call("plan", "--json").document["tables"]
        ways.append(planned["way"])
        project.run()
        assert day == 1 or count_jobs(spark) == before
    assert ways == [COLUMNS, COLUMNS]
    assert [row[:2] for row in project.rows()] == [(key, "d2") for key in range(1, 8)]


def changes(random: Random, rows: dict[int, str], place: int) -> str:
    """Change rows at random, and return the messages of it; the first has that place in the log."""
    lines = []
    for number in range(place, place + 12):
        key, name = random.randint(0, 5), f"n{number}"
        op = "c" if key not in rows else random.choice("uud")
        lines.append(message(key, name, op))
        if op == "d":
            del rows[key]
        else:
            rows[key] = name
    return "".join(lines)


@pytest.mark.parametrize("project", ["iceberg", pytest.param("delta", marks=pytest.mark.long)], indirect=True)
def test_batches_in_columns_and_by_spark_follow_each_other(project: Project) -> None:
    """Spark resolves a file that comes late, and Arrow columns the others. Both read what the other remembers."""
    project.configure(MESSAGES, 'format = "debezium"\ndecimals = "string"', source_kind="files")
    random, rows, ways = Random(7), dict[int, str](), []
    files = {number: changes(random, rows, 100 * number) for number in range(1, 7)}
    for number in (1, 2, 4, 3, 6, 5):
        project.put(f"{number}.json", files[number])
        (planned,) = project.call("plan", "--json").document["tables"]
        ways.append(planned["way"])
        project.run()
    late = "some of its events may be older than those of the table"
    spark = f"Spark: more than {ROWS} rows (`small_batch`), and {late}"
    assert ways == [COLUMNS, COLUMNS, COLUMNS, spark, COLUMNS, spark]
    assert [row[:2] for row in project.rows()] == sorted(rows.items())


def test_spark_writes_a_load_directly_or_takes_the_last_row_of_each_key(project: Project) -> None:
    project.configure(TABLES.replace(f"small_batch = {ROWS}", "small_batch = 0"))
    for table, rows in (("item", "1,a,1.00\n2,b,2.00\n"), ("other", "1,a,1.00\n2,b,2.00\n1,c,3.00\n")):
        project.put("LOAD00000001.csv", rows, f"shop/{table}")
    ran = project.run()
    counts = {name: (one["counts"]["applied"], one["counts"]["superseded"]) for name, one in ran.items()}
    assert counts == {"shop.item": (2, 0), "shop.other": (2, 1)}
    assert project.rows() == [(1, "a", 1), (2, "b", 2)]
    assert project.rows("other") == [(1, "c", 3), (2, "b", 2)]


@pytest.mark.parametrize("project", ["iceberg"], indirect=True)
def test_spark_resolves_a_batch_with_three_queries_of_short_plans(
    project: Project, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.configure(WIDE, 'timestamp_column = "at"')
    project.put("LOAD00000001.csv", "".join(f"2026-11-01 10:00:00,{number},{ROW}\n" for number in range(9)))
    project.run()
    for day, (least, most) in enumerate([(1, 20), (3, 21)], start=2):
        last = max((number for number, *_ in queries_after(spark, -1)), default=-1)
        events = [("U", least), ("U", least), ("I", most), ("U", most), ("U", least + 1), ("D", least + 1)]
        lines = [f"{word},2026-11-0{day} 10:00:0{n},{key},{ROW}\n" for n, (word, key) in enumerate(events)]
        project.put(f"2026110{day}-100000000.csv", "".join(lines))
        counts = project.run()["shop.item"]["counts"]
        assert (counts["applied"], counts["superseded"], counts["insert_on_existing"]) == (3, 3, 0)
        if day == 2:
            found = queries_after(spark, last)
            assert [word for _, word, _ in found] == [READ, VERDICTS, WRITE]
            assert {word: len(plan) for _, word, plan in found if len(plan) > MOST[word]} == {}
        monkeypatch.setattr(verdicts, "MOST_IN_ARROW", 0)  # the next batch is one of many rows
    assert [key for (key,) in project.rows(columns=("id",))] == [0, 1, 3, 5, 6, 7, 8, 20, 21]
