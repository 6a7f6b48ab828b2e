"""The source `jdbc`: what is due is read from the database and staged; the source of files does all else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final

from pyspark.sql import DataFrame

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.paths.file_names import in_folders
from lakeward.adapters.sources.files.source import FilesSource
from lakeward.adapters.sources.jdbc.columns import columns_of, leave_out, refuse_other_forms
from lakeward.adapters.sources.jdbc.cursors import check_cursor
from lakeward.adapters.sources.jdbc.database.queries import Query, Reader
from lakeward.adapters.sources.jdbc.file_names import PATTERN, Staged, StagedNames
from lakeward.adapters.sources.jdbc.options import JdbcSourceOptions, micros
from lakeward.adapters.sources.jdbc.staging import BucketStaging, FolderStaging, Landing, Staging
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Place, Places
from lakeward.adapters.sources.staging.prefix_factory import open_staging
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.core.checks.event_order import OrderBy
from lakeward.core.dimension import ORDERED, Dimension, Lateness, Snapshots, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.events import Position, Sequences
from lakeward.core.ledger.full_loads import Load, Naming
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection
from lakeward.core.ledger.selection import select_objects as take_objects
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.settings.source_catalogue import SourceTable
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.plugins import Options, Runtime
from lakeward.plugins.registry import clock

_MILLI: Final = 1000
_FOLDER: Final = "staged"


@dataclass(slots=True)
class JdbcSource:
    """Tables of a database. What was read of one is staged as files, and applied before it is asked again."""

    options: JdbcSourceOptions
    of_tables: Mapping[TableName, JdbcSourceOptions]
    reader: Reader
    staging: Staging
    files: FilesSource
    now: Callable[[], int] = clock
    runs_once: bool = False
    """Whether each table is read once at the most, and by its cursor once more."""
    _read: set[tuple[TableName, bool]] = field(default_factory=set)
    """The tables that were read in this process, with whether it was a snapshot."""
    _locks: dict[TableName, Lock] = field(default_factory=dict)

    @property
    def lateness(self) -> Lateness:
        """Queries come one after the other; rows of a late commit count by the row that stands."""
        return ORDERED

    @property
    def sequences(self) -> Sequences:
        """Places in the order that the cursor tells."""
        return self.files.sequences

    def order_by(self, dimension: Dimension) -> str | None:
        """Return the cursor; without one nothing but full loads come."""
        reads = self._reads(dimension.source)
        return None if reads.cursor is None else str(OrderBy(reads.cursor, reads.source_zone))

    def key_form(self, dimension: Dimension) -> str | None:
        """Return nothing: values are those of the database."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        """Return what is staged and not applied; where nothing is, what is due is read first.

        Raises ConfigError for a table that cannot be read so, and as the reader does.
        """
        return self._take(dimension, past, self._reads(dimension.source))

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return nothing: rows are read again. Raises ConfigError for a table that keeps rows which ended."""
        if dimension.keeps_ended and objects:
            raise _no_way_back(dimension)
        return ()

    def take_once(
        self, dimension: Dimension, past: ObjectHistory, topic: str, find_starts: Callable[[], Sequence[str]]
    ) -> ObjectSelection:
        """Return the one snapshot of a table that goes on with the topic of an id.

        Before its first row is read, `find_starts` finds where that begins; `starts` returns it. A snapshot that
        was staged for another topic, or for none, is read anew. Raises as `take` does.
        """
        table = dimension.source
        others = [i for i in self._list(table) if (one := Staged.of(i.name)) is None or one.topic != topic]
        self.staging.remove(table, others)
        return self._take(dimension, past, self._reads(table), topic, find_starts)

    def starts(self, dimension: Dimension, item: SourceObject) -> Sequence[str]:
        """Return where the feed of a table begins, by a file of its snapshot; raises SourceError if it is gone."""
        return self.staging.starts(dimension.source, item)

    def applied(self, dimension: Dimension, past: ObjectHistory) -> Sequence[SourceObject]:
        """Return the staged files that were applied, and not removed."""
        return [item for item in self._list(dimension.source) if past.has_applied(item)]

    def _take(
        self,
        dimension: Dimension,
        past: ObjectHistory,
        reads: JdbcSourceOptions,
        topic: str | None = None,
        find_starts: Callable[[], Sequence[str]] | None = None,
    ) -> ObjectSelection:
        _check(dimension, reads)
        is_preview = past.load is not None and past.load.since is None and past.load.settles is None
        # What was staged and never applied may be gone: it is read again.
        waiting, past = past.waiting, replace(past, load=_load(dimension, past), waiting={}, start=None)
        with self._locks.setdefault(dimension.source, Lock()):
            found = self._next_objects(dimension, past)
            if not found and not is_preview:
                self._land_due(dimension, past, reads, topic, find_starts)
                found = self._next_objects(dimension, past)
        there = {item.name: item for item in self._list(dimension.source)}
        selection = _choose(dimension, past, found, is_dated=reads.cursor is None)
        return replace(
            selection,
            overtaken=tuple(name for name in waiting if name not in there),
            leftovers=tuple(item for item in there.values() if past.has_applied(item)),
        )

    def _list(self, table: TableName) -> Sequence[SourceObject]:
        listed, others = self.files.folder.list(table) or ((), ())
        return self.staging.select_complete(listed, others)

    def _next_objects(self, dimension: Dimension, past: ObjectHistory) -> Sequence[SourceObject]:
        """Return the staged files that come next: of one snapshot, or of the queries before the next snapshot."""
        table = dimension.source
        listed = [item for item in self._list(table) if not past.has_applied(item)]
        every = {item: staged for item in listed if (staged := Staged.of(item.name))}
        newest = _newest_snapshot(past)
        stale = [i for i, one in every.items() if not one.is_snapshot and newest is not None and one.time < newest]
        if stale and dimension.readers == 1:
            self.staging.remove(table, stale)
        waiting = {item: staged for item, staged in every.items() if item not in stale}
        if past.load is not None and past.load.since is not None:
            since = past.load.since
            waiting = {i: one for i, one in waiting.items() if one.is_snapshot and one.time >= since}
        snapshots = sorted(one.time for one in waiting.values() if one.is_snapshot)
        first = min((one.time for one in waiting.values()), default=None)
        if snapshots and snapshots[0] == first:
            return [item for item, one in waiting.items() if one.time == first]
        return [item for item, one in waiting.items() if not snapshots or one.time < snapshots[0]]

    def _land_due(
        self,
        dimension: Dimension,
        past: ObjectHistory,
        reads: JdbcSourceOptions,
        topic: str | None,
        find_starts: Callable[[], Sequence[str]] | None,
    ) -> None:
        applied = list(_applied_reads(past))
        snapshot = past.load is not None and _is_due(past, reads, self.now())
        was_read = self.runs_once and (dimension.name, snapshot) in self._read
        if not was_read and (snapshot or reads.cursor is not None):
            staged = (one for item in self._list(dimension.source) if (one := Staged.of(item.name)))
            time = _time(self.now(), past, [*applied, *staged])
            landing = self._landing(dimension, reads, applied, time, is_snapshot=snapshot)
            landing = replace(landing, staged=replace(landing.staged, topic=topic), find_starts=find_starts)
            self.staging.land(dimension.source, self.reader, landing)
            self._read.add((dimension.name, snapshot))

    def _landing(
        self,
        dimension: Dimension,
        reads: JdbcSourceOptions,
        applied: Sequence[Staged],
        time: int,
        *,
        is_snapshot: bool,
    ) -> Landing:
        """Return what to read; a snapshot reads all rows, a query those from the highest cursor on."""
        table = leave_out(dimension, self._describe(dimension), reads.without)
        columns = columns_of(dimension, table)
        if reads.then is not None:
            refuse_other_forms(dimension, table, columns, is_mysql=reads.types == "mysql")
        last = max(applied, key=lambda one: one.time, default=None)
        key = next((column.name for column in columns if column.name == dimension.key[0]), None)
        query = Query(table=table, columns=columns, key=key, partitions=reads.partitions)
        staged = Staged(time=time, is_snapshot=is_snapshot)
        if reads.cursor is None:
            return Landing(query=query, staged=staged)
        cursor = next((column for column in columns if column.name == reads.cursor), None)
        if cursor is None:
            raise _no_cursor(dimension, reads.cursor, table)
        overlap = check_cursor(dimension.name, cursor, reads)
        if is_snapshot:
            return Landing(query=query, staged=staged, cursor=cursor, overlap=overlap)
        reached = max((one.reached for one in applied if one.reached is not None), default=None)
        since = None if reached is None else reached - overlap
        return Landing(
            query=replace(query, cursor=cursor, since=since),
            staged=replace(staged, since=since, reached=reached),
            cursor=cursor,
            overlap=overlap,
            tail=None if last is None else last.tail,
        )

    def _describe(self, dimension: Dimension) -> SourceTable:
        found = self.reader.describe(dimension.source)
        if found is None:
            raise ConfigError(
                f"{dimension.name}: the database has no such table",
                found=f"it is asked for {dimension.source}",
                todo="Write its name as the database has it, or say with `reads` what the database calls it; and "
                "may the user see it?",
            )
        return found

    def _reads(self, table: TableName) -> JdbcSourceOptions:
        return self.of_tables.get(table, self.options)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Read staged files: those of a snapshot as a full load, those of a query as changes."""
        if selection.load is not None:
            return self.files.read(
                replace(dimension, snapshots=dimension.snapshots or Snapshots()), selection, epoch
            )
        batch = self.files.read(replace(dimension, snapshots=None), selection, epoch)
        # A full load is whole with its own batch: a batch that said so again would be an older snapshot.
        return replace(batch, facts=replace(batch.facts, loaded=None))

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Remove staged files that are applied: the database has their rows."""
        self.staging.remove(dimension.source, objects)
        return ()

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        """Remove what ended runs left unfinished below the prefix of a bucket, or only name it."""
        return self.staging.clean(dimension.source, is_dry=is_dry)

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> DataFrame:
        """Return a truncate that nobody wrote down."""
        return self.files.truncation(dimension, place, time)

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return nothing: rules stand behind a source."""
        return self.files.recomputed(dimension, may_need)

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension: the columns of a table are those of its files."""
        return dimension

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return a row as it was read, column by column."""
        return self.files.cells(dimension, entry)

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> DataFrame:
        """Return mended rows as events."""
        return self.files.repair_row(dimension, entries)


def _no_way_back(dimension: Dimension) -> ConfigError:
    return ConfigError(
        f"{dimension.name}: it cannot be taken back over what was read from its database",
        found="it keeps rows that ended, and a database has no rows but those of now",
        todo=f"Nothing was changed. `lakeward reload {dimension.name}` reads the table anew.",
    )


def _check(dimension: Dimension, reads: JdbcSourceOptions) -> None:
    """Raise ConfigError for a table of which no rule says what its rows become."""
    name = dimension.name
    if not dimension.key:
        raise ConfigError(
            f"{name}: a table that is read from a database needs a key",
            found="rows are read again and again, and without a key each would be added once more",
            todo=f'Name columns that tell its rows apart: `key` under [tables."{name}"]. Where that has rules, '
            "declare its columns as well, or let a [catalogue] tell them.",
        )
    if dimension.snapshots is None and reads.cursor is None and reads.then is None:
        raise ConfigError(
            f"{name}: nothing says when it is read again",
            found='neither `full_loads = "snapshot"` nor a `cursor` is set',
            todo=f'Set `full_loads = "snapshot"` under [tables."{name}"], so that it is read whole each time, or '
            "`cursor` under [source], so that changed rows alone are; or both. Or `then` under [source]: a feed "
            "brings the changes (docs/reference/jdbc.md).",
        )


def _load(dimension: Dimension, past: ObjectHistory) -> Load | None:
    """Return the full load that must come first: a staged one is whole, and a table begins with one."""
    if past.load is not None:
        return replace(past.load, settles=0)
    return Load(epoch=1, settles=0) if past.begins and dimension.snapshots is None else None


def _is_due(past: ObjectHistory, reads: JdbcSourceOptions, now: int) -> bool:
    """Return whether a table is to be read whole: it was asked for, never was, or its last snapshot is old."""
    newest = _newest_snapshot(past)
    is_asked = past.load is not None and past.load.since is not None
    return is_asked or newest is None or now - newest >= micros(reads.every)


def _applied_reads(past: ObjectHistory) -> Iterable[Staged]:
    return (staged for name in past.seen if (staged := Staged.of(name)) is not None)


def _newest_snapshot(past: ObjectHistory) -> int | None:
    """Return when the snapshot that the table has was read, in microseconds since 1970."""
    return max((one.time for one in _applied_reads(past) if one.is_snapshot), default=None)


def _time(now: int, past: ObjectHistory, before: Iterable[Staged]) -> int:
    """Return when a read takes place: in whole milliseconds, behind all before and behind what was asked for."""
    asked = 0 if past.load is None or past.load.since is None else past.load.since
    time = max([now, asked, *(one.time + _MILLI for one in before)])
    return -(-time // _MILLI) * _MILLI


def _choose(
    dimension: Dimension, past: ObjectHistory, found: Sequence[SourceObject], *, is_dated: bool
) -> ObjectSelection:
    """Choose among staged files; a table that has changes before the next snapshot takes them.

    In a history a snapshot `is_dated` by the time at which it was read, where no cursor dates its rows.
    """
    listed = in_folders(_folder_of, dimension.source, found, past)
    is_changes = any(not staged.is_snapshot for item in found if (staged := Staged.of(item.name)))
    naming = Naming(is_load=_is_load, snapshot=_folder_of, is_dated=lambda _: is_dated)
    return take_objects(
        str(dimension.name),
        listed,
        replace(past, load=None) if is_changes else past,
        Limits(),
        naming,
        keeps=False,
    )


def _is_load(name: str) -> bool:
    staged = Staged.of(name)
    return staged is not None and staged.is_snapshot


def _folder_of(name: str) -> str:
    return name.partition("/")[0]


def _no_cursor(dimension: Dimension, cursor: str, table: SourceTable) -> ConfigError:
    return ConfigError(
        f"{dimension.name}: it has no column {cursor}, which is its `cursor`",
        found="its columns are " + ", ".join(table.names),
        todo="Name one as the database writes it.",
    )


def make_source(
    settings: JdbcSourceOptions,
    tables: Mapping[TableName, JdbcSourceOptions],
    reader: Reader,
    options: Options,
    runtime: Runtime,
) -> JdbcSource:
    """Return the source of a database, whose staged files the source of files reads."""
    staging, folder = _open_staging(settings, runtime)
    names: Mapping[TableName, Any] = options["formats"]
    of_files = {table: _as_files(folder.root, tables.get(table, settings)) for table in {*names, *tables}}
    small = runtime.small_batch
    files = FilesSource(
        _as_files(folder.root, settings), folder, runtime.spark, {}, of_files, now=runtime.now, small_batch=small
    )
    return JdbcSource(settings, tables, reader, staging, files, runtime.now, runtime.runs_once)


def _open_staging(settings: JdbcSourceOptions, runtime: Runtime) -> tuple[Staging, Folder]:
    """Return where what is read lies, and that as the source of files sees it."""
    prefix = open_staging(settings.staging, runtime, "jdbc")
    places = Places(Place(StagedNames(), is_encoded=prefix is not None))
    if prefix is not None:
        from lakeward.adapters.sources.landing.bucket_store import BucketStore  # noqa: PLC0415  # boto3, for who has a bucket

        return BucketStaging(prefix), Folder(prefix.url, places, store=BucketStore(prefix.client))
    root = runtime.base / settings.path if settings.path else runtime.base / runtime.state / _FOLDER
    root.mkdir(parents=True, exist_ok=True)
    return FolderStaging(root), Folder(root, places)


def _as_files(root: Any, reads: JdbcSourceOptions) -> FilesOptions:
    """Return how the source of files reads what is staged; the time in a name is in UTC."""
    return FilesOptions(
        path=str(root),
        format="parquet",
        names=PATTERN,
        snapshots="folder",
        order_by=reads.cursor,
        source_zone="UTC" if reads.cursor is None else reads.source_zone,
    )
