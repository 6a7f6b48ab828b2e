"""Linking of the halves of key changes in plain Python, equal to `adapters.sources.messages.key_changes` in SQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakeward.adapters.sources.files.local.messages.debezium import LocalDebezium, ParsedMessage
from lakeward.adapters.sources.files.local.values.documents import Object, text_of
from lakeward.adapters.sources.messages.debezium import OPERATIONS

_ROWS = frozenset(OPERATIONS.values())


@dataclass(slots=True)
class _Half:
    """A message that may be half of a key change; `adapters.sources.messages.key_changes.Half` defines the fields.

    `enters` is the key that the row left, if the message before is its delete. `leaves` says that the message after
    it is its insert.
    """

    message: ParsedMessage
    transaction: str | None
    keys: Object | None
    lacks: bool
    topic: str
    enters: Object | None = None
    leaves: bool = False


def link(opened: Sequence[ParsedMessage], decoder: LocalDebezium) -> None:
    """Link inserts that lack values with the deletes before them; messages must be in order of files and lines."""
    halves = [_half(message, decoder) for message in opened]
    for alike in _by_topic(halves, decoder.decoder.partitions).values():
        for one, other in pairwise(alike):
            is_told = one.keys is not None and one.transaction is not None and one.transaction == other.transaction
            if one.message.own_operation == "delete" and other.lacks and is_told:
                other.enters, one.leaves = one.keys, True
    for message in _left_behind(halves, decoder.decoder.key):
        message.previous_key, message.operation = message.other, "update"
    is_sure = _sure(halves) if _has_partitions(decoder.decoder.partitions) else None
    for half in halves:
        message, sure = half.message, is_sure is None or (half.topic, half.transaction) in is_sure
        if half.lacks:
            message.operation = "update"
        if half.enters is not None and message.previous_key is None and sure:
            message.previous_key = half.enters
        message.moved = message.moved or (half.leaves and sure)


def _half(message: ParsedMessage, decoder: LocalDebezium) -> _Half:
    keys = {name: decoder.gone(message, name) for name in decoder.decoder.key}
    is_told = bool(keys) and all(value is not None for value in keys.values())
    lacks = message.needs and message.previous_key is None
    return _Half(
        message, decoder.transaction(message), keys if is_told else None, lacks, message.message.topic or ""
    )


def _left_behind(halves: Sequence[_Half], key: Sequence[str]) -> Iterator[ParsedMessage]:
    """Yield the rows that get a key which another row leaves later in the transaction, by their headers."""
    places: set[tuple[str, str, Sequence[str | None]]] = set()
    for half in reversed(halves):
        message, cells = half.message, half.message.message.key
        if half.transaction is None or cells is None or not (message.enters or message.leaves):
            continue
        place = (half.topic, half.transaction, tuple(text_of(cells.get(name)) for name in key))
        if message.leaves:
            places.add(place)
        elif place in places:
            yield message


def _has_partitions(partitions: Mapping[str, int]) -> bool:
    return bool(set(partitions.values()) - {0})


def _by_topic(halves: Sequence[_Half], partitions: Mapping[str, int]) -> Mapping[object, list[_Half]]:
    """Return the messages with rows, by topic and partition, in order."""
    groups: dict[object, list[_Half]] = defaultdict(list)
    for half in halves:
        if half.message.own_operation in _ROWS:
            name = half.message.message.line.name
            partition = partitions.get(name, -1) if _has_partitions(partitions) else 0
            groups[half.topic, partition].append(half)
    return groups


def _sure(halves: Sequence[_Half]) -> set[tuple[str, str | None]]:
    """Return the transactions in which each delete and each insert that lacks values is half of a pair."""
    counts: dict[tuple[str, str | None], list[int]] = defaultdict(lambda: [0, 0, 0])
    for half in halves:
        count = counts[half.topic, half.transaction]
        count[0] += half.enters is not None
        count[1] += half.message.own_operation == "delete" and not half.message.moved
        count[2] += half.lacks
    return {place for place, (pairs, deletes, inserts) in counts.items() if pairs == deletes == inserts}
