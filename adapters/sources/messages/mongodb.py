"""Conversion of messages of Debezium's connector for MongoDB to the form of its other connectors.

debezium.io/documentation/reference/stable/connectors/mongodb.html#mongodb-events. A row is a document there, as a
text of extended JSON. An update may have only the fields that it changes. The key is the document's `_id` as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from lakeward.adapters.sources.messages.json.extended_json import NotPlainError, json_of, parse, plain_of
from lakeward.adapters.sources.messages.json.variant_values import Number, object_of

ID: Final = "_id"
"""The column of a document's key."""

DOCUMENT: Final = "document"
"""The column of the whole document, if the table has it."""

WHY_NOT_READ: Final = "_lakeward_why_not_read"
"""The field of a converted source that says in words why its message cannot be read."""

PLACE: Final = "clusterTime"
"""The field of a converted source with the position of the change: cluster time and order within its second."""

_CHANGES: Final = ("c", "r", "u", "d")
_SPAN: Final = 2**32

_FULL: Final = "let the connector send whole documents: capture.mode=change_streams_update_full"
_LATER: Final = "; or the document was deleted before it was looked up, and its delete follows"


@dataclass(frozen=True, slots=True)
class MongoMessages:
    """Converts the messages of one table, which has fields of documents as `columns`, or whole documents."""

    form: Literal["columns", "document"]
    columns: tuple[str, ...] = ()

    def envelope(self, body: str | None, key: str | None = None) -> str | None:
        """Return the value of a message as an envelope whose images are objects of plain JSON.

        A message that is no change of a document is returned unchanged. A change that cannot be read has no images,
        and the reason in `WHY_NOT_READ`. An image has all columns: a field that a whole document lacks is NULL, and
        not unsent.
        """
        message = object_of(body)
        payload = None if message is None else message.get("payload")
        event = payload if isinstance(payload, dict) else message
        if event is None or event.get("op") not in _CHANGES:
            return body
        origin = event.get("source")
        source = _with_place(origin) if isinstance(origin, dict) else {}
        try:
            images = self._images(event, key)
        except NotPlainError as error:
            images, source = {"before": None, "after": None}, {**source, WHY_NOT_READ: str(error)}
        others = {name: value for name, value in event.items() if name != "updateDescription"}
        return json_of({**others, **images, "source": source})

    def key(self, key: str | None) -> str | None:
        """Return the key of a message as an object with the `_id`; an unreadable one is returned unchanged."""
        try:
            id_ = _id_in(key)
        except NotPlainError:
            return key
        return key if id_ is None else json_of({ID: id_})

    def _images(self, event: Mapping[str, Any], key: str | None) -> Mapping[str, Any]:
        before, after = self._image(event, "before"), self._image(event, "after")
        if event["op"] == "u" and after is None and event.get("updateDescription") is not None:
            after = self._update_in_part(event["updateDescription"], key)
        if event["op"] == "d" and before is None:
            _id_in(key)
        return {"before": before, "after": after}

    def _image(self, event: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
        """Return a whole document as a row."""
        image = event.get(name)
        if image is None:
            return None
        document = _document(image, f"the document in `{name}`")
        id_cell = {ID: _id_of(plain_of(document[ID], ID))} if ID in document else {}
        if self.form == "document":
            return {**id_cell, DOCUMENT: json_of(plain_of(document, depth=1))}
        return {**dict.fromkeys(self.columns), **plain_of(document), **id_cell}

    def _update_in_part(self, description: Any, key: str | None) -> Mapping[str, Any]:
        """Return the fields that an update changes, as a row without other columns; raises NotPlainError."""
        if self.form == "document":
            raise NotPlainError(f"an update has a part of its document, which is one column here: {_FULL}{_LATER}")
        id_ = _id_in(key)
        if id_ is None:
            raise NotPlainError(f"an update has a part of its document, and no key: {_FULL}")
        update = _document(description, "`updateDescription`")
        if update.get("truncatedArrays"):
            raise NotPlainError(f"an update cuts an array off, which is a part of a column: {_FULL}{_LATER}")
        removed_fields = update.get("removedFields") or []
        if not isinstance(removed_fields, list) or not all(_is_text(name) for name in removed_fields):
            raise NotPlainError("`removedFields` of an update is no list of names")
        sent = update.get("updatedFields")
        fields = {} if sent is None else _document(sent, "`updatedFields` of an update")
        path = next((name for name in (*fields, *removed_fields) if "." in name), None)
        if path is not None:
            raise NotPlainError(f"an update changes a part of a column, {path}: {_FULL}{_LATER}")
        return {**plain_of(fields), **dict.fromkeys(removed_fields), ID: id_}


def _document(value: Any, label: str) -> Mapping[str, Any]:
    """Return the object of a text of extended JSON, or an object that a converter has parsed already.

    Raises NotPlainError for any other value; `label` names it in the message.
    """
    try:
        document = parse(value) if _is_text(value) else value
    except NotPlainError as error:
        raise NotPlainError(f"{label} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise NotPlainError(f"{label} is no object")
    return document


def _id_in(key: str | None) -> Any:
    """Return the `_id` in the key of a message, which has it as a text in its field `id`; None without that field.

    Raises NotPlainError if the text cannot be read.
    """
    message = object_of(key)
    payload = None if message is None else message.get("payload")
    value = (payload if isinstance(payload, dict) else message or {}).get("id")
    if value is None:
        return None
    try:
        return _id_of(plain_of(parse(value) if _is_text(value) else value, ID))
    except NotPlainError as error:
        raise NotPlainError(f"the `id` in the key of the message cannot be read: {error}") from error


def _id_of(value: Any) -> Any:
    """Return the value of an `_id` for its column; one that is a document becomes JSON with its fields in order."""
    return json_of(value) if isinstance(value, dict | list) else value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def _with_place(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a source with the position of its change and the name of its transaction added.

    The position is the timestamp of MongoDB's log as one number: seconds (`ts_ms`), and the order within a second
    (`ord`). Changes of a transaction have the same position; those of a large one have the same session and number.
    """
    seconds, order = source.get("ts_ms"), source.get("ord")
    if order is None or seconds in (None, "0"):
        return source
    place = f"{json_of(seconds)} with ord {json_of(order)}"
    if _is_below(seconds, 1000 * _SPAN) and _is_below(order, _SPAN) and int(seconds) % 1000 == 0:
        place = str(int(seconds) // 1000 * _SPAN + int(order))
    session, number = source.get("lsid"), source.get("txnNumber")
    is_told = session is not None and number is not None
    return {**source, PLACE: place, "txId": f"{json_of(session)} {json_of(number)}" if is_told else place}


def _is_below(value: Any, most: int) -> bool:
    return isinstance(value, Number) and value.isdecimal() and value.isascii() and int(value) < most
