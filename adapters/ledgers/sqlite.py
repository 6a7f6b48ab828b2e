"""The ledger in a SQLite file in the folder `state`: one row for each object.

The file may be deleted at any time. The next run rebuilds it from the batch records of the tables. Only facts that
are stored nowhere else are lost (docs/reference/ledger.md).
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from lakeward.core.errors import TableError
from lakeward.core.events import Position
from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.ledger.objects import Account, Notes, ObjectRecord, ObjectState, SourceObject
from lakeward.core.ledger.writer import states_before
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.reporting.failures import Failure
from lakeward.core.reporting.notices import SentEntry
from lakeward.core.verification.source_verification import SourceVerdict
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated

FILE: Final = "ledger.db"

_VERSION: Final = 5
_OLDEST_READABLE: Final = 2
"""The oldest version that is read unchanged; the next write upgrades it."""

_LOCK_TIMEOUT: Final = 30.0
"""Seconds to wait for another writing thread."""

_SCHEMA: Final = """
CREATE TABLE objects (
    of TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, place INTEGER NOT NULL, size INTEGER NOT NULL,
    modified INTEGER NOT NULL, etag TEXT, first_seen INTEGER, batch INTEGER, rows INTEGER, least TEXT,
    greatest TEXT, PRIMARY KEY (of, name)
) WITHOUT ROWID;
CREATE INDEX objects_by_state ON objects (of, state);
CREATE TABLE tables (of TEXT PRIMARY KEY, listed INTEGER, batch INTEGER NOT NULL DEFAULT 0);
CREATE TABLE checked (of TEXT NOT NULL, name TEXT NOT NULL, modified INTEGER NOT NULL, PRIMARY KEY (of, name));
CREATE TABLE alarms (of TEXT NOT NULL, code TEXT NOT NULL, what TEXT, found TEXT, todo TEXT);
CREATE TABLE acked (of TEXT NOT NULL, code TEXT NOT NULL, about TEXT NOT NULL);
"""
_UPGRADES: Final = {
    2: "CREATE TABLE awaited (of TEXT PRIMARY KEY, load TEXT NOT NULL)",
    3: "CREATE TABLE failures (of TEXT PRIMARY KEY, failure TEXT NOT NULL)",
    4: "CREATE TABLE verdicts (of TEXT PRIMARY KEY, verdict TEXT NOT NULL)",
    5: "CREATE TABLE sent (of TEXT PRIMARY KEY, sent TEXT NOT NULL)",
}
"""The statement that upgrades a file to each version from the one before."""

_TABLES: Final = (
    "objects",
    "tables",
    "checked",
    "alarms",
    "acked",
    "awaited",
    "failures",
    "verdicts",
    "sent",
)

_COLUMNS: Final = "name, place, size, modified, etag, state, first_seen, batch, rows, least, greatest"

_PUT_OBJECT: Final = f"""
INSERT INTO objects (of, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (of, name) DO UPDATE SET
    place = excluded.place, size = excluded.size, modified = excluded.modified, etag = excluded.etag,
    state = excluded.state, batch = excluded.batch, rows = excluded.rows, least = excluded.least,
    greatest = excluded.greatest
"""


class LedgerOptions(BaseModel):
    """The state of all objects, in a SQLite file in the folder `state`; it has no keys of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SqliteLedger:
    """The ledger of a pipeline in a file. Each call has its own connection, so threads may share the ledger.

    All methods raise TableError if the file cannot be used.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def account(self, table: str) -> Account:
        """Return the account of a table, empty if there is no file."""
        with self._reading() as db:
            if db is None:
                return Account()
            row = db.execute("SELECT listed, batch FROM tables WHERE of = ?", (table,)).fetchone()
            listed, batch = row or (None, 0)
            acked: dict[str, set[str]] = defaultdict(set)
            for code, about in db.execute("SELECT code, about FROM acked WHERE of = ?", (table,)):
                acked[code].add(about)
            waiting = {record.object.name: record.object for record in _objects(db, table, (ObjectState.SEEN,))}
            version = self._version_of(db)
            alarms = db.execute("SELECT code, what, found, todo FROM alarms WHERE of = ? ORDER BY rowid", (table,))
            return Account(
                waiting=waiting,
                checked=dict(db.execute("SELECT name, modified FROM checked WHERE of = ?", (table,)).fetchall()),
                listed=listed,
                batch=batch,
                alarms=tuple(Alarm(*parts) for parts in alarms),
                acknowledged={code: frozenset(about) for code, about in acked.items()},
                awaited=_awaited(db, table),
                failure=_failure(db, table) if version >= 3 else None,
                verdict=_verdict(db, table) if version >= 4 else None,
                sent=_sent(db, table) if version >= 5 else (),
            )

    def objects(
        self, table: str, *states: ObjectState, names: Collection[str] | None = None
    ) -> Iterator[ObjectRecord]:
        """Yield the objects of a table in order."""
        with self._reading() as db:
            if db is not None:
                yield from _objects(db, table, states, names)

    def write(self, table: str, notes: Notes) -> None:
        """Write notes in one transaction."""
        with self._writing() as db:
            if notes.replaces_all:
                for name in _TABLES:
                    db.execute(f"DELETE FROM {name} WHERE of = ?", (table,))
            db.execute("INSERT INTO tables (of) VALUES (?) ON CONFLICT DO NOTHING", (table,))
            db.executemany(_PUT_OBJECT, (_row(table, record) for record in notes.records))
            _write_states(db, table, notes)
            put = "INSERT INTO checked VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET modified = excluded.modified"
            db.executemany(put, ((table, name, modified) for name, modified in notes.checked.items()))
            _write_account(db, table, notes)
            _write_alarms(db, table, notes)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        if not self.file.exists():
            yield None
            return
        with self._translating_errors(), closing(self._connect()) as db:
            if self._version_of(db) < _OLDEST_READABLE:  # about to be created or upgraded
                yield None
                return
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._translating_errors():
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as db:
                db.execute("BEGIN IMMEDIATE")
                version = self._version_of(db)
                for statement in _SCHEMA.split(";") if version == 0 else ():
                    db.execute(statement)
                for upgraded_version, statement in _UPGRADES.items():
                    if version < upgraded_version:
                        db.execute(statement)
                        db.execute(f"PRAGMA user_version = {upgraded_version}")
                yield db
                db.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.file, timeout=_LOCK_TIMEOUT, isolation_level=None)
        db.execute("PRAGMA synchronous = NORMAL")
        return db

    def _version_of(self, db: sqlite3.Connection) -> int:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > _VERSION:
            raise self._unusable(f"it is of version {version}, and this lakeward writes version {_VERSION}")
        return version

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(str(error)) from error

    def _unusable(self, found: str) -> TableError:
        return TableError(
            f"the ledger {self.file} cannot be used",
            found=found,
            todo="Grant permission, make room, or delete the file: the next run creates it again. Only facts "
            "that are stored nowhere else are lost (docs/reference/ledger.md).",
        )


def _write_states(db: sqlite3.Connection, table: str, notes: Notes) -> None:
    """Write the states of objects, where the transition from the stored state is allowed."""
    for state, names in notes.states.items():
        allowed = sorted(earlier.value for earlier in states_before(state))
        placeholders = ", ".join("?" * len(allowed))
        db.executemany(
            f"UPDATE objects SET state = ? WHERE of = ? AND name = ? AND state IN ({placeholders})",
            ((state.value, table, name, *allowed) for name in names),
        )


def _write_account(db: sqlite3.Connection, table: str, notes: Notes) -> None:
    if notes.listed is not None:
        db.execute("UPDATE tables SET listed = ? WHERE of = ?", (notes.listed, table))
    if notes.batch is not None:
        db.execute("UPDATE tables SET batch = ? WHERE of = ?", (notes.batch, table))
    if notes.sets_awaited:
        db.execute("DELETE FROM awaited WHERE of = ?", (table,))
    if notes.awaited is not None:
        db.execute("INSERT INTO awaited VALUES (?, ?)", (table, json.dumps(asdict(notes.awaited))))
    if notes.has_ended:
        db.execute("DELETE FROM failures WHERE of = ?", (table,))
    if notes.failure is not None:
        db.execute("INSERT INTO failures VALUES (?, ?)", (table, json.dumps(asdict(notes.failure))))
    if notes.verdict is not None:
        content = json.dumps(notes.verdict.to_document())
        db.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", (table, content))
    if notes.sent is not None:
        content = json.dumps([asdict(entry) for entry in notes.sent])
        db.execute("INSERT OR REPLACE INTO sent VALUES (?, ?)", (table, content))


def _write_alarms(db: sqlite3.Connection, table: str, notes: Notes) -> None:
    if notes.alarms is not None:
        db.execute("DELETE FROM alarms WHERE of = ?", (table,))
        rows = ((table, alarm.code, alarm.what, alarm.found, alarm.todo) for alarm in notes.alarms)
        db.executemany("INSERT INTO alarms VALUES (?, ?, ?, ?, ?)", rows)
    if notes.acknowledged is not None:
        db.execute("DELETE FROM acked WHERE of = ?", (table,))
        subjects = (
            (table, code, subject) for code, about in notes.acknowledged.items() for subject in sorted(about)
        )
        db.executemany("INSERT INTO acked VALUES (?, ?, ?)", subjects)


def _document(db: sqlite3.Connection, query: str, table: str) -> Any:
    """Return the JSON value that a query returns for a table; None if there is no row."""
    row = db.execute(query, (table,)).fetchone()
    return None if row is None else json.loads(row[0])


def _awaited(db: sqlite3.Connection, table: str) -> AwaitedLoad | None:
    content = _document(db, "SELECT load FROM awaited WHERE of = ?", table)
    return None if content is None else AwaitedLoad(**{**content, "lacking": tuple(content["lacking"])})


def _failure(db: sqlite3.Connection, table: str) -> Failure | None:
    content = _document(db, "SELECT failure FROM failures WHERE of = ?", table)
    return None if content is None else Failure(**content)


def _verdict(db: sqlite3.Connection, table: str) -> SourceVerdict | None:
    content = _document(db, "SELECT verdict FROM verdicts WHERE of = ?", table)
    return None if content is None else SourceVerdict.of_document(content)


def _sent(db: sqlite3.Connection, table: str) -> tuple[SentEntry, ...]:
    entries = _document(db, "SELECT sent FROM sent WHERE of = ?", table)
    return tuple(SentEntry(**entry) for entry in entries or ())


def _objects(
    db: sqlite3.Connection, table: str, states: tuple[ObjectState, ...], names: Collection[str] | None = None
) -> Iterator[ObjectRecord]:
    state_condition = f" AND state IN ({', '.join('?' * len(states))})" if states else ""
    name_condition = "" if names is None else " AND name IN (SELECT value FROM json_each(?))"
    cursor = db.execute(
        f"SELECT {_COLUMNS} FROM objects WHERE of = ?{state_condition}{name_condition} ORDER BY place, name",
        (table, *(state.value for state in states), *([] if names is None else [json.dumps([*names])])),
    )
    for name, place, size, modified, etag, state, first_seen, batch, rows, least, greatest in cursor:
        yield ObjectRecord(
            object=SourceObject(name, place, size, modified, etag),
            state=ObjectState(state),
            first_seen=first_seen,
            batch=batch,
            rows=rows,
            least=_position(least),
            greatest=_position(greatest),
        )


def _row(table: str, record: ObjectRecord) -> tuple[Any, ...]:
    item = record.object
    bounds = [None if position is None else json.dumps(position) for position in (record.least, record.greatest)]
    progress = (record.state.value, record.first_seen, record.batch, record.rows, *bounds)
    return (table, item.name, item.order, item.size, item.modified, item.etag, *progress)


def _position(text: str | None) -> Position | None:
    return None if text is None else Position(*json.loads(text))


def build(options: Options, runtime: Runtime) -> SqliteLedger:
    """Build the ledger; the first write creates its file."""
    ledger_options: Mapping[str, Any] = {name: value for name, value in options.items() if name != "state"}
    validated(LedgerOptions, ledger_options, str(runtime.file), within="ledger")
    return SqliteLedger(Path(options["state"]) / FILE)


@hookimpl
def register(registry: Registry) -> None:
    """Register the ledger `sqlite`."""
    registry.ledgers.add("sqlite", build)
