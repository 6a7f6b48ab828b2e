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

    `old_key` is the key that the row left, if the preceding message is its delete. `is_delete_of_pair` is True if
    the following message is its insert.
    """

    message: ParsedMessage
    transaction: str | None
    keys: Object | None
    lacks_values: bool
    topic: str
    old_key: Object | None = None
    is_delete_of_pair: bool = False


def link(messages: Sequence[ParsedMessage], decoder: LocalDebezium) -> None:
    """Link inserts that lack values with the deletes before them; messages must be in order of files and lines."""
    halves = [_half(message, decoder) for message in messages]
    for topic_halves in _by_topic(halves, decoder.decoder.partitions).values():
        for one, other in pairwise(topic_halves):
            has_key = one.keys is not None and one.transaction is not None and one.transaction == other.transaction
            if one.message.own_operation == "delete" and other.lacks_values and has_key:
                other.old_key, one.is_delete_of_pair = one.keys, True
    for message in _rows_with_reused_keys(halves, decoder.decoder.key):
        message.previous_key, message.operation = message.other, "update"
    paired = _paired_transactions(halves) if _has_partitions(decoder.decoder.partitions) else None
    for half in halves:
        message, is_pair = half.message, paired is None or (half.topic, half.transaction) in paired
        if half.lacks_values:
            message.operation = "update"
        if half.old_key is not None and message.previous_key is None and is_pair:
            message.previous_key = half.old_key
        message.is_moved_delete = message.is_moved_delete or (half.is_delete_of_pair and is_pair)


def _half(message: ParsedMessage, decoder: LocalDebezium) -> _Half:
    keys = {name: decoder.deleted_key_cell(message, name) for name in decoder.decoder.key}
    has_key = bool(keys) and all(value is not None for value in keys.values())
    lacks_values = message.lacks_values and message.previous_key is None
    return _Half(
        message, decoder.transaction(message), keys if has_key else None, lacks_values, message.message.topic or ""
    )


def _rows_with_reused_keys(halves: Sequence[_Half], key: Sequence[str]) -> Iterator[ParsedMessage]:
    """Yield rows whose new key, by their headers, is left by another row later in the transaction."""
    places: set[tuple[str, str, Sequence[str | None]]] = set()
    for half in reversed(halves):
        message, cells = half.message, half.message.message.key
        if half.transaction is None or cells is None or not (message.is_new_key_half or message.is_old_key_half):
            continue
        place = (half.topic, half.transaction, tuple(text_of(cells.get(name)) for name in key))
        if message.is_old_key_half:
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


def _paired_transactions(halves: Sequence[_Half]) -> set[tuple[str, str | None]]:
    """Return the transactions in which each delete and each insert that lacks values is half of a pair."""
    counts: dict[tuple[str, str | None], list[int]] = defaultdict(lambda: [0, 0, 0])
    for half in halves:
        count = counts[half.topic, half.transaction]
        count[0] += half.old_key is not None
        count[1] += half.message.own_operation == "delete" and not half.message.is_moved_delete
        count[2] += half.lacks_values
    return {place for place, (pairs, deletes, inserts) in counts.items() if pairs == deletes == inserts}
