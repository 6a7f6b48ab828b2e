"""The table `outbox`: what an application writes in the transaction of the changes themselves.

It may remove rows that are applied, but never all of them: an outbox that lacks every one of them is
an alarm, since nobody could tell it from another.
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
    number INTEGER NOT NULL,    -- that of the change in it, from 1
    at INTEGER NOT NULL,        -- the time of the commit, in microseconds since 1970
    schema TEXT NOT NULL,       -- the table that was changed
    name TEXT NOT NULL,
    operation TEXT NOT NULL,    -- insert, update or delete
    row TEXT NOT NULL,          -- the whole row as a JSON object; of a delete its key is enough
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
    """A change as it was written."""

    number: int
    at: int
    operation: str
    row: str


@dataclass(frozen=True, slots=True)
class Outbox:
    """The outbox in a database, which is only ever read."""

    file: Path

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open the database at one state of it; raises SourceError where it cannot be read."""
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
        """Return the transactions that changed a table, from one on, as objects: by number, size and time."""
        found = database.execute(LISTED, (*table, 0 if start is None else int(start)))
        return [SourceObject(f"{txn:019}", txn, size, at) for txn, size, at in found]

    def rows(self, database: sqlite3.Connection, table: TableName, txn: int) -> Sequence[Written]:
        """Return the changes of a transaction, in order."""
        return [Written(*row) for row in database.execute(ROWS, (*table, txn))]

    def tables(self) -> Sequence[TableName]:
        """Return the tables of which there are changes."""
        with self.reading() as database:
            found = database.execute("SELECT DISTINCT schema, name FROM outbox ORDER BY schema, name")
            return [TableName(*names) for names in found]
