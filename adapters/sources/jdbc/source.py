"""The source `jdbc`: due reads of the database are staged as files, which the source of files reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final

from pyspark.sql import DataFrame

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.paths.file_names import in_folders
from lakeward.adapters.sources.files.source import FilesSource
from lakeward.adapters.sources.jdbc.columns import columns_of, drop_columns, refuse_other_forms
from lakeward.adapters.sources.jdbc.cursors import check_cursor
from lakeward.adapters.sources.jdbc.database.queries import Query, Reader
from lakeward.adapters.sources.jdbc.file_names import PATTERN, StagedNames, StagedRead
from lakeward.adapters.sources.jdbc.options import JdbcSourceOptions
from lakeward.adapters.sources.jdbc.staging import BucketStaging, FolderStaging, ReadRequest, Staging
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
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection, select_objects
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.settings.source_catalogue import SourceTable
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.core.text.durations import micros_of
from lakeward.plugins import Options, Runtime
from lakeward.plugins.registry import clock

_MILLI: Final = 1000
_FOLDER: Final = "staged"


@dataclass(slots=True)
class JdbcSource:
    """Tables of a database. The rows of a read are staged as files, and applied before the next read."""

    options: JdbcSourceOptions
    of_tables: Mapping[TableName, JdbcSourceOptions]
    reader: Reader
    staging: Staging
    files: FilesSource
    now: Callable[[], int] = clock
    runs_once: bool = False
    """True if each table is read at most once, and by its cursor once more."""
    _read: set[tuple[TableName, bool]] = field(default_factory=set)
    """The tables that were read in this process, each with whether the read was a snapshot."""
    _locks: dict[TableName, Lock] = field(default_factory=dict)

    @property
    def lateness(self) -> Lateness:
        """Queries follow each other. A row of a late commit is compared with the stored row, and is never late."""
        return ORDERED

    @property
    def sequences(self) -> Sequences:
        """Positions in the order of the cursor."""
        return self.files.sequences

    def order_by(self, dimension: Dimension) -> str | None:
        """Return the cursor; without one, all reads are full loads."""
        reads = self._options_of(dimension.source)
        return None if reads.cursor is None else str(OrderBy(reads.cursor, reads.source_zone))

    def key_form(self, dimension: Dimension) -> str | None:
        """Return None: values are those of the database."""

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """Return staged files that are not applied; if there are none, due rows are read and staged first.

        Raises ConfigError for a table that cannot be read in this way, and as the reader does.
        """
        return self._select(dimension, object_history, self._options_of(dimension.source))

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return nothing: rows can be read again. Raises ConfigError for a table that keeps ended rows."""
        if dimension.keeps_ended and objects:
            raise _rollback_error(dimension)
        return ()

    def select_snapshot(
        self, dimension: Dimension, history: ObjectHistory, topic: str, find_starts: Callable[[], Sequence[str]]
    ) -> ObjectSelection:
        """Return the only snapshot of a table, which goes on with the topic of an id.

        Before the first row is read, `find_starts` returns where the feed begins; `starts` returns that later. A
        snapshot that was staged for another topic, or for none, is read again. Raises as `select_objects` does.
        """
        table = dimension.source
        others = [i for i in self._list(table) if (one := StagedRead.of(i.name)) is None or one.topic != topic]
        self.staging.remove(table, others)
        return self._select(dimension, history, self._options_of(table), topic, find_starts)

    def starts(self, dimension: Dimension, item: SourceObject) -> Sequence[str]:
        """Return where the feed of a table begins, by a file of its snapshot; raises SourceError if it is gone."""
        return self.staging.starts(dimension.source, item)

    def find_applied(self, dimension: Dimension, history: ObjectHistory) -> Sequence[SourceObject]:
        """Return the staged files that were applied and not removed."""
        return [item for item in self._list(dimension.source) if history.has_applied(item)]

    def _select(
        self,
        dimension: Dimension,
        history: ObjectHistory,
        reads: JdbcSourceOptions,
        topic: str | None = None,
        find_starts: Callable[[], Sequence[str]] | None = None,
    ) -> ObjectSelection:
        _check(dimension, reads)
        is_preview = history.load is not None and history.load.since is None and history.load.settles is None
        # Staged files that were never applied may be gone: their rows are read again.
        waiting, history = (
            history.waiting,
            replace(history, load=_required_load(dimension, history), waiting={}, start=None),
        )
        with self._locks.setdefault(dimension.source, Lock()):
            items = self._next_objects(dimension, history)
            if not items and not is_preview:
                self._land_due_read(dimension, history, reads, topic, find_starts)
                items = self._next_objects(dimension, history)
        staged = {item.name: item for item in self._list(dimension.source)}
        selection = _select_staged(dimension, history, items, is_dated=reads.cursor is None)
        return replace(
            selection,
            superseded=tuple(name for name in waiting if name not in staged),
            leftovers=tuple(item for item in staged.values() if history.has_applied(item)),
        )

    def _list(self, table: TableName) -> Sequence[SourceObject]:
        listed, others = self.files.folder.list(table) or ((), ())
        return self.staging.select_complete(listed, others)

    def _next_objects(self, dimension: Dimension, history: ObjectHistory) -> Sequence[SourceObject]:
        """Return the next staged files: those of one snapshot, or of the queries before the next snapshot."""
        table = dimension.source
        unapplied = [item for item in self._list(table) if not history.has_applied(item)]
        reads = {item: staged for item in unapplied if (staged := StagedRead.of(item.name))}
        newest = _newest_snapshot(history)
        stale = [i for i, one in reads.items() if not one.is_snapshot and newest is not None and one.time < newest]
        if stale and dimension.readers == 1:
            self.staging.remove(table, stale)
        waiting = {item: staged for item, staged in reads.items() if item not in stale}
        if history.load is not None and history.load.since is not None:
            since = history.load.since
            waiting = {i: one for i, one in waiting.items() if one.is_snapshot and one.time >= since}
        snapshots = sorted(one.time for one in waiting.values() if one.is_snapshot)
        first = min((one.time for one in waiting.values()), default=None)
        if snapshots and snapshots[0] == first:
            return [item for item, one in waiting.items() if one.time == first]
        return [item for item, one in waiting.items() if not snapshots or one.time < snapshots[0]]

    def _land_due_read(
        self,
        dimension: Dimension,
        history: ObjectHistory,
        reads: JdbcSourceOptions,
        topic: str | None,
        find_starts: Callable[[], Sequence[str]] | None,
    ) -> None:
        applied = list(_applied_reads(history))
        snapshot = history.load is not None and _is_due(history, reads, self.now())
        was_read = self.runs_once and (dimension.name, snapshot) in self._read
        if not was_read and (snapshot or reads.cursor is not None):
            staged = (one for item in self._list(dimension.source) if (one := StagedRead.of(item.name)))
            time = _read_time(self.now(), history, [*applied, *staged])
            request = self._make_request(dimension, reads, applied, time, is_snapshot=snapshot)
            request = replace(request, staged=replace(request.staged, topic=topic), find_starts=find_starts)
            self.staging.land(dimension.source, self.reader, request)
            self._read.add((dimension.name, snapshot))

    def _make_request(
        self,
        dimension: Dimension,
        reads: JdbcSourceOptions,
        applied: Sequence[StagedRead],
        time: int,
        *,
        is_snapshot: bool,
    ) -> ReadRequest:
        """Return the next read: a snapshot has all rows, a query those from the highest cursor on."""
        table = drop_columns(dimension, self._describe(dimension), reads.without)
        columns = columns_of(dimension, table)
        if reads.then is not None:
            refuse_other_forms(dimension, table, columns, is_mysql=reads.types == "mysql")
        last = max(applied, key=lambda one: one.time, default=None)
        key = next((column.name for column in columns if column.name == dimension.key[0]), None)
        query = Query(table=table, columns=columns, key=key, partitions=reads.partitions)
        staged = StagedRead(time=time, is_snapshot=is_snapshot)
        if reads.cursor is None:
            return ReadRequest(query=query, staged=staged)
        cursor = next((column for column in columns if column.name == reads.cursor), None)
        if cursor is None:
            raise _no_cursor_error(dimension, reads.cursor, table)
        overlap = check_cursor(dimension.name, cursor, reads)
        if is_snapshot:
            return ReadRequest(query=query, staged=staged, cursor=cursor, overlap=overlap)
        reached = max((one.reached for one in applied if one.reached is not None), default=None)
        since = None if reached is None else reached - overlap
        return ReadRequest(
            query=replace(query, cursor=cursor, since=since),
            staged=replace(staged, since=since, reached=reached),
            cursor=cursor,
            overlap=overlap,
            tail=None if last is None else last.tail,
        )

    def _describe(self, dimension: Dimension) -> SourceTable:
        table = self.reader.describe(dimension.source)
        if table is None:
            raise ConfigError(
                f"{dimension.name}: the database has no such table",
                found=f"it is asked for {dimension.source}",
                todo="Write its name as the database has it, or say with `reads` what the database calls it; and "
                "may the user see it?",
            )
        return table

    def _options_of(self, table: TableName) -> JdbcSourceOptions:
        return self.of_tables.get(table, self.options)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Read staged files: those of a snapshot as a full load, those of a query as changes."""
        if selection.load_epoch is not None:
            return self.files.read(
                replace(dimension, snapshots=dimension.snapshots or Snapshots()), selection, epoch
            )
        batch = self.files.read(replace(dimension, snapshots=None), selection, epoch)
        # A full load is complete with its own batch. Another batch that said so would be an older snapshot.
        return replace(batch, facts=replace(batch.facts, loaded=None))

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Remove applied staged files: their rows are in the database."""
        self.staging.remove(dimension.source, objects)
        return ()

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        """Remove what ended runs left below the prefix of a bucket, and return it; with `is_dry` only return it."""
        return self.staging.clean(dimension.source, is_dry=is_dry)

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> DataFrame:
        """Return a truncate event that the database does not record."""
        return self.files.truncation(dimension, place, time)

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return nothing: rules are applied behind the source."""
        return self.files.recomputed(dimension, may_need)

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension itself: the columns of a table are those of its files."""
        return dimension

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return the cells of a quarantined row as it was read."""
        return self.files.cells(dimension, entry)

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> DataFrame:
        """Return repaired rows as events."""
        return self.files.repair_row(dimension, entries)


def _rollback_error(dimension: Dimension) -> ConfigError:
    return ConfigError(
        f"{dimension.name}: it cannot be rolled back over what was read from its database",
        found="it keeps rows that ended, and a database has no rows but those of now",
        todo=f"Nothing was changed. `lakeward reload {dimension.name}` reads the table anew.",
    )


def _check(dimension: Dimension, reads: JdbcSourceOptions) -> None:
    """Raise ConfigError for a table without a key, and for one without a rule when it is read again."""
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


def _required_load(dimension: Dimension, history: ObjectHistory) -> Load | None:
    """Return the full load that must come next, or None: a table begins with one, and a staged one is complete."""
    if history.load is not None:
        return replace(history.load, settles=0)
    return Load(epoch=1, settles=0) if history.has_no_batch and dimension.snapshots is None else None


def _is_due(history: ObjectHistory, reads: JdbcSourceOptions, now: int) -> bool:
    """Return True if a table must be read as a whole: on request, at first, or when its last snapshot is old."""
    newest = _newest_snapshot(history)
    is_asked = history.load is not None and history.load.since is not None
    return is_asked or newest is None or now - newest >= micros_of(reads.every)


def _applied_reads(history: ObjectHistory) -> Iterable[StagedRead]:
    return (staged for name in history.applied if (staged := StagedRead.of(name)) is not None)


def _newest_snapshot(history: ObjectHistory) -> int | None:
    """Return when the newest applied snapshot was read, in microseconds since 1970."""
    return max((one.time for one in _applied_reads(history) if one.is_snapshot), default=None)


def _read_time(now: int, history: ObjectHistory, earlier: Iterable[StagedRead]) -> int:
    """Return the time of a read in whole milliseconds: after earlier reads, and not before a requested time."""
    requested = 0 if history.load is None or history.load.since is None else history.load.since
    time = max([now, requested, *(one.time + _MILLI for one in earlier)])
    return -(-time // _MILLI) * _MILLI


def _select_staged(
    dimension: Dimension, history: ObjectHistory, items: Sequence[SourceObject], *, is_dated: bool
) -> ObjectSelection:
    """Select among staged files; files of changes come before the next snapshot.

    In a history a snapshot `is_dated` by the time of its read, unless a cursor dates its rows.
    """
    listed = in_folders(_folder_of, dimension.source, items, history)
    has_changes = any(not staged.is_snapshot for item in items if (staged := StagedRead.of(item.name)))
    naming = Naming(is_load=_is_load, snapshot=_folder_of, is_dated=lambda _: is_dated)
    return select_objects(
        str(dimension.name),
        listed,
        replace(history, load=None) if has_changes else history,
        Limits(),
        naming,
        keeps=False,
    )


def _is_load(name: str) -> bool:
    staged = StagedRead.of(name)
    return staged is not None and staged.is_snapshot


def _folder_of(name: str) -> str:
    return name.partition("/")[0]


def _no_cursor_error(dimension: Dimension, cursor: str, table: SourceTable) -> ConfigError:
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
    """Return the staging of rows, and its folder in the form that the source of files reads."""
    prefix = open_staging(settings.staging, runtime, "jdbc")
    places = Places(Place(StagedNames(), is_encoded=prefix is not None))
    if prefix is not None:
        from lakeward.adapters.sources.landing.bucket_store import BucketStore  # noqa: PLC0415  # boto3 is imported when it is needed

        return BucketStaging(prefix), Folder(prefix.url, places, store=BucketStore(prefix.client))
    root = runtime.base / settings.path if settings.path else runtime.base / runtime.state / _FOLDER
    root.mkdir(parents=True, exist_ok=True)
    return FolderStaging(root), Folder(root, places)


def _as_files(root: Any, reads: JdbcSourceOptions) -> FilesOptions:
    """Return the options with which the source of files reads staged rows; the time in a file name is in UTC."""
    return FilesOptions(
        path=str(root),
        format="parquet",
        names=PATTERN,
        snapshots="folder",
        order_by=reads.cursor,
        source_zone="UTC" if reads.cursor is None else reads.source_zone,
    )
