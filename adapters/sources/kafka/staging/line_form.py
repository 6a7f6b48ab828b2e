"""In what form the messages of a table land: as they were sent, decoded from Avro, or as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.kafka.broker import Record
from lakeward.adapters.sources.kafka.options import AVRO, ROWS
from lakeward.adapters.sources.kafka.staging.message_lines import ToLine, to_line
from lakeward.adapters.sources.kafka.staging.plain_records import to_row
from lakeward.adapters.sources.kafka.transactions.transaction_topic import Decode
from lakeward.core.dimension import TableName


class Messages(Protocol):
    """What decodes messages that are no JSON."""

    def decode(self, record: Record, topic: str, partition: int, *, is_flat: bool) -> Record:
        """Return a message as JSON, with a schema; where it `is_flat`, its value is a row, else an envelope."""
        ...


@dataclass(frozen=True, slots=True)
class TableFormat:
    """The format of a table's messages, and the columns of plain records that are in their keys."""

    format: str = "debezium"
    record_key: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LandingForm:
    """The format of messages, also of those tables that have their own, and what decodes Avro."""

    format: TableFormat = field(default_factory=TableFormat)
    of_tables: Mapping[TableName, TableFormat] = field(default_factory=dict)
    avro: Messages | None = None

    def of(self, table: TableName, form: FilesOptions) -> ToLine:
        """Return what makes the lines of a table of the source, whose files are read as `form` says."""
        own = self.of_tables.get(table, self.format)
        if own.format == ROWS:
            return partial(to_row, own.record_key)
        if own.format != AVRO or self.avro is None:
            return to_line
        decode = self.decoder(table, form)
        return lambda topic, partition, record: to_line(topic, partition, decode(topic, partition, record))

    def decoder(self, table: TableName, form: FilesOptions) -> Decode:
        """Return what makes JSON of the messages of a table."""
        avro, is_flat = self.avro, form.form == "flattened"
        if self.of_tables.get(table, self.format).format != AVRO or avro is None:
            return lambda topic, partition, record: record
        return lambda topic, partition, record: avro.decode(record, topic, partition, is_flat=is_flat)
