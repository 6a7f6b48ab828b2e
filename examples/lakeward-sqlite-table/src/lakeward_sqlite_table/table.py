"""Tables in SQLite: the results of the reference adapter, stored in a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lakeward.adapters.memory import Frame, MemoryTable
from lakeward.core.dimension import Dimension
from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.events import Key
from lakeward.core.merge.change_log import ChangeLogContents
from lakeward.core.merge.facts import Capability
from lakeward.core.merge.fold import Row
from lakeward.core.operations.key_state import KeyState
from lakeward.core.plan import MergePlan
from lakeward.core.ports import ChangeLogState, Commit, Entry, MergeResult, Opened, OperatorDecision, TableState
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import RecordedChange
from lakeward_sqlite_table.notes import read, written

TYPES: Final = {"int": "INTEGER", "bigint": "INTEGER", "string": "TEXT"}
"""The types that SQLite holds without changing a value. It has no NaN and no decimals."""

OWN: Final = ("_lakeward_key", "_lakeward_position", "_lakeward_origin", "_deleted")
"""The columns that a table has besides those of its source: key, position, origin of each cell, soft delete."""

TABLES: Final = """
CREATE TABLE IF NOT EXISTS lakeward_tables (name TEXT PRIMARY KEY, columns TEXT, progress TEXT, committed INTEGER);
CREATE TABLE IF NOT EXISTS lakeward_notes (
    name TEXT, kind TEXT, batch INTEGER, value TEXT, PRIMARY KEY (name, kind, batch)
);
"""

BY_BATCH: Final = ("written", "objects", "epochs", "shown", "quarantined", "given_up")
"""The attributes of the reference adapter that are stored for each batch."""

AS_IT_IS: Final = ("memory", "remembered", "decisions", "repaired")
"""The attributes of the reference adapter that are stored in their current state."""


class SqliteTable(MemoryTable):
    """A table whose rows, progress and notes are in one database. Each change is one transaction."""

    def __init__(self, lake: SqliteTarget, dimension: Dimension) -> None:
        lacks = {Capability.ROLLBACK, Capability.MAINTAIN, Capability.SOFT_DELETE}
        lacks |= {Capability.HISTORY, Capability.BITEMPORAL, Capability.NUMBERS}
        super().__init__(dimension, capabilities=frozenset(Capability) - lacks)
        self.lake = lake
        self.name = quoted(str(dimension.name))

    # The database.

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Open a read transaction; None if there is no database, so that reading creates no file."""
        if not self.lake.file.exists():
            yield None
            return
        with self.lake.connected("BEGIN") as database:
            yield database

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open an exclusive write transaction. It is rolled back if anything is raised."""
        with self.lake.connected("BEGIN IMMEDIATE") as database:
            yield database
            database.execute("COMMIT")

    def keep(self, database: sqlite3.Connection, batch: int) -> None:
        """Store the notes of a batch, and the current ones."""
        notes = [(kind, batch, getattr(self, kind)[batch]) for kind in BY_BATCH if batch in getattr(self, kind)]
        notes += [(kind, 0, getattr(self, kind)) for kind in AS_IT_IS]
        rows = [(str(self.dimension.name), kind, of, written(value)) for kind, of, value in notes]
        database.executemany("REPLACE INTO lakeward_notes VALUES (?, ?, ?, ?)", rows)

    # The table.

    def state(self) -> TableState:
        """Read rows and progress of the last commit, because another writer may have committed since."""
        self.exists, self.rows, self.progress = False, {}, Progress()
        with self.reading() as database:
            state = None if database is None else standing_of(database, self.dimension)
            if database is None or state is None or state.schema is None:
                return TableState(Progress(), None)
            self.exists, self.progress = True, state.progress
            self.dimension = replace(self.dimension, schema=state.schema)
            for key, position, origin, deleted, *cells in database.execute(f"SELECT * FROM {self.name}"):
                named = dict(zip(state.schema.names, cells, strict=True))
                self.rows[read(key)] = Row(named, read(position), bool(deleted), read(origin))
            return state

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        """Refuse columns that the table cannot have. The reference adapter works out the rest."""
        self.check(plan.evolution.schema)
        return super().resolve(plan, frame)

    def check(self, schema: Schema) -> None:
        """Raise TableError for columns that this format cannot hold, or that differ from those of the table."""
        wrong = [f"{column.name} {column.type}" for column in schema if column.type.name not in TYPES]
        wrong += [name for name in schema.names if name.lower() in OWN]
        if wrong:
            raise TableError(
                f"{self.dimension.name} has columns that a table in SQLite cannot have",
                found=", ".join(wrong),
                todo=f"It has columns of {', '.join(TYPES)}, with other names than {', '.join(OWN)}.",
            )
        if self.exists and schema != self.dimension.schema:
            raise TableError(
                f"{self.dimension.name} would get other columns, and a table in SQLite keeps those that it has",
                found=", ".join(f"{column.name} {column.type}" for column in schema),
                todo="Ignore the change (docs/explanation/schema-changes.md), or begin a new table.",
            )

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Write rows, progress and notes atomically. Raises CommitConflict if another writer was faster."""
        name, schema = str(self.dimension.name), plan.evolution.schema
        with self.writing() as database:
            before = standing_of(database, self.dimension).progress.batch
            if before != plan.batch - 1:
                raise CommitConflict(f"{name} is at batch {before} already")
            columns = [f"{quoted(column.name)} {TYPES[column.type.name]}" for column in schema]
            own = f"{OWN[0]} TEXT PRIMARY KEY, {OWN[1]} TEXT, {OWN[2]} TEXT, {OWN[3]} INTEGER"
            database.execute(f"CREATE TABLE IF NOT EXISTS {self.name} ({', '.join([own, *columns])})")
            for key, row in resolved.detail.rows.items():
                if row is None:
                    database.execute(f"DELETE FROM {self.name} WHERE {OWN[0]} = ?", (written(key),))
                else:
                    cells = [row.cells.get(column) for column in schema.names]
                    values = (*map(written, (key, row.position, dict(row.origin))), row.deleted, *cells)
                    marks = ", ".join("?" * len(values))
                    database.execute(f"REPLACE INTO {self.name} VALUES ({marks})", values)
            state = (name, written(schema), progress.to_json(), self.lake.now())
            database.execute("REPLACE INTO lakeward_tables VALUES (?, ?, ?, ?)", state)
            self.keep(database, plan.batch)
        return super().commit(plan, resolved, progress)

    # The change log and the quarantine.

    def read_state(self, progress: Progress) -> ChangeLogState:
        """Read the stored notes. `record_batch` and `hold` only prepare them; `commit` writes them."""
        for kind in BY_BATCH:
            setattr(self, kind, {})
        self.memory, self.remembered, self.decisions, self.repaired = ChangeLogContents(), 0, [], {}
        with self.reading() as database:
            query = "SELECT kind, batch, value FROM lakeward_notes WHERE name = ?"
            notes = [] if database is None else database.execute(query, (str(self.dimension.name),)).fetchall()
        for kind, batch, value in notes:
            if kind in BY_BATCH:
                getattr(self, kind)[batch] = read(value)
            else:
                setattr(self, kind, read(value))
        return super().read_state(progress)

    def trim(self, progress: Progress) -> None:
        """Delete what is no longer needed, unless another writer has committed since: then it will do so."""
        super().trim(progress)
        with self.writing() as database:
            if standing_of(database, self.dimension).progress.batch == progress.batch:
                self.keep(database, progress.batch)
                delete = "DELETE FROM lakeward_notes WHERE name = ? AND kind = 'written' AND batch <= ?"
                database.execute(delete, (str(self.dimension.name), self.remembered))

    def record_decision(self, progress: Progress, decision: OperatorDecision) -> None:
        """Store the decision of an operator."""
        self.read_state(progress)
        super().record_decision(progress, decision)
        with self.writing() as database:
            self.keep(database, 0)

    def repair_row(self, progress: Progress, entries: Sequence[Entry], events: Frame) -> None:
        """Store the edited rows of entries."""
        self.read_state(progress)
        super().repair_row(progress, entries, events)
        with self.writing() as database:
            self.keep(database, 0)


