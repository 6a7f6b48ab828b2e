"""JSON that no table can have as it is written: half of a character, and a key that stands twice."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakeward.adapters.sources.messages.json.variant_values import object_of
from lakeward.adapters.sources.messages.message import why_broken, with_parsed

PARTS = ("\\ud800", "\\uDBFF", "\\udc00", "\\uDFFF", "\\\\", "\\n", "\\u0041", "ud800", "\\\\ud800", "\\/", "a")

HALF = "the JSON has half of a character (a surrogate without the other one)"
WORDS = "it is no object"

LINES = {
    r'{"a": "\ud83d\ude00"}': None,
    r'{"a": "\\ud800"}': None,
    r'{"a": "\ud800"}': HALF,
    r'{"a": "\\\uDC00"}': HALF,
    r'{"a": "\ud800\\\udc00"}': HALF,
    r'{"a": [{"\ud800\ud800\udc00": 1}]}': HALF,
    '{"a": 1, "b": 2, "a": 3}': 'the key "a" stands twice in a JSON object',
    '{"op": "c", "after": {"id": 1, "b": 2, "b": 2}}': 'the key "b" stands twice in a JSON object',
    '{"a": [{"b": {"c": 1, "c": 2}}]}': "a key stands twice in a JSON object, or it is larger than Spark reads",
    '{"a": "b\tc"}': "a text in a JSON object has a control character, as a TAB, that is no escape, "
    "or a key stands twice in a JSON object, or it is larger than Spark reads",
    '{"a": [1, NaN]}': "the message is no JSON, which has no number NaN or Infinity",
    '{"a": -Infinity, "b"': "the message is no JSON, which has no number NaN or Infinity",
    '{"a": "NaN"}': None,
    '{"a":\t"b"}': None,
    "{'a': 1}": "a name in a JSON object is in single quotes: JSON has double ones",
    '{"a": 1} {"a": 1}': WORDS,
    '{"a": 1': WORDS,
    '["a", "a"]': WORDS,
    "no Avro, in hexadecimal: 00": "the message cannot be decoded as Avro",
}
"""Lines, and why each is no object that can be read."""


@given(st.lists(st.sampled_from(PARTS), max_size=6))
def test_half_of_a_character_is_what_utf_8_cannot_have(parts: Sequence[str]) -> None:
    """Whatever stands beside it: the text that JSON makes of the escapes decides."""
    line = f'{{"a": "{"".join(parts)}"}}'
    try:
        json.loads(line)["a"].encode()
    except UnicodeEncodeError:
        assert object_of(line) is None
    else:
        assert object_of(line) == json.loads(line)


@pytest.mark.parametrize(("line", "why"), LINES.items())
def test_a_line_is_an_object_or_not(line: str, why: str | None) -> None:
    assert (object_of(line) is None) is (why is not None)


@pytest.mark.spark
def test_the_reason_says_what_is_wrong_with_a_line(spark: SparkSession) -> None:
    """Spark and plain Python agree on which lines are objects."""
    frame = spark.createDataFrame([(line,) for line in LINES], "line string").coalesce(1)
    found = with_parsed(frame.select("line"), {"it": "line"}).selectExpr(
        "line", f"CASE WHEN it.broken IS NOT NULL THEN {why_broken('line', WORDS)} END"
    )
    assert dict(map(tuple, found.collect())) == LINES


@pytest.mark.spark
def test_a_text_that_is_no_utf_8_is_no_object(spark: SparkSession) -> None:
    """A parser would make replacement characters of its bytes, and one key of two."""
    line = '{"a": "ä"}'.encode("latin-1").hex()
    frame = spark.sql(f"SELECT string(X'{line}') AS line")
    found = with_parsed(frame.select("line"), {"it": "line"}).selectExpr(
        "it.it", f"CASE WHEN it.broken IS NOT NULL THEN {why_broken('line', WORDS)} END"
    )
    assert [*map(tuple, found.collect())] == [(None, "the line is not valid UTF-8")]
