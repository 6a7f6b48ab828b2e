"""Tables that are read whole from their database once, and go on with the messages of a broker.

A snapshot is never apart from the offsets at which its feed begins. They are found before the first row is read,
lie in the folder of the snapshot, which is renamed once it is whole, and are objects of the batch that applies it.
The feed begins with what was sent a while before: a connector may see a commit before a snapshot does. All that is
sent from there on is applied, whether the snapshot has it or not: rows of a full load sort before all changes
(semantics 2.2), so that the last change of a row stands in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame

from lakeward.adapters.sources.files.source import no_snapshots
from lakeward.adapters.sources.jdbc.file_names import Staged
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
"""How many microseconds before the snapshot the feed begins: so long may a commit be sent that nobody sees yet."""


@dataclass(slots=True)
class SnapshotThenFeed:
    """The snapshot of a database, and the feed of its changes: each is read by the source of its kind."""

    snapshot: JdbcSource
    feed: KafkaSource

    @property
    def lateness(self) -> Lateness:
        """Return that of the feed: a snapshot comes once, before all changes."""
        return self.feed.lateness

    @property
    def sequences(self) -> Sequences:
        """Return those of the feed: rows of the snapshot have no places."""
        return self.feed.sequences

    def order_by(self, dimension: Dimension) -> str | None:
        """Return what the changes of the feed go by."""
        return self.feed.order_by(dimension)

    def key_form(self, dimension: Dimension) -> str | None:
        """Return what changes the values of a key in messages."""
        return self.feed.key_form(dimension)

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        """Return the snapshot of a table that begins, with the offsets behind which it goes on; else messages.

        Raises ConfigError for a reload, for snapshots again and again, for a table whose rows were read otherwise,
        and where there is no topic before the snapshot is read; AlarmRaised as the feed does.
        """
        if dimension.snapshots is not None:
            raise no_snapshots(dimension)
        if past.load is not None:
            raise _no_reload(dimension)
        self.feed.files.check(dimension, past)
        if past.begins:
            return self._take_snapshot(dimension, past)
        if not past.seen:
            raise _no_way_back(dimension)
        self._refuse_unknown_starts(dimension, past)
        waiting = {name: item for name, item in past.waiting.items() if not _is_staged(name)}
        selection = self.feed.select_objects(dimension, replace(past, waiting=waiting))
        return replace(
            selection,
            overtaken=(*selection.overtaken, *(name for name in past.waiting if name not in waiting)),
            leftovers=(*selection.leftovers, *self.snapshot.applied(dimension, past)),
        )

    def _take_snapshot(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        name = self.feed.topic_of(dimension.source)
        topic = self.feed.broker.find(name)
        if topic is None:
            raise _no_topic(dimension, name)
        millis = (self.snapshot.now() - _OVERLAP) // 1000

        def find_starts() -> Sequence[str]:
            return [one.name for one in self.feed.starts(self.feed.broker.find(name) or topic, millis)]

        waiting = {name: item for name, item in past.waiting.items() if _is_staged(name)}
        take = partial(self.snapshot.take_once, dimension, replace(past, waiting=waiting), topic.id, find_starts)
        selection = take()
        names = self.snapshot.starts(dimension, selection.objects[0]) if selection.objects else ()
        if selection.objects and _are_gone(names, topic):
            self.snapshot.archive(dimension, selection.objects)
            selection = take()
            names = self.snapshot.starts(dimension, selection.objects[0]) if selection.objects else ()
        return replace(selection, objects=(*selection.objects, *self.feed.to_objects(dimension, names)))

    def _refuse_unknown_starts(self, dimension: Dimension, past: ObjectHistory) -> None:
        """Refuse to go on where no commit says where the feed begins, or it says so of another topic.

        A topic that was empty before the snapshot has no range of offsets, but its id is in the snapshot's name.
        """
        if parse_ranges(past.seen):
            return
        staged = (one for name in past.seen if (one := Staged.of(name)) is not None)
        before = next((one.topic for one in staged if one.topic is not None), None)
        if before is None:
            raise _no_starts(dimension)
        name = self.feed.topic_of(dimension.source)
        topic = self.feed.broker.find(name)
        if topic is None or topic.id != before:
            found = f"{name} was made anew" if topic is not None else f"there is no topic {name} any more"
            raise AlarmRaised(
                "KAFKA-002",
                f"{dimension.name}: its topic is another one now",
                found=f"{found}; its snapshot was read when the topic had the id {before}",
                todo="Nothing was applied. What the old topic had and the table has not is lost. Load the table "
                "anew, as docs/reference/alarms.md says.",
            )

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Read the rows of the snapshot, or messages."""
        if selection.load is None:
            return self.feed.read(dimension, selection, epoch)
        staged, starts = _split(selection.objects)
        batch = self.snapshot.read(dimension, replace(selection, objects=tuple(staged)), epoch)
        if not batch.facts.objects:
            return batch
        objects = (*batch.facts.objects, *(ObjectFacts(item, 0) for item in starts))
        return replace(batch, facts=replace(batch.facts, objects=objects))

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Remove what is applied from the staging folders; the consumer group is told."""
        staged, ranges = _split(objects)
        self.snapshot.archive(dimension, staged)
        return self.feed.archive(dimension, ranges)

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        """Remove what ended runs left of the snapshot, and of messages, or only name it."""
        parts = (self.snapshot, self.feed)
        return [name for part in parts for name in part.clean_staging(dimension, is_dry=is_dry)]

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return what the feed lacks of them; raises ConfigError where the snapshot is among them."""
        staged, ranges = _split(objects)
        if staged:
            raise _no_way_back(dimension)
        return self.feed.find_missing(dimension, ranges)

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> DataFrame:
        """Return a truncate that no message tells."""
        return self.feed.truncation(dimension, place, time)

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension: the columns of a table are those of what is read."""
        return self.feed.written(dimension)

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return nothing: rules stand behind a source."""
        return self.feed.recomputed(dimension, may_need)

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return a row in quarantine as it was read, column by column."""
        source = self.snapshot if _is_staged(entry.object) else self.feed
        return source.cells(dimension, entry)

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> DataFrame:
        """Return mended rows as events."""
        staged = [entry for entry in entries if _is_staged(entry.object)]
        others = [entry for entry in entries if not _is_staged(entry.object)]
        parts = ((self.snapshot, staged), (self.feed, others))
        frames = [source.repair_row(dimension, some) for source, some in parts if some]
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


def _are_gone(starts: Iterable[str], topic: Topic) -> bool:
    """Whether the broker has deleted messages behind the offsets at which a feed would begin."""
    offsets = next_offsets(parse_ranges(starts))
    return any(offsets.get(partition, 0) < low for partition, (low, _) in topic.partitions.items())


def _is_staged(name: str) -> bool:
    return Staged.of(name) is not None


def _split(objects: Iterable[SourceObject]) -> tuple[list[SourceObject], list[SourceObject]]:
    """Return the objects of the snapshot, and those of the feed."""
    every = list(objects)
    return [item for item in every if _is_staged(item.name)], [item for item in every if not _is_staged(item.name)]


def _no_reload(dimension: Dimension) -> ConfigError:
    name = dimension.name
    return ConfigError(
        f"{name}: it was read whole once, and goes on with messages; nothing begins it anew while it is there",
        found="a reload waits for a full load",
        todo=f"{_drop(name)} If it waits already: `lakeward reload {name} --withdraw`.",
    )


def _no_way_back(dimension: Dimension) -> ConfigError:
    name = dimension.name
    return ConfigError(
        f"{name}: it cannot be taken back behind the snapshot with which it began",
        found="it was read whole once, and goes on from there; its database has other rows now",
        todo=f"Nothing was changed. {_drop(name)}",
    )


def _no_topic(dimension: Dimension, topic: str) -> ConfigError:
    return ConfigError(
        f"{dimension.name}: its topic {topic} is not there, and must be before the table is read",
        found="no such topic at the broker",
        todo="Start the connector first, without a snapshot of its own, and create the topic where nothing was "
        "changed yet: what changes between the snapshot and the beginning of the feed would be lost "
        "(docs/reference/jdbc.md).",
    )


def _no_starts(dimension: Dimension) -> ConfigError:
    name = dimension.name
    return ConfigError(
        f"{name}: nothing says where its feed begins",
        found="the table has rows, and `then` was not set when they were read",
        todo=f"{_drop(name)} Or take `then` out again.",
    )


def _drop(name: TableName) -> str:
    """Say how such a table begins anew."""
    return (
        f"Drop the table together with {name.table}__changes and {name.table}__quarantine, and run: it is read "
        "whole again, and goes on from there."
    )
