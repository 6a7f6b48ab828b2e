"""The input of decoders: frames of messages with key, value and headers, and the SQL that parses their JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame

from lakeward.adapters.spark.session.compatibility import is_valid_utf8, line
from lakeward.adapters.spark.sql.names import text

KEY: Final = "_lakeward_message_key"
BODY: Final = "_lakeward_message"
TOPIC: Final = "_lakeward_topic"
"""Columns of messages: key and value as JSON texts, and the topic; NULL if the message has none."""

OLD_KEY: Final = "_lakeward_header_old_key"
NEW_KEY: Final = "_lakeward_header_new_key"
"""Columns with the old and the new key of a row as JSON texts, from headers; NULL if the message has none."""

OLD_KEY_HEADER: Final = "__debezium.oldkey"
NEW_KEY_HEADER: Final = "__debezium.newkey"
KEY_HEADERS: Final = (OLD_KEY_HEADER, NEW_KEY_HEADER)
"""Headers of the two halves of a key change, with the key of the other half."""

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""The default placeholder for a value that the database did not log (`unavailable.value.placeholder`)."""

CELLS: Final = "map<string,string>"
"""The type of an object whose cells are texts, with numbers exactly as they were written."""

_EVENT: Final = f"before {CELLS}, after {CELLS}, source {CELLS}, op string, transaction struct<id:string>"
ENVELOPE: Final = f"struct<{_EVENT}, payload:struct<{_EVENT}>>"
"""The type of a Debezium message, which may be wrapped with a schema."""

PARTS_OF_DMS: Final = ("data", "metadata", "before-image")
MESSAGE_OF_DMS: Final = f"struct<{', '.join(f'`{name}`: {CELLS}' for name in PARTS_OF_DMS)}>"
"""The type of a message of AWS DMS."""

IN_PYTHON: Final = {CELLS: "lakeward_cells", ENVELOPE: "lakeward_envelope", MESSAGE_OF_DMS: "lakeward_dms"}
"""The Python functions that parse a text, by the type of the object, for Spark 3.5 (`json.spark_functions`)."""

IS_NUMBER_IN_PYTHON: Final = "lakeward_is_number"
IS_ROUNDED_IN_PYTHON: Final = "lakeward_is_rounded"

_BROKEN: Final = "broken"
END: Final = "the end of what lakeward reads"
"""A marker that is put after a text before it is parsed, to see that nothing follows the text's value."""

_PARTS: Final = (
    *("$.payload", "$.after", "$.before", "$.source", "$.payload.after", "$.payload.before", "$.payload.source"),
    *("$.data", "$.metadata", "$.before-image", "$.value"),
)
"""The objects of messages in which repeated keys are named in errors."""

ESCAPED: Final = "\\"
"""The character that begins an escape in JSON; two of them are one backslash."""

_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
HALF: Final = rf"{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}"
"""Matches the escape of half of a character (a lone surrogate), in a text without escaped backslashes."""

HALF_WORDS: Final = "the JSON has half of a character (a surrogate without the other one)"

_NO_UTF_8: Final = "the line is not valid UTF-8"

_IN_SINGLE: Final = r"\A\s*\{\s*'"
"""Matches the beginning of an object with names in single quotes, as Python prints it."""
_IN_SINGLE_WORDS: Final = "a name in a JSON object is in single quotes: JSON has double ones"

_OTHERS: Final = "a key stands twice in a JSON object, or it is larger than Spark reads"
_CONTROL: Final = r"[\x00-\x1f][^\x00-\x1f]"
_CONTROL_WORDS: Final = "a text in a JSON object has a control character, as a TAB, that is no escape"
"""Words for a control character in a string; outside of strings some of them are white space."""

CONSTANT: Final = r"[:,\[]\s*[-+]?(NaN|Infinity|INF)\s*[,}\]]"
"""Matches a constant in an object that is no JSON number; it may also be part of a string."""
_CONSTANT_WORDS: Final = "the message is no JSON, which has no number NaN or Infinity"

