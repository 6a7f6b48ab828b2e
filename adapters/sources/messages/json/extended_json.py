"""Conversion of MongoDB's extended JSON to plain JSON: objects such as `{"$oid": "…"}` become plain values.

mongodb.com/docs/manual/reference/mongodb-extended-json: version 2, canonical and relaxed, and the other forms of
version 1, which Debezium's connector writes for documents. No number is converted to a float.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from lakeward.adapters.sources.messages.json.variant_values import Number
from lakeward.adapters.sources.messages.message import ESCAPED, HALF

_MOST_DEPTH: Final = 200
"""The maximum depth of nested values; MongoDB allows 100."""

_MOST_DIGITS: Final = 38
"""The digits of the widest decimal; a number with more digits becomes a text."""

_HALF: Final = re.compile(HALF)
_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_DOUBLE: Final = re.compile(r"-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,4})?")
_NO_NUMBER: Final = ("NaN", "Infinity", "-Infinity")
_OBJECT_ID: Final = re.compile("[0-9a-fA-F]{24}")
_UUID: Final = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SUBTYPE: Final = re.compile("[0-9a-fA-F]{1,2}")
_OF_UUID: Final = 4
"""The subtype of bytes that are a UUID. Subtype 3 means a UUID as well, but in an unknown order of bytes."""

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.]\d{1,3})?(Z|[+-]\d\d:?\d\d)")
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI: Final = timedelta(milliseconds=1)
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999 in milliseconds since 1970: those that ISO 8601 can express."""


class NotPlainError(ValueError):
    """Raised with the reason, in words, why a text has no plain value."""


def parse(text: str) -> Any:
    """Return the value of a text of extended JSON, not converted yet; numbers are `Number`.

    NaN and infinity without quotes, which version 1 writes, become texts. Raises NotPlainError if it is no JSON.
    """
    if _HALF.search(text.replace(ESCAPED * 2, " ")):
        raise NotPlainError("a text has half of a character")
    try:
        return _DECODER.decode(text)
    except NotPlainError:
        raise
    except RecursionError as error:
        raise NotPlainError(_TOO_DEEP) from error
    except ValueError as error:
        raise NotPlainError("it is no JSON") from error


def plain_of(value: Any, path: str = "", depth: int = 0) -> Any:
    """Return the plain value of a value of extended JSON; `path` names its field, as `address.city`.

    A date becomes a number of milliseconds since 1970 in a field of a document, and a text of ISO 8601 within
    another value. Raises NotPlainError for an object with the name of a known form and another content.
    """
    if depth > _MOST_DEPTH:
        raise NotPlainError(_TOO_DEEP)
    if isinstance(value, list):
        return [plain_of(inner, f"{path}.{index}", depth + 1) for index, inner in enumerate(value)]
    if not isinstance(value, dict):
        return value
    form = _FORMS.get(tuple(sorted(value))) if len(value) in (1, 2) else None
    if form is None:
        start = f"{path}." if path else ""
        return {name: plain_of(inner, f"{start}{name}", depth + 1) for name, inner in value.items()}
    try:
        plain = form(value)
    except _OTHER_FORM as error:
        where = f"the field {path}" if path else "a value"
        raise NotPlainError(f"{where} has a `{next(iter(value))}` that is none of extended JSON") from error
    if "$date" in value:
        return iso_text(plain) if depth > 1 and _FIRST <= plain <= _LAST else Number(plain)
    return plain if "$scope" not in value else {**value, "$scope": plain_of(value["$scope"], path, depth + 1)}


