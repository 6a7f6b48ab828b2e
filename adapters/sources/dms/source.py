"""The source `dms`: files of AWS DMS in a folder or a bucket, as full loads and changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.sources.csv.earlier_headers import order_in_headers
from lakeward.adapters.sources.csv.layout import find_layout
from lakeward.adapters.sources.csv.parser import fields_in
from lakeward.adapters.sources.dms.damage import refuse_damage, survey_frame
from lakeward.adapters.sources.dms.file_columns import (
    File,
    different_columns_error,
    footer_of,
    old_names,
    select_same_columns,
    with_schema,
)
from lakeward.adapters.sources.dms.file_inspector import FileInspector
from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.dms.raw_files import LOAD, RawFiles
from lakeward.adapters.sources.dms.table_checks import (
    refuse_another_name,
    refuse_image_match,
    refuse_lateness,
    refuse_other_format,
    refuse_sequence_as_column,
)
from lakeward.adapters.sources.dms.transactions.layout import find_layout as find_shared_layout
from lakeward.adapters.sources.dms.transactions.shared_files import SharedFiles
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.object_selection import select_files, select_unchanged, to_batch
from lakeward.adapters.sources.rows.csv_frames import WHOLE_FILES, read_csv, typed_rows
from lakeward.adapters.sources.rows.frame_cache import FrameCache
from lakeward.adapters.sources.rows.local_files import SmallFile, read_files, read_frame
from lakeward.adapters.sources.rows.parquet_frames import read_parquet
from lakeward.adapters.sources.rows.read_errors import explain_read_errors
from lakeward.adapters.sources.rows.read_spec import NumberedFile, file_frame
from lakeward.adapters.sources.rows.repair import csv_cells, is_parquet, json_cells, replayed_events
from lakeward.adapters.spark.frames.event_frame import (
    LOG,
    Group,
    facts,
)
from lakeward.adapters.spark.frames.frame_survey import lift_places, log_steps, steps_back, with_ahead
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.adapters.spark.frames.local_source_rows import FilePlace
from lakeward.adapters.spark.frames.source_rows import TORN, to_events
from lakeward.adapters.spark.merge.truncates import truncation
from lakeward.core.checks.event_order import COMMIT_TIME
from lakeward.core.checks.key_form import key_form
from lakeward.core.checks.log_steps import OVERLAP
from lakeward.core.checks.source_clock import believed
from lakeward.core.dimension import ORDERED, Dimension, Lateness, TableName, Within
from lakeward.core.errors import SchemaConflict, SourceError
from lakeward.core.events import Position, Sequences
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Batch, Cells, Entry, TableDescription
from lakeward.core.schema import Schema
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.plugins.registry import clock

_KINDS: Final = {"$AR_H_CHANGE_SEQ": Sequences.UNIQUE, "$AR_H_STREAM_POSITION": Sequences.PLACES}
_DAY: Final = 24 * 3600 * 1_000_000


@dataclass(slots=True)
class DmsSource:
    """Files of AWS DMS. A batch is read completely, once, before anything is written.

    `shared` are the transaction files, where the endpoint writes them. A batch of at most `small_batch` rows is
    read in this process where that is possible, and else by Spark.
    """

    options: DmsOptions
    folder: Folder
    spark: Callable[[], SparkSession]
    patterns: Mapping[TableName, Mapping[str, str]] = field(default_factory=dict)
    now: Callable[[], int] = clock
    shared: SharedFiles | None = None
    tables_with_torn_rows: set[TableName] = field(default_factory=set)
    frame_cache: FrameCache = field(default_factory=FrameCache)
    small_batch: int = 0
    inspector: FileInspector = field(init=False)

    def __post_init__(self) -> None:
        self.inspector = FileInspector(self.options, self.folder, self.spark, self.patterns, self.shared)

    @property
    def lateness(self) -> Lateness:
        """A day where commit times order the changes. Otherwise the order of files is the only order."""
        has_times = self.options.timestamp_column is not None and self.sequences is not Sequences.ARRIVAL
        return Within(_DAY) if has_times else ORDERED

    @property
    def sequences(self) -> Sequences:
        """Commit times, or the kind of the rule `add-column`. Transaction files have the order of commits."""
        if self.options.sequence_column is None:
            has_commit_order = self.options.cdc_path is not None and self.options.timestamp_column is not None
            return Sequences.ARRIVAL if has_commit_order else Sequences.TIMES
        return _KINDS[self.options.sequence_kind]

    def order_by(self, dimension: Dimension) -> str | None:
        """Return the sequence column, or what stands for the commit time, whose column a task may rename."""
        if self.sequences is Sequences.ARRIVAL:
            return None
        return self.options.sequence_column or ("" if self.options.timestamp_column is None else COMMIT_TIME)

    def key_form(self, dimension: Dimension) -> str | None:
        """Return the formats of the key's columns, the time zone of its values, and whether blanks are trimmed."""
        o = self.options
        formats = self.patterns.get(dimension.source, {})
        return key_form(dimension, formats, o.source_zone, is_trimmed=o.trim_padding)

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """Select the next files, in the order of their names.

        Raises ConfigError for settings that the files cannot meet, SourceError where files cannot be listed or
        read, and AlarmRaised where something may be lost.
        """
        refuse_image_match(dimension, self.options)
        if self.shared is not None:
            refuse_lateness(dimension, self.options)
            refuse_another_name(dimension)
        limits = Limits(self.options.max_files, self.options.max_bytes)
        return select_files(self.folder, dimension, object_history, limits, self._check_objects)

    def _check_objects(
        self, table: TableName, listed: Sequence[SourceObject], history: ObjectHistory
    ) -> Sequence[SourceObject]:
        """Refuse files of another format, and leave out transaction files without rows of the table."""
        shared = (
            [] if self.shared is None else [i for i in listed if self.inspector.file_name(table, i.name).is_shared]
        )
        own = [item for item in listed if item not in shared] if shared else listed
        for item in own if self.options.format != "auto" else ():
            refuse_other_format(table, item.name, self.options)
        if self.shared is None:
            return own
        has_more = any(item.name not in history.applied for item in own)
        return [*own, *self.shared.select_for_table(table, shared, history, has_more=has_more)]

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return the names of applied files that are no longer in the landing folder."""
        return self.folder.find_missing(dimension.source, objects)

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        """Remove staged rows that no table needs, and return their paths; with `is_dry` only return them."""
        return () if self.shared is None else self.shared.clean(is_dry=is_dry)

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> DataFrame:
        """Return a truncate event. DMS deletes a table's files on a truncate and writes no change."""
        return truncation(
            self.spark(), dimension, place, time, in_part=bool(self.inspector.reading(dimension).in_part)
        )

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move applied files into the archive, if there is one, and return the names of those that are there.

        A transaction file is moved once every table has applied it.
        """
        table = dimension.source
        of_all = (
            [] if self.shared is None else [i for i in objects if self.inspector.file_name(table, i.name).is_shared]
        )
        own = self.folder.archive_files(table, [item for item in objects if item not in of_all])
        return [*own, *self.shared.archive(table, of_all)] if self.shared is not None and of_all else own

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Read the files. Files that changed while they were read, and all behind them, are left to the next batch.

        Raises SchemaConflict and SourceError for files that do not fit the table or cannot be read.
        """
        refuse_sequence_as_column(dimension, self.options)
        self.inspector.forget_headers(dimension.source)
        all_files = self.inspector.inspect_all(dimension, selection)
        files = select_same_columns(dimension, all_files, self.options)
        if selection.load_epoch is not None and len(files) < len(all_files):
            raise different_columns_error(dimension, files[-1], all_files[len(files)])
        named_layouts = [(file.object.name, file.layout) for file in files if not file.name.is_shared]
        header = order_in_headers(named_layouts, self.inspector.expected_layout(dimension), selection.header)
        objects = tuple(file.object for file in files)
        tags = {file.object.name: self._etag(dimension.source, file) for file in files}
        dimension = with_schema(dimension, files, self.options)
        limit = believed(self.now())
        rows = lift_places(self._frame(dimension, files), selection.restarts)
        direct_load = self._write_load(dimension, files, rows, selection, limit)
        frame, close = direct_load or self.frame_cache.cache(rows, dimension, objects)
        try:
            flagged = _with_log_column(with_ahead(frame, limit), dimension.sequences)
            with self._explain_read_errors(dimension, files):
                groups = survey_frame(flagged, dimension)
            if dimension.source not in self.tables_with_torn_rows and any(TORN in group.flags for group in groups):
                self.tables_with_torn_rows.add(dimension.source)
                close()
                return self.read(dimension, selection, epoch)
            unchanged = select_unchanged(self.folder, dimension.source, selection)
            if len(unchanged.objects) < len(objects):
                close()
                return self._read_or_nothing(dimension, unchanged, epoch)
            refuse_damage(dimension, frame, files, groups, has_times=self.options.timestamp_column is not None)
            tagged = [replace(file, object=replace(file.object, etag=tags[file.object.name])) for file in files]
            batch = self._make_batch(dimension, tagged, frame, flagged, groups, selection, epoch, close)
        except BaseException:
            close()
            raise
        batch_facts = replace(batch.facts, believed=limit, header=header)
        return replace(batch, facts=batch_facts, frame=frame if direct_load else batch.frame)

    def _make_batch(
        self,
        dimension: Dimension,
        files: Sequence[File],
        frame: Frame,
        flagged: Frame,
        groups: Sequence[Group],
        selection: ObjectSelection,
        epoch: int,
        close: Callable[[], None],
    ) -> Batch[Frame]:
        """Return the batch of an event frame; `flagged` marks times that lie ahead, `groups` is its survey."""
        batch = to_batch(
            frame,
            dimension,
            groups,
            epoch=epoch,
            objects=[file.object for file in files],
            loads={file.object.name for file in files if file.name.is_load},
            back=steps_back(frame, groups, dimension),
            steps=log_steps(flagged, groups, selection.reached) if dimension.sequences.are_wide else None,
            may_need=self.inspector.reading(dimension).in_part,
            close=close,
        )
        return batch if selection.load_epoch is None else replace(batch, facts=replace(batch.facts, loaded=epoch))

    def _write_load(
        self, dimension: Dimension, files: Sequence[File], rows: Frame, selection: ObjectSelection, limit: int
    ) -> tuple[Frame, Callable[[], None]] | None:
        """Write the rows of a full load to files of the table while they are read, where that is possible.

        Returns the frame of the written rows and a function that closes it; None where it is not possible.
        """
        if selection.load_writer is None or not all(file.name.is_load for file in files):
            return None
        with self._explain_read_errors(dimension, files):
            written: tuple[Frame, Callable[[], None]] | None = selection.load_writer(
                dimension.schema, with_ahead(rows, limit)
            )
        return written

    def _explain_read_errors(self, dimension: Dimension, files: Sequence[File]) -> AbstractContextManager[None]:
        file_names = [file.object.name for file in files]
        return explain_read_errors(dimension.name, file_names, partial(self.folder.path, dimension.source))

    def _etag(self, table: TableName, file: File) -> str | None:
        staged_etag = (
            self.shared.etag(file.object.name) if self.shared is not None and file.name.is_shared else None
        )
        return file.object.etag or staged_etag or self.folder.etag(table, file.object.name)

    def _read_or_nothing(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        if selection.objects:
            return self.read(dimension, selection, epoch)
        return Batch(self.spark().range(0).toDF("nothing"), facts([], dimension, dimension.schema, [], epoch))

    # Raw files, for other engines.

    def describe_raw(self, dimension: Dimension, namespace: str) -> Sequence[TableDescription]:
        """Return the folders of a table as tables of a namespace, described by their newest files."""
        inspect = partial(self.inspector.inspect, known_columns=Schema(()), is_there=True)
        return [*RawFiles(self.options, self.folder, inspect).describe(dimension, namespace)]

    def identify_raw(self, table: TableName, namespace: str) -> Sequence[tuple[str, str]]:
        """Return the names that the folders of a table may have in a namespace."""
        names = (table.table, f"{table.table}{LOAD}") if self.folder.places.of(table).is_split else (table.table,)
        return [(namespace, name) for name in names]

    # Rows in quarantine.

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension itself: the columns of a table are those of its files."""
        return dimension

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return nothing: rules are applied behind the source."""
        return RecomputedColumns()

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return the cells of a quarantined row as it was written; none if its file is gone or was replaced."""
        if is_parquet(entry):
            return json_cells(entry.text, self.inspector.reading(dimension))
        expected = self.inspector.expected_layout(dimension)
        try:
            name = self.inspector.file_name(dimension.source, entry.object)
            if name.is_shared:
                width = fields_in(entry.text, expected.dialect)
                return csv_cells(entry.text, find_shared_layout(entry.object, width, expected), expected.dialect)
            head = self.inspector.head(dimension.source, entry.object)
            layout = find_layout(entry.object, head, expected, is_load=name.is_load)
        except (SourceError, SchemaConflict):
            return Cells()
        if layout.has_header and self.folder.is_written_since(dimension.source, entry.object, entry.since):
            return Cells()
        return csv_cells(entry.text, layout, expected.dialect)

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> DataFrame:
        """Return repaired rows as events; a row that was not repaired is read as it was written."""
        return replayed_events(
            self.spark(), self.inspector.reading(dimension), entries, partial(self.cells, dimension)
        )

    # Rows.

    def _frame(self, dimension: Dimension, files: Sequence[File]) -> Frame:
        """Return the events of files, read in this process where the batch is small, else by Spark."""
        here, in_spark = (partial(read, dimension, files) for read in (self._read_locally, self._read_in_spark))
        return read_frame(dimension.name, self.spark, here, in_spark)

    def _read_locally(self, dimension: Dimension, files: Sequence[File]) -> pa.Table:
        """Return the events of a small batch; raises SparkNeeded where only Spark can read it."""
        if any(file.name.is_shared for file in files):
            raise SparkNeeded("its files have changes of many tables")
        op, table = self.options.op_column, dimension.source
        small = [
            SmallFile(
                file.object.name,
                file.object.size,
                partial(self.folder.open, table, file.object.name),
                FilePlace(file.object.order, rank, file.name.is_load, file.has_op(op)),
                file.layout,
                None if file.schema is None else footer_of(file),
                {new: old for old, new in old_names(dimension, file)},
            )
            for rank, file in enumerate(files)
        ]
        return read_files(small, self.inspector.reading(dimension), self.small_batch)

    def _read_in_spark(self, dimension: Dimension, files: Sequence[File]) -> DataFrame:
        """Return the events of files; files of one layout are read together, whatever their number."""
        spark, reading = self.spark(), self.inspector.reading(dimension)
        is_csv = any(file.layout is not None and not file.name.is_shared for file in files)
        for name, value in WHOLE_FILES.items():
            spark.conf.set(name, value) if is_csv else spark.conf.unset(name)
        paths = {file.object.name: self._path(dimension.source, file) for file in files}
        numbered = [
            NumberedFile(
                paths[f.object.name], f.object.order, rank, f.name.is_load, f.has_op(self.options.op_column)
            )
            for rank, f in enumerate(files)
        ]
        groups: dict[object, list[File]] = defaultdict(list)
        for file in files:
            groups[file.layout or (footer_of(file), old_names(dimension, file))].append(file)
        frames = []
        for group in groups.values():
            group_paths = [paths[file.object.name] for file in group]
            first = group[0]
            if self.shared is not None and first.layout is not None and first.name.is_shared:
                rows = self.shared.rows(dimension.source, [file.object for file in group])
                frames.append(typed_rows(rows, first.layout, reading))
            elif first.layout is not None:
                has_torn_rows = dimension.source in self.tables_with_torn_rows
                frames.append(read_csv(spark, group_paths, first.layout, reading, has_torn_rows=has_torn_rows))
            else:
                has_op = first.has_op(self.options.op_column)
                stored_names = {new: old for old, new in old_names(dimension, first)}
                frames.append(
                    read_parquet(spark, group_paths, reading, footer_of(first), has_op=has_op, called=stored_names)
                )
        rows = reduce(DataFrame.unionByName, frames)
        return to_events(rows, file_frame(spark, numbered, reading), reading)

    def _path(self, table: TableName, file: File) -> str:
        """Return the path of a file.

        Staged rows of a transaction file are identified by its path in the landing folder.
        """
        name = file.object.name
        return f"{self.folder.base}/{name}" if file.name.is_shared else self.folder.landing_path(table, name)


def _with_log_column(frame: Frame, sequences: Sequences) -> Frame:
    """Add a log name to stream positions: transactions overlap in it, as each position is of one change."""
    if sequences is not Sequences.PLACES:
        return frame
    if isinstance(frame, LocalFrame):
        logs = pa.array([f"{OVERLAP} "] * frame.rows.num_rows, pa.string())
        return frame.with_rows(frame.rows.append_column(LOG, logs))
    return frame.withColumn(LOG, F.lit(f"{OVERLAP} "))
