"""Requests to a connection before rows are read: places in the log, ranges of the key, a shared snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_other
from typing import Any

import pytest
from py4j.protocol import Py4JError

from lakeward.adapters.sources.files.local.messages.log_positions import place_and_log
from lakeward.adapters.sources.jdbc.database import spark_reader
from lakeward.adapters.sources.jdbc.database.dialects import MARIADB, POSTGRESQL, Dialect, dialect_of
from lakeward.adapters.sources.jdbc.database.queries import Query
from lakeward.core.checks.log_steps import LogName
from lakeward.core.dimension import TableName
from lakeward.core.schema import Column, parse_type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.core.verification.source_places import SourcePlace, binlog_place, postgresql_place

Rows = Sequence[Sequence[str | None]]


@dataclass
class Connection:
    """A connection of JDBC: `answers` are rows by a part of the query; any other query fails."""

    answers: Mapping[str, Rows] = field(default_factory=dict)
    mark: str = '"'
    said: list[str] = field(default_factory=list)

    def createStatement(self) -> Statement:  # noqa: N802
        return Statement(self)

    def getMetaData(self) -> Connection:  # noqa: N802
        return self

    def getIdentifierQuoteString(self) -> str:  # noqa: N802
        return self.mark

    def setAutoCommit(self, value: bool) -> None:  # noqa: N802
        self.said.append(f"autocommit {value}")

    def setTransactionIsolation(self, value: int) -> None:  # noqa: N802
        self.said.append(f"isolation {value}")


@dataclass
class Statement:
    """A statement, and then its result."""

    connection: Connection
    rows: list[Sequence[str | None]] = field(default_factory=list)
    row: Sequence[str | None] = ()

    def executeQuery(self, sql: str) -> Statement:  # noqa: N802
        self.connection.said.append(sql)
        found = [rows for part, rows in self.connection.answers.items() if part in sql]
        if not found:
            raise Py4JError("permission denied")
        self.rows = [*found[0]]
        return self

    def getMetaData(self) -> Any:  # noqa: N802
        return self

    def getColumnCount(self) -> int:  # noqa: N802
        return len(self.rows[0]) if self.rows else 0

    def next(self) -> bool:
        self.row, self.rows = (self.rows[0], self.rows[1:]) if self.rows else ((), [])
        return bool(self.row)

    def getString(self, column: int) -> str | None:  # noqa: N802
        return self.row[column - 1]

    def close(self) -> None:
        pass


TABLE = SourceTable(
    name=TableName("shop", 'it"em'),
    columns=(
        SourceColumn(name="id", written="bigint", type=parse_type("bigint")),
        SourceColumn(name="doc", written="jsonb", type=parse_type("string")),
        SourceColumn(name="free", written="numeric", type=None),
    ),
)
COLUMNS = tuple(
    Column(n, parse_type(t)) for n, t in (("id", "bigint"), ("doc", "string"), ("free", "decimal(9,2)"))
)
FREE_KEY = (*COLUMNS[:2], Column("free", parse_type("decimal(38,0)")))
SNAPSHOT = Query(table=TABLE, columns=COLUMNS, key="id")
COUNTED = {"COUNT(*)": [["200001"]]}
NUMBERED = COUNTED | {"place IN (50002, 100003, 150004)": [["7"], ["9"], [None]]}
NEXT = 'ORDER BY "id" LIMIT 1 OFFSET 50001'
LARGE = COUNTED | {
    f'WHERE "id" IS NOT NULL {NEXT}': [["7"]],
    f'WHERE "id" >= 7 {NEXT}': [["9"]],
    f'WHERE "id" >= 9 {NEXT}': [],
}
AFTER = 'WHERE "id" > 7 ORDER BY "id" LIMIT 1 OFFSET 0'
REPEATED = LARGE | {f'WHERE "id" >= 7 {NEXT}': [["7"]], AFTER: [["9"]]}
LAST = REPEATED | {AFTER: []}
RANGES = ['"id" < 7 OR "id" IS NULL', '"id" >= 7 AND "id" < 9', '"id" >= 9']


def asked(connection: Connection, dialect: Dialect, query: Query = SNAPSHOT) -> spark_reader._Request:
    return spark_reader._Request(connection, dialect, query)


@pytest.mark.parametrize(
    ("product", "answers", "place"),
    [
        ("postgresql", {"pg_current_wal_lsn": [["0/16B3748"]]}, "0/16B3748"),
        ("mariadb", {"gtid_binlog_pos": [["0-1-270"]], "MASTER": [["bin.01", "4", "", ""]]}, "0-1-270"),
        ("mariadb", {"gtid_binlog_pos": [[""]], "SHOW MASTER": [["bin.01", "45", "", ""]]}, "bin.01-45"),
        ("mysql", {"BINARY LOG": [["bin.02", "46", "", "", "uuid:1-5"]]}, "bin.02-46"),
        ("mariadb", {"gtid_binlog_pos": [[""]], "SHOW MASTER": []}, None),
        ("postgresql", {}, None),
        ("oracle", {}, None),
    ],
)
def test_the_log_position_is_read(product: str, answers: Mapping[str, Rows], place: str | None) -> None:
    assert asked(Connection(answers), dialect_of(product)).position() == place


@pytest.mark.parametrize(
    ("product", "answers", "ranges"),
    [
        pytest.param("postgresql", LARGE, RANGES, id="one row after the other"),
        pytest.param("postgresql", REPEATED, RANGES, id="a key of more rows than a range has"),
        pytest.param("postgresql", LAST, [RANGES[0], '"id" >= 7'], id="the last key has more rows than a range"),
        pytest.param("mariadb", LARGE, RANGES, id="MariaDB"),
        pytest.param("oracle", NUMBERED, RANGES, id="numbered rows"),
    ],
)
def test_a_large_table_is_read_in_ranges_of_as_many_rows(
    product: str, answers: Mapping[str, Rows], ranges: list[str]
) -> None:
    found = asked(Connection(answers), dialect_of(product), with_other(SNAPSHOT, partitions=4))
    assert found.ranges() == ranges


def test_postgresql_has_four_readers() -> None:
    assert asked(Connection(LARGE), dialect_of("postgresql")).ranges() == RANGES


@pytest.mark.parametrize(
    ("product", "query", "answers"),
    [
        ("postgresql", with_other(SNAPSHOT, partitions=1), LARGE),
        ("mariadb", SNAPSHOT, LARGE),
        ("postgresql", with_other(SNAPSHOT, key="doc"), LARGE),
        ("postgresql", with_other(SNAPSHOT, columns=FREE_KEY, key="free"), LARGE),
        ("postgresql", with_other(SNAPSHOT, cursor=COLUMNS[0]), LARGE),
        ("postgresql", SNAPSHOT, {"COUNT(*)": [["199999"]]}),
        ("postgresql", SNAPSHOT, {"COUNT(*)": [["0"]]}),
    ],
    ids=[
        "one is asked for",
        "readers see several moments",
        "key of texts",
        "key without bounds",
        "by the cursor",
        "small",
        "empty",
    ],
)
def test_else_one_connection_reads(product: str, query: Query, answers: Mapping[str, Rows]) -> None:
    assert asked(Connection(answers), dialect_of(product), query).ranges() == ()


def test_several_readers_take_over_what_one_connection_sees() -> None:
    connection = Connection({"pg_export_snapshot": [["00000003-0000001B-1"]]})
    found = asked(connection, dialect_of("postgresql"))
    assert found.session(1) is None
    assert not connection.said, "one reader needs no snapshot of others"
    said = found.session(4)
    assert said == "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '00000003-0000001B-1'"
    assert connection.said == ["autocommit False", "isolation 4", "SELECT pg_export_snapshot()"]


def test_names_are_quoted_and_what_has_no_type_is_read_as_a_text() -> None:
    postgresql = asked(Connection(), dialect_of("postgresql")).sql
    assert postgresql == (
        '(SELECT "id", CAST("doc" AS text) AS "doc", CAST("free" AS text) AS "free" FROM "shop"."it""em") lakeward'
    )
    since = with_other(SNAPSHOT, cursor=COLUMNS[0], since=7)
    mariadb = asked(Connection(mark="`"), dialect_of("mariadb"), since).sql
    assert mariadb.endswith('FROM `shop`.`it"em` WHERE `id` >= 7) lakeward')
    first = with_other(SNAPSHOT, cursor=COLUMNS[0])
    assert asked(Connection(), dialect_of(None), first).sql.endswith('WHERE "id" IS NOT NULL) lakeward')


# The place of a database is the number that a message of Debezium has for the same place.


def of_message(**source: str) -> tuple[int, LogName]:
    place, log = place_and_log(source.get, False)
    assert place is not None
    return int(place), LogName.of(log)


def test_a_change_is_at_or_behind_the_place_that_its_transaction_passes() -> None:
    lsn = (0x1A << 32) + 0x16B3748
    place = postgresql_place("1A/16B3748")
    assert place is not None
    before, _ = of_message(lsn=str(lsn - 8), sequence=f'["{lsn - 16}", "{lsn - 8}"]')
    behind, _ = of_message(lsn=str(lsn + 8), sequence=f'["{lsn}", "{lsn + 8}"]')
    assert before < place <= behind


def test_a_place_in_a_binlog() -> None:
    place = binlog_place("mysql-bin.000012", "4711")
    assert place is not None
    before, log = of_message(file="mysql-bin.000012", pos="4710", row="99", server_id="7")
    behind, _ = of_message(file="mysql-bin.000012", pos="4711", row="0", server_id="7")
    later, _ = of_message(file="mysql-bin.000013", pos="4", row="0", server_id="7")
    assert before < place <= behind < later
    assert (log.base, log.server) == ("mysql-bin.", "7")


@pytest.mark.parametrize("lsn", ["", "x/y", "16B3748"])
def test_what_is_no_lsn_has_no_number(lsn: str) -> None:
    assert postgresql_place(lsn) is None


@pytest.mark.parametrize(("file", "position"), [("", "4"), ("mysql-bin", "4"), ("mysql-bin.000012", "")])
def test_what_is_no_place_in_a_binlog_has_no_number(file: str, position: str) -> None:
    assert binlog_place(file, position) is None


def test_a_database_has_a_clock_a_log_and_the_origin_of_that() -> None:
    answers: dict[str, Rows] = {"clock_timestamp": [["5"]], "insert_lsn": [["0/1F"]]}
    place = asked(Connection(answers), POSTGRESQL).place()
    assert place == SourcePlace(5, "0/1F", postgresql_place("0/1F"))
    answers = {"UTC_TIMESTAMP": [["5"]], "BINARY LOG": [["mysql-bin.000012", "4711", None]], "server_id": [["7"]]}
    place = asked(Connection(answers), MARIADB).place()
    binlog = binlog_place("mysql-bin.000012", "4711")
    assert place == SourcePlace(5, "mysql-bin.000012:4711", binlog, "mysql-bin. 7")
    assert LogName.of(place.origin) == LogName("mysql-bin.", "7")


def test_a_place_has_only_what_the_database_states() -> None:
    assert asked(Connection(), MARIADB).place() == asked(Connection(), Dialect()).place() == SourcePlace()
