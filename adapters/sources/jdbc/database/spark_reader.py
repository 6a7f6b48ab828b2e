"""A database that Spark reads with the database's own driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.catalogues.connection import connect, login
from lakeward.adapters.catalogues.jdbc import describe
from lakeward.adapters.sources.jdbc.cursors import is_number
from lakeward.adapters.sources.jdbc.database.dialects import Dialect, dialect_of
from lakeward.adapters.sources.jdbc.database.error_messages import failure_of
from lakeward.adapters.sources.jdbc.database.queries import Query
from lakeward.adapters.sources.jdbc.options import JdbcSourceOptions
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.adapters.spark.session.errors import FAILURES
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.checks.log_steps import LogName
from lakeward.core.dimension import TableName
from lakeward.core.ports import SourceSnapshot
from lakeward.core.schema import Column
from lakeward.core.settings.secrets import Secret, SecretName
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.core.verification.compared_columns import ComparedColumns, source_schema
from lakeward.core.verification.source_places import SourcePlace

_READERS: Final = 4
"""The default number of ranges of a snapshot, where all readers see the same state."""

LEAST_ROWS: Final = 200_000
"""A table with fewer rows is read through one connection."""

_REPEATABLE_READ: Final = 4
"""java.sql.Connection.TRANSACTION_REPEATABLE_READ."""

_ROW_BY_ROW: Final = -(2**31)
"""The fetch size with which MySQL's driver holds one row instead of the whole result; it ignores other sizes
(dev.mysql.com/doc/connector-j/en/connector-j-reference-implementation-notes.html)."""

_AS_TEXT: Final = ("date", "timestamp", "timestamp_ntz")
"""Types that a driver converts by the time zone of its process. They are read as texts, which have no zone."""

_PARQUET: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


@dataclass(frozen=True, slots=True)
class Database:
    """The database that a `section` of the settings names; it is connected to when it is needed."""

    options: JdbcSourceOptions
    spark: Callable[[], SparkSession]
    secret: Callable[[SecretName], Secret]
    section: str = "source"

    def describe(self, table: TableName) -> SourceTable | None:
        """Return the description of a table, or None if the database has no such table."""
        with self._connect(self.spark(), table) as connection:
            return describe(connection, self.options, [table]).get(table)

    def write(self, query: Query, url: str) -> str | None:
        """Write rows as Parquet below a URL; return the position in the log before the first row was read."""
        spark = self.spark()
        for name, value in _PARQUET.items():
            spark.conf.set(name, value)
        with self._connect(spark, query.table.name) as connection:
            request = _Request(connection, self._dialect, query)
            position = request.position()
            self._frame(spark, request).write.parquet(url)
        return position

    @contextmanager
    def snapshot(self, table: SourceTable, columns: ComparedColumns) -> Iterator[SourceSnapshot[Frame]]:
        """Yield a snapshot of columns of a table; its connection stays open meanwhile."""
        spark, partitions = self.spark(), self.options.partitions if self._dialect.export else 1
        query = _query_of(table, columns, partitions)
        with self._connect(spark, table.name) as connection:
            request = _Request(connection, self._dialect, query)
            start = request.place()
            yield SourceSnapshot(self._frame(spark, request), start, request.place)

    def _frame(self, spark: SparkSession, request: _Request) -> DataFrame:
        """Return the rows of a query, which Spark reads when they are needed."""
        ranges = request.ranges()
        return self._rows(spark, request.sql, request.query, request.session(len(ranges)), ranges)

    @property
    def _dialect(self) -> Dialect:
        return dialect_of(self.options.types)

    @contextmanager
    def _connect(self, spark: SparkSession, table: TableName) -> Iterator[Any]:
        password = self._password()
        try:
            with connect(spark._jvm, self.options, password, self._password) as connection:
                yield connection
        except FAILURES as error:
            # Not `from error`: a driver's message may contain the password.
            raise failure_of(error, table, self.options, password, self.section) from None

    def _password(self) -> Secret | None:
        return None if self.options.password is None else self.secret(self.options.password)

    def _rows(
        self, spark: SparkSession, sql: str, query: Query, session: str | None, ranges: Sequence[str]
    ) -> DataFrame:
        """Return the rows of a query, each range read through a connection of its own."""
        columns = list(zip(query.table.columns, query.columns, strict=True))
        properties = {
            **login(self.options, self._password()),
            "fetchsize": str(_ROW_BY_ROW if self.options.product == "mysql" else self.options.fetch_size),
            "customSchema": ", ".join(
                f"{quoted(column.name)} {_driver_type(own, column)}" for own, column in columns
            ),
            "pushDownPredicate": "false",
            **({} if session is None else {"sessionInitStatement": session}),
        }
        rows = (
            spark.read.jdbc(self.options.url, sql, predicates=list(ranges), properties=properties)
            if ranges
            else spark.read.jdbc(self.options.url, sql, properties=properties)
        )
        return rows.select(*(_cast_column(own, column) for own, column in columns))


@dataclass(frozen=True, slots=True)
class _Request:
    """A query of one connection, which stays open until all readers have ended."""

    connection: Any
    dialect: Dialect
    query: Query

    def position(self) -> str | None:
        """Return the position in the log; None if the database has none, or the user may not read it."""
        for sql in self.dialect.positions:
            with suppress(Py4JError):
                parts = [text for row in self._rows(sql)[:1] for text in row[:2] if text]
                if parts:
                    return "-".join(parts)
        return None

    def place(self) -> SourcePlace:
        """Return the present place of the database, as far as it has one and the user may read it."""
        clock = self._first(self.dialect.clock)
        time = int(clock[0]) if clock else None
        for sql in self.dialect.logs:
            if row := self._first(sql):
                log = self.dialect.read_log(row)
                server = self._first(self.dialect.server)
                origin = None if log.base is None else str(LogName(log.base, server[0] if server else ""))
                return SourcePlace(time, log.text, log.sequence, origin)
        return SourcePlace(time)

    def _first(self, sql: str | None) -> list[str]:
        """Return the first row of a query as texts; nothing if the user may not run it."""
        with suppress(Py4JError):
            for row in self._rows(sql)[:1] if sql is not None else ():
                return [text or "" for text in row]
        return []

    def session(self, readers: int) -> str | None:
        """Return the first statement of a reader; it shares one snapshot among readers if the database can do that.

        A single statement sees one snapshot in every database.
        """
        if readers < 2 or self.dialect.export is None:
            return self.dialect.session
        self.connection.setAutoCommit(False)
        self.connection.setTransactionIsolation(_REPEATABLE_READ)
        ((snapshot, *_),) = self._rows(self.dialect.export)
        return self.dialect.adopt.format(snapshot)

    def ranges(self) -> Sequence[str]:
        """Return conditions that divide the rows of a snapshot by quantiles of the key.

        None for a small table, and for a key that is read as a text, which is not compared as a number.
        """
        columns = zip(self.query.table.columns, self.query.columns, strict=True)
        named = (read for own, read in columns if read.name == self.query.key and not _is_read_as_text(own, read))
        key = next(named, None)
        max_ranges = self.query.partitions or (_READERS if self.dialect.export else 1)
        if key is None or not is_number(key.type) or self.query.cursor is not None or max_ranges == 1:
            return ()
        ((count, *_),) = self._rows(f"SELECT COUNT(*) FROM {self._table}")
        rows = int(count or 0)
        if rows < LEAST_ROWS:
            return ()
        name = self._quoted(key.name)
        return conditions(name, self._bounds(name, rows, -(-rows // max_ranges)))

    def _bounds(self, key: str, rows: int, step: int) -> Sequence[int]:
        """Return the first key of each range after the first one; `step` is the number of rows of a range."""
        places = range(step + 1, rows + 1, step)
        nth_row = self.dialect.nth_row
        if nth_row is None:
            numbered = f"SELECT {key} AS k, ROW_NUMBER() OVER (ORDER BY {key}) AS place FROM {self._table}"
            listed = ", ".join(map(str, places))
            found = self._rows(f"SELECT k FROM ({numbered}) numbered WHERE place IN ({listed})")
            return [int(first) for (first,) in found if first is not None]
        bounds: list[int] = []
        for _ in places:
            rest = f"{key} >= {bounds[-1]}" if bounds else f"{key} IS NOT NULL"
            first = self._first_key(key, rest, nth_row.format(step))
            if bounds and first == bounds[-1]:  # more rows than a range has: the next range begins after them
                first = self._first_key(key, f"{key} > {first}", nth_row.format(0))
            if first is None:
                break
            bounds.append(first)
        return bounds

    def _first_key(self, key: str, rest: str, nth_row: str) -> int | None:
        """Return the key of one row of the `rest` in key order; None if there is no such row, or it has no key."""
        for (first,) in self._rows(f"SELECT {key} FROM {self._table} WHERE {rest} ORDER BY {key} {nth_row}"):
            return None if first is None else int(first)
        return None

    @property
    def sql(self) -> str:
        """The query as a subquery, which Spark reads as a table."""
        columns = zip(self.query.table.columns, self.query.columns, strict=True)
        listed = ", ".join(self.dialect.value(own, read.type, self._quoted(own.name)) for own, read in columns)
        return f"(SELECT {listed} FROM {self._table}{self._where}) lakeward"

    @property
    def _where(self) -> str:
        cursor, since = self.query.cursor, self.query.since
        if cursor is None:
            return ""
        name = self._quoted(cursor.name)
        return f" WHERE {name} " + ("IS NOT NULL" if since is None else f">= {self.dialect.literal(since, cursor)}")

    @property
    def _table(self) -> str:
        return ".".join(map(self._quoted, self.query.table.name))

    def _quoted(self, name: str) -> str:
        quote = str(self.connection.getMetaData().getIdentifierQuoteString())
        return f"{quote}{name.replace(quote, 2 * quote)}{quote}"

    def _rows(self, sql: str) -> list[list[str | None]]:
        """Return the rows of a query as texts."""
        statement = self.connection.createStatement()
        try:
            result = statement.executeQuery(sql)
            width, rows = result.getMetaData().getColumnCount(), []
            while result.next():
                rows.append([result.getString(column + 1) for column in range(width)])
            return rows
        finally:
            statement.close()


def _query_of(table: SourceTable, columns: ComparedColumns, partitions: int | None) -> Query:
    """Return the query for the compared columns of a table."""
    used = tuple(column.source for column in columns.columns)
    return Query(
        table=replace(table, columns=used),
        columns=source_schema(columns).columns,
        key=columns.of_key[0].source.name,
        partitions=partitions,
    )


def conditions(key: str, bounds: Sequence[int]) -> Sequence[str]:
    """Return conditions that divide all rows at the bounds; none without bounds.

    >>> conditions("id", [5, 5, 9])
    ['id < 5 OR id IS NULL', 'id >= 5 AND id < 9', 'id >= 9']
    """
    parts = sorted({*bounds})
    if not parts:
        return ()
    between = [f"{key} >= {low} AND {key} < {high}" for low, high in pairwise(parts)]
    return [f"{key} < {parts[0]} OR {key} IS NULL", *between, f"{key} >= {parts[-1]}"]


def _is_read_as_text(own: SourceColumn, column: Column) -> bool:
    """Return True if the driver returns a column as a text, which is cast afterwards."""
    return column.type.name in _AS_TEXT or (own.type is None and column.type.name == "decimal")


def _driver_type(own: SourceColumn, column: Column) -> str:
    """Return the Spark type in which the driver returns a column."""
    return "string" if _is_read_as_text(own, column) else str(column.type)


def _cast_column(own: SourceColumn, column: Column) -> SparkColumn:
    """Return a column in its type.

    A text that is no such value, or has more digits, ends the read with an error.
    """
    value = F.col(quoted(column.name))
    if not _is_read_as_text(own, column):
        return value
    cast = value.cast(str(column.type))
    if column.type.name == "decimal":
        digits = F.length(F.regexp_extract(value, r"\.(\d*?)0*$", 1))
        message = F.concat(F.lit(f"{column.name} has "), value, F.lit(f", which is no {column.type}"))
        cast = F.when(digits > column.type.scale, F.raise_error(message)).otherwise(cast)
    return cast.alias(column.name)
