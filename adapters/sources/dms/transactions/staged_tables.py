"""The index of transaction files by table, and the rows that tables have not applied yet.

It is a cache in the folder `state` and may be deleted: the files are then read again. What is applied is stored in
the tables' commits, not here.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from lakeward.adapters.sources.dms.transactions.layout import folder_key, match_table
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
_LOCK_TIMEOUT: Final = 30.0


class Share(NamedTuple):
    """The rows of one table in one file: their number, their most frequent width, and their staged place."""

    table: TableName
    rows: int
    width: int
    place: str
    is_applied: bool = False


@dataclass(frozen=True, slots=True)
class StagedTables:
    """The index in `folder`, and the staged rows: a place for each read of files, with a part for each table.

    Without `of_rows` the rows lie below the same folder.
    """

    folder: Path
    of_rows: StagedRows | None = None

    @property
    def rows(self) -> StagedRows:
        """The storage of the rows."""
        return DiskRows(self.folder) if self.of_rows is None else self.of_rows

    def versions(self) -> Mapping[str, tuple[int, int]]:
        """Return size (bytes) and modification time of the files that were read, by name."""
        with self._reading() as db:
            rows = () if db is None else db.execute("SELECT name, size, modified FROM files")
            return {name: (size, modified) for name, size, modified in rows}

    def etag(self, name: str) -> str | None:
        """Return the content hash of a file that was read, or None if it was not read."""
        with self._reading() as db:
            row = None if db is None else db.execute("SELECT etag FROM files WHERE name = ?", (name,)).fetchone()
            return None if row is None else row[0]

    def shares(self, table: TableName) -> Mapping[str, Share]:
        """Return a table's share of each file that has rows of it, by the name of the file."""
        with self._reading() as db:
            if db is None:
                return {}
            stored_table = match_table(table, _indexed_tables(db))
            records = db.execute(
                "SELECT name, of_schema, of_table, rows, width, place, applied FROM parts "
                "WHERE of_schema = ? AND of_table = ?",
                stored_table or table,
            )
            return {
                name: Share(TableName(schema, of), rows, width, place, bool(is_applied))
                for name, schema, of, rows, width, place, is_applied in records
            }

    def tables(self) -> Mapping[TableName, int]:
        """Return the number of rows of each table in all files that were read."""
        with self._reading() as db:
            if db is None:
                return {}
            records = db.execute("SELECT of_schema, of_table, sum(rows) FROM parts GROUP BY of_schema, of_table")
            return {TableName(schema, table): rows for schema, table, rows in records}

    def unrouted_rows(self) -> Sequence[UnroutedRow]:
        """Return the rows that name no table, in the order of files and rows."""
        with self._reading() as db:
            rows = () if db is None else db.execute("SELECT * FROM strays ORDER BY name, row")
            return [UnroutedRow(*row) for row in rows]

    def discard(self, unrouted_rows: Sequence[UnroutedRow]) -> None:
        """Remove rows from the index that an operator has discarded."""
        with self._writing() as db:
            db.executemany(
                "DELETE FROM strays WHERE name = ? AND row = ?", [(s.object, s.row) for s in unrouted_rows]
            )

    def part(self, share: Share) -> str:
        """Return the path of the rows of a share."""
        return self.rows.path(share.place, _part_name(share))

    def has_part(self, share: Share) -> bool:
        """Return True if the rows of a share are staged."""
        return self.rows.exists(self.part(share))

    def remove_unindexed(self, written: str) -> None:
        """Remove a new place, unless `add` has put it into the index."""
        with self._reading() as db:
            indexed = set() if db is None else _indexed_places(db)
        if written.rpartition("/")[2] not in indexed:
            self.rows.remove(written)

    def add(
        self,
        items: Sequence[SourceObject],
        shares: Mapping[str, Sequence[Share]],
        unrouted_rows: Sequence[UnroutedRow],
        written: str,
    ) -> None:
        """Add files that were read, with their shares and unrouted rows.

        Shares that are staged already stay where they are.
        """
        place = self.rows.name_place(written)
        with self._writing() as db:
            for item in items:
                version = db.execute("SELECT size, modified FROM files WHERE name = ?", (item.name,)).fetchone()
                is_same = version == (item.size, item.modified)
                if not is_same:
                    for name in ("files", "parts", "strays"):
                        db.execute(f"DELETE FROM {name} WHERE name = ?", (item.name,))  # our own names
                row = (item.name, item.size, item.modified, item.etag)
                db.execute("INSERT INTO files VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
                for share in shares.get(item.name, ()):
                    self._add_share(db, item.name, share._replace(place=place))
                new_rows = [
                    astuple(unrouted_row)
                    for unrouted_row in unrouted_rows
                    if unrouted_row.object == item.name and not is_same
                ]
                db.executemany("INSERT INTO strays VALUES (?, ?, ?, ?, ?)", new_rows)

    def _add_share(self, db: sqlite3.Connection, name: str, share: Share) -> None:
        key = (name, *share.table)
        where = "name = ? AND of_schema = ? AND of_table = ?"
        stored = db.execute(f"SELECT place FROM parts WHERE {where}", key).fetchone()  # our own names
        if stored is None:
            row = (*key, share.rows, share.width, share.place)
            db.execute("INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?, 0)", row)
        elif not self.has_part(share._replace(place=stored[0])):
            db.execute(f"UPDATE parts SET place = ? WHERE {where}", (share.place, *key))

    def set_applied(self, table: TableName, names: Collection[str], *, is_applied: bool) -> None:
        """Store whether a table has applied its shares of these files."""
        wanted = frozenset(names)
        own_shares = [(name, share) for name, share in self.shares(table).items() if name in wanted]
        changed = [(is_applied, name, *share.table) for name, share in own_shares if share.is_applied != is_applied]
        if changed:
            with self._writing() as db:
                db.executemany(
                    "UPDATE parts SET applied = ? WHERE name = ? AND of_schema = ? AND of_table = ?", changed
                )

    def select_finished(self, names: Collection[str], configured: Collection[TableName]) -> Sequence[str]:
        """Return the names of those files whose shares all configured tables have applied."""
        waiting = {name for name, _ in self._pending_shares(configured)}
        return [name for name in names if name not in waiting]

    def remove_unneeded(self, configured: Collection[TableName]) -> None:
        """Remove the places and parts that `find_unneeded` returns."""
        for path in self.find_unneeded(configured):
            self.rows.remove(path)

    def find_unneeded(self, configured: Collection[TableName]) -> Sequence[str]:
        """Return the places and parts that no configured table waits for, and those of ended processes."""
        needed: dict[str, set[str]] = defaultdict(set)
        for _, share in self._pending_shares(configured):
            needed[share.place].add(_part_name(share))
        with self._reading() as db:
            indexed = set() if db is None else _indexed_places(db)
        paths = []
        for place, parts in self.rows.places().items():
            if needed[place]:
                paths += [self.rows.path(place, part) for part in parts if part not in needed[place]]
            elif place in indexed or self.rows.is_abandoned(place):
                paths.append(self.rows.path(place, ""))
        return paths

    def _pending_shares(self, configured: Collection[TableName]) -> Iterator[tuple[str, Share]]:
        """Yield the names of files with shares that configured tables have not applied yet, and these shares."""
        with self._reading() as db:
            if db is None:
                return
            indexed = _indexed_tables(db)
            stored_names = {
                stored for table in configured if (stored := _match_or_none(table, indexed)) is not None
            }
            of_table = "of_schema = ? AND of_table = ? AND applied = 0"
            for stored in stored_names:
                records = db.execute(f"SELECT name, rows, width, place FROM parts WHERE {of_table}", stored)
                for name, rows, width, place in records:
                    yield name, Share(stored, rows, width, place)

    @property
    def _file(self) -> Path:
        return self.folder / "index.db"

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        if not self._file.exists():
            yield None
            return
        with self._explain_errors(), closing(self._connect()) as db:
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._explain_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as db:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._file, timeout=_LOCK_TIMEOUT, isolation_level=None)
        for statement in _SCHEMA.split(";"):
            db.execute(statement)
        return db

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise TableError(
                f"what files of transactions hold cannot be kept in {self.folder}",
                found=str(error),
                todo="Grant permission, make room, or delete the folder: the files are then read once more.",
            ) from error


def _part_name(share: Share) -> str:
    return f"part={folder_key(share.table)}"


def _indexed_places(db: sqlite3.Connection) -> set[str]:
    return {place for (place,) in db.execute("SELECT DISTINCT place FROM parts")}


def _indexed_tables(db: sqlite3.Connection) -> Sequence[TableName]:
    return [TableName(*row) for row in db.execute("SELECT DISTINCT of_schema, of_table FROM parts")]


def _match_or_none(table: TableName, there: Collection[TableName]) -> TableName | None:
    """Return a table as files spell it; None where it is ambiguous, which is reported when the table is read."""
    try:
        return match_table(table, there)
    except SourceError:
        return None
