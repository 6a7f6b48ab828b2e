"""A queue in a SQLite file in the folder `state`. A trigger on the same machine inserts a row:

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

from lakeward.adapters.queues.visibility import Visibility, seconds_of
from lakeward.core.errors import StoreUnreachable
from lakeward.core.ports import Notice
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated

log = structlog.get_logger()

FILE: Final = "queue.db"

_PATIENCE: Final = 30.0
"""Seconds to wait for another writing process."""

_AT_ONCE: Final = 1000
"""The largest number of notices that one `receive` returns."""

_PRIMARY: Final = 0xFF
_DAMAGED: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Primary result codes of a file that is damaged, or has other tables than a queue: a retry does not help."""

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
        description="How long a notice is hidden from others that a process received which crashed, from `1m` to "
        "`12h`. One that lives hides it for as long as it works on the table.",
    )
    max_receives: PositiveInt = Field(
        5, description="A notice that was received so often, and never done with, goes into `dead_letters`."
    )


@dataclass(frozen=True, slots=True)
class SqliteQueue:
    """Notices in a file, each hidden for `hidden` microseconds of the clock `now` after it is received.

    Each call has its own connection, so threads may share the queue.
    """

    file: Path
    now: Callable[[], int]
    hidden: int
    max_receives: int

    def ring(self, table: str) -> None:
        """Add a notice that a table may have something new."""
        with self._writing() as db:
            db.execute("INSERT INTO notices (name) VALUES (?)", (table,))

    def receive(self) -> Sequence[Notice]:
        """Return the waiting notices, oldest first, and hide them."""
        with self._writing() as db:
            now = self.now()
            self._move_dead_letters(db, now)
            waiting = "SELECT id, name FROM notices WHERE hidden_until <= ? ORDER BY id LIMIT ?"
            rows = db.execute(waiting, (now, _AT_ONCE)).fetchall()
            hide = "UPDATE notices SET hidden_until = ?, receives = receives + 1 WHERE id = ?"
            db.executemany(hide, ((now + self.hidden, number) for number, _ in rows))
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
        self._hide(notices, self.now() + self.hidden)

    def _hide(self, notices: Sequence[Notice], until: int) -> None:
        with self._writing() as db:
            hide = "UPDATE notices SET hidden_until = ? WHERE id = ?"
            db.executemany(hide, ((until, notice.receipt) for notice in notices))

    def _move_dead_letters(self, db: sqlite3.Connection, now: int) -> None:
        """Move notices that were received too often to `dead_letters`."""
        which = "hidden_until <= ? AND receives >= ?"
        values = (now, self.max_receives)
        names = [name for (name,) in db.execute(f"SELECT DISTINCT name FROM notices WHERE {which}", values)]
        if names:
            db.execute(f"INSERT INTO dead_letters SELECT id, name, receives FROM notices WHERE {which}", values)
            db.execute(f"DELETE FROM notices WHERE {which}", values)
            log.warning("notices were received too often", tables=names, receives=self.max_receives)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=_PATIENCE, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                yield db
                db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error

    def _unusable(self, error: sqlite3.Error | OSError) -> StoreUnreachable:
        """Return the error for the file. A queue only has hints, so its errors never stop a table."""
        rest = (
            "no change is lost with it, as all tables are looked at until there is one again "
            "(docs/reference/queues.md)"
        )
        if getattr(error, "sqlite_errorcode", 0) & _PRIMARY in _DAMAGED:
            return StoreUnreachable(
                f"the queue {self.file} is damaged, or not a queue",
                found=f"SQLite says: {error}",
                todo=f"Delete the file: {rest}. The next run makes it anew.",
            )
        return StoreUnreachable(
            f"the queue {self.file} cannot be used",
            found=str(error),
            todo=f"Grant permission, make room, or delete the file: {rest}.",
        )


def build(options: Options, runtime: Runtime) -> SqliteQueue:
    """Build the queue; its file is created at the first use."""
    own = {name: value for name, value in options.items() if name not in ("tables", "tables_at")}
    settings = validated(SqliteQueueOptions, own, str(runtime.file), within="queue")
    hidden = seconds_of(settings.visibility) * _SECOND
    return SqliteQueue(runtime.state / FILE, runtime.now, hidden, settings.max_receives)


@hookimpl
def register(registry: Registry) -> None:
    """Register the queue `sqlite`."""
    registry.queues.add("sqlite", build)
