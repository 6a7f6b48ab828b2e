"""Read a small batch of JSON lines or messages in this process, as an event frame in Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.files.event_frame import ODD, flags_near_words
from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.json_lines.frames import UNDECLARED
from lakeward.adapters.sources.files.json_lines.message_warnings import NO_TIME
from lakeward.adapters.sources.files.json_lines.messages import fill_versions, opened_messages, with_versions
from lakeward.adapters.sources.files.json_lines.other_tables import HAS_OTHER, count_other_tables, other_tables
from lakeward.adapters.sources.files.local.arrow_tables import to_table
from lakeward.adapters.sources.files.local.line_reader import (
    FORMATS,
    LocalMessages,
    read_lines_of,
    read_local,
    why_not_local,
)
from lakeward.adapters.sources.files.local.message_columns.message_form import MessageForm
from lakeward.adapters.sources.files.named_fields import FIELD_FLAGS, flag_near_words
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.debezium import Debezium
from lakeward.adapters.sources.messages.decoded import MESSAGE_FLAGS, OTHER_TABLE
from lakeward.adapters.sources.rows.local_files import BYTES_OF_A_ROW
from lakeward.adapters.spark.frames import local_source_rows
from lakeward.adapters.spark.frames.event_frame import DATABASE, INITIAL, LOG, NO_PLACE
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_source_rows import FilePlace, to_events
from lakeward.adapters.spark.frames.source_rows import ARRIVAL_BITS, NAME
from lakeward.adapters.spark.sql import names
from lakeward.core.events import UNORDERED, Operation
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.schema import Schema
from lakeward.core.text.numbers import format_count

_EXTRA_COLUMNS: Final = (UNDECLARED, OTHER_TABLE, *MESSAGE_FLAGS, DATABASE, INITIAL, LOG, *FIELD_FLAGS)


@dataclass(slots=True)
class SmallLines:
    """Reads the files of one batch of at most `small_batch` rows.

    Messages are parsed once, for their schemas and then for their rows. `spark_error` says why Spark must read the
    batch; None while no reason is known.
    """

    small_batch: int
    spark_error: SparkNeeded | None = None
    is_by_form: bool = False
    """Whether schemas were found without reading messages: those of other tables' messages may be among them."""
    _names: Sequence[str] = ()
    _messages: LocalMessages | None = None

    def with_versions(
        self, table: TableFiles, files: Sequence[File], form: MessageForm, stored_schema: Schema | None = None
    ) -> Sequence[File]:
        """Return files of messages with their schemas, as `messages.with_versions` does.

        `form` is that of the files. Raises LinesNeeded if they cannot be read by it.
        """
        if table.options.types != "schema":
            return files
        is_large = self._is_large(files) or not form.are_lines(table, files)
        versions = form.versions(table, files) if is_large else None
        if versions is not None:
            self.is_by_form = True
            return fill_versions(table, files, versions, stored_schema)
        try:
            versions = self._open(table, files).versions(table)
        except SparkNeeded as error:
            self.spark_error = error.with_traceback(None)  # which would keep what was read
            return with_versions(table, files, stored_schema)
        return fill_versions(table, files, versions, stored_schema)

    def other_tables(self, table: TableFiles, files: Sequence[str]) -> OtherTables | None:
        """Return the other tables that the messages of the named files name."""
        is_shared = not table.has_own_folder
        if self._messages is not None and self._names == files:
            named = (one.other_table for one in self._messages.opened)
            return count_other_tables(named, is_shared=is_shared)
        return other_tables(opened_messages(table, [*map(table.path_of, files)]), is_shared=is_shared)

    def read(self, table: TableFiles, files: Sequence[File]) -> pa.Table:
        """Return the events of files; raises SparkNeeded if Spark must read them."""
        self._check(table, files)
        if table.dates_snapshots:
            raise SparkNeeded("rows have the time in the name of their file")
        reason = local_source_rows.why_spark(table.reading)
        if reason is not None:
            raise SparkNeeded(reason)
        if table.options.types == "schema":
            versions = {version.digest: version for file in files for version in file.versions}
            lists = self._open(table, files).rows(table, versions)
        else:
            lists = read_local(table, files, self.small_batch)
        rows = to_table(lists, table.reading)
        if not rows.num_rows:
            raise SparkNeeded("its files have no lines")
        if flags_near_words(table):
            rows = flag_near_words(rows, table.reading.operations)
        extra_columns = [name for name in _EXTRA_COLUMNS if name in rows.column_names]
        place = FilePlace(0, 0, is_load=table.is_snapshot, has_op=table.has_op)
        events = to_events(rows, place, table.reading, extra_columns)
        return with_flags(table, _with_places(table, events, files, lists[NAME])).combine_chunks()

    def _open(self, table: TableFiles, files: Sequence[File]) -> LocalMessages:
        listed = [file.item.name for file in files]
        if self._messages is None or self._names != listed:
            self._check(table, files)
            table, decoder = table.of_partitions(listed), table.of_partitions(listed).decoder
            if not isinstance(decoder, Debezium):
                raise SparkNeeded("schemas stand beside messages of Debezium alone")
            lines = read_lines_of(table, listed, self.small_batch)
            self._names, self._messages = listed, LocalMessages(table, lines, decoder)
        return self._messages

    def _is_large(self, files: Sequence[File]) -> bool:
        return sum(file.item.size for file in files) > self.small_batch * BYTES_OF_A_ROW

    def _check(self, table: TableFiles, files: Sequence[File]) -> None:
        """Raise SparkNeeded if Spark must read the files because of settings or their size."""
        if self.spark_error is not None:
            raise self.spark_error
        if self._is_large(files):
            size = sum(file.item.size for file in files)
            raise SparkNeeded(f"its files have {format_count(size, 'byte')}, more than a small batch")
        reason = why_not_local(table, [file.item.name for file in files])
        if reason is not None:
            raise SparkNeeded(reason)


