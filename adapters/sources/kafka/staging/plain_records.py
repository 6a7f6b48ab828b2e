"""Plain records as lines: the JSON object of the value is a row, and what the broker says of it stands beside.

The source of files reads such lines with `format = "json"`, and the operation in them as it reads that of any file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring_ascii as _quote
from typing import Any, Final

from lakeward.adapters.sources.kafka.broker import Record
from lakeward.adapters.sources.kafka.staging.message_lines import headers_of, place_of, quote, to_line

BESIDE: Final = "_lakeward_record"
"""The name in a row under which topic, partition, offset, timestamp, key, headers and operation stand."""

OPERATION: Final = f"{BESIDE}.operation"
DELETE: Final = "delete"
_WRITE: Final = "write"
"""Where the operation of a row stands, and its words: a record without a value is a delete."""

_NO_ROW: Final = b'["no row: %s",%s]\n'
"""A record that is none, as a list: the line is no JSON object, so it goes into quarantine whole."""

_NO_OBJECT: Final = "its value is no JSON object"
_NO_KEY: Final = "its key lacks a column of `record_key`"
_DIFFER: Final = "its key and its value differ in a column"
_TAKEN: Final = f"its value has the name {BESIDE}, which is lakeward's own"


class _NoRow(ValueError):
    """A record is no row; says why."""


Texts = Mapping[str, Any]
"""An object of JSON, its numbers as the texts that were written."""


def to_row(record_key: Sequence[str], topic: str, partition: int, record: Record) -> bytes:
    r"""Return a record as a line; the columns `record_key` are those of its key, which may be one value alone.

    The value is kept to the letter. A record is no row if its value is no JSON object, or has the name of what
    stands beside; if its key lacks a column that is read from it, or value and key differ in such a column.

    >>> to_row(["id"], "t", 0, Record(7, None, b"5", b'{"a": 1.50}'))[-29:]
    b'"write"},"id":"5","a": 1.50}\n'
    """
    try:
        keys = _keys(record_key, record.key)
        text, row = ("{}", {}) if record.value is None else _object(record.value)
        _check(keys, row)
    except _NoRow as error:
        return _NO_ROW % (str(error).encode(), to_line(topic, partition, record).rstrip())
    own = [f"{_quote(name)}:{_quote(value)}" for name, value in keys.items() if name not in row]
    rest = text.strip()[1:-1].strip()
    fields = [f'"{BESIDE}":{{{_fields_of_broker(topic, partition, record)}}}', *own, *([rest] if rest else [])]
    return ("{" + ",".join(fields) + "}\n").encode()


def _fields_of_broker(topic: str, partition: int, record: Record) -> str:
    word = DELETE if record.value is None else _WRITE
    place, key, headers = place_of(topic, partition, record), quote(record.key), headers_of(record)
    return f'{place},"key":{key},"headers":{headers},"operation":"{word}"'


def _keys(columns: Sequence[str], key: bytes | None) -> Texts:
    """Return the columns that are in the key of a record; raises _NoRow where it lacks one."""
    if not columns:
        return {}
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError as error:
        raise _NoRow(_NO_KEY) from error
    try:
        found = None if key is None else _parse(text)
    except (ValueError, RecursionError):
        found = text  # a text that is no JSON
    if isinstance(found, str | bool) and len(columns) == 1:
        found = {columns[0]: found if text.startswith('"') else text}
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in columns):
        raise _NoRow(_NO_KEY)
    return {name: found[name] for name in columns}


def _object(value: bytes) -> tuple[str, Texts]:
    """Return the text of an object on one line, and the object; raises _NoRow where it is none.

    Outside of texts, in which JSON has no line breaks, these are blanks.
    """
    try:
        text = value.decode()
        found = _parse(text)
    except (ValueError, RecursionError) as error:
        raise _NoRow(_NO_OBJECT) from error
    if not isinstance(found, dict):
        raise _NoRow(_NO_OBJECT)
    return text.replace("\n", " "), found


def _check(keys: Texts, row: Texts) -> None:
    if BESIDE in row:
        raise _NoRow(_TAKEN)
    if any(row[name] != value for name, value in keys.items() if name in row):
        raise _NoRow(_DIFFER)


def _parse(text: str) -> Any:
    """Return JSON with its numbers as texts, and in an object true and false as well."""
    found = json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    if not isinstance(found, dict):
        return found
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in found.items()}


def _refuse(word: str) -> str:
    raise ValueError(f"{word} is no JSON")
