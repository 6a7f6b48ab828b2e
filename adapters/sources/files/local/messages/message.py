"""Lines as messages in plain Python (values alone, or records), equal to `json_lines.frames` in SQL."""

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
    """A message: its line, its body, what is wrong with that in words, its key, its topic, its headers with keys.

    `value` is what it was made of, a text or a value of JSON; `body` is an object, else None. `key` is that of the
    row, `whole_key` has what stands beside it, too.
    """

    line: Line
    value: Any
    body: Object | None
    wrong: str | None
    key: Object | None = None
    whole_key: Object | None = None
    is_key_broken: bool = False
    topic: str | None = None
    old_key: Any = None
    new_key: Any = None

    @property
    def is_bare(self) -> bool:
        """Whether it has no value, an empty one, or NULL."""
        value = self.value
        return value is None or (value.__class__ is str and value.strip(_BLANK) in ("", "null"))


def message_of(
    line: Line, documents: Documents, *, is_record: bool, of_mongodb: MongoMessages | None = None
) -> Message:
    """Return the message of a line; raises SparkNeeded where Spark has to tell what it says.

    `of_mongodb` rewrites messages of that connector.
    """
    if not is_record:
        text = line.text if of_mongodb is None else of_mongodb.envelope(line.text)
        return Message(line, text, *documents.parse_line(text or ""))
    record, wrong = documents.parse_line(line.text)
    key = None if record is None else record.get("key")
    if record is None or "value" not in record:
        found = Message(line, line.text, record, wrong)
    else:
        value = record["value"]
        if of_mongodb is not None:
            value = of_mongodb.envelope(text_of(value), text_of(key))
        found = Message(line, value, *documents.parse_part(value))
    if record is None:
        return found
    key = key if of_mongodb is None else of_mongodb.key(text_of(key))
    found.whole_key, found.key = inner_of(documents, key)
    found.is_key_broken = found.whole_key is None and key.__class__ is str
    found.topic = text_of(record.get("topic"))
    headers = record.get("headers")
    if headers is not None:
        found.old_key, found.new_key = _header(headers, OLD_KEY_HEADER), _header(headers, NEW_KEY_HEADER)
    return found


def inner_of(documents: Documents, value: Any) -> tuple[Object | None, Object | None]:
    """Return the object of a key's text, and the key in it, beside which a schema may stand."""
    whole, _ = documents.parse_part(value)
    if whole is None:
        return None, None
    inner, _ = documents.parse_part(whole.get("payload"))
    return whole, whole if inner is None else inner


def _header(headers: Any, name: str) -> Any:
    """Return a header; None where it is not there. Headers are an object, or a list of pairs or of objects."""
    match headers:
        case dict():
            found = headers.get(name)
        case list() if len({told.__class__ for told in headers}) <= 1:
            found = next((told for called, told in map(_pair, headers) if called == name), None)
        case _:
            if name in (text_of(headers) or ""):
                raise SparkNeeded("the headers of a message are a text")
            return None
    if found is not None and found.__class__ is not str:
        raise SparkNeeded("a header of a message is no text")
    return found


def _pair(header: Any) -> tuple[str, str | None]:
    match header:
        case [str(name), str() | None as value]:
            return name, value
        case {"key": str(name), "value": str() | None as value} if len(header) == 2:
            return name, value
    raise SparkNeeded("the headers of a message have another form")
