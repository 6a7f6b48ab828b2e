"""Landing of messages: the next ones of a table are read from the broker into files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.source import FilesSource
from lakeward.adapters.sources.kafka.broker import Broker, Topic
from lakeward.adapters.sources.kafka.first_offsets import FirstOffsets
from lakeward.adapters.sources.kafka.loss_checks import (
    LOST_ALARM,
    acked_ranges,
    refuse_lost_messages,
    refuse_truncated,
    topic_changed_error,
)
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange, find_contiguous, next_offsets
from lakeward.adapters.sources.kafka.options import KafkaOptions
from lakeward.adapters.sources.kafka.staging.ahead_landing import AheadLanding
from lakeward.adapters.sources.kafka.staging.line_form import LandingForm
from lakeward.adapters.sources.kafka.staging.message_files import MessageStaging
from lakeward.adapters.sources.kafka.staging.message_lines import to_line
from lakeward.adapters.sources.kafka.staging.transfer import Transfer, TransferForm
from lakeward.adapters.sources.kafka.transactions.transaction_offsets import TransactionOffsets
from lakeward.adapters.sources.kafka.transactions.transfer import Bounds, TransactionTransfer
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SourceError, StoreUnreachable
from lakeward.core.ledger.selection import ObjectHistory

LandInProcess: TypeAlias = Callable[[TableName, Sequence[OffsetRange], int | None], Sequence[OffsetRange]]


@dataclass(slots=True)
class Landing:
    """Reads the next messages of tables from a broker into files, which the source of files reads."""

    options: KafkaOptions
    broker: Broker
    staging: MessageStaging
    files: FilesSource
    form: LandingForm = field(default_factory=LandingForm)
    follows_snapshot: bool = False
    """True if a snapshot comes first: its commit has the offsets to begin at, and other partitions begin at 0."""
    runs_once: bool = False
    """True if no message is read that was sent after the topic of a table was first read."""
    first_ends: dict[tuple[TableName, str], Mapping[int, int]] = field(default_factory=dict)
    """The end offsets of a table's partitions when its topic was first read, by table and topic id."""
    first_transaction_ends: dict[tuple[TableName, str], int] = field(default_factory=dict)
    """The end offset of the topic of transactions at that time."""
    next_positions: dict[TableName, tuple[Topic, Mapping[int, int]]] = field(default_factory=dict)
    """The topic of a table, and for each partition the offset after all that has landed.

    It has no partitions if files are staged that the table's last selection of objects does not have.
    """
    land_in_process: LandInProcess | None = None
    """Lands messages in another process: a table, ranges, and `TransferForm.size_factor`."""
    ahead: AheadLanding = field(default_factory=AheadLanding)
    tables_of_lines: set[TableName] = field(default_factory=set)
    """Tables in which an earlier batch had messages that are not read in columns."""

    def record_first_ends(self, table: TableName, topic: Topic) -> Topic:
        """Store the end offsets of a topic that a process that runs once reads first, and return the topic.

        The end offset of the topic of transactions is read before.
        """
        if not self.runs_once or (table, topic.id) in self.first_ends:
            return topic
        if self.options.transactions is not None:
            transactions = self.broker.find(self.options.transactions)
            self.first_transaction_ends[table, topic.id] = (
                0 if transactions is None else max(transactions.ends.values())
            )
            topic = self._recheck_topic(table, topic)
        self.first_ends[table, topic.id] = topic.ends
        return topic

    def next_files(
        self, dimension: Dimension, object_history: ObjectHistory, topic: Topic, applied: Collection[OffsetRange]
    ) -> Sequence[OffsetRange]:
        """Return the files of the next batch; messages are read from the broker if no file waits.

        Raises AlarmRaised where messages are lost, before any is read: KAFKA-001 and KAFKA-002.
        """
        table = dimension.source
        staged_ranges, positions = self._staged_ranges(dimension, object_history, topic, applied)
        is_split = self.options.transactions is None
        if group := () if is_split else self.staging.read_group(table, topic.id, positions):
            staged_ranges = [*staged_ranges, *group]
            positions = {**positions, **next_offsets(one for one in group if not one.is_of_transactions)}
        refuse_lost_messages(dimension.name, topic, positions)
        refuse_truncated(dimension.name, topic, positions)
        if all(self.staging.is_empty(table, one) for one in staged_ranges):
            landed_ranges = self._land(dimension, object_history, topic, positions)
            staged_ranges, positions = (
                ([*staged_ranges, *landed_ranges] if landed_ranges else []),
                {**positions, **next_offsets(landed_ranges)},
            )
        batch = self._first_files(table, staged_ranges) if is_split else staged_ranges
        self.next_positions[dimension.name] = topic, (positions if len(batch) == len(staged_ranges) else {})
        return batch

    def land_further(
        self, dimension: Dimension, object_history: ObjectHistory, topic: Topic, ranges: Collection[OffsetRange]
    ) -> Sequence[OffsetRange]:
        """Read the messages after these ranges of a table without a batch into files, and return the files' ranges.

        Raises AlarmRaised where messages are lost: KAFKA-001.
        """
        _, positions = self._positions(dimension, object_history, topic, ())
        positions = {**positions, **next_offsets(ranges)}
        refuse_lost_messages(dimension.name, topic, positions)
        return self._land(dimension, object_history, topic, positions)

    def land_ahead(self, dimension: Dimension) -> None:
        """Begin to land the batches after the one that was selected, if further messages wait at the broker."""
        table = dimension.source
        form = self.transfer_form(table)
        is_usual = form.size_factor is not None or form.to_line is to_line
        land = self.land_in_process if is_usual and self.options.transactions is None else None
        if land is None:
            return
        topic, positions = self.next_positions[dimension.name]

        def land_after(positions: Mapping[int, int]) -> Sequence[OffsetRange]:
            ranges = self._ranges_at_broker(table, topic, positions)
            return land(table, ranges, form.size_factor) if ranges else ()

        if self._ranges_at_broker(table, topic, positions):
            self.ahead.begin(table, positions, land_after)

    def transfer_form(self, table: TableName) -> TransferForm:
        """Return the form in which messages are staged.

        Files that stay are of lines, which other programs can read.
        """
        options, small_batch = self._options_of(table), self.files.small_batch
        may_be_raw = small_batch > 0 and self.options.landing == "removed" and table not in self.tables_of_lines
        size_factor = self.form.size_factor(table, options) if may_be_raw else None
        return TransferForm(self.form.of(table, options), size_factor, small_batch)

    def _staged_ranges(
        self, dimension: Dimension, object_history: ObjectHistory, topic: Topic, applied: Collection[OffsetRange]
    ) -> tuple[list[OffsetRange], Mapping[int, int]]:
        """Return the staged ranges of the next batch, and for each partition the offset after all that are staged.

        If a batch landed ahead, it has no ranges of the batch that lands after it.
        """
        ends = next_offsets(self.ahead.take(dimension.source))
        ranges, positions = self._positions(dimension, object_history, topic, applied)
        batch_ranges = [one for one in ranges if one.end <= ends.get(one.partition, 0)]
        if ends and next_offsets(batch_ranges) == ends:
            return batch_ranges, positions
        if ends:  # the table is at another position than after its last batch
            self.ahead.discard(dimension.source)
            ranges, positions = self._positions(dimension, object_history, topic, applied)
        return ranges, positions

    def _positions(
        self, dimension: Dimension, object_history: ObjectHistory, topic: Topic, applied: Collection[OffsetRange]
    ) -> tuple[list[OffsetRange], Mapping[int, int]]:
        """Return the staged ranges that come next, and for each partition the offset after them."""
        table = dimension.source
        applied_ends = next_offsets(applied)
        first_offsets = {} if applied or self.follows_snapshot else self._first_offsets(dimension, topic)
        staged_ranges = [one for one in self.staging.ranges(table) if (one.topic, one.id) == (topic.name, topic.id)]
        if self.options.transactions is not None:  # files with messages belong to a group that landed together
            staged_ranges = [one for one in staged_ranges if self.staging.is_empty(table, one)]
        next_ranges: list[OffsetRange] = []
        positions = {}
        for partition in topic.partitions:
            of_partition = [one for one in staged_ranges if one.partition == partition]
            acked = acked_ranges(object_history.acknowledged_names(LOST_ALARM), partition, topic)
            chain, position = find_contiguous(
                applied_ends.get(partition, first_offsets.get(partition, 0)), [*of_partition, *acked]
            )
            next_ranges += [one for one in chain if one in of_partition]
            positions[partition] = position
        return next_ranges, positions

    def _first_offsets(self, dimension: Dimension, topic: Topic) -> Mapping[int, int]:
        return FirstOffsets(self.broker, self.staging, self.options.start).find(dimension, topic)

    def _first_files(self, table: TableName, staged_ranges: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
        """Return the first file with messages of each partition, and all files without messages.

        A run that ended may have staged more files than one batch takes. The returned ones are within the limits of
        a batch, because files that landed together are.
        """
        partitions, batch = set[int](), []
        for one in staged_ranges:
            if self.staging.is_empty(table, one):
                batch.append(one)
            elif one.partition not in partitions:
                partitions.add(one.partition)
                batch.append(one)
        return batch

    def _land(
        self, dimension: Dimension, object_history: ObjectHistory, topic: Topic, positions: Mapping[int, int]
    ) -> Sequence[OffsetRange]:
        """Read the next messages of each partition, up to the committed end, into files."""
        table, options = dimension.source, self.options
        bounds = Bounds(options.max_messages, options.max_bytes, options.max_seconds)
        try:
            if options.transactions is not None:
                return self._land_whole_transactions(dimension, object_history, topic, positions, bounds)
            transfer = Transfer(*bounds, self.transfer_form(table))
            landed_ranges = transfer.run(
                self.broker, self.staging, table, self._ranges_at_broker(table, topic, positions)
            )
        except (SourceError, StoreUnreachable):
            # A broker does not answer the reader of a topic that was deleted.
            with suppress(StoreUnreachable):
                self._recheck_topic(table, topic)
            raise
        if landed_ranges:
            self._recheck_topic(table, topic)  # files of an old topic id are never read
        return landed_ranges

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
        decode = self.form.decoder(table, self._options_of(table))
        end = self.first_transaction_ends.get((table, topic.id))
        transfer = TransactionTransfer(self.broker, self.staging, table, name, decode, bounds, self.files.now, end)
        offsets = TransactionOffsets(
            object_history.applied.values(), self.staging.read_transaction_progress(table), positions
        )
        with self.staging.discarding(table):
            landed_ranges = transfer.land(
                offsets, lambda: self._ranges_at_broker(table, self._recheck_topic(table, topic), positions)
            )
        if landed_ranges.ranges:
            self._recheck_topic(table, topic)
            return self.staging.write_group(
                table, topic.id, positions, landed_ranges.ranges, landed_ranges.in_topic(name)
            )
        if landed_ranges.position is not None:
            progress = {
                "topic": name,
                "id": landed_ranges.id,
                "positions": positions,
                **landed_ranges.position._asdict(),
            }
            self.staging.write_transaction_progress(table, progress)
        return ()

    def _ranges_at_broker(
        self, table: TableName, topic: Topic, positions: Mapping[int, int]
    ) -> Sequence[OffsetRange]:
        """Return the ranges of each partition that wait at the broker."""
        ends = self.first_ends.get((table, topic.id), topic.ends)
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

    def _options_of(self, table: TableName) -> FilesOptions:
        return self.files.of_tables.get(table, self.files.options)
