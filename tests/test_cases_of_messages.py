"""Published feeds of messages: decoded, folded by the model, and compared with the published tables.

`case.json` of each feed says where it and its results come from; `docs/reference/cases.md` lists them all.
They are read from plain files, and from a topic of a broker. Feeds of one table are read together from files, and
separated by them; `tests/adapters/sources/kafka/test_cases.py` reads those from a topic.
`test_cases_of_messages_in_tables.py` applies some of them to tables.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import outside
import pytest
from case_topics import read_by_broker
from cases import GROWN, NESTED
from fake_broker import FakeBroker
from feed_reader import FeedContents, differences, expected, is_equal, read_feed
from message_cases import DEBEZIUM, FEEDS
from pyspark.sql import SparkSession

LONG: Final = "LAKEWARD_LONG" in os.environ

IN_THE_GATE: Final = 4
"""The number of these tables that the gate reads. The others show nothing more."""

REFUSED: Final = {"inventory.products": ["null_key"]}
"""A delete with neither key nor image."""


ReadCase: TypeAlias = Callable[..., FeedContents]
"""Reads files of a case: their folder, a table, its key and its columns, and options of the source."""

SPARK: Final = pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long])
BROKER: Final = pytest.param("broker", marks=pytest.mark.long)


@pytest.fixture(params=["files", "recorded", SPARK, BROKER])
def read_case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ReadCase:
    """Return a reader of files, by Python or by Spark, or one of a topic, in memory or of a running broker.

    Without Spark it reads a topic unless the test is marked as one on Spark.
    """
    spark = request.getfixturevalue("spark") if request.node.get_closest_marker("spark") else None
    match request.param:
        case "files" | "spark":
            return partial(read_feed, spark)
        case "recorded":
            return partial(read_by_broker, FakeBroker(), spark, tmp_path_factory.mktemp("state"))
        case _:
            broker = request.getfixturevalue("kafka_broker")
            return partial(read_by_broker, broker, spark, tmp_path_factory.mktemp("state"))


def in_spark(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test of messages that only Spark decodes."""
    readers = pytest.mark.parametrize("read_case", ["spark", "broker"], indirect=True)
    return pytest.mark.spark(pytest.mark.long(readers(test)))


@pytest.mark.parametrize(("table", "columns", "options", "feeds"), FEEDS if LONG else FEEDS[:IN_THE_GATE])
def test_published_feeds_give_their_published_tables(
    engine: SparkSession | None,
    table: str,
    columns: dict[str, str],
    options: dict[str, Any],
    feeds: list[tuple[str, str, str]],
) -> None:
    cases = {case: outside.case(case) for case, _, _ in feeds}
    names = "|".join(f"{case}/input/{pattern}" for case, pattern, _ in feeds)
    found = read_feed(engine, outside.CASES, table, ["id"], columns, names=names, **options)
    for case, pattern, result in feeds:
        wanted = expected(cases[case] / "expected" / result)
        own = found.of(f"{case}/input/{pattern}")
        assert own.events
        assert not differences(own.rows, wanted), (case, pattern)
    assert [reason for reason, _ in found.rejects] == REFUSED.get(table, [])


def test_without_a_key_rows_are_only_added(read_case: ReadCase) -> None:
    folder = outside.case("debezium-json-multi-table-evolution")
    found = read_case(folder / "input", "test.t2", [], GROWN, names="topic1/.*", **DEBEZIUM)
    wanted = expected(folder / "expected" / "t2_step2_no_key.csv")
    rows = sorted((str(row["id"]), str(row["address"])) for row in found.rows.values())
    assert rows == sorted((str(row["id"]), str(row["address"])) for row in wanted)


def test_objects_are_structs_and_deletes_and_tombstones_may_come_anywhere(read_case: ReadCase) -> None:
    folder = outside.case("debezium-json-nested-and-delete-first")
    wanted = json.loads((folder / "expected" / "nested.json").read_text("utf-8"))
    nested, delete = (
        read_case(folder / "input", "test.product", ["id"], NESTED, names=f"{names}.*", **DEBEZIUM)
        for names in ("nested", "delete")
    )
    (row,) = nested.rows.values()
    assert {name: row[name] for name in wanted} == wanted
    assert (delete.rows, [event.key for event in delete.events]) == ({}, [(101,)])
    folder = outside.case("debezium-json-tombstone-between")
    columns = {"id": "int", "value": "string"}
    found = read_case(folder / "input", "test.test", ["id"], columns, line="record", **DEBEZIUM)
    assert not differences(found.rows, expected(folder / "expected" / "final.csv"))
    assert (found.skipped, found.rejects) == (1, [])


