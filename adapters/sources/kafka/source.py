"""The source `kafka`: messages land as files of offset ranges, which the source of files reads.

The position of a table is stored in its commits: the names of their objects are ranges of offsets. It is never read
from the broker or its consumer groups.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog
from pyspark.sql import DataFrame

from lakeward.adapters.sources.files.local.message_columns.message_form import LinesNeeded
from lakeward.adapters.sources.files.source import FilesSource, no_snapshots
from lakeward.adapters.sources.kafka.broker import Topic
from lakeward.adapters.sources.kafka.landing import Landing
from lakeward.adapters.sources.kafka.loss_checks import no_rollback_error, refuse_other_topic, refuse_rollback
from lakeward.adapters.sources.kafka.offset_ranges import (
    OffsetRange,
    next_offsets,
    parse_ranges,
    parse_transaction_ranges,
)
from lakeward.adapters.sources.landing.places import fill_template
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.core.dimension import Dimension, Lateness, TableName
from lakeward.core.errors import ConfigError, LakewardError, SourceError
from lakeward.core.events import Position, Sequences
from lakeward.core.ledger.full_loads import Naming
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection, select_objects
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.shaping.recomputed_columns import RecomputedColumns

log = structlog.get_logger()


@dataclass(slots=True)
class KafkaSource:
    """Topics of a broker.

    Messages are written to files before they are read; file names are their offset ranges.
    """

    landing: Landing
    files: FilesSource
    initial_histories: dict[TableName, ObjectHistory] = field(default_factory=dict)
    """The object histories of tables without a batch, from their last selection of objects."""

    @property
    def lateness(self) -> Lateness:
        """The lateness of messages in files."""
        return self.files.lateness

    @property
    def sequences(self) -> Sequences:
        """The kind of sequence that messages have."""
        return self.files.sequences

    def order_by(self, dimension: Dimension) -> str | None:
        """Return the column that orders the messages in files."""
        return self.files.order_by(dimension)

    def key_form(self, dimension: Dimension) -> str | None:
        """Return what changes the values of a key in the messages."""
        return self.files.key_form(dimension)

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """Return the files of the next batch; messages are read from the broker if no file waits.

        Raises AlarmRaised where messages are lost, before any is read: KAFKA-001 and KAFKA-002.
        """
        if object_history.load is not None:
            raise _no_full_load(dimension)
        self.files.check(dimension, object_history)
        if dimension.snapshots is not None:
            raise no_snapshots(dimension)
        table = dimension.source
        self.landing.staging.folder(table)
        name = self.topic_of(table)
        topic, applied = self.landing.broker.find(name), parse_ranges(object_history.applied)
        refuse_other_topic(dimension.name, name, topic, applied)
        if topic is None:
            return ObjectSelection()
        topic = self.landing.record_first_ends(table, topic)
        self.initial_histories.pop(dimension.name, None)
        if not applied:
            self.initial_histories[dimension.name] = object_history
        batch = self.landing.next_files(dimension, object_history, topic, applied)
        return self._select(dimension, object_history, batch)

    def starts(self, topic: Topic, millis: int) -> Sequence[OffsetRange]:
        """Return for each partition its last offset before a time (milliseconds since 1970), as a range of one.

        A table begins after these offsets if its snapshot has all that was sent before. A partition without such an
        offset begins at 0.
        """
        at_time = self.landing.broker.offsets_at(topic.name, topic.partitions, millis)
        # An open transaction must be read from its beginning, and messages after it may have earlier times.
        ends = sorted(topic.ends.items())
        offsets = {number: min(at_time.get(number, high), high) for number, high in ends}
        return [
            OffsetRange(topic.name, topic.id, partition, offset - 1, offset)
            for partition, offset in offsets.items()
            if offset > 0
        ]

    def to_objects(self, dimension: Dimension, names: Iterable[str]) -> Sequence[SourceObject]:
        """Return ranges without messages as objects, by their names."""
        table = dimension.source
        place = self.files.folder.places.of(table)
        return [SourceObject(name, place.known(table, name).order, size=0, modified=0) for name in names]

    def next_objects(self, dimension: Dimension, _: ObjectSelection) -> Sequence[SourceObject]:
        """Wait for the batch that lands ahead, and return its files; none if there is none."""
        landed_names = {one.name for one in self.landing.ahead.peek(dimension.source)}
        return (
            [item for item in self._listed(dimension.source) if item.name in landed_names] if landed_names else ()
        )

    def _select(
        self, dimension: Dimension, object_history: ObjectHistory, ranges: Sequence[OffsetRange]
    ) -> ObjectSelection:
        """Return the waiting files as a batch; applied files that a crash left in the folder become its leftovers.

        Files that an earlier run saw and that are gone were not applied: their messages were read again.
        """
        table = dimension.source
        names = self.files.folder.places.of(table).names
        listed = self._listed(table)
        selected_names = {one.name for one in ranges}
        if selected_names - {item.name for item in listed}:
            raise _files_changed_error(dimension)
        applied = [item for item in listed if item.name not in selected_names and object_history.has_applied(item)]
        items = [*(item for item in listed if item.name in selected_names), *applied]
        is_split = self.landing.options.transactions is None  # otherwise files that landed together are one batch
        limits = Limits(self.files.options.max_files, self.landing.options.max_bytes if is_split else sys.maxsize)
        naming = Naming(partition_end=names.partition_end)
        history = replace(object_history, waiting={}, start=None)
        # A range of the topic of transactions has no order among messages.
        transaction_items = [item for item in items if parse_transaction_ranges([item.name])]
        messages = [item for item in items if not parse_transaction_ranges([item.name])]
        selection = select_objects(str(dimension.name), messages, history, limits, naming, keeps=False)
        objects = (*(item for item in transaction_items if item.name in selected_names), *selection.objects)
        superseded = tuple(name for name in object_history.waiting if name not in selected_names)
        leftovers = (*selection.leftovers, *(item for item in transaction_items if item.name not in selected_names))
        leftovers = leftovers if self.landing.options.landing == "removed" else ()
        return replace(
            selection, objects=objects if selection.objects else (), leftovers=leftovers, superseded=superseded
        )

    def topic_of(self, table: TableName) -> str:
        """Return the topic of a table, or several topics with a comma between."""
        return fill_template(self.files.of_tables.get(table, self.files.options).folder, table)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Read the files. With whole transactions, all selected files must be readable together.

        A table that does not exist, and whose messages do not show its columns yet, reads further messages with
        them. Raises SourceError if files changed while they were read.
        """
        if dimension.name not in self.initial_histories and not selection.remaining:
            self.landing.land_ahead(dimension)
        batch, selection = self._read_files(dimension, selection, epoch)
        while not batch.facts.objects and dimension.name in self.initial_histories:
            further_objects = self._land_more(dimension, selection)
            if not further_objects:
                break
            batch.close()
            selection = replace(selection, objects=(*selection.objects, *further_objects))
            batch, selection = self._read_files(dimension, selection, epoch)
        if self.landing.options.transactions is not None and 0 < len(batch.facts.objects) < len(selection.objects):
            batch.close()
            raise _files_changed_error(dimension)
        return batch

    def _read_files(
        self, dimension: Dimension, selection: ObjectSelection, epoch: int
    ) -> tuple[Batch[Frame], ObjectSelection]:
        """Read the files of a selection, and return it as it was read.

        Messages that landed as they were sent are rewritten as lines if they cannot be read in that form. Later
        messages of the table land as lines.
        """
        table = dimension.source
        if self.landing.transfer_form(table).size_factor is None:  # settings may have changed since files landed
            selection = self._with_lines(dimension, selection)
        try:
            return self.files.read(dimension, selection, epoch), selection
        except LinesNeeded as needed:
            log.debug("messages are decoded one by one", table=str(dimension.name), reason=str(needed))
        self.landing.tables_of_lines.add(table)
        selection = self._with_lines(dimension, selection)
        with suppress(LinesNeeded):  # lines may have several schemas of the same columns
            return self.files.read(dimension, selection, epoch), selection
        files = replace(self.files, message_form=self.files.message_form.reading_schemas())
        return files.read(dimension, selection, epoch), selection

    def _with_lines(self, dimension: Dimension, selection: ObjectSelection) -> ObjectSelection:
        """Return a selection whose files are all of lines, and rewrite those that are not."""
        table, names = dimension.source, [item.name for item in selection.objects]
        were_raw = [
            self.landing.transfer_form(table).make_lines(self.landing.staging, table, one)
            for one in parse_ranges(names)
        ]
        if not any(were_raw):
            return selection
        by_name = {item.name: item for item in self._listed(table)}
        if not by_name.keys() >= {*names}:
            raise _files_changed_error(dimension)
        return replace(selection, objects=tuple(by_name[name] for name in names))

    def _land_more(self, dimension: Dimension, selection: ObjectSelection) -> Sequence[SourceObject]:
        """Read the messages after the selected files of a table without a batch, and return their files."""
        table = dimension.source
        topic = self.landing.broker.find(self.topic_of(table))
        if topic is None:
            return ()
        object_history = self.initial_histories[dimension.name]
        ranges = parse_ranges(item.name for item in selection.objects)
        landed_names = {one.name for one in self.landing.land_further(dimension, object_history, topic, ranges)}
        return [item for item in self._listed(table) if item.name in landed_names and item not in selection.objects]

    def _listed(self, table: TableName) -> Sequence[SourceObject]:
        """Return the staged files of a table."""
        listed, _ = self.files.folder.list(table) or ((), ())
        return listed

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Commit the applied offsets for the consumer group, and remove the files, unless `landing` keeps them.

        Returns the names of removed files.
        """
        table = dimension.source
        self._commit_group_offsets(table, parse_ranges(item.name for item in objects))
        removed_names = (
            self.landing.staging.remove(table, objects) if self.landing.options.landing == "removed" else ()
        )
        if self.files.copies is not None:
            self.files.copies.clean(table, [item.name for item in objects])
        return removed_names

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        """Remove copies of files for Spark that are no longer needed, and return them.

        With `is_dry` only return them.
        """
        copies = self.files.copies
        return () if copies is None else copies.clean_all(dimension.source, is_dry=is_dry)

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return nothing: the broker still has the messages, or an error is raised.

        Staged files are not considered.

        Raises AlarmRaised for a topic that was created anew, and SourceError for messages that are gone. Raises
        ConfigError for a table that began at the end of its topic, which only its first commit records, and for a
        compacted topic, in which a delete may be gone.
        """
        name, ranges = self.topic_of(dimension.source), parse_ranges(item.name for item in objects)
        topic = self.landing.broker.find(name)
        refuse_other_topic(dimension.name, name, topic, ranges)
        begins = {item.name for item in objects if item.size == 0}
        messages = [one for one in ranges if one.name not in begins]
        if topic is not None and messages:
            refuse_rollback(dimension.name, topic, messages, is_compacted=self.landing.broker.is_compacted(name))
        if begins.intersection(one.name for one in ranges) and self.landing.options.start == "latest":
            raise no_rollback_error(dimension.name)
        return ()

    def _commit_group_offsets(self, table: TableName, applied: Sequence[OffsetRange]) -> None:
        """Commit offsets for the consumer group.

        A failure is only logged: the table's commit is valid without it.
        """
        if self.landing.options.group is None or not applied:
            return
        try:
            self.landing.broker.commit_offsets(
                fill_template(self.landing.options.group, table), self.topic_of(table), next_offsets(applied)
            )
        except LakewardError as error:
            log.warning("offsets of the consumer group were not committed", table=str(table), error=str(error))

    # Delegated to the source of files.

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> DataFrame:
        """Return a truncate event that is in no message."""
        return self.files.truncation(dimension, place, time)

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension itself: the columns of a table are those of its messages."""
        return self.files.written(dimension)

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return nothing: rules are applied behind the source."""
        return self.files.recomputed(dimension, may_need)

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return the cells of a quarantined row as it was sent."""
        return self.files.cells(dimension, entry)

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> DataFrame:
        """Return repaired rows as events."""
        return self.files.repair_row(dimension, entries)


def _no_full_load(dimension: Dimension) -> ConfigError:
    name = dimension.name
    return ConfigError(
        f"{name}: its topic has changes, and no full load",
        found="a reload waits for such a load",
        todo="Let the connector take a snapshot of the table, and set `start` to the time before it if the topic "
        f"does not begin with the whole table. Then drop the table together with {name.table}__changes and "
        f"{name.table}__quarantine, and run. If it waits already: `lakeward reload {name} --withdraw`.",
    )


def _files_changed_error(dimension: Dimension) -> SourceError:
    return SourceError(
        f"{dimension.name}: files of messages were removed or written while they were read",
        todo="Nothing of this batch was applied. Only one process may apply a table: is another one running? "
        "The next run reads the messages again.",
    )
