"""JSON lines parsed to plain Python values, for batches that are read without Spark.

A text is parsed only if Spark's result for it is known. Otherwise SparkNeeded is raised, and Spark reads the batch.
Values are str, int, `Number` (a decimal without trailing zeros), `Double`, bool, None, dict and list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

from lakeward.adapters.sources.messages.decoded import LONG_DOUBLE, TINY
from lakeward.adapters.sources.messages.json.variant_values import Number, of_number, text_in
from lakeward.adapters.sources.messages.message import (
    CONSTANT,
    END,
    ESCAPED,
    HALF,
    HALF_WORDS,
    NOT_AVRO,
    NOT_AVRO_WORDS,
)
from lakeward.adapters.spark.frames.local_casts import SparkNeeded

Object = dict[str, Any]

NO_OBJECT: Final = "no object"
"""The problem of a text that is no JSON object; readers replace it by words of their own."""

_BLANK: Final = " \t\r\n"
_LONGEST: Final = 1 << 20
_LONG_NUMBER: Final = re.compile("[0-9]{200}")
_HALF: Final = re.compile(HALF)
_MOST_DEPTH: Final = 100
_WIDEST: Final = 10**38
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|$)')
_SHORTEST_SCHEMA: Final = 200
_SCHEMA: Final = re.compile(r'"schema"\s*:\s*(?=\{")')
_NO_NUMBER: Final = re.compile(CONSTANT)
_ROUNDED: Final = re.compile(f"{LONG_DOUBLE}|{TINY}")
_CONSTANTS: Final = ("NaN", "Infinity", "-Infinity")


class Double(Number):
    """A JSON number that Spark reads as a double: it has an exponent, or more digits than a decimal."""

    __slots__ = ()


class Documents:
    """Parser of texts. Schemas in messages are parsed once, because they are most of the text of such a message."""

    def __init__(self) -> None:
        self._schemas: list[tuple[str, Object]] = []
        self._constants: dict[str, Object] = {}
        self._has_doubles = False
        self._decoder = json.JSONDecoder(
            object_pairs_hook=_named_once, parse_float=self._fraction, parse_constant=self._constant
        )

    def parse_line(self, text: str) -> tuple[Object | None, str | None]:
        """Parse a line as `parse` does; later calls of `parse_part` are for parts of this line."""
        self._has_doubles = False
        return self.parse(text)

    def parse_part(self, value: Any) -> tuple[Object | None, str | None]:
        """Parse a value of the line by its text; without doubles in the line, an object is returned as it is."""
        if value.__class__ is dict and not self._has_doubles:
            return value, None
        return self.parse(text_of(value))

    def parse(self, text: str | None) -> tuple[Object | None, str | None]:
        """Return the object of a text, and in words what is wrong with the text; both are None for NULL.

        The words for a value that is no object are `NO_OBJECT`. Raises SparkNeeded if Spark's result is not known.
        """
        if text is None:
            return None, None
        if len(text) > _LONGEST:
            raise SparkNeeded("a line is longer than 1 MiB")
        value, problem = self._value(self._without_schemas(text), text)
        if problem is not None:
            return None, problem
        if value.__class__ is not dict:
            return None, None if value is None else NO_OBJECT
        if not self._constants and '"schema"' in text:
            self._keep_schema(text)
        return value, None

    def _without_schemas(self, text: str) -> str:
        """Return a text with known schemas replaced by the constants NaN and Infinity, which JSON does not have."""
        self._constants, rest, count = {}, text, 0
        for constant, (written, schema) in zip(_CONSTANTS, self._schemas, strict=False):
            parts = rest.split(written)
            if len(parts) > 1:
                rest, count = f'"schema":{constant}'.join(parts), count + len(parts) - 1
                self._constants[constant] = schema
        if count and rest.count("NaN") + rest.count("Infinity") > count:
            self._constants, rest = {}, text
        return rest

    def _constant(self, word: str) -> Object:
        if word not in self._constants:
            raise ValueError(f"{word} is no JSON")
        return self._constants[word]

    def _fraction(self, text: str) -> Number:
        fraction = _fraction(text)
        self._has_doubles |= fraction.__class__ is Double
        return fraction

    def _keep_schema(self, text: str) -> None:
        """Remember the schemas of a text together with their key, so that they are not found within a string."""
        for start in list(_SCHEMA.finditer(text))[: len(_CONSTANTS)]:
            had_doubles, self._has_doubles = self._has_doubles, False
            with suppress(ValueError):  # the key is within a string
                schema, end = self._decoder.raw_decode(text, start.end())
                if end - start.start() > _SHORTEST_SCHEMA and not self._has_doubles:
                    written = text[start.start() : end]
                    self._schemas = [(written, schema), *self._schemas[: len(_CONSTANTS) - 1]]
            self._has_doubles = had_doubles

    def _value(self, text: str, original: str) -> tuple[Any, str | None]:
        if (r"\ud" in text or r"\uD" in text) and _HALF.search(text.replace(ESCAPED * 2, " ")):
            return None, HALF_WORDS
        if len(text) > 1000 and _LONG_NUMBER.search(text):
            raise SparkNeeded("a line has a number of more than 200 digits")
        try:
            value = self._decoder.decode(text)
        except RecursionError as error:
            raise SparkNeeded("a line is nested too deeply") from error
        except ValueError:
            _check_broken(original)
            return None, NOT_AVRO_WORDS if original.startswith(NOT_AVRO) else NO_OBJECT
        if text.count("{") + text.count("[") > _MOST_DEPTH or len(text) > 40_000:
            _check_limits(value, 0)
        return value, None


def _named_once(pairs: Sequence[tuple[str, Any]]) -> Object:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise SparkNeeded("a key stands twice in a JSON object")
    return document


def _fraction(text: str) -> Number:
    if "e" in text or "E" in text:
        return Double(text)
    if len(text) > 38:
        _, digits, exponent = Decimal(text).as_tuple()
        if max(len(digits), -int(exponent)) > 38:
            return Double(text)
    plain = text.rstrip("0").rstrip(".")
    return Number("0" if plain == "-0" else plain)


def refuse_rounded(value: Any) -> None:
    """Raise SparkNeeded for a number that changes when it becomes a double."""
    if value.__class__ is Double and _ROUNDED.search(value):
        raise SparkNeeded("a number has more digits than a double")


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


_LENIENT: Final = json.JSONDecoder(strict=False, parse_constant=_refuse)


def _check_broken(text: str) -> None:
    """Raise SparkNeeded for a text that is no JSON by the standard, but may be by some of Spark's parsers."""
    if END in text:
        raise SparkNeeded("a line has a text in it that marks the end of a line")
    if "'" in text and "'" in _STRING.sub("", text):
        raise SparkNeeded("a line has a quote that JSON does not know")
    if _NO_NUMBER.search(text):
        raise SparkNeeded("a line has a number that JSON does not know")
    start = text.lstrip(_BLANK)
    try:
        value, end = _LENIENT.raw_decode(start)
    except (ValueError, RecursionError):
        return
    rest = start[end:].lstrip(_BLANK)
    if isinstance(value, dict) and (not rest or rest[0] in ",]"):
        raise SparkNeeded("a line is JSON by some of the rules of Spark, and not by others")


