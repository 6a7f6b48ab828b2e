"""Tables that begin with one snapshot of their database, and go on with the messages of a broker.

A snapshot always comes with the offsets at which its feed begins. They are found before the first row is read, lie
in the folder of the snapshot, and are objects of the batch that applies it. The feed begins with messages that were
sent some time before, because a connector may see a commit before a snapshot does. All of them are applied, whether
the snapshot has their changes or not: rows of a full load sort before all changes (semantics 2.2), so the last
change of a row wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame

from lakeward.adapters.sources.files.source import no_snapshots
from lakeward.adapters.sources.jdbc.file_names import StagedRead
from lakeward.adapters.sources.jdbc.source import JdbcSource
from lakeward.adapters.sources.kafka.broker import Topic
from lakeward.adapters.sources.kafka.offset_ranges import next_offsets, parse_ranges
from lakeward.adapters.sources.kafka.source import KafkaSource
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.core.dimension import Dimension, Lateness, TableName
from lakeward.core.errors import AlarmRaised, ConfigError
from lakeward.core.events import Position, Sequences
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.merge.facts import Capability, ObjectFacts
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.shaping.recomputed_columns import RecomputedColumns

_OVERLAP: Final = 600 * 1_000_000
"""Microseconds before the snapshot at which the feed begins: a message may be sent this long before its commit is
visible."""


@dataclass(slots=True)
class SnapshotThenFeed:
    """The snapshot of a database and the feed of its changes, each read by its own source."""

    snapshot: JdbcSource
    feed: KafkaSource

    @property
    def lateness(self) -> Lateness:
        """The lateness of the feed: the snapshot comes once, before all changes."""
        return self.feed.lateness

    @property
    def sequences(self) -> Sequences:
        """The sequences of the feed: rows of the snapshot have none."""
        return self.feed.sequences

    def order_by(self, dimension: Dimension) -> str | None:
        """Return the order of the changes of the feed."""
        return self.feed.order_by(dimension)

    def key_form(self, dimension: Dimension) -> str | None:
        """Return what changes the values of a key in messages."""
        return self.feed.key_form(dimension)

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """Return the snapshot of a new table with the first offsets of its feed, or else messages.

        Raises ConfigError for a reload, for repeated snapshots, for a table whose rows came from elsewhere, and
        where the topic does not exist before the snapshot is read; AlarmRaised as the feed does.
        """
        if dimension.snapshots is not None:
            raise no_snapshots(dimension)
        if object_history.load is not None:
            raise _reload_error(dimension)
        self.feed.files.check(dimension, object_history)
        if object_history.has_no_batch:
            return self._select_snapshot(dimension, object_history)
        if not object_history.applied:
            raise _rollback_error(dimension)
        self._refuse_unknown_starts(dimension, object_history)
        waiting = {name: item for name, item in object_history.waiting.items() if not _is_staged(name)}
        selection = self.feed.select_objects(dimension, replace(object_history, waiting=waiting))
        return replace(
            selection,
            superseded=(*selection.superseded, *(name for name in object_history.waiting if name not in waiting)),
            leftovers=(*selection.leftovers, *self.snapshot.find_applied(dimension, object_history)),
        )

    def _select_snapshot(self, dimension: Dimension, history: ObjectHistory) -> ObjectSelection:
        name = self.feed.topic_of(dimension.source)
        topic = self.feed.landing.broker.find(name)
        if topic is None:
            raise _no_topic_error(dimension, name)
        millis = (self.snapshot.now() - _OVERLAP) // 1000

        def find_starts() -> Sequence[str]:
            return [one.name for one in self.feed.starts(self.feed.landing.broker.find(name) or topic, millis)]

        waiting = {name: item for name, item in history.waiting.items() if _is_staged(name)}
        select = partial(
            self.snapshot.select_snapshot, dimension, replace(history, waiting=waiting), topic.id, find_starts
        )
        selection = select()
        names = self.snapshot.starts(dimension, selection.objects[0]) if selection.objects else ()
        if selection.objects and _are_deleted(names, topic):
            self.snapshot.archive(dimension, selection.objects)
            selection = select()
            names = self.snapshot.starts(dimension, selection.objects[0]) if selection.objects else ()
        return replace(selection, objects=(*selection.objects, *self.feed.to_objects(dimension, names)))

    def _refuse_unknown_starts(self, dimension: Dimension, history: ObjectHistory) -> None:
        """Raise an error if no commit has the first offsets of the feed, or if the topic is another one now.

        A topic that was empty before the snapshot has no range of offsets, but its id is in the snapshot's name.
        Raises ConfigError without either, and AlarmRaised for another topic.
        """
        if parse_ranges(history.applied):
            return
        staged = (one for name in history.applied if (one := StagedRead.of(name)) is not None)
        known_id = next((one.topic for one in staged if one.topic is not None), None)
        if known_id is None:
            raise _no_starts_error(dimension)
        name = self.feed.topic_of(dimension.source)
        topic = self.feed.landing.broker.find(name)
        if topic is None or topic.id != known_id:
            difference = f"{name} was created anew" if topic is not None else f"there is no topic {name} any more"
            raise AlarmRaised(
                "KAFKA-002",
                f"{dimension.name}: its topic is another one now",
                found=f"{difference}; its snapshot was read when the topic had the id {known_id}",
                todo="Nothing was applied. What the old topic had and the table has not is lost. Load the table "
                "anew, as docs/reference/alarms.md says.",
            )

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Read the rows of the snapshot, or messages."""
        if selection.load_epoch is None:
            return self.feed.read(dimension, selection, epoch)
        staged, starts = _split_objects(selection.objects)
        batch = self.snapshot.read(dimension, replace(selection, objects=tuple(staged)), epoch)
        if not batch.facts.objects:
            return batch
        objects = (*batch.facts.objects, *(ObjectFacts(item, 0) for item in starts))
        return replace(batch, facts=replace(batch.facts, objects=objects))

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Remove applied files from the staging folders, and commit offsets for the consumer group."""
        staged, ranges = _split_objects(objects)
        self.snapshot.archive(dimension, staged)
        return self.feed.archive(dimension, ranges)

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        """Remove what ended runs left of the snapshot and of messages, and return it.

        With `is_dry` only return it.
        """
        parts = (self.snapshot, self.feed)
        return [name for part in parts for name in part.clean_staging(dimension, is_dry=is_dry)]

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return objects that the feed no longer has; raises ConfigError for objects of the snapshot."""
        staged, ranges = _split_objects(objects)
        if staged:
            raise _rollback_error(dimension)
        return self.feed.find_missing(dimension, ranges)

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> DataFrame:
        """Return a truncate event that is in no message."""
        return self.feed.truncation(dimension, place, time)

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension itself: the columns of a table are those that are read."""
        return self.feed.written(dimension)

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return nothing: rules are applied behind the source."""
        return self.feed.recomputed(dimension, may_need)

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return the cells of a quarantined row as it was read."""
        source = self.snapshot if _is_staged(entry.object) else self.feed
        return source.cells(dimension, entry)

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> DataFrame:
        """Return repaired rows as events."""
        staged = [entry for entry in entries if _is_staged(entry.object)]
        others = [entry for entry in entries if not _is_staged(entry.object)]
        parts = ((self.snapshot, staged), (self.feed, others))
        frames = [source.repair_row(dimension, own_entries) for source, own_entries in parts if own_entries]
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


def _are_deleted(starts: Iterable[str], topic: Topic) -> bool:
    """Return True if the broker has deleted messages after the offsets at which a feed would begin."""
    offsets = next_offsets(parse_ranges(starts))
    return any(offsets.get(partition, 0) < low for partition, (low, _) in topic.partitions.items())


def _is_staged(name: str) -> bool:
    return StagedRead.of(name) is not None


def _split_objects(objects: Iterable[SourceObject]) -> tuple[list[SourceObject], list[SourceObject]]:
    """Return the objects of the snapshot, and those of the feed."""
    every = list(objects)
    return [item for item in every if _is_staged(item.name)], [item for item in every if not _is_staged(item.name)]


def _reload_error(dimension: Dimension) -> ConfigError:
    name = dimension.name
    return ConfigError(
        f"{name}: it was read whole once, and goes on with messages; nothing begins it anew while it is there",
        found="a reload waits for a full load",
        todo=f"{_drop_hint(name)} If it waits already: `lakeward reload {name} --withdraw`.",
    )


def _rollback_error(dimension: Dimension) -> ConfigError:
    name = dimension.name
    return ConfigError(
        f"{name}: it cannot be rolled back to before the snapshot with which it began",
        found="it was read whole once, and goes on from there; its database has other rows now",
        todo=f"Nothing was changed. {_drop_hint(name)}",
    )


def _no_topic_error(dimension: Dimension, topic: str) -> ConfigError:
    return ConfigError(
        f"{dimension.name}: its topic {topic} is not there, and must be before the table is read",
        found="no such topic at the broker",
        todo="Start the connector first, without a snapshot of its own, and create the topic where nothing was "
        "changed yet: what changes between the snapshot and the beginning of the feed would be lost "
        "(docs/reference/jdbc.md).",
    )


def _no_starts_error(dimension: Dimension) -> ConfigError:
    name = dimension.name
    return ConfigError(
        f"{name}: nothing says where its feed begins",
        found="the table has rows, and `then` was not set when they were read",
        todo=f"{_drop_hint(name)} Or take `then` out again.",
    )


def _drop_hint(name: TableName) -> str:
    """Return a text about how such a table can be read from the beginning."""
    return (
        f"Drop the table together with {name.table}__changes and {name.table}__quarantine, and run: it is read "
        "whole again, and goes on from there."
    )
