"""Messages in Avro, whose writer schemas a registry has, as the JSON that Kafka Connect would have written."""

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
from lakeward.adapters.sources.messages.message import KEY_HEADERS
from lakeward.core.errors import SourceError

NO_AVRO: Final = "no Avro, in hexadecimal: "
"""Stands before the bytes of what cannot be decoded: it is no JSON object, so its row goes into quarantine."""

_dump: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

_PARTS: Final = ("type", "items", "values", "fields")
_NO_SCHEMA: Final = (SchemaParseException, ValueError, KeyError, TypeError, AttributeError)
_BROKEN: Final = (EOFError, IndexError, ValueError, OverflowError, MemoryError)
"""What the library raises for a text that is no schema, and for bytes that are not of theirs."""


class NotAvro(ValueError):
    """Bytes that are not of their schema."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A writer schema: what reads its bytes, and its form in Connect as JSON.

    `described` is the whole form; `described_row` has of an envelope the row alone: `after`, else `before`.
    """

    parsed: Any
    to_json: ToJson | None
    described: str
    described_row: str

    @classmethod
    def read(cls, text: str) -> AvroSchema:
        """Return the schema that a text is; raises UnusableSchema for one that Connect does not write."""
        named: dict[str, Any] = {}
        try:
            parsed = parse_schema(_without_conversions(json.loads(text)), named)
            schema, to_json = connect_form(parsed, named)
        except UnusableSchema:
            raise
        except _NO_SCHEMA as error:
            raise UnusableSchema(f"a part that Avro does not know: {error}") from error
        return cls(parsed, to_json, _dump(schema), _dump(_row_of(schema)))

    def decode(self, data: bytes) -> str:
        """Return the JSON of a value; raises NotAvro where the bytes are not of this schema, to the last."""
        stream = BytesIO(data)
        try:
            value = schemaless_reader(stream, self.parsed, None)
        except _BROKEN as error:
            raise NotAvro(str(error)) from error
        if stream.tell() < len(data):
            raise NotAvro("bytes follow it")
        return _dump(value if self.to_json is None else self.to_json(value))


def _row_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an envelope with the row alone; most of what it describes says nothing of columns."""
    fields = {field["field"]: field for field in schema.get("fields", ())}
    row = fields.get("after", fields.get("before"))
    return schema if row is None else {**schema, "fields": [row]}


def _without_conversions(schema: Any) -> Any:
    """Return a schema whose values the library leaves as they are; it has no defaults, which only readers need."""
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
    """Decodes messages by the schemas of a registry. It may be asked by several threads."""

    store: SchemaStore
    _schemas: dict[str, AvroSchema] = field(default_factory=dict)

    def decode(self, record: Record, topic: str, partition: int, *, is_flat: bool) -> Record:
        """Return a message with JSON for what is Avro, and with the schema of its row beside its value.

        A key that is no Avro stays as it is: it may be JSON or text. Any other value than Avro, and broken bytes,
        stand in hexadecimal behind words that say so. Raises SourceError for a schema that cannot be had or used,
        and StoreUnreachable where the registry does not answer.
        """
        where = f"{topic}, partition {partition}, offset {record.offset:,}"
        key, value = record.key, record.value
        if key is not None and self.store.registry.split(key) is not None:
            key = self._decoded(key, f"the key of {where}", lambda _, text: text)
        if value is not None:
            value = self._decoded(value, where, _with_whole_schema if is_flat else _with_row)
        headers = tuple((name, self._key_in_header(name, data, where)) for name, data in record.headers)
        return record._replace(key=key, value=value, headers=headers)

    def _key_in_header(self, name: str, data: bytes | None, where: str) -> bytes | None:
        """Return a header with JSON for the other key of a key change; one that is no Avro stays as it is."""
        if name not in KEY_HEADERS or data is None or self.store.registry.split(data) is None:
            return data
        return self._decoded(data, f"the header {name} of {where}", lambda _, text: text)

    def _decoded(self, data: bytes, where: str, landed: Callable[[AvroSchema, str], str]) -> bytes:
        told = self.store.registry.split(data)
        if told is None:
            return _in_hexadecimal(data)
        schema = self._schema(told.schema, where)
        try:
            return landed(schema, schema.decode(told.body())).encode()
        except ValueError:  # of what it is packed in, or of Avro
            return _in_hexadecimal(data)

    def _schema(self, id_: str, where: str) -> AvroSchema:
        found = self._schemas.get(id_)
        if found is None:
            try:
                found = self._schemas[id_] = AvroSchema.read(self.store.find(id_, where))
            except UnusableSchema as error:
                raise SourceError(
                    f"the schema {id_} of {where} cannot be used",
                    found=f"it has {error}",
                    todo="Nothing of this batch was applied. Schemas are read that the Avro converter of Kafka "
                    "Connect writes for messages of Debezium.",
                ) from error
        return found


def _with_whole_schema(schema: AvroSchema, text: str) -> str:
    return f'{{"schema":{schema.described},"payload":{text}}}'


def _with_row(schema: AvroSchema, text: str) -> str:
    return f'{{"schema":{schema.described_row},"payload":{text}}}'


def _in_hexadecimal(data: bytes) -> bytes:
    return (NO_AVRO + data.hex()).encode()
