"""The source `files`: select plain files of a table, and read them as a batch of events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.sources.csv.earlier_headers import names_in_headers, order_in_headers
from lakeward.adapters.sources.csv.layout import find_layout
from lakeward.adapters.sources.files.column_mapping import (
    check_documents,
    check_images,
    check_mapping,
    ways_of_writing,
)
from lakeward.adapters.sources.files.damage import only_other_tables, refuse_damage, survey_frame
from lakeward.adapters.sources.files.event_frame import ODD, frame_of
from lakeward.adapters.sources.files.file_columns import (
    File,
    inspect_file,
    inspect_files,
    leading_alike,
    with_schema,
)
from lakeward.adapters.sources.files.json_lines.frames import UNDECLARED
from lakeward.adapters.sources.files.json_lines.message_warnings import (
    NO_TIME,
    count_lost_deletes,
    count_missing_order,
    count_rows_gone,
    count_unknown_keys,
)
from lakeward.adapters.sources.files.json_lines.other_tables import (
    HAS_OTHER,
    has_own_folder,
    names_needed,
    other_tables,
    tables_sharing_folder,
)
from lakeward.adapters.sources.files.json_lines.quarantined_cells import cells_of_line, group_by_reading
from lakeward.adapters.sources.files.local.event_frame import read_here
from lakeward.adapters.sources.files.local.json_lines import SmallLines, is_of_lines, with_flags
from lakeward.adapters.sources.files.local.message_columns.message_form import Lines, LinesNeeded, MessageForm
from lakeward.adapters.sources.files.local.message_columns.read_ahead import AheadReader
from lakeward.adapters.sources.files.local.message_columns.reader import MOST_BYTES_AHEAD, MessageBatch
from lakeward.adapters.sources.files.named_fields import FIELD_FLAGS, count_near_words, count_undated, refuse_fields
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.paths.file_names import (
    in_folders,
    is_sink_side_file,
    snapshot_of,
    time_of,
    with_ordinals,
    with_sink_orders,
)
from lakeward.adapters.sources.files.paths.path_columns import (
    count_unused_path_values,
    lost_path_columns,
    path_cells,
    without_path_columns,
)
from lakeward.adapters.sources.files.paths.snapshot_folders import snapshot_folder
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.object_selection import select_files, select_unchanged, to_batch
from lakeward.adapters.sources.messages.decoded import KEY_HALF, MESSAGE_FLAGS, OTHER_TABLE, UNDECODED
from lakeward.adapters.sources.messages.json.variant_values import object_of
from lakeward.adapters.sources.rows.frame_cache import FrameCache
from lakeward.adapters.sources.rows.local_files import BYTES_OF_A_ROW, read_frame
from lakeward.adapters.sources.rows.repair import csv_cells, is_parquet, json_cells, replayed_events, unreadable_row
from lakeward.adapters.spark.frames.event_frame import (
    AHEAD,
    DATABASE,
    INITIAL,
    LOG,
    NO_PLACE,
    SKIPPED,
    Group,
    facts,
)
from lakeward.adapters.spark.frames.frame_survey import lift_places, log_steps, with_ahead
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.adapters.spark.frames.source_rows import TORN
from lakeward.adapters.spark.merge.truncates import truncation
from lakeward.core.checks.event_order import ARRIVAL, LOG_PLACE, OrderBy
from lakeward.core.checks.key_form import key_form
from lakeward.core.checks.source_clock import believed
from lakeward.core.dimension import ORDERED, Dimension, Lateness, TableName, Within
from lakeward.core.errors import ConfigError, LakewardError, SchemaConflict, SourceError
from lakeward.core.events import Operation, Position, Sequences
from lakeward.core.ledger.full_loads import Naming
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection
from lakeward.core.merge.facts import BatchFacts, Capability
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.plugins.registry import clock

if TYPE_CHECKING:
    from lakeward.adapters.sources.staging.copies import StagedCopies

_SURVEYED: Final = (
    *(UNDECLARED, ODD, OTHER_TABLE, HAS_OTHER, *MESSAGE_FLAGS, DATABASE, INITIAL),
    *(LOG, NO_PLACE, NO_TIME, *FIELD_FLAGS),
)
"""Columns of a frame that are dropped after the survey."""

MANY_MESSAGE_BYTES: Final = 512 * 1024
"""From this size on, Arrow reads the messages of a small batch: a fifth of the CPU of plain Python."""

MANY_BYTES: Final = 8 * 1024 * 1024
_DAY: Final = 24 * 3600 * 1_000_000

NextObjects: TypeAlias = Callable[[Dimension, ObjectSelection], Sequence[SourceObject]]


@dataclass(slots=True)
class FilesSource:
    """The source of plain files. A batch is read whole and once, before anything is written.

    Other sources use it for files that they stage: messages of Kafka, and rows of a database.
    """

    options: FilesOptions
    folder: Folder
    spark: Callable[[], SparkSession]
    patterns: Mapping[TableName, Mapping[str, str]] = field(default_factory=dict)
    of_tables: Mapping[TableName, FilesOptions] = field(default_factory=dict)
    now: Callable[[], int] = clock
    small_batch: int = 0
    many_bytes: int = MANY_BYTES
    """The size of a batch from which on Arrow decodes messages: below it, starting the workers costs more."""
    may_be_unreadable: bool = False
    """Whether a file without a readable row is accepted, because its lines are in one file by chance."""
    are_one: bool = False
    """Whether the schemas of all messages of a batch count for each of its files."""
    copies: StagedCopies | None = None
    """Copies the files of a batch to a place that all nodes of Spark can read."""
    tables_with_torn_rows: set[TableName] = field(default_factory=set)
    tables_with_links: set[TableName] = field(default_factory=set)
    tables_with_others: set[TableName] = field(default_factory=set)
    tables_of_others: set[TableName] = field(default_factory=set)
    """Tables in which earlier batches had rows over several lines, inserts that may be halves of key changes, some
    messages that Arrow cannot decode, or no message that it can decode."""
    frame_cache: FrameCache = field(default_factory=FrameCache)
    message_form: MessageForm = field(default_factory=Lines)
    """The form of files of messages, which only this process reads."""
    next_objects: NextObjects | None = None
    """Returns the files of the batch after a selection, which can be read ahead. It may wait for them."""
    ahead_reader: AheadReader = field(default_factory=AheadReader)

    @property
    def lateness(self) -> Lateness:
        """The default lateness: a day if rows have a time, else ordered, by files and lines."""
        every = (self.options, *self.of_tables.values())
        return Within(_DAY) if any(options.time or options.order_by for options in every) else ORDERED

    @property
    def sequences(self) -> Sequences:
        """The kind of sequences: positions in an order that a column or the messages give."""
        return Sequences.PLACES

    @property
    def _limits(self) -> Limits:
        return Limits(self.options.max_files, self.options.max_bytes)

    def order_by(self, dimension: Dimension) -> str | None:
        """Return what orders the rows of a table, in a form that shows whether it changed.

        It is the column of `order_by` with its format and zone, "" without one, or that messages go by log position
        or by arrival. It is None for snapshots, whose rows are not compared with each other.
        """
        if dimension.snapshots is not None:
            return None
        options = self._options(dimension)
        if options.is_messages:
            return LOG_PLACE if options.has_places else ARRIVAL
        if options.order_by is None:
            return ""
        formats = self.patterns.get(dimension.source, {})
        return str(OrderBy(options.order_by, options.source_zone, formats.get(options.order_by, "")))

    def key_form(self, dimension: Dimension) -> str | None:
        """Return the form of key values: formats, the zone of times, and how messages write them."""
        options, formats = self._options(dimension), self.patterns.get(dimension.source, {})
        ways = ways_of_writing(options, dimension, formats)
        return key_form(dimension, formats, options.source_zone, ways)

    def check(self, dimension: Dimension, past: ObjectHistory) -> None:
        """Raise ConfigError for a table whose files cannot be read by its settings."""
        options = self._options(dimension)
        check_images(options, dimension)
        check_documents(options, dimension)
        if dimension.snapshots is None and past.load is not None:
            raise _no_full_load(dimension)
        if dimension.snapshots is not None and options.is_messages:
            raise no_snapshots(dimension)

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """Select the next files; raises ConfigError as `check` does."""
        limits, options = self._limits, self._options(dimension)
        self.check(dimension, object_history)
        if dimension.snapshots is None:
            has_sink = options.is_messages and options.names is None
            ordered = with_sink_orders if has_sink else with_ordinals
            selection = select_files(self.folder, dimension, object_history, limits, ordered)
            own = tuple(name for name in selection.unrelated_files if not (has_sink and is_sink_side_file(name)))
            return replace(selection, unrelated_files=own)
        folder = self._folder_of_snapshots(dimension)
        place = folder.places.of(dimension.source)
        snapshots = Naming(
            snapshot=snapshot_of(options.snapshots, options.path_columns),
            is_dated=lambda name: (
                options.dates_snapshots and time_of(place.known(dimension.source, name).order) is not None
            ),
        )
        ordinals = with_ordinals
        if options.snapshots == "folder":
            ordinals = partial(in_folders, snapshot_folder(options.path_columns))
        return select_files(folder, dimension, object_history, limits, ordinals, snapshots)

    def _folder_of_snapshots(self, dimension: Dimension) -> Folder:
        """Return the folder with names by which files of a table belong to snapshots."""
        places, place = self.folder.places, self._options(dimension).place(snapshots=True)
        return replace(self.folder, places=replace(places, own={**places.own, dimension.source: place}))

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return the applied files that are no longer in the landing folder."""
        folder = self.folder if dimension.snapshots is None else self._folder_of_snapshots(dimension)
        return folder.find_missing(dimension.source, objects)

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move applied files into the archive, if there is one."""
        return self.folder.archive_files(dimension.source, objects)

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> DataFrame:
        """Return the event of a truncate that an operator ordered."""
        in_part = bool(self._table(dimension).reading.in_part)
        return truncation(self.spark(), dimension, place, time, in_part=in_part)

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return no recomputed columns: column rules are applied after a source."""
        return RecomputedColumns()

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Read the selected files; files that changed while they were read, and all after them, are left out.

        Raises SchemaConflict, SourceError or ConfigError for files that stop the table, and LinesNeeded for files
        that cannot be read by their form.
        """
        lines = SmallLines(self.small_batch)
        try:
            return self._read(dimension, selection, epoch, lines)
        except LakewardError as error:
            if lines.is_by_form:  # the schemas may be those of other tables' messages
                raise LinesNeeded(str(error)) from error
            raise

    def _read(
        self, dimension: Dimension, selection: ObjectSelection, epoch: int, lines: SmallLines
    ) -> Batch[Frame]:
        table = self._table(dimension)
        selection, every = self._inspect(table, selection, lines)
        files = leading_alike(every)
        if selection.load_epoch is not None and len(files) < len(every):
            raise _not_alike(dimension, files[-1], every[len(files)])
        if not files:
            return self._without_columns(table, selection, epoch, lines)
        layouts = [(file.item.name, file.layout) for file in files]
        header = order_in_headers(layouts, table.expected, selection.header)
        objects = [file.item for file in files]
        tags = {item.name: item.etag or self.folder.etag(dimension.source, item.name) for item in objects}
        is_usual = dimension.source not in self.tables_of_others
        are_many = is_usual and sum(item.size for item in objects) >= self.many_bytes
        table = replace(table, dimension=with_schema(table, files), are_many=are_many)
        check_mapping(table.options, table.dimension)
        rows = lift_places(self._frame(table, files, selection, lines), selection.restarts)
        frame, close = self.frame_cache.cache(rows, dimension, objects)
        try:
            limit = believed(self.now())
            checked = with_ahead(frame, limit)
            groups = survey_frame(checked, table.dimension, files)
            must_read_again = self._must_read_again(dimension.source, groups)
            unchanged = select_unchanged(self.folder, dimension.source, selection)
            if len(unchanged.objects) < len(objects) or must_read_again:
                close()
                return self._read_or_nothing(dimension, selection if must_read_again else unchanged, epoch)
            _refuse(table, frame, files, groups, may_be_unreadable=self.may_be_unreadable)
            others = self._others(table, frame, groups)
            tagged = [replace(item, etag=tags[item.name]) for item in objects]
            batch = _batch_of(table, checked, groups, tagged, selection, epoch, close)
        except BaseException:
            close()
            raise
        halves = sum(group.rows for group in groups if KEY_HALF in group.flags)
        facts = replace(batch.facts, believed=limit, others=others, key_halves=halves, header=header)
        return replace(batch, facts=replace(facts, cautions=_cautions(table, dimension, facts, groups)))

    def _frame(
        self, table: TableFiles, files: Sequence[File], selection: ObjectSelection, lines: SmallLines
    ) -> Frame:
        """Return the events of files: read in this process where the batch is small, else by Spark."""
        read_files = partial(read_here, table, files, self.small_batch)
        read_lines = partial(self._read_lines, table, files, selection, lines)
        read_locally = read_lines if is_of_lines(files) else read_files
        return read_frame(table.dimension.name, self.spark, read_locally, partial(self._in_spark, table, files))

    def _read_lines(
        self, table: TableFiles, files: Sequence[File], selection: ObjectSelection, lines: SmallLines
    ) -> pa.Table:
        """Return the events of lines that this process reads.

        Raises SparkNeeded if Spark must read them, and LinesNeeded if it cannot yet.
        """
        if lines.is_by_form or not self.message_form.are_lines(table, files):
            try:
                return self._read_columns(table, files, selection)
            except SparkNeeded as needed:
                raise LinesNeeded(str(needed)) from needed
        if self._has_many_messages(table, files):
            with suppress(SparkNeeded):  # plain Python reads the messages of other forms
                return self._read_columns(table, files, selection)
        try:
            return lines.read(table, files)
        except SparkNeeded as needed:
            if not self.small_batch or table.options.format != "debezium":
                raise
            reason = str(needed)  # the exception would keep this call, and so the batch, after its end
        try:
            return self._read_columns(table, files, selection)
        except SparkNeeded as needed:
            raise SparkNeeded(f"{reason}, and {needed}") from needed

    def _read_columns(self, table: TableFiles, files: Sequence[File], selection: ObjectSelection) -> pa.Table:
        """Return the events of messages that are read in Arrow columns; raises SparkNeeded if they cannot be."""
        described = self.message_form.described(table, files)
        if described is None and table.dimension.source in self.tables_of_others:
            raise SparkNeeded("earlier batches had no message that Arrow decodes")
        batch = MessageBatch.of(described or table, files, self.message_form.parts)
        find_next = self.next_objects and partial(self._next_batch, self.next_objects, batch, selection)
        return with_flags(table, self.ahead_reader.read(batch, find_next))

    def _has_many_messages(self, table: TableFiles, files: Sequence[File]) -> bool:
        """Return whether a small batch has so many messages that Arrow reads them faster than plain Python."""
        is_of_messages = table.options.format == "debezium" and table.options.types != "schema"
        size = sum(file.item.size for file in files)
        return is_of_messages and MANY_MESSAGE_BYTES <= size <= self.small_batch * BYTES_OF_A_ROW

    def _next_batch(
        self, next_objects: NextObjects, batch: MessageBatch, selection: ObjectSelection
    ) -> MessageBatch | None:
        """Return the batch to read ahead: the one that follows if nothing else is found.

        None if it is small, or so large that its events would take much memory.
        """
        following = next_objects(batch.table.dimension, selection)
        size = sum(item.size for item in following)
        if not self.small_batch * BYTES_OF_A_ROW < size <= MOST_BYTES_AHEAD:
            return None
        last, format_of = batch.files[-1], batch.table.format_of
        files = tuple(replace(last, item=item, format=format_of(item.name)) for item in following)
        return replace(batch, files=files)

    def _in_spark(self, table: TableFiles, files: Sequence[File]) -> DataFrame:
        if self.copies is None:
            return frame_of(table, files)
        folder = self.copies.share(table.dimension.source, [file.item.name for file in files])
        return frame_of(replace(table, folder=folder), files)

    def _others(self, table: TableFiles, frame: Frame, groups: Sequence[Group]) -> OtherTables | None:
        """Return the other tables that messages name; their number alone if the folder is shared as intended."""
        messages = sum(group.rows for group in groups if HAS_OTHER in group.flags)
        if not messages:
            return None
        if not table.has_own_folder and any(group.reason != SKIPPED for group in groups):
            return OtherTables(messages, (), is_shared=True)
        return other_tables(frame, is_shared=not table.has_own_folder)

    def _inspect(
        self, table: TableFiles, selection: ObjectSelection, lines: SmallLines
    ) -> tuple[ObjectSelection, Sequence[File]]:
        """Return the selection of a batch, and its files with their columns.

        A table that does not exist yet needs a file with known columns: the selection grows until it has one.
        """
        inspected = inspect_files(table, selection.objects, selection.columns)
        files = lines.with_versions(table, inspected, self.message_form, selection.columns)
        while not files and selection.remaining and selection.load_epoch is None:
            before, selection = selection, selection.with_more(self.options.max_files)
            more = [inspect_file(table, item) for item in selection.objects[len(before.objects) :]]
            if described := lines.with_versions(table, more, self.message_form):
                first = [replace(inspect_file(table, item), schema=described[0].schema) for item in before.objects]
                files = [*first, *described]
        return selection, files

    def _must_read_again(self, name: TableName, groups: Sequence[Group]) -> bool:
        """Return whether a batch has rows that need a costlier way of reading, which was not used so far.

        These are rows over several lines, inserts that may be halves of key changes (they lack values, or headers
        say so), and messages that Arrow cannot decode. From now on the table's files are read in that way.
        """
        links = any(
            KEY_HALF in group.flags
            or (group.operation == Operation.INSERT.value and Capability.UNSET in group.needs)
            for group in groups
        )
        new = []
        if groups and all(UNDECODED in group.flags for group in groups):
            self.tables_of_others.add(name)  # Arrow decoded no message, so it need not try again
        for is_there, tables in (
            (any(TORN in group.flags for group in groups), self.tables_with_torn_rows),
            (links, self.tables_with_links),
            (any(UNDECODED in group.flags for group in groups), self.tables_with_others),
        ):
            new.append(is_there and name not in tables)
            tables.update({name} if is_there else ())
        return any(new)

    def _read_or_nothing(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        if selection.objects:
            return self.read(dimension, selection, epoch)
        return self._nothing(dimension, epoch)

    def _without_columns(
        self, table: TableFiles, selection: ObjectSelection, epoch: int, lines: SmallLines
    ) -> Batch[Frame]:
        """Return an empty batch for files that do not show the table's columns, with the other tables they name.

        Raises SourceError if they are in the table's own folder.
        """
        others = lines.other_tables(table, [item.name for item in selection.objects])
        if others is not None and table.has_own_folder:
            raise only_other_tables(table.dimension, "its files have", others)
        batch = self._nothing(table.dimension, epoch)
        return replace(batch, facts=replace(batch.facts, others=others))

    def _nothing(self, dimension: Dimension, epoch: int) -> Batch[Frame]:
        return Batch(self.spark().range(0).toDF("nothing"), facts([], dimension, dimension.schema, [], epoch))

    def _options(self, dimension: Dimension) -> FilesOptions:
        return self.of_tables.get(dimension.source, self.options)

    def _table(self, dimension: Dimension) -> TableFiles:
        name = dimension.source
        sharing = tables_sharing_folder(name, self.options, self.of_tables, {*self.patterns, *self.of_tables})
        table = TableFiles(
            spark=self.spark,
            folder=self.folder,
            dimension=dimension,
            options=self._options(dimension),
            patterns=self.patterns.get(name, {}),
            has_torn_rows=name in self.tables_with_torn_rows,
            links=name in self.tables_with_links,
            has_others=name in self.tables_with_others,
            has_own_folder=has_own_folder(self._options(dimension), self.options, sharing),
            must_name=names_needed(name, sharing),
            are_one=self.are_one,
        )
        earlier = cache(lambda: names_in_headers(self.folder, name, table.expected, table.head))
        return replace(table, earlier=earlier)

    # Rows in quarantine.

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension: the columns of a table are those of its files."""
        return dimension

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return the cells of a quarantined row as it was written; none if the row cannot be split into columns."""
        table = self._table(dimension)
        if is_parquet(entry):
            return json_cells(entry.text, table.reading)
        try:
            of_path, table = path_cells(table, entry.object), without_path_columns(table)
            if table.format_of(entry.object) != "csv":
                cells = cells_of_line(table, entry)
            else:
                layout = find_layout(entry.object, table.head(entry.object), table.expected, is_load=False)
                if layout.has_header and self.folder.is_written_since(dimension.source, entry.object, entry.since):
                    return Cells()
                cells = csv_cells(entry.text, layout, table.reading.dialect)
        except (SourceError, SchemaConflict):
            return Cells()
        return replace(cells, after={**cells.after, **of_path}) if cells.after else cells

    def _cells_to_read_anew(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return `cells`; raises RepairError for a value that is only in the path of the file and would be lost."""
        cells, table = self.cells(dimension, entry), self._table(dimension)
        is_csv = not is_parquet(entry) and table.format_of(entry.object) == "csv"
        has = cells.after if is_csv else object_of(entry.text) or {}
        if lost := lost_path_columns(table, entry.object, has.keys()):
            raise unreadable_row(
                dimension,
                entry,
                f"its {lost[0]} is in the path of its file alone, and `path_columns` does not name {lost[0]}",
                "Name it there. Else fix the row: `lakeward quarantine fix`.",
            )
        return cells

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> DataFrame:
        """Return quarantined rows as events; a row that was not repaired is read again as it was written."""
        frames = [
            replayed_events(self.spark(), reading, some, partial(self._cells_to_read_anew, dimension))
            for reading, some in group_by_reading(self._table(dimension), entries)
        ]
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