def test_types_of_message_schemas_are_those_of_the_table(read_case: ReadCase) -> None:
    """A column is added and widened. Later a narrower type and a text come as they are."""
    folder = outside.case("debezium-json-schema-type-change")
    wanted = json.loads((folder / "expected" / "schemas.json").read_text("utf-8"))
    own = {"format": "debezium", "types": "schema"}
    found = read_case(folder / "input", "test.product", ["id"], {}, names="step[13].jsonl", **own)
    assert found.types == {**wanted["step1"], **wanted["step3"]}
    rows = [row for row in expected(folder / "expected" / "step3.csv") if row["id"] != "103"]
    assert not differences(found.rows, rows)
    for step, type_ in (("4", "int"), ("5", "string")) if LONG else ():
        found = read_case(folder / "input", "test.product", ["id"], {}, names=f"step{step}.jsonl", **own)
        assert found.types["age"] == type_


NOT_DESCRIBED: Final = {
    "id": "decimal(20,0)",
    "big_decimal_c": "decimal(38,1)",
    "bit1_c": "boolean",
    **dict.fromkeys(("big_un_c", "big_un_z_c"), "decimal(20,0)"),
    **dict.fromkeys(("decimal_un_c", "decimal_un_z_c"), "decimal(8,4)"),
    **dict.fromkeys(("double_un_c", "double_un_z_c"), "double"),
    **dict.fromkeys(("float_un_c", "float_un_z_c"), "float"),
    **dict.fromkeys(("int_un_z_c", "medium_un_z_c", "small_un_z_c", "tiny_un_z_c"), "bigint"),
}
"""Columns that the schema of the case lacks, or has with another type than the messages."""

TIMES: Final = ("_time", "time_c")
"""Times of day are numbers: the lake has no type for them."""

SHAPES: Final = tuple(
    f"{shape}_c"
    for shape in (
        *("point", "geometry", "linestring", "polygon", "multipoint"),
        *("multiline", "multipolygon", "geometrycollection"),
    )
)
"""Geometries, which the schema of a case calls texts. Each is kept as the object that was sent."""


def test_all_types_of_mysql_are_read(read_case: ReadCase) -> None:
    """Types come from the schema, and times of day are kept as sent."""
    case, table = "debezium-json-mysql-full-types", "column_type_test_2jid2b.full_types"
    how = {"key": "id", "names": "with_schema.jsonl", "result": "row_after_snapshot.json"}
    check_types_of_mysql(read_case, case, table, NOT_DESCRIBED, how)


@in_spark
def test_all_types_of_mysql_with_numbers_for_decimals_are_read(read_case: ReadCase) -> None:
    """Numbers of 40 digits are declared as texts. Points are structs."""
    declared = dict.fromkeys(("_fixed", "_fixed_unsigned", "_fixed_unsigned_zerofill"), "string")
    case, table = "debezium-json-all-types-numeric-decimals", "paimon_sync_table.all_types_table"
    how = {"key": "_id", "names": "events.jsonl", "result": "row.json", "decimals": "numeric"}
    check_types_of_mysql(read_case, case, table, declared, how)


