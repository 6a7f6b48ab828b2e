"""JSON in Python as Spark parses it to the type VARIANT: which texts are objects, and the texts of their values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

from lakeward.adapters.sources.messages.message import ESCAPED, HALF

_MOST_DIGITS: Final = 38
"""The digits of the widest decimal; a number with more digits is a double."""

_DOUBLE_DIGITS: Final = 15
"""The number of digits that every double keeps exactly."""

Object: TypeAlias = Mapping[str, Any]


class Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


def object_of(text: str | None) -> Object | None:
    """Return the object of a text, which may have JSON's white space around it; None if it is no object.

    A text with the escape of half of a character is none: UTF-8 cannot express it, and Java writes a question mark.
    """
    try:
        return image_of(None if text is None else value_of(text))
    except ValueError:
        return None


def value_of(text: str) -> Any:
    """Return the JSON value of a text; raises ValueError if it is none."""
    if _HALF.search(text.replace(ESCAPED * 2, " ")):
        raise ValueError("a text has half of a character")
    try:
        return _DECODER.decode(text.strip(_BLANK))
    except RecursionError as error:
        raise ValueError("it is nested deeper than Python goes") from error


def object_in(value: object) -> Object | None:
    """Return the object of a value by its text, so that an object within a string is found as well; else None."""
    return object_of(text_in(value))


def image_of(value: object) -> Object | None:
    """Return a value that is an object; None for any other, an object within a string included."""
    return value if isinstance(value, dict) else None


def _named_once(pairs: Sequence[tuple[str, Any]]) -> Object:
    """Return an object; raises ValueError for a repeated name, which VARIANT does not accept."""
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("a name stands twice")
    return document


def _none(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_named_once, parse_int=Number, parse_float=Number, parse_constant=_none
)
_ESCAPES: Final = str.maketrans(
    {chr(code): f"\\u{code:04X}" for code in range(32)}
    | {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
)
_BLANK: Final = " \t\r\n"
_HALF: Final = re.compile(HALF)


def text_in(value: object) -> str | None:
    """Return the text of a value, as Spark writes one of the type VARIANT."""
    match value:
        case Number():
            return of_number(value)
        case str():
            return value
        case None:
            return None
        case dict():
            cells = (f"{_quoted(name)}:{_json(value[name])}" for name in sorted(value, key=by_utf_16))
            return f"{{{','.join(cells)}}}"
        case list():
            return f"[{','.join(map(_json, value))}]"
        case _:
            return json.dumps(value)


def by_utf_16(name: str) -> bytes:
    """Return the sort key of names in an object."""
    return name.encode("utf-16-be")


def exact_text_in(value: object) -> str | None:
    """Return the text of a value for a column of texts; a number that a double would round is kept as written."""
    return str(value) if isinstance(value, Number) and _is_rounded(value) else text_in(value)


def number_text_in(value: object) -> str | None:
    """Return the text of a value for a column of floats; a number that would change is kept as it is written."""
    text = text_in(value)
    if not isinstance(value, Number) or text is None or not _is_rounded(value):
        return text
    is_bound = "Infinity" in text or float(value) == 0
    digits = text.partition("E")[0].replace(".", "").strip("-0")
    return str(value) if is_bound or len(digits) > _DOUBLE_DIGITS else text


def is_double(value: object) -> bool:
    """Return whether VARIANT stores a value as a double: a number with an exponent, or with too many digits."""
    return isinstance(value, Number) and ("e" in value.lower() or not _is_decimal(Decimal(value)))


def _is_rounded(text: Number) -> bool:
    """Return whether a number changes when VARIANT stores it."""
    if not is_double(text):
        return False
    value = float(text)
    return math.isinf(value) or Decimal(of_number(text)) != Decimal(text)


def _json(value: object) -> str:
    text = text_in(value)
    return "null" if text is None else _quoted(text) if _is_quoted(value) else text


def _is_quoted(value: object) -> bool:
    """Return whether a value is quoted in JSON: a text, or a number that JSON cannot express."""
    return isinstance(value, str) and (not isinstance(value, Number) or "Infinity" in of_number(value))


def _quoted(text: str) -> str:
    """Return a text as JSON, with control characters as Spark writes them."""
    return f'"{text.translate(_ESCAPES)}"'


def of_number(text: str) -> str:
    """Return the text of a number: a decimal without trailing zeros if one can hold it, else Java's double."""
    if "e" not in text.lower() and _is_decimal(Decimal(text)):
        plain = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if plain == "-0" else str(plain)
    value = float(text)
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    of_two = f"{value:.1e}"  # Java has two digits at least
    shortest = of_two if float(of_two) == value else repr(value)
    digits, power = f"{Decimal(shortest).normalize():E}".split("E")
    return f"{digits}{'' if '.' in digits else '.0'}E{int(power)}"


def _is_decimal(value: Decimal) -> bool:
    """Return whether a decimal type can hold all digits of a number."""
    _, digits, exponent = value.as_tuple()
    return max(len(digits), -int(exponent)) <= _MOST_DIGITS
