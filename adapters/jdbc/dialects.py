"""What databases say in words of their own: names, times, one moment for several readers, places in their logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lakeward.adapters.catalogue.types import written
from lakeward.adapters.jdbc.cursors import is_time, iso
from lakeward.core.catalogue import SourceColumn
from lakeward.core.schema import Column, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a database is asked.

    `session` is what each reader says first. `positions` are queries for the place in the log, of which the first
    that the user may ask counts. `export` is a query that returns a name for what its transaction sees, which
    other transactions take over by `adopt`. A value that is read as a text is cast to `text`, unless its type is
    one of `texts`; where that is empty, the driver turns it into a text.
    """

    session: str | None = None
    positions: tuple[str, ...] = ()
    export: str | None = None
    adopt: str = ""
    text: str = ""
    texts: frozenset[str] = frozenset()
    times: Mapping[str, str] = field(default_factory=lambda: {"timestamp": "TIMESTAMP '{} +00:00'"})

    def value(self, column: SourceColumn, type_: Type, name: str) -> str:
        """Return what selects a column that is read as a type; `name` is its name, quoted."""
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


POSTGRESQL: Final = Dialect(
    positions=("SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END",),
    export="SELECT pg_export_snapshot()",
    adopt="SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{}'",
    text="text",
    texts=frozenset({"text", "varchar", "character varying", "bpchar", "character", "char"}),
    times={"timestamp": "TIMESTAMPTZ '{}+00'"},
)
"""PostgreSQL (postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION)."""

MARIADB: Final = Dialect(
    # Spark quotes names of this database as SQL does; a TIMESTAMP is shown in the zone of the session.
    session="SET SESSION time_zone = '+00:00', SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
    positions=("SELECT @@gtid_binlog_pos", "SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"),
    text="CHAR",
    texts=frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"}),
    times={},
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
    """Return how a database is asked; of one that is not known, by what SQL says."""
    return _DIALECTS.get(database or "", Dialect())