NOT_AVRO: Final = "no Avro, in hexadecimal: "
"""Precedes the bytes of a value that cannot be decoded. It is no JSON object, so its row goes into quarantine."""
NOT_AVRO_WORDS: Final = "the message cannot be decoded as Avro"

_NUMBER: Final = r"\A-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?\z"


def with_parsed(frame: DataFrame, texts: Mapping[str, str], type_: str = CELLS) -> DataFrame:
    """Return a frame with each text of `texts` (SQL by column name) parsed as an object of the type `type_`.

    The new columns are structs: `it` is the object, and `broken` the text if it is no such object. Texts are parsed
    as VARIANT, which keeps decimals exactly, while `from_json` would convert them to doubles. A text after which
    anything follows is broken: the parser would ignore the rest, so the text is put into a list with a marker at
    its end. A text with half of a character is broken, because Java would write a question mark, and so is invalid
    UTF-8, because Spark would write replacement characters.

    An expression that is used more than once is a column of its own, or Spark would compute it each time.
    """
    if line() == "3.5":
        return frame.selectExpr("*", *(f"{_in_python(value, type_)} AS {name}" for name, value in texts.items()))
    before, variants, objects = frame.columns, [], []
    for name, value in texts.items():
        is_text = f"{is_valid_utf8(value)} AND NOT {has_half(value)}"
        variants.append(f"try_parse_json(CASE WHEN {is_text} THEN {_in_list(value)} END) AS {name}_variant")
        objects.append(f"try_variant_get({name}_variant, '$[0]', {text(type_)}) AS {name}_object")
    frame = frame.selectExpr("*", *variants).selectExpr("*", *objects)
    return frame.selectExpr(*before, *(f"{_struct(name, value)} AS {name}" for name, value in texts.items()))


def _in_python(value: str, type_: str) -> str:
    broken = f"named_struct('it', CAST(NULL AS {type_}), '{_BROKEN}', {value})"
    return f"CASE WHEN NOT {is_valid_utf8(value)} THEN {broken} ELSE {IN_PYTHON[type_]}({value}) END"


def _struct(name: str, value: str) -> str:
    """Return the struct of a text whose variant and object are columns already, as SQL."""
    variant, it = f"{name}_variant", f"{name}_object"
    ends = f"coalesce(try_variant_get({variant}, '$[1]', 'string') = '{END}', false)"
    is_null = f"is_variant_null(variant_get({variant}, '$[0]', 'variant'))"
    broken = f"CASE WHEN NOT {ends} OR ({it} IS NULL AND NOT {is_null}) THEN {value} END"
    return f"named_struct('it', CASE WHEN {ends} THEN {it} END, '{_BROKEN}', {broken})"


def _in_list(value: str) -> str:
    return f"concat('[', {value}, ',\"{END}\"]')"


def cells_of(value: str) -> str:
    """Return the cells of the object in a text, as SQL; NULL if it is no object."""
    if line() == "3.5":
        return f"{IN_PYTHON[CELLS]}({value}).it"
    return f"try_variant_get(try_parse_json({value}), '$', '{CELLS}')"


def part(value: str, name: str) -> str:
    """Return the text of one part of the object in a text, as SQL."""
    if line() == "3.5":
        return cell(cells_of(value), name)
    return f"variant_get(try_parse_json({value}), '$.{name}', 'string')"


def has_half(value: str) -> str:
    """Return whether a JSON text has the escape of half of a character, as SQL."""
    is_likely = f"contains({value}, {text(ESCAPED + 'ud')}) OR contains({value}, {text(ESCAPED + 'uD')})"
    is_half = f"replace({value}, {text(ESCAPED * 2)}, ' ') RLIKE {text(HALF)}"
    return f"coalesce(({is_likely}) AND {is_half}, false)"


