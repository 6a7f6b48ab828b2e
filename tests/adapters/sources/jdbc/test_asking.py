"""What is asked of a connection before rows are read: the place in the log, ranges of the key, one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_other
from typing import Any

import pytest
from py4j.protocol import Py4JError

from lakeward.adapters.sources.jdbc.database import spark_reader
from lakeward.adapters.sources.jdbc.database.dialects import Dialect, dialect_of
from lakeward.adapters.sources.jdbc.database.queries import Query
from lakeward.core.dimension import TableName
from lakeward.core.schema import Column, parse_type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable

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
SNAPSHOT = Query(table=TABLE, columns=COLUMNS, key="id")
LARGE = {"COUNT(*)": [["200001"]], "place IN (50002, 100003, 150004)": [["7"], ["7"], [None]]}


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
def test_the_place_in_the_log_is_what_the_user_may_see_of_it(
    product: str, answers: Mapping[str, Rows], place: str | None
) -> None:
    assert asked(Connection(answers), dialect_of(product)).position() == place


def test_a_large_table_is_read_in_ranges_that_are_counted() -> None:
    found = asked(Connection(LARGE), dialect_of("postgresql"))
    assert found.ranges() == ['"id" < 7 OR "id" IS NULL', '"id" >= 7']


@pytest.mark.parametrize(
    ("product", "query", "answers"),
    [
        ("postgresql", with_other(SNAPSHOT, partitions=1), LARGE),
        ("mariadb", SNAPSHOT, LARGE),
        ("postgresql", with_other(SNAPSHOT, key="doc"), LARGE),
        ("postgresql", with_other(SNAPSHOT, cursor=COLUMNS[0]), LARGE),
        ("postgresql", SNAPSHOT, {"COUNT(*)": [["199999"]]}),
        ("postgresql", SNAPSHOT, {"COUNT(*)": [["0"]]}),
    ],
    ids=["one is asked for", "readers see several moments", "key of texts", "by the cursor", "small", "empty"],
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
