"""The source `kafka`: messages land as files of offset ranges, which the source of files reads.

How far a table is, its commits say: the names of their objects are ranges of offsets. The broker and its consumer
groups are never asked for that.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog
from pyspark.sql import DataFrame

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.source import FilesSource, no_snapshots
from lakeward.adapters.sources.kafka.broker import Broker, Topic
from lakeward.adapters.sources.kafka.loss_checks import (
    LOST_ALARM,
    acked_ranges,
    no_way_back,
    refuse_end,
    refuse_lost,
    refuse_other_topic,
    refuse_rollback,
    refuse_unknown_start,
    topic_changed,
)
from lakeward.adapters.sources.kafka.offset_ranges import (
    OffsetRange,
    follow,
    next_offsets,
    read_names,
    read_transactions,
)
from lakeward.adapters.sources.kafka.options import KafkaOptions, parse_time
from lakeward.adapters.sources.kafka.staging.line_form import LandingForm
from lakeward.adapters.sources.kafka.staging.message_files import Staging
from lakeward.adapters.sources.kafka.staging.transfer import Transfer
from lakeward.adapters.sources.kafka.transactions.transaction_offsets import TransactionOffsets
from lakeward.adapters.sources.kafka.transactions.transfer import Bounds, WholeTransactions
from lakeward.adapters.sources.landing.places import filled
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.core.dimension import Dimension, Lateness, TableName
from lakeward.core.errors import LakewardError, SourceError
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
    """Topics of a broker. Before a batch is read, its messages lie in files whose names say which they are."""

    options: KafkaOptions
    broker: Broker
    staging: Staging
    files: FilesSource
    of_tables: Mapping[TableName, FilesOptions]
    landing_form: LandingForm = field(default_factory=LandingForm)
    follows_snapshot: bool = False
    """Whether the commits say where partitions begin, as `starts` gave it; others begin at 0."""
    runs_once: bool = False
    """Whether no message is read that was sent after the topic of a table was first looked at."""
    beginning: dict[TableName, ObjectHistory] = field(default_factory=dict)
    """What was known of tables that had no batch when files were last taken for them."""
    first_ends: dict[tuple[TableName, str], Mapping[int, int]] = field(default_factory=dict)
    """Where the partitions of a topic ended when it was first looked at for a table, by the topic's id."""
    first_transactions: dict[tuple[TableName, str], int] = field(default_factory=dict)
    """Where the topic of transactions ended then."""

    @property
    def lateness(self) -> Lateness:
        """That of messages in files."""
        return self.files.lateness

    @property
    def sequences(self) -> Sequences:
        """Places in the order that a message tells."""
        return self.files.sequences

    def order_by(self, dimension: Dimension) -> str | None:
        """Return what files of such records go by."""
        return self.files.order_by(dimension)

    def key_form(self, dimension: Dimension) -> str | None:
        """Return what changes the values of a key in files of such records."""
        return self.files.key_form(dimension)

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        """Return the files of the next batch; messages are read from the broker where none waits in a file.

        Raises AlarmRaised where messages are lost, before any is read: KAFKA-001 and KAFKA-002.
        """
        self.files.check(dimension, past)
        if dimension.snapshots is not None:
            raise no_snapshots(dimension)
        table = dimension.source
        self.staging.folder(table)
        name = self.topic_of(table)
        topic, applied = self.broker.find(name), read_names(past.seen)
        refuse_other_topic(dimension.name, name, topic, applied)
        if topic is None:
            return ObjectSelection()
        if self.runs_once and (table, topic.id) not in self.first_ends:
            topic = self._look_first(table, topic)
        self.beginning.pop(dimension.name, None)
        if not applied:
            self.beginning[dimension.name] = past
        waiting, positions = self._positions(dimension, past, topic, applied)
        is_split = self.options.transactions is None
        if joined := () if is_split else self.staging.joined(table, topic.id, positions):
            waiting = [*waiting, *joined]
            positions = {**positions, **next_offsets(one for one in joined if not one.is_of_transactions)}
        refuse_lost(dimension.name, topic, positions)
        refuse_end(dimension.name, topic, positions)
        if all(self.staging.is_empty(table, one) for one in waiting):
            landed = self._land(dimension, past, topic, positions)
            waiting = [*waiting, *landed] if landed else []
        return self._choose(dimension, past, waiting)

    def _look_first(self, table: TableName, topic: Topic) -> Topic:
        """Write down where a topic ends, and a moment before where that of transactions does; return the topic."""
        if self.options.transactions is not None:
            found = self.broker.find(self.options.transactions)
            self.first_transactions[table, topic.id] = 0 if found is None else max(_ends(found).values())
            topic = self._find_again(table, topic)
        self.first_ends[table, topic.id] = _ends(topic)
        return topic

    def starts(self, topic: Topic, millis: int) -> Sequence[OffsetRange]:
        """Return the last offset of each partition before a time, in milliseconds since 1970.

        Behind these a table begins that has all that was sent until then from elsewhere. A partition without one
        begins at 0.
        """
        behind = self.broker.offsets_at(topic.name, topic.partitions, millis)
        # Of a transaction that goes on nothing may be read, and what lies behind it is found by its time.
        ends = sorted(_ends(topic).items())
        offsets = {number: min(behind.get(number, high), high) for number, high in ends}
        return [
            OffsetRange(topic.name, topic.id, partition, offset - 1, offset)
            for partition, offset in offsets.items()
            if offset > 0
        ]

    def objects_of(self, dimension: Dimension, names: Iterable[str]) -> Sequence[SourceObject]:
        """Return ranges without messages as objects, by their names."""
        table = dimension.source
        place = self.files.folder.places.of(table)
        return [SourceObject(name, place.known(table, name).order, size=0, modified=0) for name in names]

    def _positions(
        self, dimension: Dimension, past: ObjectHistory, topic: Topic, applied: Collection[OffsetRange]
    ) -> tuple[list[OffsetRange], Mapping[int, int]]:
        """Return the staged ranges that come next, and for each partition the offset behind them."""
        table = dimension.source
        known = next_offsets(applied)
        begins = {} if applied or self.follows_snapshot else self._begin(dimension, topic)
        staged = [one for one in self.staging.ranges(table) if (one.topic, one.id) == (topic.name, topic.id)]
        if self.options.transactions is not None:  # those with messages are taken as they landed together
            staged = [one for one in staged if self.staging.is_empty(table, one)]
        waiting: list[OffsetRange] = []
        positions = {}
        for partition in topic.partitions:
            own = [one for one in staged if one.partition == partition]
            lost = acked_ranges(past.passed(LOST_ALARM), partition, topic)
            found, position = follow(known.get(partition, begins.get(partition, 0)), [*own, *lost])
            waiting += [one for one in found if one in own]
            positions[partition] = position
        return waiting, positions

    def _begin(self, dimension: Dimension, topic: Topic) -> Mapping[int, int]:
        """Return where partitions begin for a table without a batch; what lies before is written down as a range.

        It has the one offset before, and no messages: so the first commit says where each partition began.
        """
        table, start = dimension.source, self.options.start
        if start is None:
            refuse_unknown_start(dimension.name, topic)
        of = {"topic": topic.name, "id": topic.id, "start": start}
        offsets = self.staging.starts(table, of)
        if offsets is None or start in (None, "earliest"):
            offsets = self._start_offsets(topic, start or "earliest")
            self.staging.write_starts(table, of, offsets)
        before = [
            OffsetRange(topic.name, topic.id, partition, offset - 1, offset)
            for partition, offset in offsets.items()
            if offset > 0 and partition in topic.partitions
        ]
        self.staging.begin(table, topic.id, before)
        return {one.partition: one.start for one in before}

    def _start_offsets(self, topic: Topic, start: str) -> Mapping[int, int]:
        partitions = topic.partitions
        if start in ("earliest", "latest"):
            return {number: low if start == "earliest" else high for number, (low, high) in partitions.items()}
        found = self.broker.offsets_at(topic.name, partitions, parse_time(start))
        return {number: found.get(number, high) for number, (_, high) in partitions.items()}

    def _land(
        self, dimension: Dimension, past: ObjectHistory, topic: Topic, positions: Mapping[int, int]
    ) -> Sequence[OffsetRange]:
        """Read what comes next of each partition, up to the committed end, into files."""
        table, options = dimension.source, self.options
        limits = (options.max_messages, options.max_bytes, options.max_seconds)
        if options.transactions is not None:
            return self._land_whole(dimension, past, topic, positions, Bounds(*limits))
        to_line = self.landing_form.of(table, self._options_of(table))
        transfer = Transfer(*limits, to_line)
        landed = transfer.run(self.broker, self.staging, table, self._wanted(table, topic, positions))
        if landed:
            self._find_again(table, topic)  # files of the old id are never taken
        return landed

    def _options_of(self, table: TableName) -> FilesOptions:
        return self.of_tables.get(table, self.files.options)

    def _wanted(self, table: TableName, topic: Topic, positions: Mapping[int, int]) -> Sequence[OffsetRange]:
        """Return the offsets of each partition that wait."""
        ends = self.first_ends.get((table, topic.id), _ends(topic))
        return [
            OffsetRange(topic.name, topic.id, partition, position, ends[partition])
            for partition, position in sorted(positions.items())
            if position < ends.get(partition, 0)
        ]

    def _find_again(self, table: TableName, topic: Topic) -> Topic:
        """Return a topic as it is now; raises SourceError where it is another one."""
        now = self.broker.find(topic.name)
        if now is None or now.id != topic.id:
            raise topic_changed(table, topic)
        return now

    def _land_whole(
        self, dimension: Dimension, past: ObjectHistory, topic: Topic, positions: Mapping[int, int], bounds: Bounds
    ) -> Sequence[OffsetRange]:
        """Read messages up to the end of a transaction, and write down which are whole then."""
        table, name = dimension.source, str(self.options.transactions)
        decode = self.landing_form.decoder(table, self._options_of(table))
        end = self.first_transactions.get((table, topic.id))
        whole = WholeTransactions(self.broker, self.staging, table, name, decode, bounds, self.files.now, end)
        offsets = TransactionOffsets(past.seen.values(), self.staging.noted_transactions(table), positions)
        landed = whole.land(offsets, lambda: self._wanted(table, self._find_again(table, topic), positions))
        if landed.ranges:
            self._find_again(table, topic)
            return self.staging.join(table, topic.id, positions, landed.ranges, landed.in_topic(name))
        if landed.reached is not None:
            noted = {"topic": name, "id": landed.id, "positions": positions, **landed.reached._asdict()}
            self.staging.write_transactions(table, noted)
        return ()

    def _choose(self, dimension: Dimension, past: ObjectHistory, waiting: Sequence[OffsetRange]) -> ObjectSelection:
        """Return the waiting files as a batch; applied ones that a crash left in the folder are removed after it.

        What an earlier run saw and is not there any more was not applied: it was read again from the broker.
        """
        table = dimension.source
        names = self.files.folder.places.of(table).names
        listed, _ = self.files.folder.list(table) or ((), ())
        chosen = {one.name for one in waiting}
        if chosen - {item.name for item in listed}:
            raise _files_gone(dimension)
        applied = [item for item in listed if item.name not in chosen and past.has_applied(item)]
        there = [*(item for item in listed if item.name in chosen), *applied]
        is_split = self.options.transactions is None  # else all that landed together is one batch
        limits = Limits(self.files.options.max_files, self.options.max_bytes if is_split else sys.maxsize)
        naming = Naming(partition_end=names.partition_end)
        known = replace(past, waiting={}, start=None)
        # A range of the topic of transactions has no order among messages.
        beside = [item for item in there if read_transactions([item.name])]
        messages = [item for item in there if not read_transactions([item.name])]
        selection = select_objects(str(dimension.name), messages, known, limits, naming, keeps=False)
        objects = (*(item for item in beside if item.name in chosen), *selection.objects)
        gone = tuple(name for name in past.waiting if name not in chosen)
        leftovers = (*selection.leftovers, *(item for item in beside if item.name not in chosen))
        leftovers = leftovers if self.options.landing == "removed" else ()
        return replace(selection, objects=objects if selection.objects else (), leftovers=leftovers, overtaken=gone)

    def topic_of(self, table: TableName) -> str:
        """Return the topic of a table, or several with a comma between."""
        return filled(self.of_tables.get(table, self.files.options).folder, table)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Read the files, as the source of files does; where transactions are whole in all of them, not in a part.

        Where a table is not there yet, and no message tells its columns, further ones are read with them.
        """
        batch = self.files.read(dimension, selection, epoch)
        while not batch.facts.objects and dimension.name in self.beginning:
            more = self._more(dimension, selection)
            if not more:
                break
            batch.close()
            selection = replace(selection, objects=(*selection.objects, *more))
            batch = self.files.read(dimension, selection, epoch)
        if self.options.transactions is not None and 0 < len(batch.facts.objects) < len(selection.objects):
            batch.close()
            raise _files_gone(dimension)
        return batch

    def _more(self, dimension: Dimension, selection: ObjectSelection) -> Sequence[SourceObject]:
        """Return further files of a table without a batch, behind those that are there."""
        table = dimension.source
        topic = self.broker.find(self.topic_of(table))
        if topic is None:
            return ()
        past = self.beginning[dimension.name]
        _, positions = self._positions(dimension, past, topic, ())
        positions = {**positions, **next_offsets(read_names(item.name for item in selection.objects))}
        refuse_lost(dimension.name, topic, positions)
        chosen = {one.name for one in self._land(dimension, past, topic, positions)}
        listed, _ = self.files.folder.list(table) or ((), ())
        return [item for item in listed if item.name in chosen and item not in selection.objects]

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Tell the consumer group what is applied, and remove its files, unless they are kept."""
        table = dimension.source
        self._tell(table, read_names(item.name for item in objects))
        removed = self.staging.remove(table, objects) if self.options.landing == "removed" else ()
        if self.files.copies is not None:
            self.files.copies.clean(table, [item.name for item in objects])
        return removed

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        """Remove copies of files for Spark that nobody needs any more, or only name them."""
        copies = self.files.copies
        return () if copies is None else copies.clean_all(dimension.source, is_dry=is_dry)

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return nothing: the broker has the messages still, or an error is raised. Staged files are not asked.

        Raises AlarmRaised for a topic that is another one now, SourceError for messages that are gone, and
        ConfigError for a table that began at the end of its topic, which only its first commit tells, and for a
        topic that is compacted: a delete may be gone from the midst of it.
        """
        name, ranges = self.topic_of(dimension.source), read_names(item.name for item in objects)
        topic = self.broker.find(name)
        refuse_other_topic(dimension.name, name, topic, ranges)
        begins = {item.name for item in objects if item.size == 0}
        messages = [one for one in ranges if one.name not in begins]
        if topic is not None and messages:
            refuse_rollback(dimension.name, topic, messages, is_compacted=self.broker.is_compacted(name))
        if begins.intersection(one.name for one in ranges) and self.options.start == "latest":
            raise no_way_back(dimension.name)
        return ()

    def _tell(self, table: TableName, applied: Sequence[OffsetRange]) -> None:
        """Tell the group; where that fails it is said in the log, and the commit stands."""
        if self.options.group is None or not applied:
            return
        try:
            self.broker.tell(filled(self.options.group, table), self.topic_of(table), next_offsets(applied))
        except LakewardError as error:
            log.warning("the consumer group was not told", table=str(table), error=str(error))

    # What the source of files does.

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> DataFrame:
        """Return a truncate that no message tells."""
        return self.files.truncation(dimension, place, time)

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension: the columns of a table are those of its messages."""
        return self.files.written(dimension)

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return nothing: rules stand behind a source."""
        return self.files.recomputed(dimension, may_need)

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return a row in quarantine as it was written, column by column."""
        return self.files.cells(dimension, entry)

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> DataFrame:
        """Return mended rows as events."""
        return self.files.repair_row(dimension, entries)


def _files_gone(dimension: Dimension) -> SourceError:
    return SourceError(
        f"{dimension.name}: files of messages were removed or written while they were taken",
        todo="Nothing of this batch was applied. One process at a time applies a table: is another one at work? "
        "The next run reads the messages again.",
    )


def _ends(topic: Topic) -> Mapping[int, int]:
    return {partition: high for partition, (_, high) in topic.partitions.items()}
