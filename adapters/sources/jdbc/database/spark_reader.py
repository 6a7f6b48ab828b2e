"""A database that is read by Spark with the database's own driver."""

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
"""In how many ranges a snapshot is read by default, where all readers see one moment."""

LEAST_ROWS: Final = 200_000
"""A table of fewer rows is read by one connection."""

_REPEATABLE_READ: Final = 4
"""java.sql.Connection.TRANSACTION_REPEATABLE_READ."""

_ROW_BY_ROW: Final = -(2**31)
"""The fetch size with which MySQL's driver holds one row, and not all that it was asked for; it passes over others
(dev.mysql.com/doc/connector-j/en/connector-j-reference-implementation-notes.html)."""

_AS_TEXT: Final = ("date", "timestamp", "timestamp_ntz")
"""Types that a driver turns into Java's by the zone of its process: they are read as texts, which have none."""

_PARQUET: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


@dataclass(frozen=True, slots=True)
class Database:
    """A database that a `section` of the settings names; nothing is asked before it is needed."""

    options: JdbcSourceOptions
    spark: Callable[[], SparkSession]
    secret: Callable[[SecretName], Secret]
    section: str = "source"

    def describe(self, table: TableName) -> SourceTable | None:
        """Return what the database says of a table, None where it has none of that name."""
        with self._connect(self.spark(), table) as connection:
            return describe(connection, self.options, [table]).get(table)

    def write(self, query: Query, url: str) -> str | None:
        """Write rows as Parquet below a URL; return the place in the log before the first was read."""
        spark = self.spark()
        for name, value in _PARQUET.items():
            spark.conf.set(name, value)
        with self._connect(spark, query.table.name) as connection:
            request = _Request(connection, self._dialect, query)
            position = request.position()
            self._asked(spark, request).write.parquet(url)
        return position

    @contextmanager
    def snapshot(self, table: SourceTable, columns: ComparedColumns) -> Iterator[SourceSnapshot[Frame]]:
        """Return a snapshot of columns of a table; the connection that asks for it stays open."""
        spark, partitions = self.spark(), self.options.partitions if self._dialect.export else 1
        query = _query_of(table, columns, partitions)
        with self._connect(spark, table.name) as connection:
            request = _Request(connection, self._dialect, query)
            begins = request.place()
            yield SourceSnapshot(self._asked(spark, request), begins, request.place)

    def _asked(self, spark: SparkSession, request: _Request) -> DataFrame:
        """Return the rows of a query, which Spark asks for when it needs them."""
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
            # Not `from error`: what a driver says may have the password in it.
            raise failure_of(error, table, self.options, password, self.section) from None

    def _password(self) -> Secret | None:
        return None if self.options.password is None else self.secret(self.options.password)

    def _rows(
        self, spark: SparkSession, sql: str, query: Query, session: str | None, ranges: Sequence[str]
    ) -> DataFrame:
        """Return the rows of a query, each range by a connection of its own."""
        columns = list(zip(query.table.columns, query.columns, strict=True))
        properties = {
            **login(self.options, self._password()),
            "fetchsize": str(_ROW_BY_ROW if self.options.product == "mysql" else self.options.fetch_size),
            "customSchema": ", ".join(f"{quoted(column.name)} {_read_as(own, column)}" for own, column in columns),
            "pushDownPredicate": "false",
            **({} if session is None else {"sessionInitStatement": session}),
        }
        rows = (
            spark.read.jdbc(self.options.url, sql, predicates=list(ranges), properties=properties)
            if ranges
            else spark.read.jdbc(self.options.url, sql, properties=properties)
        )
        return rows.select(*(_as_type(own, column) for own, column in columns))


