"""Extended JSON of MongoDB becomes plain JSON, to the digit; what is malformed is none."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.sources.messages.json.extended_json import NotPlainError, json_of, parse, plain_of

UUID: Final = "b84dbfe2-fe4c-4953-a225-990ea3700f29"
BYTES: Final = "uE2/4v5MSVOiJZkOo3APKQ=="

PLAIN: Final = {
    '{"$oid": "67ab25755c0d5ac87eb8c632"}': '"67ab25755c0d5ac87eb8c632"',
    '{"$numberInt": "-5"}': "-5",
    '{"$numberLong": "9223372036854775807"}': "9223372036854775807",
    '{"$numberLong": 5}': "5",
    '{"$numberDouble": "121.4737"}': "121.4737",
    '{"$numberDouble": "1.0E10"}': "1.0E10",
    '{"$numberDouble": "1e+20"}': "1e+20",
    '{"$numberDouble": "NaN"}': '"NaN"',
    '{"$numberDouble": "-Infinity"}': '"-Infinity"',
    "NaN": '"NaN"',
    "[-Infinity]": '["-Infinity"]',
    "1.10": "1.10",
    "123456789012345678901234567890.5": "123456789012345678901234567890.5",
    '{"$numberDecimal": "3.140"}': "3.140",
    '{"$numberDecimal": "9999999999999999999999999999999999"}': "9999999999999999999999999999999999",
    '{"$numberDecimal": "1E+3"}': "1000",
    '{"$numberDecimal": "1.5E-7"}': "0.00000015",
    '{"$numberDecimal": "0E+6000"}': "0",
    '{"$numberDecimal": "-0.00"}': "0.00",
    '{"$numberDecimal": "1E+6000"}': '"1E+6000"',
    '{"$numberDecimal": "1E-39"}': '"1E-39"',
    '{"$numberDecimal": "Infinity"}': '"Infinity"',
    '{"$date": 1735934393769}': "1735934393769",
    '{"$date": -1}': "-1",
    '{"$date": "2025-01-03T19:59:53.769Z"}': "1735934393769",
    '{"$date": "2025-01-03T20:59:53+0100"}': "1735934393000",
    '{"$date": {"$numberLong": "1735934393769"}}': "1735934393769",
    '[{"$date": 1735934393769}]': '["2025-01-03T19:59:53.769Z"]',
    '{"a": {"b": {"$date": -1}}}': '{"a":{"b":"1969-12-31T23:59:59.999Z"}}',
    '[{"$date": 253402300800000}]': "[253402300800000]",
    '{"$timestamp": {"t": 1736997330, "i": 2}}': "1736997330",
    '{"$regularExpression": {"pattern": "^a\\"$", "options": "i"}}': '"/^a\\"$/i"',
    '{"$regex": "^a$", "$options": ""}': '"/^a$/"',
    '{"$symbol": "s"}': '"s"',
    '{"$code": "function(){}"}': '"function(){}"',
    '{"$code": "f", "$scope": {"n": {"$numberInt": "1"}}}': '{"$code":"f","$scope":{"n":1}}',
    '{"$minKey": 1}': '"BsonMinKey"',
    '{"$maxKey": 1}': '"BsonMaxKey"',
    '{"$undefined": true}': "null",
    f'{{"$uuid": "{UUID.upper()}"}}': f'"{UUID}"',
    f'{{"$binary": "{BYTES}", "$type": "00"}}': f'"{BYTES}"',
    f'{{"$binary": "{BYTES}", "$type": "04"}}': f'"{UUID}"',
    f'{{"$binary": "{BYTES}", "$type": "03"}}': f'"{BYTES}"',
    f'{{"$binary": {{"base64": "{BYTES}", "subType": "4"}}}}': f'"{UUID}"',
    '{"$binary": {"base64": "", "subType": "80"}}': '""',
    '{"$dbPointer": {"$ref": "a.b", "$id": {"$oid": "67ab25755c0d5ac87eb8c632"}}}': (
        '{"$ref":"a.b","$id":"67ab25755c0d5ac87eb8c632"}'
    ),
    '{"$ref": "a", "$id": {"$numberInt": "1"}, "$db": "x"}': '{"$ref":"a","$id":1,"$db":"x"}',
    '{"$price": 5}': '{"$price":5}',
    '{"$oid": 5, "name": "a"}': '{"$oid":5,"name":"a"}',
    '{"$regex": "a"}': '{"$regex":"a"}',
    '{"b": [1, {"c": {"$numberLong": "2"}}], "a": "é\\n"}': '{"b":[1,{"c":2}],"a":"é\\n"}',
    "{}": "{}",
    "null": "null",
}


@pytest.mark.parametrize(("written", "plain"), PLAIN.items())
def test_a_value_becomes_a_plain_one(written: str, plain: str) -> None:
    assert json_of(plain_of({"a": parse(written)})["a"]) == plain


MALFORMED: Final = [
    *('{"$oid": "67ab"}', '{"$oid": 5}', '{"$oid": null}', '{"$oid": "67ab25755c0d5ac87eb8c632\\n"}'),
    *('{"$numberInt": "2147483648"}', '{"$numberInt": "1.5"}', '{"$numberInt": "٣"}', '{"$numberLong": "007"}'),
    *('{"$numberLong": "9223372036854775808"}', '{"$numberLong": true}', '{"$numberDouble": "1,5"}'),
    *('{"$numberDouble": ".5"}', '{"$numberDouble": []}', '{"$numberDecimal": 5}', '{"$numberDecimal": "1e"}'),
    *('{"$numberDecimal": "Inf"}', '{"$numberDecimal": "1E+99999"}', '{"$date": "2025-01-03"}', '{"$date": null}'),
    *('{"$date": "2025-02-30T00:00:00Z"}', '{"$date": "2025-01-03T19:59:53"}', '{"$date": 1.5}', '{"$date": {}}'),
    *('{"$date": "2025-01-03T19:59:53.7691Z"}', '{"$date": {"$numberInt": "5"}}', '{"$timestamp": 5}'),
    *('{"$timestamp": {"t": 1}}', '{"$timestamp": {"t": -1, "i": 0}}', '{"$timestamp": {"t": 1, "i": "x"}}'),
    *('{"$binary": "a", "$type": "00"}', '{"$binary": "YQ==", "$type": "04"}', '{"$binary": "YQ=="}'),
    *('{"$binary": "YQ==", "$type": "x"}', '{"$binary": {"base64": "YQ=="}}', '{"$binary": "é", "$type": "0"}'),
    *('{"$uuid": "b84dbfe2"}', '{"$regularExpression": {"pattern": "a"}}', '{"$regularExpression": "a"}'),
    *('{"$regex": 5, "$options": ""}', '{"$symbol": 5}', '{"$code": null}', '{"$code": "f", "$scope": 5}'),
    *('{"$minKey": 2}', '{"$maxKey": true}', '{"$undefined": false}'),
    *('{"$dbPointer": {"$ref": "a"}}', '{"$dbPointer": {"$ref": 5, "$id": 1}}', '{"$dbPointer": null}'),
]


@pytest.mark.parametrize("written", MALFORMED)
def test_a_malformed_form_is_refused_with_its_field(written: str) -> None:
    name = next(iter(json.loads(written)))
    with pytest.raises(NotPlainError) as raised:
        plain_of({"a": [parse(written)]})
    assert str(raised.value) == f"the field a.0 has a `{name}` that is none of extended JSON"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("{", "it is no JSON"),
        ("{} {}", "it is no JSON"),
        ('{"a": 1, "a": 2}', "a name stands twice in an object"),
        ('"\\ud800"', "a text has half of a character"),
        ("[" * 10_000, "it is nested too deeply"),
        ("[" * 300 + "]" * 300, "it is nested too deeply"),
    ],
)
def test_a_text_that_is_no_json_is_refused(written: str, words: str) -> None:
    with pytest.raises(NotPlainError) as raised:
        plain_of(parse(written))
    assert str(raised.value) == words


def moment(millis: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)


def written_as(kind: st.SearchStrategy[Any], *forms: Any) -> st.SearchStrategy[tuple[Any, Any]]:
    """Return a plain value and one of its forms in extended JSON."""
    return st.builds(lambda value, form: form(value), kind, st.sampled_from(forms))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
names = texts.filter(lambda name: not name.startswith("$"))
whole = st.integers(-(2**63), 2**63 - 1)
small = st.integers(-(10**34) + 1, 10**34 - 1)
scalars = st.one_of(
    written_as(texts, lambda it: (it, it), lambda it: (it, {"$symbol": it})),
    written_as(st.booleans(), lambda it: (it, it)),
    written_as(st.none(), lambda it: (it, it), lambda it: (it, {"$undefined": True})),
    written_as(whole, lambda it: (it, it), lambda it: (it, {"$numberLong": str(it)})),
    written_as(
        st.floats(allow_nan=False, allow_infinity=False),
        lambda it: (Decimal(repr(it)), it),
        lambda it: (Decimal(repr(it)), {"$numberDouble": repr(it)}),
    ),
    st.builds("{}E{}".format, small, st.integers(-38, 3)).map(lambda it: (Decimal(it), {"$numberDecimal": it})),
    written_as(
        st.binary(max_size=20).map(lambda it: base64.b64encode(it).decode()),
        lambda it: (it, {"$binary": it, "$type": "00"}),
        lambda it: (it, {"$binary": {"base64": it, "subType": "00"}}),
    ),
    written_as(
        st.uuids(),
        lambda it: (str(it), {"$uuid": str(it)}),
        lambda it: (str(it), {"$binary": {"base64": base64.b64encode(it.bytes).decode(), "subType": "04"}}),
    ),
    st.integers(0, 2**32 - 1).map(lambda it: (it, {"$timestamp": {"t": it, "i": 1}})),
    written_as(
        st.integers(-(10**13), 10**14),
        lambda it: (moment(it), {"$date": it}),
        lambda it: (moment(it), {"$date": {"$numberLong": str(it)}}),
        lambda it: (moment(it), {"$date": moment(it).isoformat(timespec="milliseconds")}),
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda them: ([a for a, _ in them], [b for _, b in them])),
        st.dictionaries(names, inner, max_size=4).map(
            lambda them: ({n: a for n, (a, _) in them.items()}, {n: b for n, (_, b) in them.items()})
        ),
    ),
    max_leaves=12,
)


@given(values)
def test_all_forms_of_a_value_become_the_same_plain_value(pair: tuple[Any, Any]) -> None:
    """Numbers are compared as decimals: to the digit."""
    wanted, extended = pair
    plain = json_of(plain_of({"a": [parse(json.dumps(extended))]}))
    assert same(json.loads(plain, parse_float=Decimal)["a"][0], wanted)


def same(found: Any, wanted: Any) -> bool:
    match found, wanted:
        case dict(), dict():
            return list(found) == list(wanted) and all(same(found[n], wanted[n]) for n in wanted)
        case list(), list():
            return len(found) == len(wanted) and all(map(same, found, wanted))
        case str(), datetime():
            return datetime.fromisoformat(found) == wanted
        case (int() | Decimal(), Decimal()):
            return Decimal(found) == wanted
        case _:
            return bool(found == wanted) and found.__class__ is wanted.__class__