@dataclass(frozen=True, slots=True)
class SqliteTarget:
    """A lake: the tables of one database."""

    file: Path
    now: Callable[[], int]
    synchronous: str = "FULL"

    @contextmanager
    def connected(self, begin: str) -> Iterator[sqlite3.Connection]:
        """Open the database with a transaction. Raises TableError for every error of SQLite."""
        try:
            with closing(sqlite3.connect(self.file, timeout=60, isolation_level=None)) as database:
                database.executescript(f"PRAGMA synchronous = {self.synchronous}; {TABLES} {begin}")
                yield database
        except sqlite3.Error as error:
            raise TableError(
                f"{self.file} cannot be read or written",
                found=str(error),
                todo="Is it a database of SQLite, and may this user write it and its folder?",
            ) from error

    def table_state(self, dimension: Dimension) -> TableState:
        """Return the state of a table."""
        return self.table(dimension).state()

    def schema_changes(self, dimension: Dimension) -> Sequence[RecordedChange]:
        """Return nothing: columns never change."""
        return ()

    def key_state(self, dimension: Dimension, key: Key) -> KeyState:
        """Return all that is known of a key."""
        table = self.table(dimension)
        table.state()
        return table.known(key)

    def open(self, dimension: Dimension) -> Opened[Frame]:
        """Return the table, which is its own change log and its own quarantine."""
        table = self.table(dimension)
        return Opened(f"{self.file.name}: {dimension.name}", table, table, table)

    def table(self, dimension: Dimension) -> SqliteTable:
        """Return a table that has read nothing yet."""
        return SqliteTable(self, dimension)


def standing_of(database: sqlite3.Connection, dimension: Dimension) -> TableState:
    """Return the state of a table as of its last commit."""
    query = "SELECT progress, columns, committed FROM lakeward_tables WHERE name = ?"
    row = database.execute(query, (str(dimension.name),)).fetchone()
    return (
        TableState(Progress(), None)
        if row is None
        else TableState(Progress.from_json(row[0]), read(row[1]), row[2])
    )


def quoted(name: str) -> str:
    """Return a name as a quoted identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'
