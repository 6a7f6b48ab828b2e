"""Files of transactions as objects of each table that has rows in them: read once, and staged for all."""

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
from lakeward.adapters.sources.dms.transactions.splitter import Splitter, rows_of
from lakeward.adapters.sources.dms.transactions.staged_tables import Share, Staged
from lakeward.adapters.sources.landing.folder import Folder, is_other
from lakeward.adapters.spark.session.errors import FAILURES, full_text, said, unreachable
from lakeward.core.dimension import SHARE_FROM, TableName
from lakeward.core.errors import SourceError
from lakeward.core.ledger.full_loads import UNNAMED, is_of_earlier_epoch
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.ports import UnroutedRow
from lakeward.core.text.numbers import format_count

MOST_STRAYS: Final = 10_000
MOST_SHARE: Final = 0.05
"""More rows of a file that do not say of which table they are, or a greater share of them, are no mishap."""

REFUSED_FOR: Final = 600 * 1_000_000
"""Microseconds until a file that could not be read is looked at again: all tables ask for it at each poll."""

_NO_TABLE: Final = "it does not begin with an operation, a table and a schema"


@dataclass(slots=True)
class SharedFiles:
    """The files of transactions of a landing folder.

    Tables ask for them from threads of their own: the first that needs a file reads it, for all
    of `configured`; the others wait for that.
    """

    folder: Folder
    staged: Staged
    spark: Callable[[], SparkSession]
    dialect: Dialect
    configured: Collection[TableName]
    now: Callable[[], int]
    max_files: int = 1000
    has_torn_rows: bool = False
    _refused: dict[str, tuple[SourceError, int]] = field(default_factory=dict)
    _shares: dict[TableName, Mapping[str, Share]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _was_cleaned: bool = False

    def of_table(
        self, table: TableName, files: Sequence[SourceObject], past: ObjectHistory, *, has_more: bool
    ) -> Sequence[SourceObject]:
        """Return those of the files that have rows of a table, up to the first that cannot be read.

        Raises SourceError for that one where nothing that comes before it waits; with `has_more` of
        the table's own files some do. So it does where others have been archived before the table had them.
        """
        ordered = sorted(files, key=lambda item: item.order)
        with self._lock:
            whole = {item.name for item in self._read(ordered)}
            shares = self._shares[table] = self._known(table, past)
        self._refuse_archived(table, {item.name for item in ordered}, past)
        found = [item for item in ordered if item.name in past.seen or (item.name in whole and item.name in shares)]
        if len(whole) < len(ordered) and not has_more and all(self._is_settled(item, past) for item in found):
            refused, _ = self._refused.get(ordered[len(whole)].version, (None, 0))
            if refused is not None:
                raise copy(refused)  # it would keep what each of its tracebacks holds
        return found

    def _refuse_archived(self, table: TableName, listed: Collection[str], past: ObjectHistory) -> None:
        """Refuse to go on without files that went into the archive before the table was configured or made anew."""
        if self.folder.archive is None:
            return
        waits = [name for name, share in self._shares[table].items() if not share.is_applied and name not in listed]
        later = self._without_older(table, waits, past)
        away = sorted(name for name in later if self.folder.is_archived(table, name))
        if away:
            other = (
                "Where a full load has all that they hold, move them out of the archive."
                if past.begins
                else f"Or load the table anew: `lakeward reload {table}`."
            )
            raise SourceError(
                f"{table}: {format_count(len(away), 'file')} in the archive "
                f"{'has' if len(away) == 1 else 'have'} rows of it that were not applied",
                found=f"the first is {away[0]}; they were put away before the table was configured, made anew or "
                "taken back",
                todo="Nothing of this batch was applied: move them back into the landing folder, and run again. "
                f"The other tables know them. {other}",
            )

    def _known(self, table: TableName, past: ObjectHistory) -> Mapping[str, Share]:
        """Return a table's shares, as applied those that it has: made anew or taken back, it has fewer.

        Where nothing is said of what it has, the index is believed.
        """
        self.staged.mark(table, past.seen.keys(), is_applied=True)
        shares = self.staged.shares(table)
        if not past.seen and not past.begins:
            return shares
        others = [name for name, share in shares.items() if share.is_applied and name not in past.seen]
        lost = self._without_older(table, others, past)
        if not lost:
            return shares
        self.staged.mark(table, lost, is_applied=False)
        return self.staged.shares(table)

    def _without_older(self, table: TableName, names: Collection[str], past: ObjectHistory) -> Sequence[str]:
        """Return those of some files that are not of an epoch before, nor of another `cdc_path`."""
        versions = self.staged.versions() if names else {}
        place = self.folder.places.of(table)
        own = [name for name in names if self.folder.is_shared(table, name)]
        items = [SourceObject(name, place.known(table, name).order, *versions[name]) for name in own]
        return [item.name for item in items if not is_of_earlier_epoch(item, past, UNNAMED)]

    def _is_settled(self, item: SourceObject, past: ObjectHistory) -> bool:
        is_of_earlier_epoch = past.cut is not None and item.order <= past.cut
        return is_of_earlier_epoch or item.name in past.seen or item.name in past.passed("LEDGER-001")

    def share(self, table: TableName, name: str) -> Share:
        """Return a table's share of a file that was listed for it."""
        return self._shares[table][name]

    def etag(self, name: str) -> str | None:
        """Return the hash of a file as it was read."""
        return self.staged.etag(name)

    def rows(self, table: TableName, objects: Sequence[SourceObject]) -> DataFrame:
        """Return a table's rows of these files; those that are staged no more are read again for it."""
        with self._lock:
            shares = self.staged.shares(table)
            gone = [item for item in objects if not self.staged.has_part(shares[item.name])]
            if gone:
                self.staged.mark(table, [item.name for item in gone], is_applied=False)
                for chunk in self._chunks(gone):
                    if left := self._stage(chunk):
                        raise _changed(table, min(left))
                shares = self.staged.shares(table)
        parts: dict[str, list[str]] = defaultdict(list)
        for item in objects:
            parts[self.staged.part(shares[item.name])].append(item.name)
        return rows_of(self.spark(), parts)

    def archive(self, table: TableName, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Note that a table has applied files; move those into the archive, if there is one, that all have."""
        names = [item.name for item in objects]
        with self._lock:
            self.staged.mark(table, names, is_applied=True)
            self.staged.sweep(self.configured)
            done = set(self.staged.done(names, self.configured))
            return self.folder.put_away(table, [item for item in objects if item.name in done])

    def clean(self, *, is_dry: bool) -> Sequence[str]:
        """Remove rows that no table waits for, or only name them; once in a process."""
        with self._lock:
            found = () if self._was_cleaned else self.staged.unneeded(self.configured)
            self._was_cleaned = True
            if not is_dry:
                for path in found:
                    self.staged.rows.remove(path)
        return found

    # Reading.

    def _read(self, ordered: Sequence[SourceObject]) -> Sequence[SourceObject]:
        """Read what was not read yet; return the files up to the first that cannot be."""
        known = self.staged.versions()
        fresh = [item for item in ordered if known.get(item.name) != (item.size, item.modified)]
        left: set[str] = set()
        for chunk in self._chunks(fresh):
            try:
                left |= self._stage(chunk)
            except SourceError:
                left |= self._one_by_one(chunk)
            if left:
                left |= {item.name for item in fresh if item.order > chunk[-1].order}
                break
        first = next((place for place, item in enumerate(ordered) if item.name in left), len(ordered))
        return ordered[:first]

    def _chunks(self, items: Sequence[SourceObject]) -> Sequence[Sequence[SourceObject]]:
        return [items[start : start + self.max_files] for start in range(0, len(items), self.max_files)]

    def _one_by_one(self, items: Sequence[SourceObject]) -> set[str]:
        """Read files each by itself, up to the first that cannot be; return that and those behind it."""
        for place, item in enumerate(items):
            if self._is_refused(item) or self._is_left(item):
                return {other.name for other in items[place:]}
        return set()

    def _is_refused(self, item: SourceObject) -> bool:
        """Whether a file could not be read a short while ago; what kept it from that may be over later."""
        return item.version in self._refused and self.now() < self._refused[item.version][1]

    def _is_left(self, item: SourceObject) -> bool:
        """Read a file by itself; return whether it must wait, because it cannot be read or changed meanwhile."""
        try:
            return bool(self._stage([item]))
        except SourceError as error:
            self._refused[item.version] = copy(error), self.now() + REFUSED_FOR
            return True

    def _stage(self, items: Sequence[SourceObject]) -> set[str]:
        """Read files; return the names of those that changed meanwhile, and of all behind them: they wait."""
        for item in filter(self._is_refused, items):
            raise copy(self._refused[item.version][0])
        some = next(iter(self.configured))  # whichever: the files lie where they lie for all
        paths = {item.name: self.folder.path(some, item.name) for item in items}
        tags = {item.name: item.etag or self.folder.etag(some, item.name) for item in items}
        written = self.staged.rows.new()
        try:
            shares, unrouted_rows = self._split(items, paths, written)
            is_whole = [self._is_as_it_was(paths[item.name], item) for item in items]
            kept = items[: is_whole.index(False)] if False in is_whole else items
            names = {item.name for item in kept}
            own = {name: found for name, found in shares.items() if name in names}
            tagged = [replace(item, etag=tags[item.name]) for item in kept]
            self.staged.add(
                tagged,
                own,
                [unrouted_row for unrouted_row in unrouted_rows if unrouted_row.object in names],
                written,
            )
            self.staged.sweep(self.configured)
        finally:
            self.staged.drop(written)
        return {item.name for item in items[len(kept) :]}

    def _is_as_it_was(self, path: str, item: SourceObject) -> bool:
        found = self.folder.store.find(path)
        return found is not None and not is_other(found, item)

    def _split(
        self, items: Sequence[SourceObject], paths: Mapping[str, str], written: str
    ) -> tuple[Mapping[str, Sequence[Share]], Sequence[UnroutedRow]]:
        splitter = Splitter(self.spark(), self.dialect, self.configured)
        has = self.staged.rows.has
        try:
            self._write(splitter, items, paths, written)
            if not self.has_torn_rows and has(f"{written}/part=torn"):
                self.has_torn_rows = True
                self.staged.rows.remove(written)
                self._write(splitter, items, paths, written)
            shares: dict[str, list[Share]] = defaultdict(list)
            for name, table, rows, width in splitter.shares(written) if has(written) else ():
                shares[name].append(Share(table, rows, width, ""))
            is_any = any(has(f"{written}/part={part}") for part in ("torn", "stray"))
            found = splitter.unrouted_rows(written, MOST_STRAYS + 1) if is_any else ()
        except FAILURES as error:
            if (gone := unreachable("files of transactions", error)) is not None:
                raise gone from error
            raise self._unreadable(items, paths, error) from error
        self._refuse_torn([(name, row) for name, row, _, is_torn in found if is_torn])
        unrouted_rows = [UnroutedRow(name, row, _NO_TABLE, text, self.now()) for name, row, text, _ in found]
        self._refuse_flood(items, shares, unrouted_rows)
        return shares, unrouted_rows

    def _write(
        self, splitter: Splitter, items: Sequence[SourceObject], paths: Mapping[str, str], written: str
    ) -> None:
        """Write the rows of files: those with either line end apart, and those that are in the archive."""
        groups: dict[tuple[bool, str], dict[str, str]] = defaultdict(dict)
        some = next(iter(self.configured))
        for item in items:
            path, base = paths[item.name], self.folder.base
            base = base if path.startswith(f"{base}/") else path.removesuffix(f"/{item.name}")
            head = self.folder.head(some, item.name, self.dialect.row_end, self.dialect.quote)
            groups[has_crlf(head, self.dialect), base][path.removeprefix(f"{base}/")] = item.name
        for (is_crlf, base), names in groups.items():
            splitter.split(base, names, written, has_crlf=is_crlf, has_torn_rows=self.has_torn_rows)

    # What cannot be read.

    def _unreadable(self, items: Sequence[SourceObject], paths: Mapping[str, str], error: Exception) -> SourceError:
        text = full_text(error)
        named = [
            item.name for item in items if paths[item.name] in text or PurePosixPath(paths[item.name]).name in text
        ]
        return SourceError(
            f"{named[0] if named else items[0].name} cannot be read",
            found=said(error),
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

    def _refuse_flood(
        self,
        items: Sequence[SourceObject],
        shares: Mapping[str, Sequence[Share]],
        unrouted_rows: Sequence[UnroutedRow],
    ) -> None:
        """Raise SourceError for a file with more rows of no table than a person could look through."""
        for item in items:
            own = [unrouted_row for unrouted_row in unrouted_rows if unrouted_row.object == item.name]
            rows = len(own) + sum(share.rows for share in shares.get(item.name, ()))
            is_much = rows >= SHARE_FROM and len(own) > MOST_SHARE * rows
            if own and (len(own) == rows or is_much or len(unrouted_rows) > MOST_STRAYS):
                raise SourceError(
                    f"{len(own):,} of {rows:,} rows of {item.name} do not say of which table they are",
                    found=f"the first is row {own[0].row}: {own[0].text[:100]}",
                    todo="Nothing of it was applied to any table. Files of transactions begin each row with "
                    "operation, table and schema: are `delimiter`, `quote` and `row_delimiter` right?",
                )


def _changed(table: TableName, name: str) -> SourceError:
    return SourceError(
        f"{table}: {name} changed while it was read",
        todo="Nothing of this batch was applied; other tables go on. Run again when it is whole.",
    )
