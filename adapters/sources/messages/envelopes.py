"""Decoder of Debezium envelopes in Arrow: it decodes thousands of messages at once, without Python objects of rows.

Arrow's JSON reader is strict. An unexpected name, a repeated name, a number in place of a text and a text in place
of a number are errors. So Arrow decodes only messages of the usual form. All others are left to
`lakeward.adapters.sources.messages.debezium`: messages with values that were not logged, with headers of a key
change, of another table, with a schema in the value, or with an undeclared column. Keys may have a schema, if all
have the same one. Both decoders give the same results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.messages.envelope_parser import (
    BLOCK_TYPE,
    ENVELOPE_PARTS,
    FIELDS,
    OTHER_FIELDS,
    ParsedObjects,
    field_of,
    first_value,
    parse_messages,
    parse_objects,
    sampled_message,
)
from lakeward.adapters.sources.messages.exact_numbers import ExactNumbers, decimal_texts
from lakeward.adapters.sources.messages.json.wire_format import UNITS, Wire
from lakeward.adapters.sources.messages.wrapped_texts import first_schema, payloads
from lakeward.adapters.spark.frames.source_rows import LINE, NAME, VALUE
from lakeward.core.schema import Column

IS_DECODED: Final = "_lakeward_is_decoded"
"""Flags a message that Arrow decoded."""

HAS_NO_VALUE: Final = "_lakeward_no_value"
"""Flags a decoded message without a value, which is a tombstone."""

OP: Final = "_lakeward_op"
BLOCK: Final = "_lakeward_transaction_id"
COMMIT: Final = "_lakeward_last_commit"
MICROS: Final = "_lakeward_micros"
HAS_BEFORE: Final = "_lakeward_has_before"
HAS_KEY: Final = "_lakeward_has_key"

_HEADERS: Final = pa.list_(pa.list_(pa.string()))
_RECORD: Final = pa.schema(
    [
        *(("topic", pa.string()), ("partition", pa.int64()), ("offset", pa.int64()), ("timestamp", pa.int64())),
        *(("key", pa.string()), ("value", pa.string()), ("headers", _HEADERS)),
    ]
)
_NAMES: Final = frozenset(
    (*ENVELOPE_PARTS, *FIELDS, *OTHER_FIELDS, "id", "total_order", "data_collection_order", *_RECORD.names)
)
"""All names in a message other than those of its columns."""

_MOST_BYTES: Final = 64 * 1024 * 1024
_LEAST_FAILURES, _LINES_A_FAILURE = 64, 2
"""The parts of a batch that may fail before SQL decodes the rest: a minimum, and one for so many lines."""

_SAMPLES: Final = 8
"""The number of messages of a part that are sampled for the types of its cells."""

_MOST_MILLIS: Final = 2**52

_COLON_FIRST: Final = r'[:,{\s]":'
"""Matches a message with a text or a name that begins with a colon."""


@dataclass(frozen=True, slots=True)
class MessageTexts:
    """Messages as texts: values, keys and topics (None if unknown), and which are valid messages."""

    bodies: pa.Array
    keys: pa.Array
    topics: pa.Array | None
    are_right: pa.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedMessages:
    """Parsed envelopes of one table, and the rows in the keys of their messages.

    `is_right` says which messages are whole, and `has_no_value` which have no envelope. `topics` are None if
    unknown. `bodies` are the texts that were parsed; None if the envelopes have a schema, so that each row has
    every column, and numbers are exact.
    """

    messages: ParsedObjects
    keys: pa.StructArray
    has_key: pa.Array
    is_right: pa.Array
    has_no_value: pa.Array
    topics: pa.Array | None
    bodies: pa.Array | None


@dataclass(frozen=True, slots=True)
class Envelopes:
    """The decoder of the messages of one table.

    `columns` has the `native_type` of each column by name, and `numbers` the type of numbers that may be in columns
    without a native type. `schema` and `table` are the table's names at its source. `before` are the columns whose
    cells before a change are returned, `key` those of the key. With `are_records` a line has the key, value and
    headers of a message. `placeholders` are the texts for a value that was not logged, and `key_headers` the names
    of headers of a key change. With `skips_tombstones` messages without a value are skipped.
    """

    columns: Mapping[str, pa.DataType | None]
    numbers: Mapping[str, pa.DataType]
    schema: str
    table: str
    before: tuple[str, ...]
    key: tuple[str, ...]
    are_records: bool
    placeholders: tuple[str, ...]
    key_headers: tuple[str, ...]
    skips_tombstones: bool

    @property
    def decoded_schema(self) -> pa.Schema:
        """The columns that `decode` returns; fields, and cells without a native type, are texts."""
        flags = (IS_DECODED, HAS_NO_VALUE, HAS_BEFORE, HAS_KEY)
        texts = (OP, BLOCK, COMMIT, *map(field_column, FIELDS))
        line_columns = [(VALUE, pa.string()), (NAME, pa.string()), (LINE, pa.int64()), (MICROS, pa.int64())]
        message_columns = [*((name, pa.bool_()) for name in flags), *((name, pa.string()) for name in texts)]
        cells = ((name, self.columns[column] or pa.string()) for name, _, column in self._cells())
        return pa.schema([*line_columns, *message_columns, *cells])

    def _cells(self) -> Iterator[tuple[str, str, str]]:
        """Yield the columns with cells: the name of each, its image, and the column of the table."""
        for place, name in enumerate(self.columns):
            yield cell_after(place), "after", name
        for place, name in enumerate(self.before):
            yield cell_before(place), "before", name
        for place, name in enumerate(self.key):
            yield cell_of_key(place), "key", name

    def decode_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode batches of lines; it is the function for `DataFrame.mapInArrow`."""
        for batch in batches:
            yield from self.decode(batch)

    def decode(self, batch: pa.RecordBatch, most_failures: int | None = None) -> list[pa.RecordBatch]:
        """Decode lines of files (`VALUE`, `NAME`, `LINE`), and return them in their order.

        A part that fails is halved, until it succeeds, is one line, or `most_failures` parts have failed. The
        default depends on the number of lines: with more failures, SQL would be faster for the whole batch.
        """
        batches: list[pa.RecordBatch] = []
        if most_failures is None:
            most_failures = max(_LEAST_FAILURES, batch.num_rows // _LINES_A_FAILURE)
        failures, pending_parts = most_failures, [batch]
        while pending_parts:
            part = pending_parts.pop()
            decoded = self._read(part) if failures > 0 else None
            failures -= decoded is None
            if decoded is not None:
                batches.append(decoded)
            elif part.num_rows > 1 and failures > 0:
                half = part.num_rows // 2
                pending_parts += [part.slice(half), part.slice(0, half)]
            else:
                batches.append(self._undecoded(part))
        return batches

    def _undecoded(self, lines: pa.RecordBatch) -> pa.RecordBatch:
        """Return lines flagged as not decoded."""
        return self._batch(lines, pa.repeat(pa.scalar(False), lines.num_rows), {})

    def _batch(
        self, lines: pa.RecordBatch, is_decoded: pa.Array, columns: Mapping[str, pa.Array]
    ) -> pa.RecordBatch:
        by_name = {name: lines.column(name) for name in (VALUE, NAME, LINE)} | {IS_DECODED: is_decoded, **columns}
        arrays = [
            by_name[field.name] if field.name in by_name else pa.nulls(lines.num_rows, field.type)
            for field in self.decoded_schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.decoded_schema)

    def _read(self, lines: pa.RecordBatch) -> pa.RecordBatch | None:
        """Decode lines; return None if they cannot be decoded together."""
        if lines.nbytes > _MOST_BYTES:
            return None
        try:
            texts = self._message_texts(lines.column(VALUE))
            parsed = None if texts is None else self.parse(texts)
            return None if parsed is None else self.decode_parsed(lines, parsed)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
            return None

    def parse(self, texts: MessageTexts) -> ParsedMessages | None:
        """Parse messages; return None, or raise ArrowInvalid, if they cannot be parsed together."""
        bodies, keys = texts.bodies, _without_schema(texts.keys)
        samples = [
            message for body in bodies[:_SAMPLES].to_pylist() if (message := sampled_message(body)) is not None
        ]
        kinds = self._kinds(samples)
        messages = parse_messages(bodies, kinds, samples)
        key_objects = parse_objects(keys, pa.schema([*kinds.items()]))
        if messages is None or key_objects is None:
            return None
        return ParsedMessages(
            messages=messages,
            keys=key_objects.whole,
            has_key=keys.is_valid(),
            is_right=pc.and_(texts.are_right, pc.or_(keys.is_null(), key_objects.is_object)),
            has_no_value=bodies.is_null(),
            topics=texts.topics,
            bodies=bodies,
        )

    def decode_parsed(self, lines: pa.RecordBatch, parsed: ParsedMessages) -> pa.RecordBatch:
        """Return what `decode` returns for parsed messages; `lines` has them as text, or NULL."""
        messages, source = parsed.messages, parsed.messages.column("source")
        images = {name: messages.column(name) for name in ("before", "after")}
        (micros, is_time), (commit, is_commit) = _micros(source), _commit(field_of(source, "sequence"))
        is_row = _all_of(messages.is_object, self._is_row(parsed, images), is_time, is_commit)
        is_empty = pc.and_(parsed.has_no_value, self._is_tombstone(parsed.topics))
        images["key"] = parsed.keys
        columns = {
            HAS_NO_VALUE: is_empty,
            MICROS: micros,
            COMMIT: commit,
            HAS_BEFORE: images["before"].is_valid(),
            HAS_KEY: parsed.has_key,
            OP: messages.column("op"),
            BLOCK: field_of(messages.column("transaction"), "id"),
        }
        columns |= {field_column(name): _text(field_of(source, name)) for name in FIELDS}
        columns |= {column: self._cell(images[image], name) for column, image, name in self._cells()}
        is_decoded = pc.and_(parsed.is_right, pc.or_(is_row, is_empty))
        return self._batch(lines, pc.fill_null(is_decoded, False), columns)

    def _message_texts(self, values: pa.Array) -> MessageTexts | None:
        """Return lines as messages; None if one has a header of a key change, or they cannot be read together."""
        values.validate(full=True)  # raises where bytes are no UTF-8
        if not self.are_records:
            nothing, all_true = pa.nulls(len(values), pa.string()), pa.repeat(pa.scalar(True), len(values))
            return MessageTexts(values, nothing, None, all_true)
        records = parse_objects(values, _RECORD)
        if records is None or self.change_keys(pc.list_flatten(pc.list_flatten(records.column("headers")))):
            return None
        bodies = records.column("value")
        are_right = pc.and_(records.is_object, self._has_value(values, bodies))
        return MessageTexts(bodies, records.column("key"), records.column("topic"), are_right)

    def _kinds(self, messages: Sequence[Mapping[str, Any]]) -> Mapping[str, pa.DataType]:
        """Return the JSON type of each column's cells, as the sampled messages show it."""
        images = [message[name] for message in messages for name in ("after", "before")]
        rows = [image for image in images if isinstance(image, dict)]
        kinds = {}
        for name, native in self.columns.items():
            is_number = isinstance(first_value(rows, name), int | float) and name in self.numbers
            kinds[name] = native or (self.numbers[name] if is_number else pa.string())
        return kinds

    def _cell(self, image: pa.StructArray, name: str) -> pa.Array:
        cells = field_of(image, name)
        if self.columns[name] is None:
            return _text(cells)
        return pc.add(cells, pa.scalar(0, cells.type)) if pa.types.is_floating(cells.type) else cells  # -0.0 is 0.0

    def _has_value(self, values: pa.Array, bodies: pa.Array) -> pa.Array:
        """Return which records have the field `value`, which may be NULL; a record without it is itself a value."""
        if not bodies.null_count:
            return pa.repeat(pa.scalar(True), len(bodies))
        return pc.or_(bodies.is_valid(), pc.equal(_count_nulls(values, "value"), 1))

    def change_keys(self, headers: pa.Array) -> bool:
        """Return whether texts have the name of a header of a key change."""
        return bool(pc.any(pc.is_in(headers, value_set=pa.array(self.key_headers, pa.string()))).as_py())

    def _is_tombstone(self, topics: pa.Array | None) -> pa.Array | pa.Scalar:
        """Return which messages are tombstones of the table if they have no value."""
        if topics is None or not self.skips_tombstones or "." in self.schema + self.table:
            return pa.scalar(False)
        topics = pc.ascii_lower(topics)
        table_name, topic_end = self.table.lower(), f".{self.schema}.{self.table}".lower()
        is_own = pc.or_(pc.equal(topics, table_name), pc.ends_with(topics, topic_end))
        return pc.or_(topics.is_null(), pc.fill_null(is_own, False))

    def _is_row(self, parsed: ParsedMessages, images: Mapping[str, pa.Array]) -> pa.Array:
        """Return which messages are changes of rows of the table and certainly decoded correctly."""
        messages, bodies = parsed.messages, parsed.bodies
        source, op = messages.column("source"), messages.column("op")
        schema_names = pc.coalesce(field_of(source, "schema"), field_of(source, "db"))
        is_own = pc.and_(_is_called(schema_names, self.schema), _is_called(field_of(source, "table"), self.table))
        writes_row = pc.is_in(op, value_set=pa.array(["c", "r", "u"]))
        has_after = images["after"].is_valid()
        is_change = pc.or_(pc.and_(writes_row, has_after), pc.and_(pc.equal(op, "d"), pc.invert(has_after)))
        is_row, numbers = pc.and_(is_own, is_change), ExactNumbers(bodies)
        images = {name: image for name, image in images.items() if image.null_count < len(image)}
        for image in images.values():
            for name in self.columns:
                is_row = pc.and_(is_row, self._is_certain(field_of(image, name), numbers))
        has_columns = pa.scalar(True) if bodies is None else self._has_columns(messages, bodies, images)
        return pc.fill_null(pc.and_(is_row, has_columns), False)

    def _has_columns(
        self, messages: ParsedObjects, bodies: pa.Array, images: Mapping[str, pa.Array]
    ) -> pa.Array | pa.Scalar:
        """Return which messages have all columns in each image."""
        with_null = [
            name
            for name in self.columns
            if any(field_of(image, name).null_count > image.null_count for image in images.values())
        ]
        is_complete = _is_complete(messages, bodies, len(self.columns)) if len(with_null) > 1 else pa.scalar(False)
        if not with_null or pc.all(is_complete).as_py():
            return pa.scalar(True)
        has_names = (self._has_name(name, bodies, images) for name in with_null)
        return pc.or_(is_complete, reduce(pc.and_, has_names))

    def _has_name(self, name: str, bodies: pa.Array, images: Mapping[str, pa.Array]) -> pa.Array:
        """Return which messages have the column `name` in each image: each parsed NULL is written as NULL."""
        lacking = [
            pc.and_(image.is_valid(), field_of(image, name).is_null()).cast(pa.int32()) for image in images.values()
        ]
        expected = lacking[0] if len(lacking) == 1 else pc.add(*lacking)
        is_found = pc.equal(_count_nulls(bodies, name), expected)
        return pc.or_(pc.equal(expected, 0), pc.and_(is_found, name not in _NAMES))

    def _is_certain(self, cells: pa.Array, numbers: ExactNumbers) -> pa.Array | pa.Scalar:
        """Return which cells were logged, and have exactly the number in the message."""
        if pa.types.is_string(cells.type):
            return pc.invert(pc.is_in(cells, value_set=pa.array(self.placeholders, pa.string())))
        return numbers.are_exact(cells)


def native_type(column: Column, wire: Wire) -> pa.DataType | None:
    """Return the Arrow type that reads JSON numbers and booleans of a column exactly; None for any other column.

    Other columns are read as texts, by the rules for their type.
    """
    return _NATIVE_TYPES.get(column.type.name) if wire is Wire.PLAIN else None


def number_type(column: Column, wire: Wire) -> pa.DataType | None:
    """Return the type of numbers that may be in a column without a native type; None if no numbers may be."""
    if column.type.name == "decimal" and wire is Wire.PLAIN:
        return pa.decimal128(column.type.precision, column.type.scale)
    return pa.int64() if wire in UNITS or column.type.name in ("date", "timestamp", "timestamp_ntz") else None


_NATIVE_TYPES: Final = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}