def _check_limits(value: object, depth: int) -> None:
    """Raise SparkNeeded for deep nesting and for long names: Spark's parser has limits for both."""
    if depth > _MOST_DEPTH:
        raise SparkNeeded("a line is nested too deeply")
    if isinstance(value, dict):
        if any(len(name) > 40_000 for name in value):
            raise SparkNeeded("a name in a line has more than 40,000 characters")
        for inner in value.values():
            _check_limits(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_limits(inner, depth + 1)


def text_of(value: Any) -> str | None:
    """Return the text of a value, as Spark writes a value of the type VARIANT.

    Raises SparkNeeded for numbers that Java may write otherwise: before Java 19 doubles above 10^15 may have more
    digits than needed (JDK-4511638).
    """
    kind = value.__class__
    if kind is str or value is None:
        return value  # type: ignore[no-any-return]
    if kind is int:
        if not -_WIDEST < value < _WIDEST:
            raise SparkNeeded("a whole number has more than 38 digits")
        return str(value)
    if kind is Number:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    _check_numbers(value)
    return text_in(value)


def _check_numbers(value: object) -> None:
    if isinstance(value, Double):
        number = float(value)
        digits = of_number(value).partition("E")[0].replace(".", "").strip("-0")
        if number != 0 and not (1e-12 <= abs(number) < 1e15 and len(digits) <= 15):
            raise SparkNeeded("the digits of a double are those that Java writes")
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_numbers(inner)
    elif value.__class__ is int and not -_WIDEST < value < _WIDEST:
        raise SparkNeeded("a whole number has more than 38 digits")