def why_broken(value: str, words: str) -> str:
    """Return in words why a text is no object, as SQL; it is `words` if the text is no JSON, or another value."""
    objects = [value, *(f"get_json_object({value}, {text(path)})" for path in _PARTS)]
    keys = ", ".join(f"json_object_keys({document})" for document in objects)
    repeated_keys = f"transform(array({keys}), k -> get(filter(k, x -> size(filter(k, y -> y = x)) > 1), 0))"
    named = f"concat('the key \"', get(array_compact({repeated_keys}), 0), '\" stands twice in a JSON object')"
    return (
        f"CASE WHEN NOT {is_valid_utf8(value)} THEN {text(_NO_UTF_8)} "
        f"WHEN {has_half(value)} THEN {text(HALF_WORDS)} "
        f"WHEN {value} RLIKE {text(_IN_SINGLE)} THEN {text(_IN_SINGLE_WORDS)} "
        f"WHEN json_array_length({_in_list(value)}) = 2 AND left(ltrim({value}), 1) = '{{' THEN coalesce({named}, "
        f"CASE WHEN {value} RLIKE {text(_CONTROL)} THEN {text(f'{_CONTROL_WORDS}, or {_OTHERS}')} "
        f"ELSE {text(_OTHERS)} END) WHEN {value} RLIKE {text(CONSTANT)} THEN {text(_CONSTANT_WORDS)} "
        f"WHEN startswith({value}, {text(NOT_AVRO)}) THEN {text(NOT_AVRO_WORDS)} ELSE {text(words)} END"
    )


def parsed_object(struct: str) -> str:
    """Return the parsed object of a struct of `with_parsed`, as SQL; NULL if the text is broken."""
    return f"CASE WHEN {struct}.{_BROKEN} IS NULL THEN {struct}.it END"


def cell(of: str, name: str) -> str:
    """Return a cell of an object, as SQL; NULL if it is NULL or missing."""
    return f"{of}[{text(name)}]"


def has(of: str, name: str) -> str:
    """Return whether an object has a cell of that name, as SQL; false if there is no object."""
    return f"coalesce(map_contains_key({of}, {text(name)}), false)"


def is_number(cell: str, name: str) -> str:
    """Return whether a cell of a message is a JSON number in it, and not a text, as SQL.

    The message is parsed again only for a cell that has the form of a number.
    """
    if line() == "3.5":
        is_it = f"{IS_NUMBER_IN_PYTHON}({cell}, {text(name)}, {BODY}, {KEY})"
        return f"CASE WHEN {cell} RLIKE {text(_NUMBER)} THEN {is_it} ELSE false END"
    maps = ", ".join(f"try_variant_get(v, '{path_of(i)}', 'map<string,variant>')[{text(name)}]" for i in ROWS)
    is_it = f"schema_of_variant(c) != 'STRING' AND CAST(c AS string) = {cell}"
    messages = f"array(try_parse_json({BODY}), try_parse_json({KEY}))"
    return (
        f"CASE WHEN {cell} RLIKE {text(_NUMBER)} "
        f"THEN coalesce(exists({messages}, v -> exists(array({maps}), c -> {is_it})), false) ELSE false END"
    )


def has_match(texts: Sequence[str], pattern: str) -> str:
    """Return whether a pattern matches a part of one of the texts, as SQL."""
    return "(" + " OR ".join(["false", *(f"coalesce({of} RLIKE {text(pattern)}, false)" for of in texts)]) + ")"


def is_rounded(cell: str, texts: Sequence[str], has_long: str) -> str:
    """Return whether a cell is a number that the parser may have rounded or made infinite, as SQL.

    The parser reads a number with an exponent, or with more than 38 digits, as a double. `texts` are the JSON texts
    with the cell. They are parsed again only if they have a `LONG` number (`has_long`), and the cell has the form
    of a double.
    """
    is_likely = f"{has_long} AND {cell} RLIKE {text(DOUBLE)}"
    if line() == "3.5":
        is_it = f"{IS_ROUNDED_IN_PYTHON}({cell}, array({', '.join(texts)}))"
        return f"CASE WHEN {is_likely} THEN {is_it} ELSE false END"
    is_double = f"schema_of_variant(c) = 'DOUBLE' AND CAST(c AS string) = {cell}"
    maps = (f"map_values(try_variant_get(v, '{path_of(i)}', 'map<string,variant>'))" for i in (*ROWS, ("data",)))
    is_in = " OR ".join(f"coalesce(exists({cells}, c -> {is_double}), false)" for cells in maps)
    messages = ", ".join(f"try_parse_json({of})" for of in texts)
    return f"CASE WHEN {is_likely} THEN coalesce(exists(array({messages}), v -> {is_in}), false) ELSE false END"


