"""Embedded database with a log of its changes, like the databases that DMS reads.

Triggers write each change into the log, in the transaction that makes it: what is rolled
back leaves nothing there. SQLite stores few types; decimals and times are kept as texts,
so that what comes out is what went in.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from lakeward.core.dimension import Dimension
from lakeward.core.events import Operation
from lakeward.core.schema import Column, Type

Cells = Mapping[str, Any]
Row = tuple[Any, ...]


class RollBack(Exception):
    """Rolls back the transaction in which it is raised; it is not propagated."""


@dataclass(frozen=True, slots=True)
class Logged:
    """A change in the log: the row before it (None for an insert) and after it (None for a delete)."""

    number: int
    table: str
    operation: Operation
    before: Row | None
    after: Row | None
    committed: datetime


class Database:
    """A SQLite file with typed tables. A table is a dimension; its rows are tuples in column order."""

    def __init__(self, file: Path, tables: Sequence[Dimension]) -> None:
        self.tables = {table.name.table: table for table in tables}
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._run("PRAGMA synchronous = OFF")
        with self._committed():
            self._run("CREATE TABLE _transactions (number INTEGER PRIMARY KEY, committed TEXT NOT NULL)")
            self._run(_LOG)
            for table in tables:
                self._run(_table_ddl(table))
                for trigger in _triggers(table):
                    self._run(trigger)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    # Changing.

    @contextmanager
    def transaction(self, time: datetime) -> Iterator[None]:
        """Commit the changes of the context at that time, or none if RollBack is raised."""
        try:
            with self._committed():
                self._run("INSERT INTO _transactions (committed) VALUES (?)", time.isoformat())
                yield
        except RollBack:
            pass

    @contextmanager
    def _committed(self) -> Iterator[None]:
        self._run("BEGIN")
        try:
            yield
        except BaseException:
            self._run("ROLLBACK")
            raise
        self._run("COMMIT")

    def insert(self, table: Dimension, **cells: object) -> None:
        """Insert a row; columns that are not named are NULL."""
        names = ", ".join(map(_quoted, cells))
        marks = ", ".join("?" * len(cells))
        self._run(f"INSERT INTO {_quoted(table.name.table)} ({names}) VALUES ({marks})", *cells.values())

    def update(self, table: Dimension, key: Row, **cells: object) -> None:
        """Change cells of the row of that key."""
        changed = ", ".join(f"{_quoted(name)} = ?" for name in cells)
        self._run(f"UPDATE {_quoted(table.name.table)} SET {changed} WHERE {_is_key(table)}", *cells.values(), *key)

    def delete(self, table: Dimension, key: Row) -> None:
        """Delete the row of that key."""
        self._run(f"DELETE FROM {_quoted(table.name.table)} WHERE {_is_key(table)}", *key)

    # Reading.

    def rows(self, table: Dimension, *, after: Row | None = None, limit: int = -1) -> list[Row]:
        """Return rows in the order of their keys: those whose key is greater than `after`."""
        where, order = "", ""
        if table.key:
            key = ", ".join(map(_quoted, table.key))
            where = f"WHERE ({key}) > ({', '.join('?' * len(table.key))})" if after is not None else ""
            order = f"ORDER BY {key}"
        sql = f"SELECT {_columns(table)} FROM {_quoted(table.name.table)} {where} {order} LIMIT {limit}"
        return [_typed(row, table.schema) for row in self._run(sql, *(after or ()))]

    def keys(self, table: Dimension) -> list[Row]:
        """Return all keys, in order."""
        key = ", ".join(map(_quoted, table.key))
        columns = [column for column in table.schema if column.name in table.key]
        rows = self._run(f"SELECT {key} FROM {_quoted(table.name.table)} ORDER BY {key}")
        return [_typed(row, columns) for row in rows]

    def row(self, table: Dimension, key: Row) -> Cells:
        """Return the cells of the row of that key."""
        sql = f"SELECT {_columns(table)} FROM {_quoted(table.name.table)} WHERE {_is_key(table)}"
        (row,) = self._run(sql, *key)
        return dict(zip(table.schema.names, _typed(row, table.schema), strict=True))

    @property
    def last_change(self) -> int:
        """The number of the newest change in the log; 0 if it is empty."""
        ((number,),) = self._run("SELECT coalesce(max(number), 0) FROM _changes")
        return int(number)

    def log(self, after: int = 0) -> list[Logged]:
        """Return the changes after that number, in commit order."""
        changes = self._run(
            "SELECT c.number, c.table_name, c.operation, c.before, c.after, t.committed "
            "FROM _changes AS c JOIN _transactions AS t ON t.number = c.in_transaction "
            "WHERE c.number > ? ORDER BY c.number",
            after,
        )
        return [
            Logged(
                number,
                table,
                Operation(operation),
                self._image(table, before),
                self._image(table, image),
                datetime.fromisoformat(committed),
            )
            for number, table, operation, before, image, committed in changes
        ]

    def _image(self, table: str, image: str | None) -> Row | None:
        return None if image is None else _typed(json.loads(image), self.tables[table].schema)

    def _run(self, sql: str, *values: object) -> list[Any]:
        with closing(self._connection.execute(sql, [_stored(value) for value in values])) as cursor:
            return cursor.fetchall()


def key_of(table: Dimension, row: Row) -> Row:
    """Return the key of a row: the whole row in a table without a key."""
    names = table.schema.names
    return tuple(row[names.index(name)] for name in table.key or names)


_LOG: Final = """
CREATE TABLE _changes (
    number INTEGER PRIMARY KEY,
    in_transaction INTEGER NOT NULL,
    table_name TEXT NOT NULL,
    operation TEXT NOT NULL,
    before TEXT,
    after TEXT
)
"""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns(table: Dimension) -> str:
    return ", ".join(map(_quoted, table.schema.names))


def _is_key(table: Dimension) -> str:
    return " AND ".join(f"{_quoted(name)} = ?" for name in table.key)


def _table_ddl(table: Dimension) -> str:
    columns = [f"{_quoted(column.name)} {_storage(column)}" for column in table.schema]
    key = [f"PRIMARY KEY ({', '.join(map(_quoted, table.key))})"] if table.key else []
    return f"CREATE TABLE {_quoted(table.name.table)} ({', '.join(columns + key)})"


def _storage(column: Column) -> str:
    match column.type.name:
        case "boolean" | "int" | "bigint":
            return "INTEGER"
        case "double":
            return "REAL"
        case _:
            return "TEXT"


def _triggers(table: Dimension) -> Iterator[str]:
    name = table.name.table
    images = {version: _json(version, table) for version in ("OLD", "NEW")}
    for operation, before, after in (
        ("insert", "NULL", images["NEW"]),
        ("update", images["OLD"], images["NEW"]),
        ("delete", images["OLD"], "NULL"),
    ):
        yield (
            f"CREATE TRIGGER {_quoted(f'log {operation} of {name}')} AFTER {operation} ON {_quoted(name)} BEGIN "
            "INSERT INTO _changes (in_transaction, table_name, operation, before, after) "
            f"SELECT max(number), '{name}', '{operation}', {before}, {after} FROM _transactions; END"
        )


def _json(version: str, table: Dimension) -> str:
    return f"json_array({', '.join(f'{version}.{_quoted(name)}' for name in table.schema.names)})"


def _stored(value: object) -> object:
    match value:
        case Decimal():
            return str(value)
        case date():  # a datetime is one as well
            return value.isoformat()
        case _:
            return value


def _typed(row: Sequence[Any], columns: Iterable[Column]) -> Row:
    return tuple(
        None if value is None else _value(value, column.type) for value, column in zip(row, columns, strict=True)
    )


def _value(stored: Any, type_: Type) -> object:
    match type_.name:
        case "boolean":
            return bool(stored)
        case "decimal":
            return Decimal(stored)
        case "date":
            return date.fromisoformat(stored)
        case "timestamp":
            return datetime.fromisoformat(stored)
        case _:
            return stored
