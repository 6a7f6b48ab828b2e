"""Tables that are read whole from their database once, and go on with the messages of a broker.

A snapshot and the place at which its feed begins are one thing. Before the first row is read, the ends of all
partitions are asked for; they lie in the folder of the snapshot, which is renamed once it is whole, and are objects
of the batch that applies it. What was sent before was committed before the snapshot, so it has it. What is sent
later is applied, whether the snapshot has it or not: rows of a full load sort before all changes (semantics 2.2),
so the overlap ends at the row of the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TypeVar

from pyspark.sql import DataFrame

from lakeward.adapters.files.source import no_snapshots
from lakeward.adapters.jdbc.names import Staged
from lakeward.adapters.jdbc.source import JdbcSource
from lakeward.adapters.kafka.source import KafkaSource
from lakeward.adapters.spark.local_frame import Frame
from lakeward.core.dimension import Dimension, Lateness
from lakeward.core.errors import ConfigError
from lakeward.core.events import Position, Sequences
from lakeward.core.facts import Capability, ObjectFacts
from lakeward.core.ledger import Past, SourceObject, Taken
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.remaking import Remaking

T = TypeVar("T", SourceObject, Entry)


@dataclass(slots=True)
class SnapshotThenFeed:
    """The snapshot of a database, and the feed of its changes: each is read by the source of its kind."""

    snapshot: JdbcSource
    feed: KafkaSource

    @property
    def lateness(self) -> Lateness:
        """That of the feed; a snapshot comes once, before it."""
        return self.feed.lateness

    @property
    def sequences(self) -> Sequences:
        """Those of the feed: rows of the snapshot have none."""
        return self.feed.sequences

    def order_by(self, dimension: Dimension) -> str | None:
        """Return what the changes of the feed go by."""
        return self.feed.order_by(dimension)

    def key_form(self, dimension: Dimension) -> str | None:
        """Return what changes the values of a key in messages."""
        return self.feed.key_form(dimension)

    def take(self, dimension: Dimension, past: Past) -> Taken:
        """Return the snapshot for a table that begins, with the offsets behind which it goes on; else messages.

        Raises ConfigError for a reload, for snapshots again and again, and where the topic is not there before the
        snapshot is read; AlarmRaised as the feed does.
        """
        if dimension.snapshots is not None:
            raise no_snapshots(dimension)
        if past.load is not None:
            raise _no_reload(dimension)
        if past.begins:
            return self._take_snapshot(dimension, past)
        taken = self.feed.take(dimension, replace(past, waiting=_of_feed(past)))
        passed = tuple(name for name in past.waiting if _is_staged(name))
        return replace(
            taken,
            overtaken=(*taken.overtaken, *passed),
            leftovers=(*taken.leftovers, *self.snapshot.applied(dimension, past)),
        )

    def _take_snapshot(self, dimension: Dimension, past: Past) -> Taken:
        waiting = {name: item for name, item in past.waiting.items() if _is_staged(name)}
        note = partial(self._ends, dimension)
        taken = self.snapshot.take_noted(dimension, replace(past, waiting=waiting), note)
        if not taken.objects:
            return taken
        ends = self.feed.objects_of(dimension, self.snapshot.note_of(dimension, taken.objects[0]).split())
        return replace(taken, objects=(*taken.objects, *ends))

    def _ends(self, dimension: Dimension) -> str:
        """Return the names of ranges behind which the feed begins, a line each."""
        return "\n".join(one.name for one in self.feed.ends(dimension))

    def read(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[Frame]:
        """Read the rows of the snapshot, or messages."""
        if taken.load is None:
            return self.feed.read(dimension, taken, epoch)
        staged, ends = _split(taken.objects)
        batch = self.snapshot.read(dimension, replace(taken, objects=tuple(staged)), epoch)
        if not batch.facts.objects:
            return batch
        objects = (*batch.facts.objects, *(ObjectFacts(item, 0) for item in ends))
        return replace(batch, facts=replace(batch.facts, objects=objects))

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Remove what is applied from the staging folders; the consumer group is told."""
        staged, ranges = _split(objects)
        self.snapshot.archive(dimension, staged)
        return self.feed.archive(dimension, ranges)

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> DataFrame:
        """Return a truncate that no message tells."""
        return self.feed.truncation(dimension, place, time)

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension: the columns of a table are those of what is read."""
        return self.feed.written(dimension)

    def remaking(self, dimension: Dimension, may_need: frozenset[Capability]) -> Remaking:
        """Return nothing: rules stand behind a source."""
        return self.feed.remaking(dimension, may_need)

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return a row in quarantine as it was read, column by column."""
        source = self.snapshot if _is_staged(entry.object) else self.feed
        return source.cells(dimension, entry)

    def mend(self, dimension: Dimension, entries: Sequence[Entry]) -> DataFrame:
        """Return mended rows as events."""
        staged = [entry for entry in entries if _is_staged(entry.object)]
        others = [entry for entry in entries if not _is_staged(entry.object)]
        parts = ((self.snapshot, staged), (self.feed, others))
        frames = [source.mend(dimension, some) for source, some in parts if some]
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


def _is_staged(name: str) -> bool:
    return Staged.of(name) is not None


def _of_feed(past: Past) -> dict[str, SourceObject]:
    return {name: item for name, item in past.waiting.items() if not _is_staged(name)}


def _split(objects: Iterable[SourceObject]) -> tuple[list[SourceObject], list[SourceObject]]:
    """Return the objects of the snapshot, and those of the feed."""
    every = list(objects)
    return [item for item in every if _is_staged(item.name)], [item for item in every if not _is_staged(item.name)]


def _no_reload(dimension: Dimension) -> ConfigError:
    name = dimension.name
    return ConfigError(
        f"{name}: it was read whole once, and goes on with messages; nothing begins it anew while it is there",
        found="a reload waits for a full load",
        todo=f"Drop the table together with {name.table}__changes and {name.table}__quarantine, and run: it is "
        f"read whole again, and goes on from there. If it waits already: `lakeward reload {name} --withdraw`.",
    )