ROWS: Final = ((), ("payload",), ("after",), ("before",), ("payload", "after"), ("payload", "before"))
"""The objects of a Debezium message that may have the cells of a row, as lists of names."""


def path_of(names: Sequence[str]) -> str:
    """Return the JSON path of an object within another one.

    >>> path_of(("payload", "after"))
    '$.payload.after'
    """
    return ".".join(("$", *names))


DOUBLE: Final = r"\A-?([0-9]+[.][0-9]+(E-?[0-9]+)?|Infinity)\z"
"""Matches the text of a double, as Spark writes it."""

LONG: Final = "[0-9][0-9.]{15}|[eE][+-]?[0-9]{3}"
"""Matches a text with a number of more digits than every double keeps, or with an exponent of three digits."""


def header(headers: str, name: str) -> str:
    """Return a header of a message, as SQL; NULL if it is missing.

    In JSON, headers are an object, a list of pairs, or a list of objects, depending on the program that wrote them.
    """
    pairs = f"from_json({headers}, 'array<array<string>>')"
    objects = f"from_json({headers}, 'array<struct<key:string,value:string>>')"
    return (
        f"CASE WHEN contains({headers}, {text(name)}) THEN CASE left({headers}, 2) "
        f"WHEN '[[' THEN get(filter({pairs}, h -> h[0] = {text(name)}), 0)[1] "
        f"WHEN '[{{' THEN get(filter({objects}, h -> h.key = {text(name)}), 0).value "
        f"ELSE from_json({headers}, {text(CELLS)})[{text(name)}] END END"
    )


def placeholders(word: str) -> tuple[str, ...]:
    """Return the placeholders of a value that was not logged: in texts, bytes, lists and maps.

    A list of UUIDs has the UUID of the word, by Java's `UUID.nameUUIDFromBytes`. A list of numbers or dates has one
    element for each byte of the word: a number, or a decimal as the connector's modes `string` and `precise` write
    it. For a `geometry`, a `geography` and a `point` the connector has fixed values, whatever the word is.

    >>> placeholders("no")[:3]
    ('no', 'bm8=', '6e6f')
    """
    data = word.encode()
    encoded = (base64.b64encode(data).decode(), data.hex(), base64.urlsafe_b64encode(data).decode())
    as_uuid = str(uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3))
    numbers = [byte - 256 if byte > 127 else byte for byte in data]  # Java's bytes have a sign
    unscaled = [base64.b64encode(bytes([byte])).decode() for byte in data]
    decimals = ([str(number) for number in numbers], unscaled, [{"scale": 0, "value": it} for it in unscaled])
    lists = [*([element] for element in (word, *encoded, as_uuid)), numbers, *decimals]
    nested = [json.dumps(it, ensure_ascii=False, separators=(",", ":")) for it in (*lists, {word: word})]
    return tuple(dict.fromkeys((word, *encoded, *nested, *_PLACED)))


_PLACED: Final = (
    '{"srid":4326,"wkb":"AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ=="}',  # a geometry: POINT(-99999999 -99999999)
    '{"srid":4326,"wkb":"AQEAACDmEAAADCHn/f9/ZkAYQs77/39WQA=="}',  # a geography: POINT(179.999999 89.999999)
    '{"srid":null,"wkb":"AQEAAAAAAAD8g9eXwQAAAPyD15fB","x":-9.9999999E7,"y":-9.9999999E7}',
)
"""The connector's values for geometries of PostgreSQL that were not logged (its `UnchangedToastedPlaceholder`)."""
