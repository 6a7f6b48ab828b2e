"""The source `kafka`: messages land as files of offset ranges, which the source of files reads.

The position of a table is stored in its commits: the names of their objects are ranges of offsets. It is never read
from the broker or its consumer groups.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import structlog
from pyspark.sql import DataFrame

from lakeward.adapters.sources.files.local.message_columns.message_form import LinesNeeded
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.source import FilesSource, no_snapshots
from lakeward.adapters.sources.kafka.broker import Broker, Topic
from lakeward.adapters.sources.kafka.loss_checks import (
    LOST_ALARM,
    acked_ranges,
    no_rollback_error,
    refuse_lost_messages,
    refuse_other_topic,
    refuse_rollback,
    refuse_truncated,
    refuse_unknown_start,
    topic_changed_error,
)
from lakeward.adapters.sources.kafka.offset_ranges import (
    OffsetRange,
    find_contiguous,
    next_offsets,
    parse_ranges,
    parse_transaction_ranges,
)
from lakeward.adapters.sources.kafka.options import KafkaOptions, parse_time
from lakeward.adapters.sources.kafka.staging.ahead_landing import AheadLanding
from lakeward.adapters.sources.kafka.staging.line_form import LandingForm
from lakeward.adapters.sources.kafka.staging.message_files import MessageStaging
from lakeward.adapters.sources.kafka.staging.message_lines import to_line
from lakeward.adapters.sources.kafka.staging.transfer import Transfer, TransferForm
from lakeward.adapters.sources.kafka.transactions.transaction_offsets import TransactionOffsets
from lakeward.adapters.sources.kafka.transactions.transfer import Bounds, TransactionTransfer
from lakeward.adapters.sources.landing.places import fill_template
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.core.dimension import Dimension, Lateness, TableName
from lakeward.core.errors import LakewardError, SourceError, StoreUnreachable
from lakeward.core.events import Position, Sequences
from lakeward.core.ledger.full_loads import Naming
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection, select_objects
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.shaping.recomputed_columns import RecomputedColumns

log = structlog.get_logger()

LandElsewhere: TypeAlias = Callable[[TableName, Sequence[OffsetRange], bool], Sequence[OffsetRange]]


@dataclass(slots=True)
class KafkaSource:
    """Topics of a broker.

    Messages are written to files before they are read; file names are their offset ranges.
    """

    options: KafkaOptions
    broker: Broker
    staging: MessageStaging
    files: FilesSource
    of_tables: Mapping[TableName, FilesOptions]
    landing_form: LandingForm = field(default_factory=LandingForm)
    follows_snapshot: bool = False
    """True if a snapshot comes first: its commit has the ranges of `starts`, and other partitions begin at 0."""
    runs_once: bool = False
    """True if no message is read that was sent after the topic of a table was first read."""
    initial_histories: dict[TableName, ObjectHistory] = field(default_factory=dict)
    """The object histories of tables without a batch, from their last selection of objects."""
    first_ends: dict[tuple[TableName, str], Mapping[int, int]] = field(default_factory=dict)
    """The end offsets of a table's partitions when its topic was first read, by table and topic id."""
    first_transaction_ends: dict[tuple[TableName, str], int] = field(default_factory=dict)
    """The end offset of the topic of transactions at that time."""
    next_positions: dict[TableName, tuple[Topic, Mapping[int, int]]] = field(default_factory=dict)
    """The topic of a table, and for each partition the offset after all that has landed.

    No partitions if files wait that its last selection of objects has not.
    """
    land_elsewhere: LandElsewhere | None = None
    """Lands messages in another process: a table, ranges, and whether they land as they were sent."""
    ahead: AheadLanding = field(default_factory=AheadLanding)
    tables_of_lines: set[TableName] = field(default_factory=set)
    """Tables in which an earlier batch had messages in Avro that are not read in columns."""

    @property
    def lateness(self) -> Lateness:
        """The lateness of messages in files."""
        return self.files.lateness

    @property
    def sequences(self) -> Sequences:
        """The kind of sequence that messages have."""
        return self.files.sequences

    def order_by(self, dimension: Dimension) -> str | None:
        """Return the order of such messages in files."""
        return self.files.order_by(dimension)

    def key_form(self, dimension: Dimension) -> str | None:
        """Return what changes the values of a key in such messages."""
        return self.files.key_form(dimension)

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """Return the files of the next batch; messages are read from the broker if no file waits.

        Raises AlarmRaised where messages are lost, before any is read: KAFKA-001 and KAFKA-002.
        """
        self.files.check(dimension, object_history)
        if dimension.snapshots is not None:
            raise no_snapshots(dimension)
        table = dimension.source
        self.staging.folder(table)
        name = self.topic_of(table)
        topic, applied = self.broker.find(name), parse_ranges(object_history.applied)
        refuse_other_topic(dimension.name, name, topic, applied)
        if topic is None:
            return ObjectSelection()
        if self.runs_once and (table, topic.id) not in self.first_ends:
            topic = self._record_first_ends(table, topic)
        self.initial_histories.pop(dimension.name, None)
        if not applied:
            self.initial_histories[dimension.name] = object_history
        waiting, positions = self._waiting(dimension, object_history, topic, applied)
        is_split = self.options.transactions is None
        if group := () if is_split else self.staging.read_group(table, topic.id, positions):
            waiting = [*waiting, *group]
            positions = {**positions, **next_offsets(one for one in group if not one.is_of_transactions)}
        refuse_lost_messages(dimension.name, topic, positions)
        refuse_truncated(dimension.name, topic, positions)
        if all(self.staging.is_empty(table, one) for one in waiting):
            landed = self._land(dimension, object_history, topic, positions)
            waiting, positions = ([*waiting, *landed] if landed else []), {**positions, **next_offsets(landed)}
        batch = self._first_files(table, waiting) if is_split else waiting
        self.next_positions[dimension.name] = topic, (positions if len(batch) == len(waiting) else {})
        return self._select(dimension, object_history, batch)

    def _record_first_ends(self, table: TableName, topic: Topic) -> Topic:
        """Store the end offsets of a topic; those of the topic of transactions are read before.

        Return the topic.
        """
        if self.options.transactions is not None:
            transactions = self.broker.find(self.options.transactions)
            self.first_transaction_ends[table, topic.id] = (
                0 if transactions is None else max(_end_offsets(transactions).values())
            )
            topic = self._recheck_topic(table, topic)
        self.first_ends[table, topic.id] = _end_offsets(topic)
        return topic

    def starts(self, topic: Topic, millis: int) -> Sequence[OffsetRange]:
        """Return for each partition its last offset before a time (milliseconds since 1970), as a range of one.

        A table begins after these offsets if its snapshot has all that was sent before. A partition without such an
        offset begins at 0.
        """
        at_time = self.broker.offsets_at(topic.name, topic.partitions, millis)
        # An open transaction must be read from its beginning, and messages after it may have earlier times.
        ends = sorted(_end_offsets(topic).items())
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

    def _first_files(self, table: TableName, waiting: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
        """Return the first file with messages of each partition, and all without: an ended run may have left more.

        Together they are within the limits of a batch, since files that landed together are.
        """
        partitions, batch = set[int](), []
        for one in waiting:
            if self.staging.is_empty(table, one):
                batch.append(one)
            elif one.partition not in partitions:
                partitions.add(one.partition)
                batch.append(one)
        return batch

    def _waiting(
        self, dimension: Dimension, object_history: ObjectHistory, topic: Topic, applied: Collection[OffsetRange]
    ) -> tuple[list[OffsetRange], Mapping[int, int]]:
        """Return the staged ranges of the next batch, and for each partition the offset after them.

        If a batch landed ahead, it has no ranges of the batch that lands after it.
        """
        ends = next_offsets(self.ahead.take(dimension.source))
        waiting, positions = self._positions(dimension, object_history, topic, applied)
        own = [one for one in waiting if one.end <= ends.get(one.partition, 0)]
        if ends and next_offsets(own) == ends:
            return own, {**positions, **ends}
        if ends:  # the table is at another position than after its last batch
            self.ahead.discard(dimension.source)
            waiting, positions = self._positions(dimension, object_history, topic, applied)
        return waiting, positions

    def _positions(
        self, dimension: Dimension, object_history: ObjectHistory, topic: Topic, applied: Collection[OffsetRange]
    ) -> tuple[list[OffsetRange], Mapping[int, int]]:
        """Return the staged ranges that come next, and for each partition the offset after them."""
        table = dimension.source
        applied_ends = next_offsets(applied)
        first_offsets = {} if applied or self.follows_snapshot else self._find_begin(dimension, topic)
        staged = [one for one in self.staging.ranges(table) if (one.topic, one.id) == (topic.name, topic.id)]
        if self.options.transactions is not None:  # files with messages belong to a group that landed together
            staged = [one for one in staged if self.staging.is_empty(table, one)]
        waiting: list[OffsetRange] = []
        positions = {}
        for partition in topic.partitions:
            of_partition = [one for one in staged if one.partition == partition]
            acked = acked_ranges(object_history.acknowledged_names(LOST_ALARM), partition, topic)
            chain, position = find_contiguous(
                applied_ends.get(partition, first_offsets.get(partition, 0)), [*of_partition, *acked]
            )
            waiting += [one for one in chain if one in of_partition]
            positions[partition] = position
        return waiting, positions

    def _find_begin(self, dimension: Dimension, topic: Topic) -> Mapping[int, int]:
        """Return the first offset of partitions of a table without a batch, and write ranges that record it.

        Such a range has the one offset before the first, and no messages. So the first commit records where each
        partition began.
        """
        table, start = dimension.source, self.options.start
        if start is None:
            refuse_unknown_start(dimension.name, topic)
        origin = {"topic": topic.name, "id": topic.id, "start": start}
        offsets = self.staging.read_starts(table, origin)
        if offsets is None or start in (None, "earliest"):
            offsets = self._start_offsets(topic, start or "earliest")
            self.staging.write_starts(table, origin, offsets)
        markers = [
            OffsetRange(topic.name, topic.id, partition, offset - 1, offset)
            for partition, offset in offsets.items()
            if offset > 0 and partition in topic.partitions
        ]
        self.staging.write_begin(table, topic.id, markers)
        return {one.partition: one.start for one in markers}

    def _start_offsets(self, topic: Topic, start: str) -> Mapping[int, int]:
        partitions = topic.partitions
        if start in ("earliest", "latest"):
            return {number: low if start == "earliest" else high for number, (low, high) in partitions.items()}
        at_time = self.broker.offsets_at(topic.name, partitions, parse_time(start))
        return {number: at_time.get(number, high) for number, (_, high) in partitions.items()}

    def _land(
        self, dimension: Dimension, object_history: ObjectHistory, topic: Topic, positions: Mapping[int, int]
    ) -> Sequence[OffsetRange]:
        """Read the next messages of each partition, up to the committed end, into files."""
        table, options = dimension.source, self.options
        bounds = Bounds(options.max_messages, options.max_bytes, options.max_seconds)
        try:
            if options.transactions is not None:
                return self._land_whole_transactions(dimension, object_history, topic, positions, bounds)
            transfer = Transfer(*bounds, self._transfer_form(table))
            landed = transfer.run(self.broker, self.staging, table, self._waiting_ranges(table, topic, positions))
        except (SourceError, StoreUnreachable):
            # A broker answers nothing to those that read a topic which was deleted.
            with suppress(StoreUnreachable):
                self._recheck_topic(table, topic)
            raise
        if landed:
            self._recheck_topic(table, topic)  # files of an old topic id are never read
        return landed

    def _land_ahead(self, dimension: Dimension, selection: ObjectSelection) -> None:
        """Begin to land the batches after a selection, if messages wait at the broker that are not in it."""
        table, is_new = dimension.source, dimension.name in self.initial_histories
        form = self._transfer_form(table)
        is_usual = form.is_raw or form.to_line is to_line
        land = self.land_elsewhere if is_usual and self.options.transactions is None else None
        if land is None or is_new or selection.remaining:
            return
        topic, positions = self.next_positions[dimension.name]

        def land_after(positions: Mapping[int, int]) -> Sequence[OffsetRange]:
            ranges = self._waiting_ranges(table, topic, positions)
            return land(table, ranges, form.is_raw) if ranges else ()

        if self._waiting_ranges(table, topic, positions):
            self.ahead.begin(table, positions, land_after)

    def next_objects(self, dimension: Dimension, _: ObjectSelection) -> Sequence[SourceObject]:
        """Wait for the batch that lands ahead, and return its files; none if there is none."""
        chosen = {one.name for one in self.ahead.following(dimension.source)}
        return [item for item in self._listed(dimension.source) if item.name in chosen] if chosen else ()

    def _transfer_form(self, table: TableName) -> TransferForm:
        """Return the form in which messages are staged.

        Files that stay are of lines, which other programs can read.
        """
        form, few = self._options_of(table), self.files.small_batch
        may_be_raw = few > 0 and self.options.landing == "removed" and table not in self.tables_of_lines
        is_raw = may_be_raw and self.landing_form.may_be_raw(table, form)
        return TransferForm(self.landing_form.of(table, form), is_raw, few)

    def _options_of(self, table: TableName) -> FilesOptions:
        return self.of_tables.get(table, self.files.options)

    def _waiting_ranges(
        self, table: TableName, topic: Topic, positions: Mapping[int, int]
    ) -> Sequence[OffsetRange]:
        """Return the ranges of each partition that wait at the broker."""
        ends = self.first_ends.get((table, topic.id), _end_offsets(topic))
        return [
            OffsetRange(topic.name, topic.id, partition, position, ends[partition])
            for partition, position in sorted(positions.items())
            if position < ends.get(partition, 0)
        ]

    def _recheck_topic(self, table: TableName, topic: Topic) -> Topic:
        """Return a topic as it is now; raises SourceError if it was created anew or deleted."""
        now = self.broker.find(topic.name)
        if now is None or now.id != topic.id:
            raise topic_changed_error(table, topic, is_deleted=now is None)
        return now

    def _land_whole_transactions(
        self,
        dimension: Dimension,
        object_history: ObjectHistory,
        topic: Topic,
        positions: Mapping[int, int],
        bounds: Bounds,
    ) -> Sequence[OffsetRange]:
        """Read messages up to the end of a transaction into files, and record which transactions are then whole."""
        table, name = dimension.source, str(self.options.transactions)
        decode = self.landing_form.decoder(table, self._options_of(table))
        end = self.first_transaction_ends.get((table, topic.id))
        transfer = TransactionTransfer(self.broker, self.staging, table, name, decode, bounds, self.files.now, end)
        offsets = TransactionOffsets(
            object_history.applied.values(), self.staging.read_transaction_progress(table), positions
        )
        with self.staging.discarding(table):
            landed = transfer.land(
                offsets, lambda: self._waiting_ranges(table, self._recheck_topic(table, topic), positions)
            )
        if landed.ranges:
            self._recheck_topic(table, topic)
            return self.staging.write_group(table, topic.id, positions, landed.ranges, landed.in_topic(name))
        if landed.reached is not None:
            noted = {"topic": name, "id": landed.id, "positions": positions, **landed.reached._asdict()}
            self.staging.write_transaction_progress(table, noted)
        return ()

    def _select(
        self, dimension: Dimension, object_history: ObjectHistory, waiting: Sequence[OffsetRange]
    ) -> ObjectSelection:
        """Return the waiting files as a batch; applied files that a crash left in the folder become its leftovers.

        Files that an earlier run saw and that are gone were not applied: their messages were read again.
        """
        table = dimension.source
        names = self.files.folder.places.of(table).names
        listed = self._listed(table)
        chosen = {one.name for one in waiting}
        if chosen - {item.name for item in listed}:
            raise _files_changed_error(dimension)
        applied = [item for item in listed if item.name not in chosen and object_history.has_applied(item)]
        items = [*(item for item in listed if item.name in chosen), *applied]
        is_split = self.options.transactions is None  # else all that landed together is one batch
        limits = Limits(self.files.options.max_files, self.options.max_bytes if is_split else sys.maxsize)
        naming = Naming(partition_end=names.partition_end)
        history = replace(object_history, waiting={}, start=None)
        # A range of the topic of transactions has no order among messages.
        transaction_items = [item for item in items if parse_transaction_ranges([item.name])]
        messages = [item for item in items if not parse_transaction_ranges([item.name])]
        selection = select_objects(str(dimension.name), messages, history, limits, naming, keeps=False)
        objects = (*(item for item in transaction_items if item.name in chosen), *selection.objects)
        overtaken = tuple(name for name in object_history.waiting if name not in chosen)
        leftovers = (*selection.leftovers, *(item for item in transaction_items if item.name not in chosen))
        leftovers = leftovers if self.options.landing == "removed" else ()
        return replace(
            selection, objects=objects if selection.objects else (), leftovers=leftovers, superseded=overtaken
        )

    def topic_of(self, table: TableName) -> str:
        """Return the topic of a table, or several topics with a comma between."""
        return fill_template(self.of_tables.get(table, self.files.options).folder, table)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Read the files. With whole transactions, all selected files must be readable together.

        A table that does not exist, and whose messages do not show its columns yet, reads further messages with
        them. Raises SourceError if files changed while they were read.
        """
        self._land_ahead(dimension, selection)
        batch, selection = self._read_files(dimension, selection, epoch)
        while not batch.facts.objects and dimension.name in self.initial_histories:
            further = self._land_more(dimension, selection)
            if not further:
                break
            batch.close()
            selection = replace(selection, objects=(*selection.objects, *further))
            batch, selection = self._read_files(dimension, selection, epoch)
        if self.options.transactions is not None and 0 < len(batch.facts.objects) < len(selection.objects):
            batch.close()
            raise _files_changed_error(dimension)
        return batch

    def _read_files(
        self, dimension: Dimension, selection: ObjectSelection, epoch: int
    ) -> tuple[Batch[Frame], ObjectSelection]:
        """Read the files of a selection, and return it as it was read.

        Messages that landed as they were sent, and cannot be read so, become lines. So do later ones of the table.
        """
        table = dimension.source
        if not self._transfer_form(table).is_raw:  # settings may have changed since files landed
            selection = self._with_lines(dimension, selection)
        try:
            return self.files.read(dimension, selection, epoch), selection
        except LinesNeeded as needed:
            log.debug("messages are decoded one by one", table=str(dimension.name), reason=str(needed))
        self.tables_of_lines.add(table)
        selection = self._with_lines(dimension, selection)
        files = replace(self.files, message_form=self.files.message_form.reading_schemas())
        return files.read(dimension, selection, epoch), selection

    def _with_lines(self, dimension: Dimension, selection: ObjectSelection) -> ObjectSelection:
        """Return a selection all of whose files are of lines."""
        table, names = dimension.source, [item.name for item in selection.objects]
        made = [self._transfer_form(table).make_lines(self.staging, table, one) for one in parse_ranges(names)]
        if not any(made):
            return selection
        by_name = {item.name: item for item in self._listed(table)}
        if not by_name.keys() >= {*names}:
            raise _files_changed_error(dimension)
        return replace(selection, objects=tuple(by_name[name] for name in names))

    def _land_more(self, dimension: Dimension, selection: ObjectSelection) -> Sequence[SourceObject]:
        """Read the messages after the selected files of a table without a batch, and return their files."""
        table = dimension.source
        topic = self.broker.find(self.topic_of(table))
        if topic is None:
            return ()
        object_history = self.initial_histories[dimension.name]
        _, positions = self._positions(dimension, object_history, topic, ())
        positions = {**positions, **next_offsets(parse_ranges(item.name for item in selection.objects))}
        refuse_lost_messages(dimension.name, topic, positions)
        chosen = {one.name for one in self._land(dimension, object_history, topic, positions)}
        return [item for item in self._listed(table) if item.name in chosen and item not in selection.objects]

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
        removed = self.staging.remove(table, objects) if self.options.landing == "removed" else ()
        if self.files.copies is not None:
            self.files.copies.clean(table, [item.name for item in objects])
        return removed

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        """Remove copies of files for Spark that are no longer needed, and return them.

        With `is_dry` only return them.
        """
        copies = self.files.copies
        return () if copies is None else copies.clean_all(dimension.source, is_dry=is_dry)

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return nothing: the broker has the messages still, or an error is raised.

        Staged files are not considered.

        Raises AlarmRaised for a topic that was created anew, and SourceError for messages that are gone. Raises
        ConfigError for a table that began at the end of its topic, which only its first commit records, and for a
        compacted topic, in which a delete may be gone.
        """
        name, ranges = self.topic_of(dimension.source), parse_ranges(item.name for item in objects)
        topic = self.broker.find(name)
        refuse_other_topic(dimension.name, name, topic, ranges)
        begins = {item.name for item in objects if item.size == 0}
        messages = [one for one in ranges if one.name not in begins]
        if topic is not None and messages:
            refuse_rollback(dimension.name, topic, messages, is_compacted=self.broker.is_compacted(name))
        if begins.intersection(one.name for one in ranges) and self.options.start == "latest":
            raise no_rollback_error(dimension.name)
        return ()

    def _commit_group_offsets(self, table: TableName, applied: Sequence[OffsetRange]) -> None:
        """Commit offsets for the consumer group.

        A failure is only logged: the table's commit is valid without it.
        """
        if self.options.group is None or not applied:
            return
        try:
            self.broker.commit_offsets(
                fill_template(self.options.group, table), self.topic_of(table), next_offsets(applied)
            )
        except LakewardError as error:
            log.warning("the consumer group was not told", table=str(table), error=str(error))

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


def _files_changed_error(dimension: Dimension) -> SourceError:
    return SourceError(
        f"{dimension.name}: files of messages were removed or written while they were read",
        todo="Nothing of this batch was applied. One process at a time applies a table: is another one at work? "
        "The next run reads the messages again.",
    )


def _end_offsets(topic: Topic) -> Mapping[int, int]:
    return {partition: high for partition, (_, high) in topic.partitions.items()}