def is_of_lines(files: Sequence[File]) -> bool:
    """Return whether any file of a batch has JSON lines or messages."""
    return any(file.format in FORMATS for file in files)


def _with_places(table: TableFiles, events: pa.Table, files: Sequence[File], paths: Sequence[str]) -> pa.Table:
    """Return events with the places of their files; `paths` has the file of each row, below the landing folder."""
    start = len(table.folder.base.rstrip("/")) + 1
    ranks = {table.path_of(file.item.name)[start:]: rank for rank, file in enumerate(files)}
    of_rows = [ranks[path] for path in paths]
    orders = pa.array([files[rank].item.order for rank in of_rows], pa.int64())
    before = pa.array([rank << ARRIVAL_BITS for rank in of_rows], pa.int64())
    places = {names.OBJECT: orders, names.ARRIVAL: pc.add(events.column(names.ARRIVAL), before)}
    for name, values in places.items():
        events = events.set_column(events.column_names.index(name), name, values)
    return events


def with_flags(table: TableFiles, events: pa.Table) -> pa.Table:
    """Add the flags that `event_frame.frame_of` and `message_warnings.with_missing_order` compute in SQL."""
    if table.options.has_places:
        sequences = events.column(names.SEQUENCE)
        unordered = pa.array(sorted(UNORDERED)).cast(sequences.type)
        is_event, has_place = events.column(names.REASON).is_null(), pc.invert(pc.is_in(sequences, unordered))
        events = events.append_column(NO_PLACE, pc.and_(is_event, pc.invert(has_place)))
        is_change = pc.not_equal(events.column(names.OPERATION), Operation.READ.value)
        no_time = pc.and_kleene(pc.and_kleene(is_change, has_place), events.column(names.TIME).is_null())
        events = events.append_column(NO_TIME, pc.and_kleene(is_event, no_time))
    for flag, name in ((ODD, UNDECLARED), (HAS_OTHER, OTHER_TABLE)):
        is_there = name in events.column_names
        values = events.column(name).is_valid() if is_there else pa.repeat(pa.scalar(False), events.num_rows)
        events = events.append_column(flag, values)
    return events
