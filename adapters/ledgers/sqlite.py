"""The ledger in a SQLite file next to the lock: one row for each object.

It may be deleted at any time. A run that finds none rebuilds it from the batch records of the tables; only what is
kept nowhere else is lost.
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
_READABLE: Final = 2
"""The oldest version that is read unchanged; the next write upgrades it."""
_PATIENCE: Final = 30.0
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
_SINCE: Final = {
    2: "CREATE TABLE awaited (of TEXT PRIMARY KEY, load TEXT NOT NULL)",
    3: "CREATE TABLE failures (of TEXT PRIMARY KEY, failure TEXT NOT NULL)",
    4: "CREATE TABLE verdicts (of TEXT PRIMARY KEY, verdict TEXT NOT NULL)",
    5: "CREATE TABLE sent (of TEXT PRIMARY KEY, sent TEXT NOT NULL)",
}

_TABLES: Final = (
    "objects", "tables", "checked", "alarms", "acked", "awaited", "failures", "verdicts", "sent",
)

_COLUMNS: Final = "name, place, size, modified, etag, state, first_seen, batch, rows, least, greatest"

_PUT: Final = f"""
INSERT INTO objects (of, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (of, name) DO UPDATE SET
    place = excluded.place, size = excluded.size, modified = excluded.modified, etag = excluded.etag,
    state = excluded.state, batch = excluded.batch, rows = excluded.rows, least = excluded.least,
    greatest = excluded.greatest
"""


class LedgerOptions(BaseModel):
    """What objects became, in a SQLite file in the folder `state`; it has no keys of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SqliteLedger:
    """The ledger of a pipeline. Each call has its own connection, so threads may share it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def account(self, table: str) -> Account:
        """Return the account of a table, empty if there is no file."""
        with self._reading() as db:
            if db is None:
                return Account()
            found = db.execute("SELECT listed, batch FROM tables WHERE of = ?", (table,)).fetchone()
            listed, batch = found or (None, 0)
            acked: dict[str, set[str]] = defaultdict(set)
            for code, about in db.execute("SELECT code, about FROM acked WHERE of = ?", (table,)):
                acked[code].add(about)
            waiting = (record.object for record in _objects(db, table, (ObjectState.SEEN,)))
            version = self._version_of(db)
            raised = db.execute("SELECT code, what, found, todo FROM alarms WHERE of = ? ORDER BY rowid", (table,))
            return Account(
                waiting={item.name: item for item in waiting},
                checked=dict(db.execute("SELECT name, modified FROM checked WHERE of = ?", (table,)).fetchall()),
                listed=listed,
                batch=batch,
                alarms=tuple(Alarm(*parts) for parts in raised),
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
                    db.execute(f"DELETE FROM {name} WHERE of = ?", (table,))  # our own names
            db.execute("INSERT INTO tables (of) VALUES (?) ON CONFLICT DO NOTHING", (table,))
            db.executemany(_PUT, (_row(table, record) for record in notes.records))
            for state, names in notes.states.items():
                allowed = sorted(one.value for one in states_before(state))
                marks = ", ".join("?" * len(allowed))
                db.executemany(
                    f"UPDATE objects SET state = ? WHERE of = ? AND name = ? AND state IN ({marks})",
                    ((state.value, table, name, *allowed) for name in names),
                )
            put = "INSERT INTO checked VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET modified = excluded.modified"
            db.executemany(put, ((table, name, modified) for name, modified in notes.checked.items()))
            _write_table(db, table, notes)
            if notes.sent is not None:
                content = json.dumps([asdict(one) for one in notes.sent])
                db.execute("INSERT OR REPLACE INTO sent VALUES (?, ?)", (table, content))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        if not self.file.exists():
            yield None
            return
        with self._translating_errors(), closing(self._connect()) as db:
            if self._version_of(db) < _READABLE:  # about to be created or upgraded
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
                for since, statement in _SINCE.items():
                    if version < since:
                        db.execute(statement)
                        db.execute(f"PRAGMA user_version = {since}")
                yield db
                db.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.file, timeout=_PATIENCE, isolation_level=None)
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
            todo="Grant permission, make room, or delete the file: the tables do without it, and the next run "
            "makes it anew. Only what it alone knew is lost (docs/reference/ledger.md).",
        )


def _write_table(db: sqlite3.Connection, table: str, notes: Notes) -> None:
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
    if notes.alarms is not None:
        db.execute("DELETE FROM alarms WHERE of = ?", (table,))
        rows = ((table, alarm.code, alarm.what, alarm.found, alarm.todo) for alarm in notes.alarms)
        db.executemany("INSERT INTO alarms VALUES (?, ?, ?, ?, ?)", rows)
    if notes.acknowledged is not None:
        db.execute("DELETE FROM acked WHERE of = ?", (table,))
        listed = ((table, code, one) for code, about in notes.acknowledged.items() for one in sorted(about))
        db.executemany("INSERT INTO acked VALUES (?, ?, ?)", listed)


def _awaited(db: sqlite3.Connection, table: str) -> AwaitedLoad | None:
    found = db.execute("SELECT load FROM awaited WHERE of = ?", (table,)).fetchone()
    if found is None:
        return None
    content = json.loads(found[0])
    return AwaitedLoad(**{**content, "lacking": tuple(content["lacking"])})


def _failure(db: sqlite3.Connection, table: str) -> Failure | None:
    found = db.execute("SELECT failure FROM failures WHERE of = ?", (table,)).fetchone()
    return None if found is None else Failure(**json.loads(found[0]))


def _verdict(db: sqlite3.Connection, table: str) -> SourceVerdict | None:
    found = db.execute("SELECT verdict FROM verdicts WHERE of = ?", (table,)).fetchone()
    return None if found is None else SourceVerdict.of_document(json.loads(found[0]))


def _sent(db: sqlite3.Connection, table: str) -> tuple[SentEntry, ...]:
    found = db.execute("SELECT sent FROM sent WHERE of = ?", (table,)).fetchone()
    return () if found is None else tuple(SentEntry(**one) for one in json.loads(found[0]))


def _objects(
    db: sqlite3.Connection, table: str, states: tuple[ObjectState, ...], names: Collection[str] | None = None
) -> Iterator[ObjectRecord]:
    wanted = f" AND state IN ({', '.join('?' * len(states))})" if states else ""
    named = "" if names is None else " AND name IN (SELECT value FROM json_each(?))"
    found = db.execute(
        f"SELECT {_COLUMNS} FROM objects WHERE of = ?{wanted}{named} ORDER BY place, name",  # our own names
        (table, *(state.value for state in states), *([] if names is None else [json.dumps([*names])])),
    )
    for name, place, size, modified, etag, state, first_seen, batch, rows, least, greatest in found:
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
    bounds = [None if place is None else json.dumps(place) for place in (record.least, record.greatest)]
    known = (record.state.value, record.first_seen, record.batch, record.rows, *bounds)
    return (table, item.name, item.order, item.size, item.modified, item.etag, *known)


def _position(text: str | None) -> Position | None:
    return None if text is None else Position(*json.loads(text))


def build(options: Options, runtime: Runtime) -> SqliteLedger:
    """Build the ledger; the first write creates its file."""
    own: Mapping[str, Any] = {name: value for name, value in options.items() if name != "state"}
    validated(LedgerOptions, own, str(runtime.file), within="ledger")
    return SqliteLedger(Path(options["state"]) / FILE)


@hookimpl
def register(registry: Registry) -> None:
    """Register the ledger `sqlite`."""
    registry.ledgers.add("sqlite", build)
