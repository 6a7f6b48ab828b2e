"""What files of transactions hold, table by table: an index, and the rows that tables wait for.

It stands in the folder `state` and may be deleted: files are then read once more. Nothing is
true because it says so; what is applied is known from the tables.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from lakeward.adapters.sources.dms.transactions.layout import key_of, spelled
from lakeward.adapters.sources.dms.transactions.staged_rows import DiskRows, StagedRows
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError, TableError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ports import UnroutedRow

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, size INTEGER, modified INTEGER, etag TEXT);
CREATE TABLE IF NOT EXISTS parts (
    name TEXT, of_schema TEXT, of_table TEXT, rows INTEGER, width INTEGER, place TEXT,
    applied INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (name, of_schema, of_table)
);
CREATE INDEX IF NOT EXISTS parts_by_table ON parts (of_schema, of_table, applied);
CREATE TABLE IF NOT EXISTS strays (
    name TEXT, row INTEGER, why TEXT, text TEXT, since INTEGER, PRIMARY KEY (name, row)
);
"""
_PATIENCE: Final = 30.0


class Share(NamedTuple):
    """A table's share of a file: how many rows, of how many fields most of them, and the place of those staged."""

    table: TableName
    rows: int
    width: int
    place: str
    is_applied: bool = False


@dataclass(frozen=True, slots=True)
class Staged:
    """The index in a folder, and the rows: a place for each time that files were read, a part a table.

    Without `of_rows` they lie below the folder.
    """

    folder: Path
    of_rows: StagedRows | None = None

    @property
    def rows(self) -> StagedRows:
        """Where the rows lie."""
        return DiskRows(self.folder) if self.of_rows is None else self.of_rows

    def versions(self) -> Mapping[str, tuple[int, int]]:
        """Return size and time of the files that were read, by name."""
        with self._reading() as db:
            found = () if db is None else db.execute("SELECT name, size, modified FROM files")
            return {name: (size, modified) for name, size, modified in found}

    def etag(self, name: str) -> str | None:
        """Return the hash of a file that was read."""
        with self._reading() as db:
            found = None if db is None else db.execute("SELECT etag FROM files WHERE name = ?", (name,)).fetchone()
            return None if found is None else found[0]

    def shares(self, table: TableName) -> Mapping[str, Share]:
        """Return a table's share of each file that has some, by the name of the file."""
        with self._reading() as db:
            if db is None:
                return {}
            named = spelled(table, _names(db))
            found = db.execute(
                "SELECT name, of_schema, of_table, rows, width, place, applied FROM parts "
                "WHERE of_schema = ? AND of_table = ?",
                named or table,
            )
            return {
                name: Share(TableName(schema, of), rows, width, place, bool(is_applied))
                for name, schema, of, rows, width, place, is_applied in found
            }

    def tables(self) -> Mapping[TableName, int]:
        """Return how many rows of each table there were."""
        with self._reading() as db:
            if db is None:
                return {}
            found = db.execute("SELECT of_schema, of_table, sum(rows) FROM parts GROUP BY of_schema, of_table")
            return {TableName(schema, table): rows for schema, table, rows in found}

    def unrouted_rows(self) -> Sequence[UnroutedRow]:
        """Return the rows that do not say of which table they are, in the order of files and rows."""
        with self._reading() as db:
            found = () if db is None else db.execute("SELECT * FROM strays ORDER BY name, row")
            return [UnroutedRow(*row) for row in found]

    def discard(self, unrouted_rows: Sequence[UnroutedRow]) -> None:
        """Forget rows that a person gave up."""
        with self._writing() as db:
            db.executemany(
                "DELETE FROM strays WHERE name = ? AND row = ?", [(s.object, s.row) for s in unrouted_rows]
            )

    def part(self, share: Share) -> str:
        """Return where the rows of a share lie."""
        return self.rows.path(share.place, _part(share))

    def has_part(self, share: Share) -> bool:
        """Whether the rows of a share are there."""
        return self.rows.has(self.part(share))

    def drop(self, written: str) -> None:
        """Remove what was written into a new place, unless `add` took it in."""
        with self._reading() as db:
            known = set() if db is None else _places(db)
        if written.rpartition("/")[2] not in known:
            self.rows.remove(written)

    def add(
        self,
        items: Sequence[SourceObject],
        shares: Mapping[str, Sequence[Share]],
        unrouted_rows: Sequence[UnroutedRow],
        written: str,
    ) -> None:
        """Take in files that were read; rows of a table that lie elsewhere already stay there."""
        place = self.rows.keep(written)
        with self._writing() as db:
            for item in items:
                known = db.execute("SELECT size, modified FROM files WHERE name = ?", (item.name,)).fetchone()
                is_same = known == (item.size, item.modified)
                if not is_same:
                    for name in ("files", "parts", "strays"):
                        db.execute(f"DELETE FROM {name} WHERE name = ?", (item.name,))  # our own names
                row = (item.name, item.size, item.modified, item.etag)
                db.execute("INSERT INTO files VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
                for share in shares.get(item.name, ()):
                    self._put(db, item.name, share._replace(place=place))
                fresh = [
                    astuple(unrouted_row)
                    for unrouted_row in unrouted_rows
                    if unrouted_row.object == item.name and not is_same
                ]
                db.executemany("INSERT INTO strays VALUES (?, ?, ?, ?, ?)", fresh)

    def _put(self, db: sqlite3.Connection, name: str, share: Share) -> None:
        key = (name, *share.table)
        where = "name = ? AND of_schema = ? AND of_table = ?"
        known = db.execute(f"SELECT place FROM parts WHERE {where}", key).fetchone()  # our own names
        if known is None:
            row = (*key, share.rows, share.width, share.place)
            db.execute("INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?, 0)", row)
        elif not self.has_part(share._replace(place=known[0])):
            db.execute(f"UPDATE parts SET place = ? WHERE {where}", (share.place, *key))

    def mark(self, table: TableName, names: Collection[str], *, is_applied: bool) -> None:
        """Write down that a table has applied its share of files, or has not."""
        wanted = frozenset(names)
        own = [(name, share) for name, share in self.shares(table).items() if name in wanted]
        changed = [(is_applied, name, *share.table) for name, share in own if share.is_applied != is_applied]
        if changed:
            with self._writing() as db:
                db.executemany(
                    "UPDATE parts SET applied = ? WHERE name = ? AND of_schema = ? AND of_table = ?", changed
                )

    def done(self, names: Collection[str], configured: Collection[TableName]) -> Sequence[str]:
        """Return those of some files of which every configured table has applied its share."""
        waiting = {name for name, _ in self._waiting(configured)}
        return [name for name in names if name not in waiting]

    def sweep(self, configured: Collection[TableName]) -> None:
        """Delete rows that no configured table waits for, and what was left by a crash."""
        for path in self.unneeded(configured):
            self.rows.remove(path)

    def unneeded(self, configured: Collection[TableName]) -> Sequence[str]:
        """Return the places and parts with rows that no configured table waits for, or that a crash left."""
        needed: dict[str, set[str]] = defaultdict(set)
        for _, share in self._waiting(configured):
            needed[share.place].add(_part(share))
        with self._reading() as db:
            known = set() if db is None else _places(db)
        found = []
        for place, parts in self.rows.places().items():
            if needed[place]:
                found += [self.rows.path(place, part) for part in parts if part not in needed[place]]
            elif place in known or self.rows.is_left(place):
                found.append(self.rows.path(place, ""))
        return found

    def _waiting(self, configured: Collection[TableName]) -> Iterator[tuple[str, Share]]:
        """Return the shares that configured tables did not apply yet, by the names of the files."""
        with self._reading() as db:
            if db is None:
                return
            there = _names(db)
            read = {named for table in configured if (named := _spelled(table, there)) is not None}
            of_table = "of_schema = ? AND of_table = ? AND applied = 0"
            for named in read:
                found = db.execute(f"SELECT name, rows, width, place FROM parts WHERE {of_table}", named)
                for name, rows, width, place in found:
                    yield name, Share(named, rows, width, place)

    @property
    def _file(self) -> Path:
        return self.folder / "index.db"

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        if not self._file.exists():
            yield None
            return
        with self._said(), closing(self._connect()) as db:
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._said():
            self.folder.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as db:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._file, timeout=_PATIENCE, isolation_level=None)
        for statement in _SCHEMA.split(";"):
            db.execute(statement)
        return db

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise TableError(
                f"what files of transactions hold cannot be kept in {self.folder}",
                found=str(error),
                todo="Grant permission, make room, or delete the folder: the files are then read once more.",
            ) from error


def _part(share: Share) -> str:
    return f"part={key_of(share.table)}"


def _places(db: sqlite3.Connection) -> set[str]:
    return {place for (place,) in db.execute("SELECT DISTINCT place FROM parts")}


def _names(db: sqlite3.Connection) -> Sequence[TableName]:
    return [TableName(*row) for row in db.execute("SELECT DISTINCT of_schema, of_table FROM parts")]


def _spelled(table: TableName, there: Collection[TableName]) -> TableName | None:
    """Return a table as files spell it; that it cannot be told is said to whoever reads it."""
    try:
        return spelled(table, there)
    except SourceError:
        return None