@dataclass(frozen=True, slots=True)
class _Request:
    """A query as it is asked of a connection, which stays open until all readers are done."""

    connection: Any
    dialect: Dialect
    query: Query

    def position(self) -> str | None:
        """Return the place in the log; None where the database tells none, or not to this user."""
        for sql in self.dialect.positions:
            with suppress(Py4JError):
                found = [text for row in self._rows(sql)[:1] for text in row[:2] if text]
                if found:
                    return "-".join(found)
        return None

    def place(self) -> SourcePlace:
        """Return where the database is now, as far as it says that, and this user may ask."""
        clock = self._first(self.dialect.clock)
        time = int(clock[0]) if clock else None
        for sql in self.dialect.logs:
            if found := self._first(sql):
                log = self.dialect.read_log(found)
                server = self._first(self.dialect.server)
                origin = None if log.base is None else str(LogName(log.base, server[0] if server else ""))
                return SourcePlace(time, log.words, log.sequence, origin)
        return SourcePlace(time)

    def _first(self, sql: str | None) -> list[str]:
        """Return the first row of a query as texts, nothing where the database does not answer it to this user."""
        with suppress(Py4JError):
            for row in self._rows(sql)[:1] if sql is not None else ():
                return [text or "" for text in row]
        return []

    def session(self, readers: int) -> str | None:
        """Return what readers say first, so that several see one moment, where the database can do that.

        To a single statement each database shows one moment.
        """
        if readers < 2 or self.dialect.export is None:
            return self.dialect.session
        self.connection.setAutoCommit(False)
        self.connection.setTransactionIsolation(_REPEATABLE_READ)
        ((snapshot, *_),) = self._rows(self.dialect.export)
        return self.dialect.adopt.format(snapshot)

    def ranges(self) -> Sequence[str]:
        """Return conditions that part the rows of a snapshot by quantiles of the key; none for a small table."""
        key = next((one for one in self.query.columns if one.name == self.query.key), None)
        most = self.query.partitions or (_READERS if self.dialect.export else 1)
        if key is None or not is_number(key.type) or self.query.cursor is not None or most == 1:
            return ()
        ((count, *_),) = self._rows(f"SELECT COUNT(*) FROM {self._table}")
        rows = int(count or 0)
        if rows < LEAST_ROWS:
            return ()
        name, step = self._quoted(key.name), -(-rows // most)
        firsts = ", ".join(map(str, range(step + 1, rows + 1, step)))
        numbered = f"SELECT {name} AS k, ROW_NUMBER() OVER (ORDER BY {name}) AS place FROM {self._table}"
        found = self._rows(f"SELECT k FROM ({numbered}) numbered WHERE place IN ({firsts})")
        return conditions(name, [int(first) for (first,) in found if first is not None])

    @property
    def sql(self) -> str:
        """The query, as Spark takes it for a table."""
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
        mark = str(self.connection.getMetaData().getIdentifierQuoteString())
        return f"{mark}{name.replace(mark, 2 * mark)}{mark}"

    def _rows(self, sql: str) -> list[list[str | None]]:
        """Return the rows of a query as texts."""
        statement = self.connection.createStatement()
        try:
            found = statement.executeQuery(sql)
            width, rows = found.getMetaData().getColumnCount(), []
            while found.next():
                rows.append([found.getString(column + 1) for column in range(width)])
            return rows
        finally:
            statement.close()


def _query_of(table: SourceTable, columns: ComparedColumns, partitions: int | None) -> Query:
    """Return what is asked for the columns of a table that are compared."""
    used = tuple(column.source for column in columns.columns)
    return Query(
        table=replace(table, columns=used),
        columns=source_schema(columns).columns,
        key=columns.of_key[0].source.name,
        partitions=partitions,
    )


def conditions(key: str, bounds: Sequence[int]) -> Sequence[str]:
    """Return conditions that part all rows at the bounds; none where there are no bounds.

    >>> conditions("id", [5, 5, 9])
    ['id < 5 OR id IS NULL', 'id >= 5 AND id < 9', 'id >= 9']
    """
    parts = sorted({*bounds})
    if not parts:
        return ()
    between = [f"{key} >= {low} AND {key} < {high}" for low, high in pairwise(parts)]
    return [f"{key} < {parts[0]} OR {key} IS NULL", *between, f"{key} >= {parts[-1]}"]


def _is_read_as_text(own: SourceColumn, column: Column) -> bool:
    """Return whether a driver gives a column as a text, which is cast afterwards."""
    return column.type.name in _AS_TEXT or (own.type is None and column.type.name == "decimal")


def _read_as(own: SourceColumn, column: Column) -> str:
    """Return the type of Spark in which a driver gives a column."""
    return "string" if _is_read_as_text(own, column) else str(column.type)


def _as_type(own: SourceColumn, column: Column) -> SparkColumn:
    """Return a column in its type; a text that is no value of that, or has more digits, ends the read."""
    value = F.col(quoted(column.name))
    if not _is_read_as_text(own, column):
        return value
    made = value.cast(str(column.type))
    if column.type.name == "decimal":
        digits = F.length(F.regexp_extract(value, r"\.(\d*?)0*$", 1))
        words = F.concat(F.lit(f"{column.name} has "), value, F.lit(f", which is no {column.type}"))
        made = F.when(digits > column.type.scale, F.raise_error(words)).otherwise(made)
    return made.alias(column.name)
