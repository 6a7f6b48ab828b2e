"""Envelopes of Debezium in Avro, in the columns that messages of JSON are parsed into.

They have the values that the JSON of a message has (`registries.connect_form`). What JSON would have in another
form, and a schema with other columns than the table, is left to lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.kafka.registries.avro_columns import NotInColumns, decode_columns
from lakeward.adapters.sources.kafka.registries.connect_form import ToJson, connect_form
from lakeward.adapters.sources.kafka.staging.avro_frames import add_frames
from lakeward.adapters.sources.kafka.staging.raw_messages import (
    AVRO_FACTOR,
    header_names,
    numbered_lines,
    size_of_batch,
)
from lakeward.adapters.sources.kafka.topics import TopicPartition
from lakeward.adapters.sources.messages.envelope_parser import (
    BLOCK_TYPE,
    EITHER_FIELDS,
    ENVELOPE_PARTS,
    FIELDS,
    NUMBER_FIELDS,
    OTHER_FIELDS,
    ParsedObjects,
    field_of,
    parse_objects,
)
from lakeward.adapters.sources.messages.envelopes import Envelopes, ParsedMessages
from lakeward.adapters.spark.frames.local_casts import SparkNeeded

if TYPE_CHECKING:
    from lakeward.adapters.sources.kafka.registries.avro import AvroMessages, AvroSchema

_MOST_EXACT: Final = 2**53
"""The whole numbers up to which each has a double."""

_MOST_DIGITS: Final = 38
_NOT_IN_COLUMNS: Final = (NotInColumns, pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


@dataclass(frozen=True, slots=True)
class AvroPart:
    """A part of a file of messages in Avro; `first_line` is the number of its first line."""

    records: pa.RecordBatch
    first_line: int
    place: TopicPartition
    avro: AvroMessages
    check: Callable[[str], None]
    """Raises SparkNeeded for a schema by which cells are written differently from those of the table."""

    @property
    def size(self) -> int:
        """The number of bytes of a batch that it counts."""
        return AVRO_FACTOR * size_of_batch(self.records)

    def decoded(self, envelopes: Envelopes) -> list[pa.RecordBatch]:
        """Return the messages, decoded; raises SparkNeeded if lines must be made of them."""
        lines = numbered_lines(self.records, self.first_line)
        framed = replace(self, records=add_frames(self.records, self.avro, self.place))
        try:
            return [envelopes.decode_parsed(lines, framed._parsed(envelopes))]
        except _NOT_IN_COLUMNS as error:
            raise SparkNeeded(f"a message in Avro is not read in columns: {error}") from error

    def _parsed(self, envelopes: Envelopes) -> ParsedMessages:
        if envelopes.change_keys(header_names(self.records)):
            raise NotInColumns("a key change")
        values, keys = self.records.column("value"), self.records.column("key")
        messages = self._by_schema("value", _envelope_type(envelopes), partial(_envelopes, envelopes))
        return ParsedMessages(
            messages=ParsedObjects(messages, values.is_valid()),
            keys=self._keys(envelopes),
            has_key=keys.is_valid(),
            is_right=pa.repeat(pa.scalar(True), len(values)),
            has_no_value=values.is_null(),
            topics=pa.repeat(pa.scalar(self.place.topic), len(values)),
            bodies=None,
        )

    def _keys(self, envelopes: Envelopes) -> pa.StructArray:
        """Return the rows in the keys of messages, which are all in Avro or all JSON."""
        keys, row = self.records.column("key"), _row_type(envelopes)
        if self.records.column("key_schema").null_count < len(keys):
            return self._by_schema("key", row, partial(_key_row, envelopes))
        parsed = parse_objects(keys.cast(pa.string()), pa.schema([*row]))
        if parsed is None or not pc.all(pc.or_(keys.is_null(), parsed.is_object)).as_py():
            raise NotInColumns("a key that is no object")
        return parsed.whole

    def _by_schema(
        self, part: str, type_: pa.DataType, convert: Callable[[AvroSchema, pa.Array], pa.StructArray]
    ) -> pa.StructArray:
        """Return the keys or values of messages, converted by schema; `type_` is theirs if all are NULL."""
        data, ids = self.records.column(part), self.records.column(f"{part}_schema")
        if pc.any(pc.and_(data.is_valid(), ids.is_null())).as_py():
            raise NotInColumns(f"a {part} of another form")
        heads, places = self.records.column(f"{part}_head"), np.full(len(data), -1)
        arrays: list[pa.StructArray] = []
        count = 0
        for id_ in pc.unique(ids.drop_null()).to_pylist():
            rows = pc.indices_nonzero(pc.equal(ids, id_)).to_numpy()
            schema = self.avro.schema(id_, self.place.topic)
            if part == "value":
                self.check(schema.described_row)
            values = data if len(rows) == len(data) else data.take(pa.array(rows))
            decoded = decode_columns(schema.parsed, schema.named, values, heads[rows[0]].as_py())
            arrays.append(convert(schema, decoded))
            places[rows] = np.arange(count, count + len(rows))
            count += len(rows)
        if not arrays:
            return pa.nulls(len(data), type_)
        whole = pa.concat_arrays(arrays)
        is_in_order = len(arrays) == 1 and count == len(data)
        return whole if is_in_order else whole.take(pa.array(places, mask=places < 0))


def _row_type(envelopes: Envelopes) -> pa.StructType:
    return pa.struct([(name, native or pa.string()) for name, native in envelopes.columns.items()])


def _envelope_type(envelopes: Envelopes) -> pa.StructType:
    row = _row_type(envelopes)
    return pa.struct([("before", row), ("after", row), ("source", pa.struct([])), ("op", pa.string())])


def _envelopes(envelopes: Envelopes, schema: AvroSchema, values: pa.Array) -> pa.StructArray:
    """Return envelopes with rows of the table, and with the fields of the source as JSON would have them."""
    types = _field_types(schema.parsed, schema.named)
    if not {"before", "after", "source", "op"} <= types.keys() <= {*ENVELOPE_PARTS}:
        raise NotInColumns("another part than those of an envelope, or one less")
    columns = {name: field_of(values, name) for name in types}
    for name in ("before", "after"):
        row_types = _field_types(types[name], schema.named)
        if row_types.keys() != envelopes.columns.keys():
            raise NotInColumns("a row has other columns than the table")
        columns[name] = _row(columns[name], row_types, schema, envelopes)
    _check_source(columns["source"])
    times = {name: pa.int64() for name in ("ts_ms", "ts_us", "ts_ns")}
    for name, type_ in {"op": pa.string(), "transaction": BLOCK_TYPE, **times}.items():
        if name in columns and columns[name].type != type_:
            raise NotInColumns(f"{name} of the type {columns[name].type}")
    return pa.StructArray.from_arrays([*columns.values()], [*columns])


def _check_source(source: pa.Array) -> None:
    if not pa.types.is_struct(source.type):
        raise NotInColumns("a source that is no record")
    for field in source.type:
        may_be_text = field.name not in NUMBER_FIELDS or field.name in EITHER_FIELDS
        is_right = field.type in (
            *([pa.string()] if may_be_text else []),
            *([pa.int64()] if field.name in NUMBER_FIELDS else []),
        )
        if not is_right or field.name not in (*FIELDS, *OTHER_FIELDS):
            raise NotInColumns(f"{field.name} in the source, of the type {field.type}")


def _key_row(envelopes: Envelopes, schema: AvroSchema, values: pa.Array) -> pa.StructArray:
    """Return the rows in keys, which have some columns of the table."""
    types = _field_types(schema.parsed, schema.named)
    if not types.keys() <= envelopes.columns.keys():
        raise NotInColumns("a key has other columns than the table")
    return _row(values, types, schema, envelopes)


def _row(values: pa.Array, types: Mapping[str, Any], schema: AvroSchema, envelopes: Envelopes) -> pa.StructArray:
    cells = {}
    for name, native in envelopes.columns.items():
        if name not in types:
            cells[name] = pa.nulls(len(values), native or pa.string())
            continue
        column = field_of(values, name)
        number = envelopes.numbers.get(name) if pa.types.is_int64(column.type) else None
        if pa.types.is_binary(column.type):
            column = _json_texts(column, connect_form(types[name], schema.named).to_json)
        cells[name] = _cells(column, native or number or pa.string())
    return pa.StructArray.from_arrays([*cells.values()], [*cells], mask=values.is_null())


def _cells(cells: pa.Array, target: pa.DataType) -> pa.Array:
    """Return cells of the type that Arrow would parse their JSON as."""
    if cells.type == target:
        return cells
    if pa.types.is_int64(cells.type):
        if pa.types.is_int32(target):
            return cells.cast(target)
        if pa.types.is_float64(target) and not pc.any(pc.greater(pc.abs_checked(cells), _MOST_EXACT)).as_py():
            return cells.cast(target)
        if pa.types.is_decimal(target):
            return cells.cast(pa.decimal128(_MOST_DIGITS, target.scale)).cast(target)
    raise NotInColumns(f"the type {cells.type} in a column of {target}")


def _json_texts(values: pa.Array, to_json: ToJson | None) -> pa.Array:
    """Return bytes in the form that they have in JSON, each different value converted once."""
    distinct = values.dictionary_encode()
    texts = distinct.dictionary.to_pylist() if to_json is None else map(to_json, distinct.dictionary.to_pylist())
    return pa.array(texts, pa.string()).take(distinct.indices)


def _field_types(schema: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the types of a record's fields by name."""
    if isinstance(schema, list):
        schema = next((one for one in schema if one not in ("null", {"type": "null"})), "null")
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    if not isinstance(schema["type"], str) or schema["type"] in named:
        return _field_types(schema["type"], named)
    if schema["type"] not in ("record", "error"):
        raise NotInColumns(f"the type {schema['type']} in the place of a record")
    return {field["name"]: field["type"] for field in schema["fields"]}
