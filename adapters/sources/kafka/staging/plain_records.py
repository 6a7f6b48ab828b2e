"""Plain records as lines: the JSON object of the value is the row, with a field that has what the broker states.

The source of files reads such lines with `format = "json"`, and their operation as that of any file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring_ascii as _quote
from typing import Any, Final

from lakeward.adapters.sources.kafka.broker import Record
from lakeward.adapters.sources.kafka.staging.message_lines import headers_of, place_of, quote, to_line

RECORD_FIELD: Final = "_lakeward_record"
"""The field of a row with topic, partition, offset, timestamp, key, headers and operation."""

OPERATION: Final = f"{RECORD_FIELD}.operation"
DELETE: Final = "delete"
_WRITE: Final = "write"
"""The operation of a record with a value; a record without one is a delete."""

_NO_ROW: Final = b'["no row: %s",%s]\n'
"""The line of a record that is no row: a list, and no JSON object, so that the whole line goes into quarantine."""

_NO_OBJECT: Final = "its value is no JSON object"
_NO_KEY: Final = "its key lacks a column of `record_key`"
_DIFFER: Final = "its key and its value differ in a column"
_NAME_IN_USE: Final = f"its value has the name {RECORD_FIELD}, which is lakeward's own"


class _NoRow(ValueError):
    """A record is no row; the text says why."""


TextFields = Mapping[str, Any]
"""A JSON object whose numbers are the texts that were sent."""


def to_row(record_key: Sequence[str], topic: str, partition: int, record: Record) -> bytes:
    r"""Return a record as a line; the columns `record_key` are read from its key, which may be a single value.

    The value is kept unchanged. A record is no row if its value is not a JSON object or has the name
    `RECORD_FIELD`, if its key lacks a column of `record_key`, or if value and key differ in such a column.

    >>> to_row(["id"], "t", 0, Record(7, None, b"5", b'{"a": 1.50}'))[-29:]
    b'"write"},"id":"5","a": 1.50}\n'
    """
    try:
        keys = _keys(record_key, record.key)
        text, row = ("{}", {}) if record.value is None else _object(record.value)
        _check(keys, row)
    except _NoRow as error:
        return _NO_ROW % (str(error).encode(), to_line(topic, partition, record).rstrip())
    key_fields = [f"{_quote(name)}:{_quote(value)}" for name, value in keys.items() if name not in row]
    rest = text.strip()[1:-1].strip()
    fields = [
        f'"{RECORD_FIELD}":{{{_fields_of_broker(topic, partition, record)}}}',
        *key_fields,
        *([rest] if rest else []),
    ]
    return ("{" + ",".join(fields) + "}\n").encode()


def _fields_of_broker(topic: str, partition: int, record: Record) -> str:
    operation = DELETE if record.value is None else _WRITE
    place, key, headers = place_of(topic, partition, record), quote(record.key), headers_of(record)
    return f'{place},"key":{key},"headers":{headers},"operation":"{operation}"'


def _keys(columns: Sequence[str], key: bytes | None) -> TextFields:
    """Return the columns of a record's key; raises _NoRow where it lacks one."""
    if not columns:
        return {}
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError as error:
        raise _NoRow(_NO_KEY) from error
    try:
        keys = None if key is None else _parse(text)
    except (ValueError, RecursionError):
        keys = text  # a text that is not JSON
    if isinstance(keys, str | bool) and len(columns) == 1:
        keys = {columns[0]: keys if text.startswith('"') else text}
    if not isinstance(keys, dict) or not all(isinstance(keys.get(name), str) for name in columns):
        raise _NoRow(_NO_KEY)
    return {name: keys[name] for name in columns}


def _object(value: bytes) -> tuple[str, TextFields]:
    """Return a JSON object as text on one line, and parsed; raises _NoRow for any other value.

    Line breaks outside of texts are white space, and JSON texts have none.
    """
    try:
        text = value.decode()
        row = _parse(text)
    except (ValueError, RecursionError) as error:
        raise _NoRow(_NO_OBJECT) from error
    if not isinstance(row, dict):
        raise _NoRow(_NO_OBJECT)
    return text.replace("\n", " "), row


def _check(keys: TextFields, row: TextFields) -> None:
    if RECORD_FIELD in row:
        raise _NoRow(_NAME_IN_USE)
    if any(row[name] != value for name, value in keys.items() if name in row):
        raise _NoRow(_DIFFER)


def _parse(text: str) -> Any:
    """Return parsed JSON with numbers as texts, and in an object true and false as texts, too."""
    value = json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    if not isinstance(value, dict):
        return value
    return {name: str(field).lower() if isinstance(field, bool) else field for name, field in value.items()}


def _refuse(constant: str) -> str:
    raise ValueError(f"{constant} is no JSON")
