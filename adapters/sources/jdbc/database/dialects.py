"""Dialects of databases: SQL for values and times, for shared snapshots, and for positions in their logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lakeward.adapters.catalogues.types import written
from lakeward.adapters.sources.jdbc.cursors import is_time, iso
from lakeward.core.schema import Column, Type
from lakeward.core.settings.source_catalogue import SourceColumn
from lakeward.core.verification.source_places import binlog_place, postgresql_place


class LogPlace(NamedTuple):
    """A position in a log as a text and as a number, and the base name of the log; None where there is none."""

    text: str
    sequence: int | None = None
    base: str | None = None


def _read_lsn(row: Sequence[str]) -> LogPlace:
    return LogPlace(row[0], postgresql_place(row[0]))


def _read_binlog(row: Sequence[str]) -> LogPlace:
    file, position = row[:2]
    return LogPlace(f"{file}:{position}", binlog_place(file, position), file.rstrip("0123456789"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The SQL of a database.

    `session` is the first statement of each reader. `positions` are queries for the position in the log; the first
    that the user may run is used. The first row of `logs` is a position after all that is committed, which
    `read_log` parses, `server` the id of the server whose log it is, `clock` the time in microseconds since 1970.
    `export` is a query that returns a name of its transaction's snapshot, which other transactions use by `adopt`.
    A value that is read as a text is cast to `text`, unless its type is one of `texts`; if `text` is empty, the
    driver converts it. `nth_row` ends a query that returns one row after so many others, which is faster than to
    number all rows (None: rows are numbered).
    """

    session: str | None = None
    positions: tuple[str, ...] = ()
    export: str | None = None
    adopt: str = ""
    text: str = ""
    texts: frozenset[str] = frozenset()
    times: Mapping[str, str] = field(default_factory=lambda: {"timestamp": "TIMESTAMP '{} +00:00'"})
    logs: tuple[str, ...] = ()
    read_log: Callable[[Sequence[str]], LogPlace] = lambda row: LogPlace(row[0])
    server: str | None = None
    clock: str | None = None
    nth_row: str | None = None

    def value(self, column: SourceColumn, type_: Type, name: str) -> str:
        """Return the SQL that selects a column as a type; `name` is its quoted name."""
        is_text = type_ == Type("string") or (column.type is None and type_.name == "decimal")
        if not (is_text and self.text) or written(column.written).name in self.texts:
            return name
        return f"CAST({name} AS {self.text}) AS {name}"

    def literal(self, number: int, column: Column) -> str:
        """Return the value of a cursor as SQL."""
        if not is_time(column.type):
            return str(number)
        if column.type.name == "date":
            return f"DATE '{iso(number)[:10]}'"
        form = self.times.get(column.type.name, "TIMESTAMP '{}'")
        return form.format(iso(number))


_LSN: Final = "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE {} END"
_BINLOG: Final = ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS")

POSTGRESQL: Final = Dialect(
    positions=(_LSN.format("pg_current_wal_lsn()"),),
    # A committed change is inserted into the log, but may not be written yet.
    logs=(_LSN.format("pg_current_wal_insert_lsn()"),),
    read_log=_read_lsn,
    clock="SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
    export="SELECT pg_export_snapshot()",
    adopt="SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{}'",
    text="text",
    texts=frozenset({"text", "varchar", "character varying", "bpchar", "character", "char"}),
    times={"timestamp": "TIMESTAMPTZ '{}+00'"},
    nth_row="LIMIT 1 OFFSET {}",
)
"""PostgreSQL (postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION)."""

MARIADB: Final = Dialect(
    # Spark quotes names as SQL does; the session's time zone is that in which a TIMESTAMP is returned.
    session="SET SESSION time_zone = '+00:00', SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
    positions=("SELECT @@gtid_binlog_pos", *_BINLOG),
    logs=_BINLOG,
    read_log=_read_binlog,
    server="SELECT @@server_id",
    clock="SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
    text="CHAR",
    # Spark pads with blanks what the driver calls CHAR, which enum and set are as well.
    texts=frozenset({"varchar", "tinytext", "text", "mediumtext", "longtext", "json"}),
    times={},
    nth_row="LIMIT 1 OFFSET {}",
)
"""MariaDB and MySQL."""

SQLSERVER: Final = Dialect(
    times={
        "timestamp": "CAST('{} +00:00' AS datetimeoffset)",
        "timestamp_ntz": "CAST('{}' AS datetime2)",
    },
)

_DIALECTS: Final[Mapping[str, Dialect]] = {
    "postgresql": POSTGRESQL,
    "mariadb": MARIADB,
    "mysql": MARIADB,
    "sqlserver": SQLSERVER,
}


def dialect_of(database: str | None) -> Dialect:
    """Return the dialect of a database; that of standard SQL for an unknown one."""
    return _DIALECTS.get(database or "", Dialect())
