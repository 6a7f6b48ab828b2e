"""Transaction files as objects of each table with rows in them: read once, and staged for all tables."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.sources.csv.layout import has_crlf
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.dms.transactions.splitter import Splitter, read_parts
from lakeward.adapters.sources.dms.transactions.staged_tables import Share, StagedTables
from lakeward.adapters.sources.landing.folder import Folder, is_replaced
from lakeward.adapters.spark.session.errors import FAILURES, full_text, short_message, unreachable
from lakeward.core.dimension import SHARE_FROM, TableName
from lakeward.core.errors import SourceError
from lakeward.core.ledger.full_loads import UNNAMED, is_of_earlier_epoch
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.ports import UnroutedRow
from lakeward.core.text.numbers import format_count

MAX_UNROUTED_ROWS: Final = 10_000
"""The most rows that name no table in one read. More of them are an error in the settings."""

MAX_UNROUTED_SHARE: Final = 0.05
"""The greatest share of such rows in a file. A greater share is an error in the settings."""

RETRY_AFTER: Final = 600 * 1_000_000
"""Microseconds until an unreadable file is read again. All tables ask for it at each poll."""

_NO_TABLE: Final = "it does not begin with an operation, a table and a schema"


@dataclass(slots=True)
class SharedFiles:
    """The transaction files of a landing folder.

    Tables ask for them from several threads. The first table that needs a file reads it, for all tables in
    `configured`; the others wait for that. `now` returns microseconds since 1970.
    """

    folder: Folder
    staged: StagedTables
    spark: Callable[[], SparkSession]
    dialect: Dialect
    configured: Collection[TableName]
    now: Callable[[], int]
    max_files: int = 1000
    has_torn_rows: bool = False
    _read_errors: dict[str, tuple[SourceError, int]] = field(default_factory=dict)
    _shares: dict[TableName, Mapping[str, Share]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _was_cleaned: bool = False

    def select_for_table(
        self, table: TableName, files: Sequence[SourceObject], history: ObjectHistory, *, has_more: bool
    ) -> Sequence[SourceObject]:
        """Return the files with rows of a table, up to the first file that cannot be read.

        Raises the SourceError of that file where no file before it waits, unless `has_more` says that files of the
        table's own folder wait. Raises SourceError for files that were archived before the table applied them.
        """
        ordered = sorted(files, key=lambda item: item.order)
        with self._lock:
            readable = {item.name for item in self._stage_new_files(ordered)}
            shares = self._shares[table] = self._update_shares(table, history)
        self._refuse_archived(table, {item.name for item in ordered}, history)
        selected = [
            item
            for item in ordered
            if item.name in history.applied or (item.name in readable and item.name in shares)
        ]
        if (
            len(readable) < len(ordered)
            and not has_more
            and all(self._is_finished(item, history) for item in selected)
        ):
            error, _ = self._read_errors.get(ordered[len(readable)].version, (None, 0))
            if error is not None:
                raise copy(error)  # a raised error collects tracebacks, which keep frames alive
        return selected

    def _refuse_archived(self, table: TableName, listed: Collection[str], history: ObjectHistory) -> None:
        """Raise SourceError for files that were archived before the table was configured or created anew."""
        if self.folder.archive is None:
            return
        unlisted = [
            name for name, share in self._shares[table].items() if not share.is_applied and name not in listed
        ]
        current = self._without_earlier_epochs(table, unlisted, history)
        archived = sorted(name for name in current if self.folder.is_archived(table, name))
        if archived:
            alternative = (
                "Where a full load has all that they hold, move them out of the archive."
                if history.has_no_batch
                else f"Or load the table anew: `lakeward reload {table}`."
            )
            raise SourceError(
                f"{table}: {format_count(len(archived), 'file')} in the archive "
                f"{'has' if len(archived) == 1 else 'have'} rows of it that were not applied",
                found=f"the first is {archived[0]}; they were archived before the table was configured, created "
                "anew or rolled back",
                todo="Nothing of this batch was applied: move them back into the landing folder, and run again. "
                f"The other tables know them. {alternative}",
            )

    def _update_shares(self, table: TableName, history: ObjectHistory) -> Mapping[str, Share]:
        """Return a table's shares, marked as applied by the objects of the table's commits.

        A table that was created anew or rolled back has fewer of them than the index. Where the commits are not
        known, the index is believed.
        """
        self.staged.set_applied(table, history.applied.keys(), is_applied=True)
        shares = self.staged.shares(table)
        if not history.applied and not history.has_no_batch:
            return shares
        unconfirmed = [name for name, share in shares.items() if share.is_applied and name not in history.applied]
        reopened = self._without_earlier_epochs(table, unconfirmed, history)
        if not reopened:
            return shares
        self.staged.set_applied(table, reopened, is_applied=False)
        return self.staged.shares(table)

    def _without_earlier_epochs(
        self, table: TableName, names: Collection[str], history: ObjectHistory
    ) -> Sequence[str]:
        """Return the names without those of an earlier epoch or of another `cdc_path`."""
        versions = self.staged.versions() if names else {}
        place = self.folder.places.of(table)
        shared_names = [name for name in names if self.folder.is_shared(table, name)]
        items = [SourceObject(name, place.known(table, name).order, *versions[name]) for name in shared_names]
        return [item.name for item in items if not is_of_earlier_epoch(item, history, UNNAMED)]

    def _is_finished(self, item: SourceObject, history: ObjectHistory) -> bool:
        is_of_earlier_epoch = history.cut is not None and item.order <= history.cut
        return (
            is_of_earlier_epoch
            or item.name in history.applied
            or item.name in history.acknowledged_names("LEDGER-001")
        )

    def share(self, table: TableName, name: str) -> Share:
        """Return a table's share of a file that was selected for it."""
        return self._shares[table][name]

    def etag(self, name: str) -> str | None:
        """Return the content hash of a file at the time of its read."""
        return self.staged.etag(name)

    def rows(self, table: TableName, objects: Sequence[SourceObject]) -> DataFrame:
        """Return a table's rows of these files; files whose staged rows are gone are read again."""
        with self._lock:
            shares = self.staged.shares(table)
            missing = [item for item in objects if not self.staged.has_part(shares[item.name])]
            if missing:
                self.staged.set_applied(table, [item.name for item in missing], is_applied=False)
                for chunk in self._chunks(missing):
                    if changed := self._stage(chunk):
                        raise _changed_error(table, min(changed))
                shares = self.staged.shares(table)
        parts: dict[str, list[str]] = defaultdict(list)
        for item in objects:
            parts[self.staged.part(shares[item.name])].append(item.name)
        return read_parts(self.spark(), parts)

    def archive(self, table: TableName, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Note that a table has applied files, and archive those that all tables have applied.

        Returns the names of archived files; none without an archive.
        """
        names = [item.name for item in objects]
        with self._lock:
            self.staged.set_applied(table, names, is_applied=True)
            self.staged.remove_unneeded(self.configured)
            finished = set(self.staged.select_finished(names, self.configured))
            return self.folder.archive_files(table, [item for item in objects if item.name in finished])

    def clean(self, *, is_dry: bool) -> Sequence[str]:
        """Remove staged rows that no table needs, once in a process, and return their paths.

        With `is_dry` only return them.
        """
        with self._lock:
            paths = () if self._was_cleaned else self.staged.find_unneeded(self.configured)
            self._was_cleaned = True
            if not is_dry:
                for path in paths:
                    self.staged.rows.remove(path)
        return paths

    # Reading.

    def _stage_new_files(self, ordered: Sequence[SourceObject]) -> Sequence[SourceObject]:
        """Stage the files that were not read yet; return the files before the first that cannot be read."""
        versions = self.staged.versions()
        new_files = [item for item in ordered if versions.get(item.name) != (item.size, item.modified)]
        waiting: set[str] = set()
        for chunk in self._chunks(new_files):
            try:
                waiting |= self._stage(chunk)
            except SourceError:
                waiting |= self._read_one_by_one(chunk)
            if waiting:
                waiting |= {item.name for item in new_files if item.order > chunk[-1].order}
                break
        first = next((place for place, item in enumerate(ordered) if item.name in waiting), len(ordered))
        return ordered[:first]

    def _chunks(self, items: Sequence[SourceObject]) -> Sequence[Sequence[SourceObject]]:
        return [items[start : start + self.max_files] for start in range(0, len(items), self.max_files)]

    def _read_one_by_one(self, items: Sequence[SourceObject]) -> set[str]:
        """Stage files one by one; return the names of the first that cannot be read and of all behind it."""
        for place, item in enumerate(items):
            if self._failed_recently(item) or self._must_wait(item):
                return {other.name for other in items[place:]}
        return set()

    def _failed_recently(self, item: SourceObject) -> bool:
        """Return True if a file could not be read a short time ago; the cause may be gone later."""
        return item.version in self._read_errors and self.now() < self._read_errors[item.version][1]

    def _must_wait(self, item: SourceObject) -> bool:
        """Stage one file; return True if it must wait, because it cannot be read or changed while it was read."""
        try:
            return bool(self._stage([item]))
        except SourceError as error:
            self._read_errors[item.version] = copy(error), self.now() + RETRY_AFTER
            return True

    def _stage(self, items: Sequence[SourceObject]) -> set[str]:
        """Stage files.

        Return the names of those that must wait: the first that changed while it was read, and all behind it.
        """
        for item in filter(self._failed_recently, items):
            raise copy(self._read_errors[item.version][0])
        any_table = next(iter(self.configured))  # the files have the same place for all tables
        paths = {item.name: self.folder.path(any_table, item.name) for item in items}
        tags = {item.name: item.etag or self.folder.etag(any_table, item.name) for item in items}
        written = self.staged.rows.new()
        try:
            shares, unrouted_rows = self._split(items, paths, written)
            are_unchanged = [self._is_unchanged(paths[item.name], item) for item in items]
            unchanged = items[: are_unchanged.index(False)] if False in are_unchanged else items
            names = {item.name for item in unchanged}
            kept_shares = {name: file_shares for name, file_shares in shares.items() if name in names}
            tagged = [replace(item, etag=tags[item.name]) for item in unchanged]
            self.staged.add(
                tagged,
                kept_shares,
                [unrouted_row for unrouted_row in unrouted_rows if unrouted_row.object in names],
                written,
            )
            self.staged.remove_unneeded(self.configured)
        finally:
            self.staged.remove_unindexed(written)
        return {item.name for item in items[len(unchanged) :]}

    def _is_unchanged(self, path: str, item: SourceObject) -> bool:
        stored = self.folder.store.stat(path)
        return stored is not None and not is_replaced(stored, item)

    def _split(
        self, items: Sequence[SourceObject], paths: Mapping[str, str], written: str
    ) -> tuple[Mapping[str, Sequence[Share]], Sequence[UnroutedRow]]:
        splitter = Splitter(self.spark(), self.dialect, self.configured)
        exists = self.staged.rows.exists
        try:
            self._write(splitter, items, paths, written)
            if not self.has_torn_rows and exists(f"{written}/part=torn"):
                self.has_torn_rows = True
                self.staged.rows.remove(written)
                self._write(splitter, items, paths, written)
            shares: dict[str, list[Share]] = defaultdict(list)
            for name, table, rows, width in splitter.shares(written) if exists(written) else ():
                shares[name].append(Share(table, rows, width, ""))
            has_unrouted = any(exists(f"{written}/part={part}") for part in ("torn", "stray"))
            unrouted = splitter.unrouted_rows(written, MAX_UNROUTED_ROWS + 1) if has_unrouted else ()
        except FAILURES as error:
            if (unreachable_error := unreachable("files of transactions", error)) is not None:
                raise unreachable_error from error
            raise self._unreadable_error(items, paths, error) from error
        self._refuse_torn([(name, row) for name, row, _, is_torn in unrouted if is_torn])
        unrouted_rows = [UnroutedRow(name, row, _NO_TABLE, text, self.now()) for name, row, text, _ in unrouted]
        self._refuse_many_unrouted(items, shares, unrouted_rows)
        return shares, unrouted_rows

    def _write(
        self, splitter: Splitter, items: Sequence[SourceObject], paths: Mapping[str, str], written: str
    ) -> None:
        """Write the rows of files, grouped by line end and by folder (landing folder or archive)."""
        groups: dict[tuple[bool, str], dict[str, str]] = defaultdict(dict)
        any_table = next(iter(self.configured))
        for item in items:
            path, base = paths[item.name], self.folder.base
            base = base if path.startswith(f"{base}/") else path.removesuffix(f"/{item.name}")
            head = self.folder.head(any_table, item.name, self.dialect.row_end, self.dialect.quote)
            groups[has_crlf(head, self.dialect), base][path.removeprefix(f"{base}/")] = item.name
        for (is_crlf, base), names in groups.items():
            splitter.split(base, names, written, has_crlf=is_crlf, has_torn_rows=self.has_torn_rows)

    # Files that cannot be read.

    def _unreadable_error(
        self, items: Sequence[SourceObject], paths: Mapping[str, str], error: Exception
    ) -> SourceError:
        text = full_text(error)
        named = [
            item.name for item in items if paths[item.name] in text or PurePosixPath(paths[item.name]).name in text
        ]
        return SourceError(
            f"{named[0] if named else items[0].name} cannot be read",
            found=short_message(error),
            todo="Nothing of it was applied to any table. Replace the file by a whole one.",
        )

    def _refuse_torn(self, torn: Sequence[tuple[str, int]]) -> None:
        for name, row in torn:
            raise SourceError(
                f"{name} ends within a quoted field",
                found=f"the quote is open in the row that begins on line {row}",
                todo="Nothing of it was applied to any table. Replace the file by a whole one, or set "
                '`quote = ""` under [source] where the endpoint has Rfc4180=false.',
            )

    def _refuse_many_unrouted(
        self,
        items: Sequence[SourceObject],
        shares: Mapping[str, Sequence[Share]],
        unrouted_rows: Sequence[UnroutedRow],
    ) -> None:
        """Raise SourceError for a file with more rows that name no table than an operator could inspect."""
        for item in items:
            unrouted = [unrouted_row for unrouted_row in unrouted_rows if unrouted_row.object == item.name]
            rows = len(unrouted) + sum(share.rows for share in shares.get(item.name, ()))
            is_many = rows >= SHARE_FROM and len(unrouted) > MAX_UNROUTED_SHARE * rows
            if unrouted and (len(unrouted) == rows or is_many or len(unrouted_rows) > MAX_UNROUTED_ROWS):
                raise SourceError(
                    f"{len(unrouted):,} of {rows:,} rows of {item.name} do not say of which table they are",
                    found=f"the first is row {unrouted[0].row}: {unrouted[0].text[:100]}",
                    todo="Nothing of it was applied to any table. Files of transactions begin each row with "
                    "operation, table and schema: are `delimiter`, `quote` and `row_delimiter` right?",
                )


def _changed_error(table: TableName, name: str) -> SourceError:
    return SourceError(
        f"{table}: {name} changed while it was read",
        todo="Nothing of this batch was applied; other tables go on. Run again when it is whole.",
    )
