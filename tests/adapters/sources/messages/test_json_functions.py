"""What Python takes apart where Spark has no VARIANT; Spark 3.5 shows that it agrees with the local reader."""

from __future__ import annotations

import pytest

from lakeward.adapters.sources.messages.json.spark_functions import (
    CELLS,
    TEXT,
    Shape,
    is_number,
    is_rounded,
    parse_in_shape,
)

ENVELOPE: Shape = {"after": CELLS, "op": TEXT, "payload": {"after": CELLS}}


@pytest.mark.parametrize(
    ("value", "shape", "it", "broken"),
    [
        (None, CELLS, None, None),
        ("null", CELLS, None, None),
        ('{"a":1.10,"b":"x","c":null,"d":{"f":1,"e":2}}', CELLS, ("1.1", "x", None, '{"e":2,"f":1}'), None),
        ('"a"', CELLS, None, '"a"'),
        ("[1]", ENVELOPE, None, "[1]"),
        ('{"a":1} {}', CELLS, None, '{"a":1} {}'),
        ('{"a":1,"a":2}', CELLS, None, '{"a":1,"a":2}'),
        ('{"after":"text","op":7}', ENVELOPE, (None, "7", None), None),
        ('{"payload":{"after":{"id":5}}}', ENVELOPE, (None, None, ({"id": "5"},)), None),
    ],
)
def test_an_object_is_parsed_in_its_shape(value: str | None, shape: Shape, it: object, broken: str | None) -> None:
    found, rest = parse_in_shape(value, shape)
    assert (tuple(found.values()) if isinstance(found, dict) else found, rest) == (it, broken)


def test_numbers_and_doubles_are_distinguished_from_texts() -> None:
    line = '{"payload":{"after":{"a":5,"b":"5","c":1e30}},"data":{"d":1e2}}'
    assert [is_number("5", name, line, None) for name in ("a", "b", "x")] == [True, False, False]
    doubles = {cell: is_rounded(cell, [None, line]) for cell in ("5", "1.0E30", "100.0", "1.0E31")}
    assert doubles == {"5": False, "1.0E30": True, "100.0": True, "1.0E31": False}
