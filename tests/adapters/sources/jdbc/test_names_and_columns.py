"""The source `jdbc` in words: names of what was read, columns and their types, SQL of each database, settings."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from fake_database import Play
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.catalogues.connection import login
from lakeward.adapters.sources.jdbc import read_options
from lakeward.adapters.sources.jdbc.columns import columns_of
from lakeward.adapters.sources.jdbc.database.dialects import dialect_of
from lakeward.adapters.sources.jdbc.database.spark_reader import conditions
from lakeward.adapters.sources.jdbc.file_names import StagedNames, StagedRead
from lakeward.adapters.sources.jdbc.options import JdbcSourceOptions
from lakeward.adapters.sources.landing.places import Part
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.plugins import Runtime

ITEM = TableName("shop", "item")
MILLIS = st.integers(0, 4_000_000_000_000).map(lambda millis: millis * 1000)
TIMES = st.integers(-60_000_000_000_000_000, 200_000_000_000_000_000)


@given(
    time=MILLIS,
    is_snapshot=st.booleans(),
    is_time=st.booleans(),
    cursors=st.tuples(st.none() | TIMES, st.none() | TIMES),
    tail=st.none() | st.text("0123456789abcdef", min_size=16, max_size=16),
    position=st.none() | st.text("0123456789ABCDEF.,_-", min_size=1, max_size=30),
)
def test_a_name_tells_what_was_read(
    *,
    time: int,
    is_snapshot: bool,
    is_time: bool,
    cursors: tuple[int | None, int | None],
    tail: str | None,
    position: str | None,
) -> None:
    since, reached = cursors
    staged = StagedRead(
        time=time, is_snapshot=is_snapshot, since=since, reached=reached, tail=tail, position=position
    )
    name = staged.name(is_time=is_time)
    assert StagedRead.of(f"{name}/part-0.parquet") == staged
    parsed = StagedNames().read(f"{name}/part-0.parquet", Part("shop/item"))
    assert parsed is not None
    assert (parsed.is_load, (parsed.order >> 20) * 1000) == (is_snapshot, time)
    assert not set(name) & set(':/\\*?[]{}" ')


@pytest.mark.parametrize(
    "name",
    [
        "a.parquet",
        "20261201000000000~other/a.parquet",
        "2026~snapshot/a.parquet",
        "20261301000000000~snapshot/a.parquet",
    ],
)
def test_other_files_are_left_alone(name: str) -> None:
    assert StagedNames().read(name, Part("shop/item")) is None


def described(**columns: tuple[str, str | None]) -> SourceTable:
    expected = [
        SourceColumn(name=name, written=written, type=None if type_ is None else parse_type(type_))
        for name, (written, type_) in columns.items()
    ]
    return SourceTable(name=ITEM, columns=tuple(expected))


def of_columns(**declared: str) -> Dimension:
    columns = (Column(name, parse_type(type_)) for name, type_ in declared.items())
    return Dimension(name=ITEM, key=("id",), schema=Schema(tuple(columns)))


def test_columns_have_the_types_of_the_database_and_what_it_has_none_for_is_declared() -> None:
    table = described(id=("bigint", "bigint"), free=("numeric", None), doc=("jsonb", "string"), at=("date", "date"))
    read = columns_of(of_columns(free="decimal(20,5)", at="string", id="int"), table)
    assert {column.name: str(column.type) for column in read} == {
        "id": "bigint",
        "free": "decimal(20,5)",
        "doc": "string",
        "at": "string",
    }
    with pytest.raises(SchemaConflict, match="free has no type here") as refused:
        columns_of(of_columns(id="bigint"), table)
    assert refused.value.found == "the database calls it numeric"
    with pytest.raises(ConfigError, match="cannot be read as a boolean"):
        columns_of(of_columns(free="boolean"), table)


@pytest.mark.parametrize(
    ("database", "type_", "sql"),
    [
        ("postgresql", "timestamp", "TIMESTAMPTZ '2026-12-01 00:00:00.000001+00'"),
        ("postgresql", "timestamp_ntz", "TIMESTAMP '2026-12-01 00:00:00.000001'"),
        ("mariadb", "timestamp", "TIMESTAMP '2026-12-01 00:00:00.000001'"),
        ("mysql", "date", "DATE '2026-12-01'"),
        ("sqlserver", "timestamp_ntz", "CAST('2026-12-01 00:00:00.000001' AS datetime2)"),
        (None, "timestamp", "TIMESTAMP '2026-12-01 00:00:00.000001 +00:00'"),
        (None, "bigint", "1796083200000001"),
    ],
)
def test_a_cursor_is_written_as_each_database_reads_it(database: str | None, type_: str, sql: str) -> None:
    micros = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp()) * 1_000_000 + 1
    assert dialect_of(database).literal(micros, Column("at", parse_type(type_))) == sql


@given(bounds=st.lists(st.integers(-20, 20), max_size=8), value=st.none() | st.integers(-30, 30))
def test_ranges_have_each_row_once(bounds: list[int], value: int | None) -> None:
    found = conditions("k", sorted(bounds))
    selection = [_holds(condition, value) for condition in found]
    assert sum(selection) == (1 if found else 0)


def _holds(condition: str, value: int | None) -> bool:
    if value is None:
        return condition.endswith("OR k IS NULL")
    python = condition.replace(" OR k IS NULL", "").replace("AND", "and")
    return bool(eval(python, {"k": value}))  # noqa: S307  # what is tested wrote it


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"url": "jdbc:postgresql://db/shop?password=x"}, "must have no password"),
        ({"password": "hunter2"}, "a secret does not stand here"),
        ({"path": "s3://bucket/staged"}, "must be a folder on a disk"),
        ({"every": "0"}, "must be a duration"),
        ({"overlap": "ten"}, "must be a duration"),
        ({"overlap": -1}, "must be a duration"),
        ({"cursr": "at"}, "no key 'cursr'"),
    ],
)
def test_invalid_settings_are_refused_without_showing_a_secret(settings: dict[str, object], words: str) -> None:
    runtime = Runtime(lambda: None, file=Path("lakeward.toml"))
    with pytest.raises(ConfigError, match=words) as refused:
        read_options({"url": "jdbc:postgresql://db/shop", "formats": {}, **settings}, runtime)
    assert "hunter2" not in str(refused.value)


def test_a_snapshot_has_a_time_in_utc_and_a_cursor_one_of_the_database(tmp_path: Path) -> None:
    berlin = {"source_zone": "Europe/Berlin"}
    for cursor, zone in ((None, "UTC"), ("updated_at", "Europe/Berlin")):
        own = {} if cursor is None else {"cursor": cursor}
        files = Play(tmp_path, settings={**berlin, **own}).open().files
        assert files.options.source_zone == zone


def test_a_table_says_for_itself_what_is_otherwise_there() -> None:
    runtime = Runtime(lambda: None, file=Path("lakeward.toml"))
    of_source = {"url": "jdbc:postgresql://db/shop", "cursor": "at", "overlap": "1h"}
    own = {ITEM: {"overlap": 7, "partitions": 2}}
    settings, tables = read_options({**of_source, "formats": {}, "tables": own}, runtime)
    assert (settings.overlap, tables[ITEM].overlap, tables[ITEM].cursor) == ("1h", "7", "at")


@pytest.mark.parametrize("written", ["enum('sad','ok')", "set('a','b')", "char(5)", "uuid"])
def test_what_spark_would_fill_with_blanks_is_cast_by_mariadb(written: str) -> None:
    column = SourceColumn(name="x", written=written, type=parse_type("string"))
    assert dialect_of("mysql").value(column, parse_type("string"), "`x`") == "CAST(`x` AS CHAR) AS `x`"


def test_the_driver_of_mysql_is_told_to_give_values_as_they_are_and_another_is_not() -> None:
    own = {"tinyInt1isBit": "false", "yearIsDateType": "false"}
    properties = {"useSSL": "true", "yearIsDateType": "true"}
    assert login(JdbcSourceOptions(url="jdbc:mysql://h:3306/shop"), None) == own
    assert login(JdbcSourceOptions(url="jdbc:mysql://h:3306/shop", properties=properties), None) == {
        **own,
        **properties,
    }
    assert login(JdbcSourceOptions(url="jdbc:mariadb://h:3306/shop", properties=properties), None) == properties
