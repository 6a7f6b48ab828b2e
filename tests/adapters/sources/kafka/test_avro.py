"""Messages in Avro: what lands is what the JSON converter of Kafka Connect would have written."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from connect_records import Kind, structs, to_avro
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.sources.kafka.registries.avro import AvroSchema, NotAvro
from lakeward.adapters.sources.kafka.registries.connect_form import UnusableSchema


def schema_of(told: Any) -> AvroSchema:
    return AvroSchema.read(json.dumps(told))


@given(st.data(), structs())
def test_records_of_connect_land_as_the_json_converter_writes_them(data: st.DataObject, kind: Kind) -> None:
    schema, (avro, expected) = schema_of(kind.avro), data.draw(kind.values)
    assert json.loads(schema.described) == {**kind.connect, "optional": False}
    assert json.loads(schema.decode(to_avro(kind.avro, avro))) == expected


@given(st.data(), structs())
def test_broken_bytes_are_told_or_read_whole(data: st.DataObject, kind: Kind) -> None:
    """What is cut off is always told; other bytes are read to the last, or told, and nothing else is raised."""
    schema, (avro, _) = schema_of(kind.avro), data.draw(kind.values)
    own = to_avro(kind.avro, avro)
    for broken in (own[:-1], own + b"\0"):
        if broken != own:
            with pytest.raises(NotAvro):
                schema.decode(broken)
    with suppress(NotAvro):
        schema.decode(data.draw(st.binary(max_size=20)))


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    listed = [{"name": f"f{number}", "type": type_} for number, type_ in enumerate(fields)]
    return {"type": "record", "name": name, "namespace": "shop-1.public.t", "fields": listed}


def test_a_record_that_is_named_again_is_described_again() -> None:
    """`after` has the type of `before` by its name alone; the names of topics need not be those of Avro."""
    inner = record("bytes", name="Value")
    schema = schema_of(record(["null", inner], ["null", "Value"], {"type": "array", "items": "Value"}))
    before, after, many = json.loads(schema.described)["fields"]
    assert before == {**after, "field": "f0"}
    assert before["name"] == "shop-1.public.t.Value"
    assert {**many["items"], "optional": True} == {key: it for key, it in before.items() if key != "field"}
    assert schema.decode(b"\0\2\2\1\2\2\3\0") == '{"f0":null,"f1":{"f0":"AQ=="},"f2":[{"f0":"Aw=="}]}'


def test_a_fixed_decimal_is_written_in_as_few_bytes_as_hold_it() -> None:
    of = {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "scale": 2, "precision": 9}
    assert schema_of(of).decode(b"\xff\xff\xff\x00") == '"/wA="'
    assert json.loads(schema_of(of).described)["parameters"] == {"scale": "2", "connect.decimal.precision": "9"}


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (record(["null", "int", "string"]), "a union of 2 types"),
        (record("null"), "the type null"),
        (record(["null"]), "a union of 0 types"),
        (record(["null", "R"]), "the record shop-1.public.t.R, which contains itself"),
        (record("Other"), "a part that Avro does not know"),
        ({"type": "record"}, "a part that Avro does not know"),
        ([], "a union of 0 types"),
        (7, "a part that Avro does not know"),
    ],
)
def test_schemas_that_connect_does_not_write_are_refused(told: Any, found: str) -> None:
    with pytest.raises(UnusableSchema, match=found):
        schema_of(told)


def test_a_text_that_is_no_schema_is_refused() -> None:
    with pytest.raises(UnusableSchema):
        AvroSchema.read("{")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (0.1, "0.1"),
        (16777217.0, "16777216.0"),
        (3.4028235e38, "3.4028235e+38"),
        (1e-45, "1e-45"),
        (-0.0, "-0.0"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_a_float_has_the_digits_that_java_writes(value: float, found: str) -> None:
    assert schema_of("float").decode(to_avro("float", value)) == found


def test_the_default_of_a_column_does_not_matter() -> None:
    """It is no value of a message, and libraries differ in which defaults they take."""
    field = {"name": "a", "type": "int", "default": "x"}
    schema = schema_of({"type": "record", "name": "R", "fields": [field]})
    assert schema.decode(b"\2") == '{"a":1}'