def field_column(name: str) -> str:
    """Return the name of the column for a field of the source."""
    return f"_lakeward_field_{name}"


def cell_after(place: int) -> str:
    """Return the name of the column with cells after a change, by the place of the table's column from 0."""
    return f"_lakeward_cell_after_{place}"


def cell_before(place: int) -> str:
    """Return the name of the column with cells before a change, by the place in `Envelopes.before`."""
    return f"_lakeward_cell_before_{place}"


def cell_of_key(place: int) -> str:
    """Return the name of the column with cells of messages' keys, by the place in the table's key."""
    return f"_lakeward_cell_of_key_{place}"


def _without_schema(keys: pa.Array) -> pa.Array:
    """Return keys without the schema that all of them have; those with several schemas, or none, as they are."""
    wrapped = keys.cast(pa.binary())
    schema = first_schema(wrapped)
    found = payloads(wrapped, schema) if schema else None
    return keys if found is None else found.cast(pa.string())


def _text(values: pa.Array) -> pa.Array:
    if pa.types.is_decimal(values.type):
        return decimal_texts(values)
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def _all_of(flags: pa.Array, *others: pa.Array) -> pa.Array:
    for other in others:
        flags = pc.and_(flags, other)
    return flags


def _is_called(names: pa.Array, expected: str) -> pa.Array:
    return pc.or_(pc.equal(names, expected), pc.equal(pc.ascii_lower(names), expected.lower()))