def iso_text(millis: int) -> str:
    """Return a time in milliseconds since 1970 as ISO 8601; its year must be 1 to 9999.

    >>> iso_text(1735934393769)
    '2025-01-03T19:59:53.769Z'
    """
    return (_START + millis * _MILLI).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_of(value: Any) -> str:
    """Return a plain value as JSON, with numbers as they are written, and names in their order.

    >>> json_of({"b": Number("1.10"), "a": ["x", None, True]})
    '{"b":1.10,"a":["x",null,true]}'
    """
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_of(name)}:{json_of(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_of, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _named_once(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    object_ = dict(pairs)
    if len(object_) < len(pairs):
        raise NotPlainError("a name stands twice in an object")
    return object_


_TOO_DEEP: Final = "it is nested too deeply"
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_named_once, parse_int=Number, parse_float=Number, parse_constant=str
)

_OTHER_FORM: Final = (ValueError, TypeError, KeyError, AttributeError)
"""What the reader of a form raises for an object with the form's names and other values."""


def _text(value: Any, form: re.Pattern[str] | None = None) -> str:
    """Return a text; raises ValueError for any other value, and for a text that does not match `form`."""
    if not isinstance(value, str) or isinstance(value, Number) or (form is not None and not form.fullmatch(value)):
        raise ValueError(value)
    return value


def _whole_number(value: Any, lowest: int, highest: int) -> Number:
    """Return a whole number, which may be in a text; raises ValueError if it is none, or out of range."""
    if not isinstance(value, str) or not _WHOLE.fullmatch(value) or not lowest <= int(value) <= highest:
        raise ValueError(value)
    return Number(value)


def _int(value: Mapping[str, Any]) -> Number:
    return _whole_number(value["$numberInt"], -(2**31), 2**31 - 1)


def _long(value: Mapping[str, Any]) -> Number:
    return _whole_number(value["$numberLong"], -(2**63), 2**63 - 1)


def _double(value: Mapping[str, Any]) -> str:
    number = value["$numberDouble"]
    if not isinstance(number, str):
        raise TypeError(number)
    return str(number) if number in _NO_NUMBER else Number(_matched(number, _DOUBLE))


def _decimal(value: Mapping[str, Any]) -> str:
    """Return a number of up to 38 digits, else its text, because a longer JSON number would be read as a double."""
    text = _text(value["$numberDecimal"])
    if text in _NO_NUMBER:
        return text
    number = Decimal(_matched(text, _DECIMAL))
    _, digits, exponent = number.as_tuple()
    places = int(exponent)
    if not number:
        return Number(f"{Decimal(0).scaleb(places):f}" if -_MOST_DIGITS <= places < 0 else "0")
    is_wide = max(len(digits) + max(places, 0), -places) > _MOST_DIGITS
    return text if is_wide else Number(f"{number:f}")


def _matched(text: str, form: re.Pattern[str]) -> str:
    if not form.fullmatch(text):
        raise ValueError(text)
    return text


def _date(value: Mapping[str, Any]) -> int:
    """Return milliseconds since 1970."""
    date = value["$date"]
    if isinstance(date, dict):
        if date.keys() != {"$numberLong"}:
            raise ValueError(date)
        return int(_long(date))
    if isinstance(date, Number):
        return int(_whole_number(date, -(2**63), 2**63 - 1))
    return (datetime.fromisoformat(_text(date, _MOMENT)) - _START) // _MILLI


def _seconds(value: Mapping[str, Any]) -> Number:
    """Return the seconds of a timestamp of MongoDB's log, without the order within a second."""
    timestamp = value["$timestamp"]
    if timestamp.keys() != {"t", "i"}:
        raise ValueError(timestamp)
    _whole_number(timestamp["i"], 0, 2**32 - 1)
    return _whole_number(timestamp["t"], 0, 2**32 - 1)


def _binary(value: Mapping[str, Any]) -> str:
    """Return bytes as base64, and a UUID as its text."""
    content, subtype = value["$binary"], value.get("$type")
    if subtype is None:
        if content.keys() != {"base64", "subType"}:
            raise ValueError(content)
        content, subtype = content["base64"], content["subType"]
    data = base64.b64decode(_text(content), validate=True)
    if int(_matched(subtype, _SUBTYPE), 16) != _OF_UUID:
        return str(content)
    return str(uuid.UUID(bytes=data))


def _regex(value: Mapping[str, Any]) -> str:
    pattern, options = value["$regex"], value["$options"]
    return f"/{_text(pattern)}/{_text(options)}"


def _regular_expression(value: Mapping[str, Any]) -> str:
    expression = value["$regularExpression"]
    if expression.keys() != {"pattern", "options"}:
        raise ValueError(expression)
    return f"/{_text(expression['pattern'])}/{_text(expression['options'])}"


def _pointer(value: Mapping[str, Any]) -> Mapping[str, Any]:
    pointer = value["$dbPointer"]
    if pointer.keys() != {"$ref", "$id"}:
        raise ValueError(pointer)
    return {"$ref": _text(pointer["$ref"]), "$id": plain_of(pointer["$id"])}


def _code(value: Mapping[str, Any]) -> str:
    return _text(value["$code"])


def _code_with_scope(value: Mapping[str, Any]) -> Mapping[str, Any]:
    _text(value["$code"])
    if not isinstance(value["$scope"], dict):
        raise TypeError(value)
    return value


def _marker(name: str, is_marker: Callable[[Any], bool], plain: str | None) -> Callable[[Mapping[str, Any]], Any]:
    def read(value: Mapping[str, Any]) -> str | None:
        if not is_marker(value[name]):
            raise ValueError(value)
        return plain

    return read


def _is_one(value: Any) -> bool:
    return isinstance(value, Number) and value == "1"


_FORMS: Final[Mapping[tuple[str, ...], Callable[[Mapping[str, Any]], Any]]] = {
    ("$oid",): lambda value: _text(value["$oid"], _OBJECT_ID),
    ("$numberInt",): _int,
    ("$numberLong",): _long,
    ("$numberDouble",): _double,
    ("$numberDecimal",): _decimal,
    ("$date",): _date,
    ("$timestamp",): _seconds,
    ("$binary",): _binary,
    ("$binary", "$type"): _binary,
    ("$uuid",): lambda value: _text(value["$uuid"], _UUID).lower(),
    ("$regularExpression",): _regular_expression,
    ("$options", "$regex"): _regex,
    ("$symbol",): lambda value: _text(value["$symbol"]),
    ("$code",): _code,
    ("$code", "$scope"): _code_with_scope,
    ("$minKey",): _marker("$minKey", _is_one, "BsonMinKey"),
    ("$maxKey",): _marker("$maxKey", _is_one, "BsonMaxKey"),
    ("$undefined",): _marker("$undefined", lambda value: value is True, None),
    ("$dbPointer",): _pointer,
}
"""The readers of forms by their sorted names; an object with additional names is an ordinary document."""
