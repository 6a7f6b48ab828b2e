"""The table `outbox`, to which an application writes its changes in the same transaction.

The application may remove applied rows, but never all of them: an outbox without any of them raises an
alarm, since it could be another outbox.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError
from lakeward.core.ledger.objects import SourceObject

SCHEMA: Final = """
CREATE TABLE outbox (
    txn INTEGER NOT NULL,       -- the number of the transaction: a later one has a greater one
    number INTEGER NOT NULL,    -- the number of the change in the transaction, from 1
    at INTEGER NOT NULL,        -- the time of the commit, in microseconds since 1970
    schema TEXT NOT NULL,       -- the table that was changed
    name TEXT NOT NULL,
    operation TEXT NOT NULL,    -- insert, update or delete
    row TEXT NOT NULL,          -- the whole row as a JSON object; for a delete the key is enough
    PRIMARY KEY (txn, number)
)
"""

LISTED: Final = """
SELECT txn, sum(length(row)), max(at) FROM outbox WHERE (schema, name) = (?, ?) AND txn >= ? GROUP BY txn
"""

ROWS: Final = """
SELECT number, at, operation, row FROM outbox WHERE (schema, name) = (?, ?) AND txn = ? ORDER BY number
"""


class Written(NamedTuple):
    """A change in the outbox."""

    number: int
    at: int
    operation: str
    row: str


@dataclass(frozen=True, slots=True)
class Outbox:
    """The outbox in a database. It is never written."""

    file: Path

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a read transaction; raises SourceError if the database cannot be read."""
        place = f"{self.file.absolute().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(place, uri=True, timeout=60, isolation_level=None)) as database:
                database.execute("BEGIN")
                yield database
        except sqlite3.Error as error:
            raise SourceError(
                f"the outbox in {self.file} cannot be read",
                found=str(error),
                todo="Is it the database of the application, and has it a table `outbox`?",
            ) from error

    def listed(
        self, database: sqlite3.Connection, table: TableName, start: str | None = None
    ) -> Sequence[SourceObject]:
        """Return the transactions that changed a table, from `start` on, as objects: number, size and time."""
        transactions = database.execute(LISTED, (*table, 0 if start is None else int(start)))
        return [SourceObject(f"{txn:019}", txn, size, at) for txn, size, at in transactions]

    def rows(self, database: sqlite3.Connection, table: TableName, txn: int) -> Sequence[Written]:
        """Return the changes of a transaction, in order."""
        return [Written(*row) for row in database.execute(ROWS, (*table, txn))]

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have changes."""
        with self.reading() as database:
            rows = database.execute("SELECT DISTINCT schema, name FROM outbox ORDER BY schema, name")
            return [TableName(*names) for names in rows]
