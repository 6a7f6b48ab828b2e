"""A queue in a SQLite file in the folder `state`. A program on the same machine adds a notice by inserting a row:

INSERT INTO notices (name) VALUES ('shop.orders')

A received notice is hidden for a while. A notice that was received too often and never acknowledged is moved to the
table `dead_letters`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from lakeward.adapters.queues.visibility import Visibility
from lakeward.core.errors import StoreUnreachable
from lakeward.core.ports import Notice
from lakeward.core.text.durations import seconds_of
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated

log = structlog.get_logger()

FILE: Final = "queue.db"

_LOCK_TIMEOUT: Final = 30.0
"""Seconds to wait for another writing process."""

_MAX_RECEIVED: Final = 1000
"""The largest number of notices that one `receive` returns."""

_PRIMARY_CODE: Final = 0xFF
"""The bits of an extended result code that are its primary code (sqlite.org/rescode.html)."""

_DAMAGED_CODES: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Primary result codes of a file that is damaged or has other tables than a queue; a retry does not help."""

_SECOND: Final = 1_000_000
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, hidden_until INTEGER NOT NULL DEFAULT 0,
    receives INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS dead_letters (id INTEGER PRIMARY KEY, name TEXT NOT NULL, receives INTEGER NOT NULL);
"""


class SqliteQueueOptions(BaseModel):
    """The file `queue.db` in the folder `state`, for one machine; see docs/reference/queues.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    visibility: Visibility = Field(
        "5m",
        description="How long a received notice is hidden from other processes, from `1m` to `12h`. A process that "
        "works on the table extends this time; after a crash the notice is shown again at its end.",
    )
    max_receives: PositiveInt = Field(
        5,
        description="A notice that was received this many times and never acknowledged is moved to the table "
        "`dead_letters`.",
    )


@dataclass(frozen=True, slots=True)
class SqliteQueue:
    """Notices in a file, each hidden for `visibility` microseconds of the clock `now` after it is received.

    Each call has its own connection, so threads may share the queue.
    """

    file: Path
    now: Callable[[], int]
    visibility: int
    max_receives: int

    def add(self, table: str) -> None:
        """Add a notice that a table may have something new."""
        with self._writing() as db:
            db.execute("INSERT INTO notices (name) VALUES (?)", (table,))

    def receive(self) -> Sequence[Notice]:
        """Hide at most a thousand waiting notices, and return them, the oldest first."""
        with self._writing() as db:
            now = self.now()
            self._move_dead_letters(db, now)
            select = "SELECT id, name FROM notices WHERE hidden_until <= ? ORDER BY id LIMIT ?"
            rows = db.execute(select, (now, _MAX_RECEIVED)).fetchall()
            hide = "UPDATE notices SET hidden_until = ?, receives = receives + 1 WHERE id = ?"
            db.executemany(hide, ((now + self.visibility, number) for number, _ in rows))
        return [Notice(name, str(number)) for number, name in rows]

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Delete notices."""
        with self._writing() as db:
            db.executemany("DELETE FROM notices WHERE id = ?", ((notice.receipt,) for notice in notices))

    def give_back(self, notices: Sequence[Notice]) -> None:
        """Show notices again."""
        self._hide(notices, 0)

    def extend(self, notices: Sequence[Notice]) -> None:
        """Hide notices again from now on."""
        self._hide(notices, self.now() + self.visibility)

    def _hide(self, notices: Sequence[Notice], until: int) -> None:
        with self._writing() as db:
            hide = "UPDATE notices SET hidden_until = ? WHERE id = ?"
            db.executemany(hide, ((until, notice.receipt) for notice in notices))

    def _move_dead_letters(self, db: sqlite3.Connection, now: int) -> None:
        """Move notices that were received too often to `dead_letters`."""
        condition = "hidden_until <= ? AND receives >= ?"
        values = (now, self.max_receives)
        names = [name for (name,) in db.execute(f"SELECT DISTINCT name FROM notices WHERE {condition}", values)]
        if names:
            db.execute(f"INSERT INTO dead_letters SELECT id, name, receives FROM notices WHERE {condition}", values)
            db.execute(f"DELETE FROM notices WHERE {condition}", values)
            log.warning(
                "notices were moved to dead_letters: received too often and never acknowledged",
                tables=names,
                receives=self.max_receives,
            )

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=_LOCK_TIMEOUT, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                yield db
                db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error

    def _unusable(self, error: sqlite3.Error | OSError) -> StoreUnreachable:
        """Return the error for a failure of the file; a queue has only hints, so its errors never stop a table."""
        effect = "No change is lost, since all tables are checked without a queue (docs/reference/queues.md)."
        if getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE in _DAMAGED_CODES:
            return StoreUnreachable(
                f"the queue {self.file} is damaged, or not a queue",
                found=f"SQLite says: {error}",
                todo=f"Delete the file: the next run creates it again. {effect}",
            )
        return StoreUnreachable(
            f"the queue {self.file} cannot be used",
            found=str(error),
            todo=f"Grant permission, make room, or delete the file. {effect}",
        )


def build(options: Options, runtime: Runtime) -> SqliteQueue:
    """Build the queue; its file is created at its first use."""
    queue_options = {name: value for name, value in options.items() if name not in ("tables", "tables_at")}
    settings = validated(SqliteQueueOptions, queue_options, str(runtime.file), within="queue")
    visibility = seconds_of(settings.visibility) * _SECOND
    return SqliteQueue(runtime.state / FILE, runtime.now, visibility, settings.max_receives)


@hookimpl
def register(registry: Registry) -> None:
    """Register the queue `sqlite`."""
    registry.queues.add("sqlite", build)