def _count_nulls(texts: pa.Array, name: str) -> pa.Array:
    """Return how often JSON texts have a name with the value NULL. In a string its quotes would be escaped."""
    json_name = json.dumps(name, ensure_ascii=False)
    counts = (pc.count_substring(texts, f"{json_name}:{blank}null") for blank in ("", " "))
    return pc.fill_null(pc.add(*counts), 0)


def _is_complete(messages: ParsedObjects, bodies: pa.Array, columns: int) -> pa.Array:
    """Return which messages have every field of the type that they are parsed as, and so all `columns`.

    A name is followed by a colon, and within a string the quote before a colon is escaped. Arrow refuses other and
    repeated names, so that a message with as many names as the type has fields lacks none. A text that begins with
    a colon would count as a name, so that messages with one are not known to be complete.
    """
    name_counts = pc.subtract(pc.count_substring(bodies, '":'), pc.count_substring(bodies, '\\":'))
    type_ = messages.whole.type
    expected = pa.scalar(type_.num_fields + type_.field("source").type.num_fields, pa.int32())
    for name, fields in (("before", columns), ("after", columns), ("transaction", BLOCK_TYPE.num_fields)):
        expected = pc.add(expected, pc.multiply(messages.column(name).is_valid().cast(pa.int32()), fields))
    has_colon_first = pc.match_substring_regex(bodies, _COLON_FIRST)
    return pc.fill_null(pc.and_(pc.equal(name_counts, expected), pc.invert(has_colon_first)), False)