def check_types_of_mysql(
    read_case: ReadCase, case: str, table: str, declared: dict[str, str], how: dict[str, str]
) -> None:
    """Check the one row of a table with all types of MySQL."""
    folder, own = outside.case(case), dict(how)
    wanted = json.loads((folder / "expected" / own.pop("result")).read_text("utf-8"))
    key, said = [own.pop("key")], {"format": "debezium", "types": "schema", **own}
    read = read_case(folder / "input", table, key, declared, **said)
    assert read.rejects == []
    (row,) = read.rows.values()
    left_out = {*TIMES, *SHAPES}
    plain = [name for name, type_ in read.types.items() if not type_.startswith("struct") and name not in left_out]
    shapes = [json.loads(row[name]) for name in SHAPES if row.get(name) is not None]
    assert all("wkb" in shape for shape in shapes)
    assert bool(shapes) == (case == "debezium-json-mysql-full-types")
    assert {name: row[name] for name in plain if not _is(row[name], wanted[name])} == {}


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(value, bytes | bytearray):
        kind, _, text = str(wanted).partition(":")
        content = text.replace(r"\0", "\0").encode() if kind.startswith("text") else bytes.fromhex(text)
        return value in (content, content[::-1])  # Debezium sends the last byte of bits first
    if isinstance(wanted, dict):
        return bool(json.loads(value) == wanted)
    return is_equal(value, str(wanted).split(" (")[0] if "days" in str(wanted) else str(wanted))


REAL: Final = {
    "time_table": ("ts", "tsneg", "ts_ms", "ts_us", "tz", "date"),
    "text_table": ("j", "jb", "x", "u"),
    "string_table": ("vc", "vcv", "ch", "c", "t", "ct"),
}
"""Tables of a real capture, and their columns that no setting of the connector changed."""


BENT: Final = (
    *("date_pinf", "date_ninf", "ts_large", "ts_large_us", "ts_large_ms", "tz_large", "ts_max", "ts_min", "tz_max"),
    *("tz_min", "ts_pinf", "ts_ninf", "tz_pinf", "tz_ninf", "tz_zero"),
)
"""Columns with times that no table can hold. Some have another text in a snapshot."""