def _no_full_load(dimension: Dimension) -> ConfigError:
    name = dimension.name
    return ConfigError(
        f"{name}: its files are changes, and none of them is a full load",
        found="a reload waits for such a load",
        todo=f'Where a file or folder is the whole table: `full_loads = "snapshot"` under [tables."{name}"]. '
        f"Else drop the table together with {name.table}__changes and {name.table}__quarantine, and run: all files "
        f"that are there are applied anew. If it waits already: `lakeward reload {name} --withdraw`.",
    )


def no_snapshots(dimension: Dimension) -> ConfigError:
    """Return the error for a table of messages whose full loads should be snapshots: messages are changes."""
    return ConfigError(
        f"{dimension.name}: messages are changes, and its full loads are snapshots",
        todo=f'Take `full_loads = "snapshot"` out of [tables."{dimension.name}"].',
    )


def _cautions(
    table: TableFiles, dimension: Dimension, read: BatchFacts, groups: Sequence[Group]
) -> Mapping[str, int]:
    """Return the warnings about rows of a batch, each with the number of rows; `dimension` is as declared."""
    undated = count_undated(table.named_fields, groups)
    counted = {**count_missing_order(groups), **undated, **count_near_words(groups)}
    if table.options.is_messages:
        lost = {**count_lost_deletes(table, groups), **count_unknown_keys(groups)}
        return {**counted, **lost, **count_rows_gone(table, groups)}
    paths = {item.object.name: item.rows for item in read.objects}
    return {**counted, **count_unused_path_values(dimension.schema, read.schema, paths)}


