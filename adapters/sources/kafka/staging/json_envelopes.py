"""Envelopes of Debezium in JSON, staged as they were sent: texts are parsed that were never written as lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lakeward.adapters.sources.kafka.staging.raw_messages import (
    JSON_FACTOR,
    header_names,
    numbered_lines,
    size_of_batch,
)
from lakeward.adapters.sources.kafka.topics import TopicPartition
from lakeward.adapters.sources.messages.envelopes import Envelopes, MessageTexts
from lakeward.adapters.sources.messages.wrapped_texts import first_schema, payloads
from lakeward.adapters.spark.frames.local_casts import SparkNeeded


@dataclass(frozen=True, slots=True)
class JsonPart:
    """A part of a file of messages in JSON; `first_line` is the number of its first line."""

    records: pa.RecordBatch
    first_line: int
    place: TopicPartition
    check: Callable[[str], None] | None
    """Raises SparkNeeded for a schema by which cells are written differently; None if messages have no schemas."""

    @property
    def size(self) -> int:
        """The number of bytes of a batch that it counts."""
        return JSON_FACTOR * size_of_batch(self.records)

    def decoded(self, envelopes: Envelopes) -> list[pa.RecordBatch]:
        """Return the messages, decoded; raises SparkNeeded or ArrowInvalid if lines must be made of them."""
        values, keys = self._payloads().cast(pa.string()), self.records.column("key").cast(pa.string())
        if envelopes.change_keys(header_names(self.records)):
            raise SparkNeeded("a key change")
        count = self.records.num_rows
        topics, are_right = pa.repeat(pa.scalar(self.place.topic), count), pa.repeat(pa.scalar(True), count)
        parsed = envelopes.parse(MessageTexts(values, keys, topics, are_right))
        if parsed is None:
            raise SparkNeeded("a text that is not one object")
        return [envelopes.decode_parsed(numbered_lines(self.records, self.first_line), parsed)]

    def _payloads(self) -> pa.Array:
        """Return the values without their schemas; raises SparkNeeded unless all have the same one, or none."""
        values = self.records.column("value")
        if self.check is None or values.null_count == len(values):
            return values
        schema = first_schema(values)
        self.check(schema)
        found = payloads(values, schema)
        if found is None:
            raise SparkNeeded("messages with several schemas")
        return found
