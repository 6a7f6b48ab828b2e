"""Parser of the JSON texts of messages in Arrow, with the schema that Debezium's envelopes have."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

FIELDS: Final = (
    *("db", "schema", "table", "name", "snapshot", "sequence", "txId", "lsn"),
    *("server_id", "gtid", "file", "pos", "row", "commit_lsn", "scn", "commit_scn", "ts_ms"),
)
"""The fields of a message's source that are returned as texts."""

NUMBER_FIELDS: Final = frozenset(
    (
        *("ts_ms", "ts_us", "ts_ns", "txId", "lsn", "xmin"),
        *("server_id", "pos", "row", "thread", "event_serial_no", "ssn"),
        *("redo_thread", "start_ts_ms", "commit_ts_ms"),
    )
)
"""The fields of a message's source that are whole numbers; all others are texts."""

EITHER_FIELDS: Final = ("txId", "redo_thread")
"""Fields that are numbers with some connectors, and texts with others."""

OTHER_FIELDS: Final = (
    *("version", "connector", "ts_us", "ts_ns", "xmin", "origin", "origin_lsn", "thread", "query"),
    *("change_lsn", "event_serial_no", "lcr_position", "rs_id", "ssn", "redo_thread", "user_name", "row_id"),
    *("start_scn", "start_ts_ms", "commit_ts_ms"),
)
"""The other fields of a message's source."""

BLOCK_TYPE: Final = pa.struct(
    [("id", pa.string()), ("total_order", pa.int64()), ("data_collection_order", pa.int64())]
)
"""The type of the part `transaction` of a message."""

ENVELOPE_PARTS: Final = ("before", "after", "source", "op", "transaction", "ts_ms", "ts_us", "ts_ns")
"""The parts of a message."""

_NEEDED_PARTS: Final = ("before", "after", "source", "op")

_BLOCK_BYTES: Final = 1024 * 1024
"""The bytes of text that Arrow parses at once. More would not fit into the caches of a core."""


@dataclass(frozen=True, slots=True)
class ParsedObjects:
    """Parsed objects of texts; `whole` is NULL for a text that is NULL or no object."""

    whole: pa.StructArray
    is_object: pa.Array

    def column(self, name: str) -> pa.Array:
        """Return a field of the objects, as `field_of` does."""
        return field_of(self.whole, name)


def parse_messages(
    bodies: pa.Array, kinds: Mapping[str, pa.DataType], samples: Sequence[Mapping[str, Any]]
) -> ParsedObjects | None:
    """Parse messages, first with only the parts and the source fields that the sampled messages have.

    A connector uses a third of all fields. Each further field takes time although it is NULL.
    """
    sources = (message.get("source") for message in samples)
    fields = {name for source in sources if isinstance(source, dict) for name in source}
    parts = {*_NEEDED_PARTS, *(name for message in samples for name in message)}
    sampled_schema = _envelope(kinds, _source(samples, fields), parts)
    full_schema = _envelope(kinds, _source(samples, {*FIELDS, *OTHER_FIELDS}), ENVELOPE_PARTS)
    try:
        return parse_objects(bodies, sampled_schema)
    except pa.ArrowInvalid:
        if sampled_schema == full_schema:
            raise
        return parse_objects(bodies, full_schema)


def _envelope(kinds: Mapping[str, pa.DataType], source: pa.DataType, names: Container[str]) -> pa.Schema:
    row = pa.struct([*kinds.items()])
    times = ((name, pa.int64()) for name in ("ts_ms", "ts_us", "ts_ns"))
    parts = (("before", row), ("after", row), ("source", source), ("op", pa.string()), ("transaction", BLOCK_TYPE))
    return pa.schema([part for part in (*parts, *times) if part[0] in names])


def _source(messages: Sequence[Mapping[str, Any]], names: Container[str]) -> pa.DataType:
    """Return the type of the source of messages, with the known fields of these names.

    Some fields are numbers or texts, depending on the connector.
    """
    sources = [message["source"] for message in messages if isinstance(message.get("source"), dict)]
    kinds = {}
    for name in (name for name in (*FIELDS, *OTHER_FIELDS) if name in names):
        sample = first_value(sources, name)
        may_be_text = name in EITHER_FIELDS and sample is not None
        is_number = isinstance(sample, int) if may_be_text else name in NUMBER_FIELDS
        kinds[name] = pa.int64() if is_number else pa.string()
    return pa.struct([*kinds.items()])


def first_value(rows: Iterable[Mapping[str, Any]], name: str) -> Any:
    """Return the first value of a name that is not NULL; None if there is none."""
    return next((row[name] for row in rows if row.get(name) is not None), None)


def sampled_message(body: str | None) -> Mapping[str, Any] | None:
    """Return a message with the fields of an envelope; None for any other."""
    try:
        message = json.loads(body or "null")
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and message.keys() >= {"before", "after"} else None


def parse_objects(texts: pa.Array, schema: pa.Schema) -> ParsedObjects | None:
    """Parse texts as objects; return None if a text holds more than one object.

    Raises ArrowInvalid for a text that is no JSON. Texts that do not end in a brace are not parsed: Arrow would
    take NULL after an object for another row.
    """
    is_object = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    is_object = pc.fill_null(is_object, False)
    objects = texts if is_object.true_count == len(texts) else texts.filter(is_object)
    if not len(objects):
        return ParsedObjects(pa.nulls(len(texts), pa.struct(schema)), is_object)
    lists = pa.ListArray.from_arrays(pa.array([0, len(objects)], pa.int32()), objects)
    data = pc.binary_join(lists, "\n")[0].as_buffer()
    longest = pc.max(pc.binary_length(objects)).as_py()
    options = arrow_json.ReadOptions(use_threads=False, block_size=max(longest + 1, _BLOCK_BYTES))
    parsing = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    table = arrow_json.read_json(pa.BufferReader(data), options, parsing)
    if table.num_rows != len(objects):
        return None
    whole = table.to_struct_array().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0)
    if len(whole) < len(texts):
        places = pc.subtract(pc.cumulative_sum(is_object.cast(pa.int32())), 1)
        whole = whole.take(pc.if_else(is_object, places, pa.scalar(None, pa.int32())))
    return ParsedObjects(whole, is_object)


def field_of(structs: pa.StructArray, name: str) -> pa.Array:
    """Return a field of structs; NULL if the struct is NULL, or if no struct has the field."""
    index = structs.type.get_field_index(name) if pa.types.is_struct(structs.type) else -1
    if index < 0:
        return pa.nulls(len(structs), pa.int64() if name in NUMBER_FIELDS else pa.string())
    return pc.struct_field(structs, index)  # Arrow reads a name that begins with a dot as a path