def _micros(source: pa.StructArray) -> tuple[pa.Array, pa.Array]:
    """Return the times of changes in microseconds since 1970, and which of them are certainly correct."""
    micros, nanos, millis = (field_of(source, name) for name in ("ts_us", "ts_ns", "ts_ms"))
    is_right = [
        pc.or_(pc.fill_null(pc.greater_equal(nanos, 0), True), micros.is_valid()),
        pc.or_(pc.fill_null(_is_short(millis), True), micros.is_valid()),
    ]
    is_short = pc.fill_null(_is_short(millis), False)
    of_millis = pc.multiply(pc.if_else(is_short, millis, pa.scalar(0, pa.int64())), 1000)
    of_millis = pc.if_else(millis.is_valid(), of_millis, pa.scalar(None, pa.int64()))
    return pc.coalesce(micros, pc.divide(nanos, 1000), of_millis), pc.and_(*is_right)


def _is_short(millis: pa.Array) -> pa.Array:
    return pc.and_(pc.greater(millis, -_MOST_MILLIS), pc.less(millis, _MOST_MILLIS))


def _commit(sequences: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the last commits before changes, as `log_positions.last_commit`, and which are certainly correct."""
    matches = pc.extract_regex(sequences, r"^\[(?P<commit>null|\"[0-9]{1,20}\"), ?(?:null|\"[0-9]{1,20}\")\]$")
    is_certain = pc.or_(sequences.is_null(), matches.is_valid())
    commits = pc.utf8_trim(field_of(matches, "commit"), '"')
    return pc.if_else(pc.equal(commits, "null"), pa.scalar(None, pa.string()), commits), is_certain
