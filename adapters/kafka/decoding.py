"""What makes of the messages of a table those that land: JSON stays, and Avro is decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lakeward.adapters.files.options import FilesOptions
from lakeward.adapters.kafka.broker import Record
from lakeward.adapters.kafka.options import AVRO
from lakeward.core.dimension import TableName

Decode = Callable[[str, int, Record], Record]
"""Makes of a message of a topic and a partition the one that lands."""


class Messages(Protocol):
    """What decodes messages that are no JSON."""

    def decode(self, record: Record, topic: str, partition: int, *, is_flat: bool) -> Record:
        """Return a message as JSON, with a schema; where it `is_flat`, its value is a row, else an envelope."""
        ...


def as_sent(topic: str, partition: int, record: Record) -> Record:
    """Return a message as it was sent."""
    return record


@dataclass(frozen=True, slots=True)
class Decoding:
    """The format of messages, also of those tables that have their own, and what decodes Avro."""

    format: str = "debezium"
    of_tables: Mapping[TableName, str] = field(default_factory=dict)
    avro: Messages | None = None

    def of(self, table: TableName, form: FilesOptions) -> Decode:
        """Return what decodes the messages of a table of the source, whose files are read as `form` says."""
        avro, is_flat = self.avro, form.form == "flattened"
        if avro is None or self.of_tables.get(table, self.format) != AVRO:
            return as_sent
        return lambda topic, partition, record: avro.decode(record, topic, partition, is_flat=is_flat)