def _refuse(
    table: TableFiles, frame: Frame, files: Sequence[File], groups: Sequence[Group], *, may_be_unreadable: bool
) -> None:
    """Raise an error for damaged files, and for files of which no row has a field that the settings name."""
    refuse_damage(
        *(table.dimension, frame, files, groups),
        has_own_folder=table.has_own_folder,
        path_columns=table.options.path_columns,
        may_be_unreadable=may_be_unreadable,
    )
    refuse_fields(table.dimension, table.named_fields, {f.item.order: f.item.name for f in files}, groups)


def _batch_of(
    table: TableFiles,
    checked: Frame,
    groups: Sequence[Group],
    objects: Sequence[SourceObject],
    selection: ObjectSelection,
    epoch: int,
    close: Callable[[], None],
) -> Batch[Frame]:
    """Return the batch of an event frame with its survey `groups`; the frame flags times in the future."""
    batch = to_batch(
        checked.drop(AHEAD, *_SURVEYED),
        table.dimension,
        groups,
        epoch=epoch,
        objects=objects,
        back={},  # rows of plain files need not be sorted by the column that orders them
        steps=log_steps(checked, groups, selection.reached) if table.options.is_messages else None,
        loads=[item.name for item in objects if selection.load_epoch is not None],
        may_need=table.reading.in_part,
        close=close,
    )
    loaded = batch.facts.loaded if selection.load_epoch is None else epoch
    return replace(batch, facts=replace(batch.facts, loaded=loaded, own_times=table.options.dates_rows))


def _not_alike(dimension: Dimension, one: File, other: File) -> SchemaConflict:
    return SchemaConflict(
        f"{dimension.name}: the files of its snapshot have different columns",
        found=f"found {one.item.name} and {other.item.name}",
        todo="Nothing was applied: a snapshot replaces all rows at once, so its files must have the same columns. "
        "Let it be written again.",
    )
