"""Avro values in columns are those that the library decodes one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from connect_records import INT, LONG, to_avro
from fastavro import schemaless_reader
from hypothesis import example, given
from hypothesis import strategies as st

from lakeward.adapters.sources.kafka.registries.avro import AvroSchema, NotAvro
from lakeward.adapters.sources.kafka.registries.avro_columns import NotInColumns, decode_columns

TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES: Final[dict[str, tuple[Any, st.SearchStrategy[Any]]]] = {
    "int": ("int", INT),
    "long": ("long", LONG | st.integers(-(2**7), 2**7)),
    "text": ("string", TEXTS),
    "bytes": ("bytes", st.binary(max_size=20)),
    "boolean": ("boolean", st.booleans()),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "enum": ({"type": "enum", "name": "E", "symbols": ["new", "paid", "sent"]}, st.sampled_from(["new", "sent"])),
    "named": ("E", st.sampled_from(["paid"])),
}
OPTIONAL: Final = {name: of for name, of in VALUES.items() if name != "enum"}
INNER: Final = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": name, "type": type_} for name, (type_, _) in VALUES.items()],
}
SCHEMA: Final = {
    "type": "record",
    "name": "Outer",
    "fields": [
        {"name": "first", "type": ["null", INNER]},
        {"name": "second", "type": ["Inner", "null"]},
        {"name": "third", "type": "Inner"},
        *({"name": f"maybe_{name}", "type": ["null", type_]} for name, (type_, _) in OPTIONAL.items()),
    ],
}
READ: Final = AvroSchema.read(json.dumps(SCHEMA))
ROW: Final = st.fixed_dictionaries({name: values for name, (_, values) in VALUES.items()})
OUTER: Final = st.fixed_dictionaries(
    {
        "first": st.none() | ROW,
        "second": st.none() | ROW,
        "third": ROW,
        **{f"maybe_{name}": st.none() | values for name, (_, values) in OPTIONAL.items()},
    }
)


def in_columns(values: Sequence[bytes], head: int = 0, schema: AvroSchema = READ) -> list[Any]:
    return decode_columns(schema.parsed, schema.named, pa.array(values, pa.binary()), head).to_pylist()


def one_by_one(values: Sequence[bytes]) -> list[Any]:
    return [schemaless_reader(BytesIO(value), READ.parsed, None) for value in values]


@given(st.lists(OUTER, min_size=1, max_size=8), st.sampled_from([0, 5, 18]))
def test_values_are_those_of_the_library(rows: Sequence[Any], head: int) -> None:
    values = [to_avro(SCHEMA, row) for row in rows]
    assert in_columns([b"\0" * head + value for value in values], head) == one_by_one(values)


def test_a_part_of_an_array_is_decoded() -> None:
    """Arrow's parts of an array share its buffers."""
    schema = AvroSchema.read('{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}')
    values = pa.array([to_avro(schema.parsed, {"a": text}) for text in "abcd"], pa.binary()).slice(1, 2)
    assert decode_columns(schema.parsed, schema.named, values).to_pylist() == [{"a": "b"}, {"a": "c"}]


@given(LONG)
@example(2**63 - 1)
@example(-(2**63))
@example(2**55)
@example(2**62)
def test_numbers_of_every_length_are_decoded(number: int) -> None:
    schema = AvroSchema.read('{"type":"record","name":"R","fields":[{"name":"n","type":"long"}]}')
    rows = [{"n": number}, {"n": 0}, {"n": -number - 1}]
    assert in_columns([to_avro(schema.parsed, row) for row in rows], schema=schema) == rows


@given(OUTER, st.data())
def test_broken_bytes_are_refused_or_have_the_values_of_the_library(row: Any, data: st.DataObject) -> None:
    """A value that is cut off, or goes on, is refused; other bytes are never read otherwise than by the library."""
    own = to_avro(SCHEMA, row)
    for broken in (own[:-1], own + b"\0"):
        with pytest.raises(NotInColumns):
            in_columns([own, broken, own])
    place = data.draw(st.integers(0, len(own) - 1))
    changed = own[:place] + bytes([data.draw(st.integers(0, 255))]) + own[place + 1 :]
    with suppress(NotInColumns):
        found = in_columns([own, changed, own])
        READ.decode(changed)  # raises NotAvro for what the library refuses
        assert repr(found) == repr(one_by_one([own, changed, own]))


def test_random_bytes_are_refused_where_the_library_refuses_them() -> None:
    random, refused = Random(0), 0
    for _ in range(300):
        value = random.randbytes(random.randint(0, 60))
        try:
            READ.decode(value)
        except NotAvro:
            refused += 1
            with pytest.raises(NotInColumns):
                in_columns([value])
    assert refused > 250


@pytest.mark.parametrize(
    "type_",
    [
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        {"type": "fixed", "name": "F", "size": 2},
        {"type": "record", "name": "Empty", "fields": []},
    ],
    ids=lambda type_: type_["type"],
)
def test_other_types_are_left_to_the_library(type_: Any) -> None:
    schema = AvroSchema.read(json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": type_}]}))
    with pytest.raises(NotInColumns):
        in_columns([b"\0\0"], schema=schema)


ONE_FIELD: Final = '{"type":"record","name":"R","fields":[{"name":"a","type":"%s"}]}'
REFUSED: Final = {
    "a number of more than 64 bits": ("long", b"\xff" * 9 + b"\x02"),
    "a number without an end": ("long", b"\xff" * 12),
    "a text of a negative length": ("string", b"\x03ab"),
    "a text of a length that overflows": ("string", b"\xfe" + b"\xff" * 8 + b"\x01"),
    "a text that is no UTF-8": ("string", b"\x02\xff"),
    "a boolean of another byte": ("boolean", b"\x02"),
}


@pytest.mark.parametrize(("type_", "value"), REFUSED.values(), ids=REFUSED)
def test_values_that_are_no_values_are_refused(type_: str, value: bytes) -> None:
    with pytest.raises(NotInColumns):
        in_columns([value], schema=AvroSchema.read(ONE_FIELD % type_))
