"""Lines parsed as messages in plain Python, equal to `json_lines.frames.as_messages` in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lakeward.adapters.sources.files.local.rows import Line
from lakeward.adapters.sources.files.local.values.documents import Documents, Object, text_of
from lakeward.adapters.sources.messages.message import NEW_KEY_HEADER, OLD_KEY_HEADER
from lakeward.adapters.sources.messages.mongodb import MongoMessages
from lakeward.adapters.spark.frames.local_casts import SparkNeeded

_BLANK: Final = " \t\r\n"


@dataclass(slots=True)
class Message:
    """A message of a line.

    `value` is its value as a text or JSON value, and `body` the object in it, or None; `problem` says in words why
    there is none. `key` is the key of the row, `whole_key` the key with its schema. `old_key` and `new_key` are the
    headers of a key change.
    """

    line: Line
    value: Any
    body: Object | None
    problem: str | None
    key: Object | None = None
    whole_key: Object | None = None
    is_key_broken: bool = False
    topic: str | None = None
    old_key: Any = None
    new_key: Any = None

    @property
    def is_bare(self) -> bool:
        """Whether the message has no value, an empty one, or NULL."""
        value = self.value
        return value is None or (value.__class__ is str and value.strip(_BLANK) in ("", "null"))


def message_of(
    line: Line, documents: Documents, *, is_record: bool, of_mongodb: MongoMessages | None = None
) -> Message:
    """Return the message of a line; raises SparkNeeded if Spark must read it.

    With `is_record` a line has key, value, topic and headers as fields, else it is the value. `of_mongodb` rewrites
    messages of that connector.
    """
    if not is_record:
        text = line.text if of_mongodb is None else of_mongodb.envelope(line.text)
        return Message(line, text, *documents.parse_line(text or ""))
    record, problem = documents.parse_line(line.text)
    key = None if record is None else record.get("key")
    if record is None or "value" not in record:
        message = Message(line, line.text, record, problem)
    else:
        value = record["value"]
        if of_mongodb is not None:
            value = of_mongodb.envelope(text_of(value), text_of(key))
        message = Message(line, value, *documents.parse_part(value))
    if record is None:
        return message
    key = key if of_mongodb is None else of_mongodb.key(text_of(key))
    message.whole_key, message.key = inner_of(documents, key)
    message.is_key_broken = message.whole_key is None and key.__class__ is str
    message.topic = text_of(record.get("topic"))
    headers = record.get("headers")
    if headers is not None:
        message.old_key, message.new_key = _header(headers, OLD_KEY_HEADER), _header(headers, NEW_KEY_HEADER)
    return message


def inner_of(documents: Documents, value: Any) -> tuple[Object | None, Object | None]:
    """Return the object of a key's text, and the key in it, which may be wrapped with a schema."""
    outer, _ = documents.parse_part(value)
    if outer is None:
        return None, None
    inner, _ = documents.parse_part(outer.get("payload"))
    return outer, outer if inner is None else inner


def _header(headers: Any, name: str) -> Any:
    """Return a header, or None; headers are an object, a list of pairs, or a list of objects.

    Raises SparkNeeded for any other form.
    """
    match headers:
        case dict():
            value = headers.get(name)
        case list() if len({header.__class__ for header in headers}) <= 1:
            value = next((header for header_name, header in map(_pair, headers) if header_name == name), None)
        case _:
            if name in (text_of(headers) or ""):
                raise SparkNeeded("the headers of a message are a text")
            return None
    if value is not None and value.__class__ is not str:
        raise SparkNeeded("a header of a message is no text")
    return value


def _pair(header: Any) -> tuple[str, str | None]:
    match header:
        case [str(name), str() | None as value]:
            return name, value
        case {"key": str(name), "value": str() | None as value} if len(header) == 2:
            return name, value
    raise SparkNeeded("the headers of a message have another form")
