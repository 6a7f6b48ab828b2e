"""Texts of JSON in plain Python: what they are, and which of them Spark has to read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeward.adapters.sources.files.local.values.documents import NO_OBJECT, Documents, text_of
from lakeward.adapters.spark.frames.local_casts import SparkNeeded

SCHEMA = {"type": "struct", "fields": [{"type": "string", "field": f"column{n}"} for n in range(20)]}


def message(payload: Any, schema: Any = SCHEMA) -> str:
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":"))


def test_a_schema_that_is_known_changes_nothing_but_the_time_that_it_takes() -> None:
    """Also where it stands twice, in another place, and beside words that stand for it while it is parsed."""
    other = {**SCHEMA, "name": "other"}
    lines = [
        message({"a": 1}),
        message({"a": "NaN"}),
        message({"a": "Infinity", "schema": "public"}),
        message({"a": 2}, other),
        json.dumps({"key": {"schema": other, "payload": 1}, "value": {"schema": SCHEMA}}, separators=(",", ":")),
        json.dumps({"payload": message({"a": 1}), "schema": SCHEMA}, separators=(",", ":")),
    ]
    documents = Documents()
    for line in [*lines, *lines]:
        assert documents.parse_line(line) == (json.loads(line), None)


def test_the_placeholder_of_a_known_schema_is_no_json() -> None:
    documents = Documents()
    documents.parse_line(message({}))
    written = json.dumps(SCHEMA, separators=(",", ":"))
    for line in (f'{{"a":"x"schema":{written}}}', f'{{"schema":{written},}}'):
        assert documents.parse_line(line) == (None, NO_OBJECT)
    for line in (message({"schema": 1}).replace(":1}", ":NaN}"), f'{{"a":NaN,"schema":{written}}}'):
        with pytest.raises(SparkNeeded, match="a number that JSON does not know"):
            documents.parse_line(line)


@pytest.mark.parametrize(
    "line",
    [
        '{"a": 1, "a": 2}',
        '{"a": "tab\tin it"}',
        "{'a': 1}",
        '{"a": 1}, 2',
        "[" * 200 + "]" * 200,
        f'{{"a": {"1" * 300}, "b": "{" " * 1000}"}}',
        f'{{"a": "{"b" * (1 << 20)}"}}',
    ],
    ids=["twice", "control", "quote", "list", "deep", "long number", "long line"],
)
def test_a_line_that_parts_of_spark_read_differently_is_left_to_spark(line: str) -> None:
    with pytest.raises(SparkNeeded):
        Documents().parse_line(line)


@pytest.mark.parametrize("text", ["8e23", "1.2345678901234567", "123456789012345678901234567890123456789", "1e400"])
def test_a_number_that_java_may_write_differently_is_left_to_spark(text: str) -> None:
    found, _ = Documents().parse_line(f'{{"a": {text}e0, "b": {text}}}' if "e" not in text else f'{{"b": {text}}}')
    assert found is not None
    with pytest.raises(SparkNeeded):
        [text_of(value) for value in found.values()]


def test_a_part_with_a_double_is_parsed_by_its_text() -> None:
    """A double has a text without an exponent, and that is a decimal."""
    documents = Documents()
    found, _ = documents.parse_line('{"a": {"b": 1e5}, "c": {"b": 1.50}}')
    assert found is not None
    assert text_of(found["a"]["b"]) == "100000.0"
    inner, _ = documents.parse_part(found["a"])
    assert inner is not None
    assert [text_of(inner["b"]), text_of(found["c"])] == ["100000", '{"b":1.5}']
