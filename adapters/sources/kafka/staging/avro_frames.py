"""The frames of messages in Avro: the bytes before a key or a value, which name its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.kafka.topics import TopicPartition

if TYPE_CHECKING:
    from lakeward.adapters.sources.kafka.registries.avro import AvroMessages


def add_frames(records: pa.RecordBatch, avro: AvroMessages, place: TopicPartition) -> pa.RecordBatch:
    """Return messages with the ids of their schemas (`key_schema`), and the lengths of their frames (`key_head`).

    Both are NULL for what is not in Avro, or is compressed. Raises SourceError for a schema that cannot be used or
    stored, and StoreUnreachable where the registry does not answer.
    """
    head = avro.store.registry.head
    for part in ("key", "value"):
        frames = pc.binary_slice(records.column(part), 0, head).dictionary_encode()
        first_rows = [pc.index(frames.indices, frame).as_py() for frame in range(len(frames.dictionary))]
        schemas = [_find_schema(records.slice(row, 1), part, avro, place) for row in first_rows]
        of_rows = pa.array(schemas, pa.string()).take(frames.indices)
        heads = pc.if_else(of_rows.is_valid(), pa.scalar(head, pa.int32()), pa.scalar(None, pa.int32()))
        records = records.append_column(f"{part}_schema", of_rows).append_column(f"{part}_head", heads)
    return records


def _find_schema(record: pa.RecordBatch, part: str, avro: AvroMessages, place: TopicPartition) -> str | None:
    """Return the schema of the key or value of a message; None if it is not in Avro, or is compressed."""
    framed = avro.store.registry.split(record.column(part)[0].as_py())
    if framed is None or framed.is_packed:
        return None
    offset = record.column("offset")[0].as_py()
    avro.schema(framed.schema, f"{place.topic}, partition {place.partition}, offset {offset:,}")
    return framed.schema
