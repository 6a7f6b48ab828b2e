"""Checks for lost messages. Where one fails the table stops, and no message is skipped silently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from lakeward.adapters.sources.kafka.broker import Topic
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange
from lakeward.adapters.sources.kafka.topics import TopicPartition
from lakeward.core.dimension import TableName
from lakeward.core.errors import AlarmRaised, ConfigError, SourceError

LOST_ALARM: Final = "KAFKA-001"

_RELOAD: Final = (
    "Nothing was applied. Messages of the old topic that the table has not applied are lost. Load the table anew, "
    "as docs/reference/alarms.md says."
)

_LOAD_ANEW: Final = "The table can be loaded anew, as docs/reference/alarms.md says."


def refuse_other_topic(table: TableName, name: str, topic: Topic | None, applied: Collection[OffsetRange]) -> None:
    """Raise KAFKA-002 if the topic is not the one that the table's commits name."""
    if not applied:
        return
    latest = max(applied, key=lambda one: (one.end, one))
    if latest.topic != name:
        difference = f"it was read from {latest.topic}, and the settings name {name}"
    elif topic is None:
        difference = f"there is no topic {name} any more; {latest.words} were the last that it applied"
    elif latest.id != topic.id:
        difference = f"{name} was created anew: its id is {topic.id}, and was {latest.id}"
    elif missing_partitions := sorted({one.partition for one in applied} - topic.partitions.keys()):
        place = TopicPartition.of(name, missing_partitions[0])
        difference = f"{place.topic} has fewer partitions now; partition {place.partition} was read and is gone"
    else:
        return
    raise AlarmRaised("KAFKA-002", f"{table}: its topic is another one now", found=difference, todo=_RELOAD)


def topic_changed_error(table: TableName, topic: Topic, *, is_deleted: bool) -> SourceError:
    """Return the error for a topic that was deleted, or created anew, while its messages were read."""
    change = "deleted" if is_deleted else "created anew"
    return SourceError(
        f"{table}: its topic {topic.name} was {change} while messages were read",
        todo="Nothing of this batch was applied. The next run raises an alarm if messages are lost.",
    )


def refuse_truncated(table: TableName, topic: Topic, positions: Mapping[int, int]) -> None:
    """Raise KAFKA-002 where a partition ends before the next offset: its log was truncated."""
    for partition, position in positions.items():
        high, place = topic.partitions[partition].high, TopicPartition.of(topic.name, partition)
        if position > high:
            raise AlarmRaised(
                "KAFKA-002",
                f"{table}: its topic ends before what was applied",
                found=f"{place.topic}, partition {place.partition}, ends at offset {high:,}, and all before "
                f"{position:,} is applied: messages were lost at the broker, and others took their offsets",
                todo=_RELOAD,
            )


def refuse_lost_messages(table: TableName, topic: Topic, positions: Mapping[int, int]) -> None:
    """Raise KAFKA-001 where the next offsets no longer exist."""
    lost_ranges = [
        OffsetRange(topic.name, topic.id, partition, position, topic.partitions[partition].low)
        for partition, position in sorted(positions.items())
        if position < topic.partitions[partition].low
    ]
    if lost_ranges:
        more = f", and of {len(lost_ranges) - 1} more partitions" if len(lost_ranges) > 1 else ""
        raise AlarmRaised(
            "KAFKA-001",
            f"{table}: messages are gone from the broker that were not applied yet",
            found=f"{lost_ranges[0].words}{more}; the first offset that exists is {lost_ranges[0].end:,}",
            todo="Nothing was applied. Retention or a person deleted them. Load the table anew, as "
            "docs/reference/alarms.md says. If these messages do not matter, run "
            f"`lakeward ack {table} {LOST_ALARM}`: the table continues after them.",
            about=[one.name for one in lost_ranges],
        )


def refuse_rollback(table: TableName, topic: Topic, ranges: Collection[OffsetRange], *, is_compacted: bool) -> None:
    """Raise an error if messages after a rollback could not be applied again.

    SourceError where they are gone; ConfigError for a compacted topic, where some may be gone.
    """
    if is_compacted:
        raise ConfigError(
            f"{table}: it cannot be rolled back over messages of a compacted topic",
            found=f"the broker may have removed messages from the middle of {topic.name}, deletes among them",
            todo=f"Nothing was changed. {_LOAD_ANEW}",
        )
    for one in ranges:
        low, high = topic.partitions[one.partition]
        if one.start < low or one.end > high:
            raise SourceError(
                f"{table}: messages that were applied since are gone from the broker",
                found=f"{one.words}; there are {low:,} to {high - 1:,}",
                todo=f"Nothing was changed: they could not be applied again. {_LOAD_ANEW}",
            )


def no_rollback_error(table: TableName) -> ConfigError:
    """Return the error for a table that began at the end of its topic.

    Only its first commit records that offset.
    """
    return ConfigError(
        f"{table}: it cannot be rolled back to before its first messages",
        found='it began at the end of its topic (`start = "latest"`): only its first commit records where that is',
        todo=f"Nothing was changed. {_LOAD_ANEW}",
    )


def refuse_unknown_start(table: TableName, topic: Topic) -> None:
    """Raise ConfigError for a new table whose topic has lost its beginning, if no `start` is set."""
    truncated = [(partition, low) for partition, (low, _) in sorted(topic.partitions.items()) if low > 0]
    if truncated:
        (number, low), *_ = truncated
        name, partition = TopicPartition.of(topic.name, number)
        raise ConfigError(
            f"{table}: `start` must be set, since the beginning of its topic is gone",
            found=f"{name}, partition {partition}, begins at offset {low:,}",
            todo='Set `start` under [source]: "earliest" (what is still there), "latest" (what comes from now on), '
            "or a time. A topic without its beginning has all rows only if it is compacted or contains a snapshot.",
        )


def acked_ranges(acked: Iterable[str], partition: int, topic: Topic) -> Sequence[OffsetRange]:
    """Return the lost ranges of a partition that an operator has acknowledged."""
    ranges = [OffsetRange.read(name) for name in acked]
    return [one for one in ranges if one is not None and one.partition == partition and one.id == topic.id]
