"""Conversion of Avro messages into the JSON that Kafka Connect would have written, by schemas of a registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final

from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException

from lakeward.adapters.sources.kafka.broker import Record
from lakeward.adapters.sources.kafka.registries.connect_form import (
    LOGICAL_TYPE,
    ToJson,
    UnusableSchema,
    connect_form,
)
from lakeward.adapters.sources.kafka.registries.schemas import SchemaStore
from lakeward.adapters.sources.messages.message import KEY_HEADERS, NOT_AVRO
from lakeward.core.errors import SourceError

_dump: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

_PARTS: Final = ("type", "items", "values", "fields")
_NO_SCHEMA: Final = (SchemaParseException, ValueError, KeyError, TypeError, AttributeError)
"""Errors of the library for a text that is no schema."""

_BROKEN: Final = (EOFError, IndexError, ValueError, OverflowError, MemoryError)
"""Errors of the library for bytes that are not of their schema."""


class NotAvro(ValueError):
    """Bytes that are not of their schema."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A writer schema: the parsed schema that decodes bytes, and its Connect form as JSON.

    `named` are the schemas that references in `parsed` name. `described` is the whole form. `described_row` has
    only the row of an envelope: `after`, else `before`.
    """

    parsed: Any
    named: Mapping[str, Any]
    to_json: ToJson | None
    described: str
    described_row: str

    @classmethod
    def read(cls, text: str) -> AvroSchema:
        """Parse a schema; raises UnusableSchema for one that Connect does not write."""
        named: dict[str, Any] = {}
        try:
            parsed = parse_schema(_without_conversions(json.loads(text)), named)
            schema, to_json = connect_form(parsed, named)
        except UnusableSchema:
            raise
        except _NO_SCHEMA as error:
            raise UnusableSchema(f"a part that Avro does not know: {error}") from error
        return cls(parsed, named, to_json, _dump(schema), _dump(_row_of(schema)))

    def decode(self, data: bytes) -> str:
        """Return the JSON of a value; raises NotAvro unless all bytes, to the last, are of this schema."""
        stream = BytesIO(data)
        try:
            value = schemaless_reader(stream, self.parsed, None)
        except _BROKEN as error:
            raise NotAvro(str(error)) from error
        if stream.tell() < len(data):
            raise NotAvro("bytes follow it")
        return _dump(value if self.to_json is None else self.to_json(value))


def _row_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an envelope with the row alone; the rest says nothing about columns."""
    fields = {field["field"]: field for field in schema.get("fields", ())}
    row = fields.get("after", fields.get("before"))
    return schema if row is None else {**schema, "fields": [row]}


def _without_conversions(schema: Any) -> Any:
    """Return a schema without logical types, whose values the library would convert, and without defaults."""
    if isinstance(schema, list):
        return [_without_conversions(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        LOGICAL_TYPE if key == "logicalType" else key: _without_conversions(value) if key in _PARTS else value
        for key, value in schema.items()
        if key != "default"
    }


@dataclass(slots=True)
class AvroMessages:
    """Decodes messages by the schemas of a registry. Several threads may call it."""

    store: SchemaStore
    _schemas: dict[str, AvroSchema] = field(default_factory=dict)

    def decode(self, record: Record, topic: str, partition: int, *, is_flat: bool) -> Record:
        """Return a message with JSON in the place of Avro, and with the schema of its row next to its value.

        A key that is not Avro stays unchanged: it may be JSON or text. Any other value than Avro, and broken bytes,
        become hexadecimal digits after a text that says so. Raises SourceError for a schema that cannot be used or
        stored, and StoreUnreachable where the registry does not answer.
        """
        message_label = f"{topic}, partition {partition}, offset {record.offset:,}"
        key, value = record.key, record.value
        if key is not None and self.store.registry.split(key) is not None:
            key = self._decoded(key, f"the key of {message_label}", lambda _, text: text)
        if value is not None:
            value = self._decoded(value, message_label, _with_whole_schema if is_flat else _with_row)
        headers = tuple((name, self._key_in_header(name, data, message_label)) for name, data in record.headers)
        return record._replace(key=key, value=value, headers=headers)

    def _key_in_header(self, name: str, data: bytes | None, message_label: str) -> bytes | None:
        """Return a header with JSON for the other key of a key change; one that is not Avro stays unchanged."""
        if name not in KEY_HEADERS or data is None or self.store.registry.split(data) is None:
            return data
        return self._decoded(data, f"the header {name} of {message_label}", lambda _, text: text)

    def _decoded(self, data: bytes, message_label: str, render: Callable[[AvroSchema, str], str]) -> bytes:
        framed = self.store.registry.split(data)
        if framed is None:
            return _in_hexadecimal(data)
        schema = self.schema(framed.schema, message_label)
        try:
            return render(schema, schema.decode(framed.body())).encode()
        except ValueError:  # of the compression, or of Avro
            return _in_hexadecimal(data)

    def schema(self, id_: str, message_label: str) -> AvroSchema:
        """Return a schema by its id; raises as `decode` does."""
        schema = self._schemas.get(id_)
        if schema is None:
            try:
                schema = self._schemas[id_] = AvroSchema.read(self.store.find(id_, message_label))
            except UnusableSchema as error:
                raise SourceError(
                    f"the schema {id_} of {message_label} cannot be used",
                    found=f"it has {error}",
                    todo="Nothing of this batch was applied. Schemas are read that the Avro converter of Kafka "
                    "Connect writes for messages of Debezium.",
                ) from error
        return schema


def _with_whole_schema(schema: AvroSchema, text: str) -> str:
    return f'{{"schema":{schema.described},"payload":{text}}}'


def _with_row(schema: AvroSchema, text: str) -> str:
    return f'{{"schema":{schema.described_row},"payload":{text}}}'


def _in_hexadecimal(data: bytes) -> bytes:
    return (NOT_AVRO + data.hex()).encode()
