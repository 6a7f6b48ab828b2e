"""The form in which a table's messages land: as they were sent, decoded from Avro, or as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.kafka.options import AVRO, DEBEZIUM, ROWS
from lakeward.adapters.sources.kafka.staging.message_lines import ToLine, to_line
from lakeward.adapters.sources.kafka.staging.plain_records import to_row
from lakeward.adapters.sources.kafka.staging.raw_messages import AVRO_FACTOR, JSON_FACTOR
from lakeward.adapters.sources.kafka.transactions.transaction_topic import Decode
from lakeward.core.dimension import TableName

if TYPE_CHECKING:
    from lakeward.adapters.sources.kafka.registries.avro import AvroMessages


@dataclass(frozen=True, slots=True)
class TableFormat:
    """The format of a table's messages, and the columns of plain records that are in their keys."""

    format: str = DEBEZIUM
    record_key: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LandingForm:
    """The formats of messages, for all tables and for single ones, and the decoder of Avro."""

    format: TableFormat = field(default_factory=TableFormat)
    of_tables: Mapping[TableName, TableFormat] = field(default_factory=dict)
    avro: AvroMessages | None = None

    def of(self, table: TableName, form: FilesOptions) -> ToLine:
        """Return the function that makes lines of a table's messages; its files are read by the options `form`."""
        table_format = self.of_tables.get(table, self.format)
        if table_format.format == ROWS:
            return partial(to_row, table_format.record_key)
        if table_format.format != AVRO or self.avro is None:
            return to_line
        decode = self.decoder(table, form)
        return lambda topic, partition, record: to_line(topic, partition, decode(topic, partition, record))

    def size_factor(self, table: TableName, form: FilesOptions) -> int | None:
        """Return how many bytes of a batch a byte counts in messages that are staged as they were sent.

        None for messages that are staged as lines: all but envelopes.
        """
        own = self.of_tables.get(table, self.format).format
        if form.form != "envelope":
            return None
        if own == AVRO:
            return AVRO_FACTOR
        return JSON_FACTOR if own == DEBEZIUM else None

    def decoder(self, table: TableName, form: FilesOptions) -> Decode:
        """Return the function that makes JSON of a table's messages."""
        avro, is_flat = self.avro, form.form == "flattened"
        if self.of_tables.get(table, self.format).format != AVRO or avro is None:
            return lambda topic, partition, record: record
        return lambda topic, partition, record: avro.decode(record, topic, partition, is_flat=is_flat)