def test_every_type_of_a_real_capture_is_read(read_case: ReadCase) -> None:
    """Snapshot rows and streamed rows are equal, and are those of the database."""
    folder = outside.case("dbz-real-types-isostring-schema")
    settings = {"line": "record", "decimals": "double", "times": "isostring", "binary": "hex", "types": "schema"}
    described = json.loads((folder / "expected" / "columns.json").read_text("utf-8"))["tables"]
    for table in described if LONG else ["time_table"]:
        odd = dict.fromkeys(BENT, "string") if table == "time_table" else {}
        found = read_case(folder / "input", f"public.{table}", ["pk"], odd, format="debezium", **settings)
        assert found.rejects == [], table
        lossy = [name for name, column in described[table].items() if column["scoring"] == "lossy"]
        left_out = {"pk", *odd, *lossy}
        rows = [{n: cell for n, cell in cells.items() if n not in left_out} for cells in found.rows.values()]
        assert rows, table
        assert all(str(row) in map(str, rows[len(rows) // 2 :]) for row in rows[: len(rows) // 2]), table
        for wanted in expected(folder / "expected" / f"{table}.csv") if table in REAL else ():
            (own,) = (cells for key, cells in found.rows.items() if str(key[0]) == wanted["pk"])
            assert all(is_equal(own[n], wanted[n]) for n in REAL[table] if n in wanted), (table, own)


LAKE: Final = {
    "smallint": "int",
    "integer": "int",
    "bigint": "bigint",
    "oid": "bigint",
    "boolean": "boolean",
    "real": "float",
    "double precision": "double",
    "numeric": "decimal(20,4)",
    "money": "decimal(20,2)",
    "timestamp without time zone": "timestamp_ntz",
    "timestamp with time zone": "timestamp",
    "date": "date",
    "bytea": "binary",
    "bit(1)": "boolean",
    "bit varying(1)": "boolean",
    "time without time zone": "int",
}
"""Types for those of PostgreSQL: bits are bytes, days in a list are numbers, all others are texts."""


def _lake(type_: str) -> str:
    name = type_.removesuffix(" not null")
    if name.endswith("[]"):
        element = _lake(name.removesuffix("[]"))
        return "list<int>" if element == "date" else f"list<{element}>"
    plain = re.sub(r"^(time(?:stamp)?)\(\d\)", r"\1", name)
    if plain.startswith("numeric("):
        return plain.replace("numeric", "decimal")
    return LAKE.get(plain, "binary" if plain.startswith("bit") else "string")


LISTS_OF_OTHERS: Final = ("array_table", "bytea_binmode_table")
"""Tables with lists of values that are not sent as they are."""


def test_every_type_of_a_capture_without_schemas_is_read_as_declared(read_case: ReadCase) -> None:
    folder = outside.case("dbz-real-types-string-connect")
    every = [file.stem for file in (folder / "expected").glob("*.csv")]
    tables = [table for table in every if table not in LISTS_OF_OTHERS]
    check_capture_without_schemas(read_case, tables if LONG else ("numeric_decimal_table", "time_table"))


@in_spark
def test_lists_of_a_capture_without_schemas_are_read_as_declared(read_case: ReadCase) -> None:
    check_capture_without_schemas(read_case, LISTS_OF_OTHERS)


def check_capture_without_schemas(read_case: ReadCase, tables: Collection[str]) -> None:
    """Check the types of tables: decimals are texts, and times are those of Kafka Connect."""
    folder = outside.case("dbz-real-types-string-connect")
    described = json.loads((folder / "expected" / "columns.json").read_text("utf-8"))["tables"]
    settings = {"line": "record", "times": "connect", "decimals": "string"}
    for table in tables:
        said = {name: column for name, column in described[table].items() if name != "pk"}
        far = [name for name, column in said.items() if column["scoring"] == "stretch"]
        columns = {n: "string" if n in far else _lake(c["type"]) for n, c in said.items()}
        columns["pk"] = "int"
        found = read_case(folder / "input", f"public.{table}", ["pk"], columns, format="debezium", **settings)
        assert found.rejects == [], table
        exact = [name for name, column in said.items() if column["scoring"] == "exact"]
        rows = [{name: cells[name] for name in exact} for cells in found.rows.values()]
        assert len(rows) > 1, table
        assert all(str(row) in map(str, rows[len(rows) // 2 :]) for row in rows[: len(rows) // 2]), table
        own = [n for n in exact if "note" not in said[n] and not columns[n].startswith(("list", "binary"))]
        own = [n for n in own if not said[n]["type"].startswith(("time ", "time(", "bit"))]
        for wanted in expected(folder / "expected" / f"{table}.csv"):
            (cells,) = (cells for key, cells in found.rows.items() if str(key[0]) == wanted["pk"])
            assert {n: cells[n] for n in own if not is_equal(cells[n], wanted[n])} == {}, table


@pytest.mark.parametrize("case", ["single", "compound"] if LONG else ["compound"])
def test_published_unit_tests_hold(read_case: ReadCase, tmp_path: Path, case: str) -> None:
    """Ten small histories with different values of a key column. Arrival decides their order."""
    folder = outside.case(f"scd1-debezium-pg-{case}-key")
    inputs = json.loads((folder / "input" / "tests.json").read_text("utf-8"))
    wanted = json.loads((folder / "expected" / "tests.json").read_text("utf-8"))
    lines = [json.dumps(_of_test(test["test"], event["value"])) for test in inputs for event in test["events"]]
    (tmp_path / "a.json").write_text("\n".join(lines) + "\n", "utf-8")
    key = ["test", "id"] if case == "single" else ["test", "maj_id", "min_id"]
    columns = {name: "string" if name == "min_id" else "int" for name in key}
    columns |= {"name": "string", "surname": "string", "birthday": "date"}
    own = {"format": "debezium", "places": "arrival"}
    found = read_case(tmp_path, "public.mock_table", key, columns, **own)
    assert found.rejects == []
    rows = {tuple(map(str, place)): cells for place, cells in found.rows.items()}
    for result in wanted:
        for row in result["rows"]:
            known = {name: row.get(name, result["test"]) for name in columns}
            place = tuple(str(known[name]) for name in key)
            is_deleted = row["is_deleted"] == "TRUE"
            assert (place not in rows) is is_deleted, (result["name"], place)
            texts = {} if is_deleted else {n: None if v is None else str(v) for n, v in known.items()}
            assert all(is_equal(rows[place][name], text) for name, text in texts.items()), (result["name"], row)


def _of_test(number: int, value: dict[str, Any]) -> dict[str, Any]:
    """Return an event with the column of its history."""
    images = {name: {**value[name], "test": number} for name in ("before", "after") if value.get(name)}
    return {**value, **images}
