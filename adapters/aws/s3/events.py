"""Read messages about objects in S3, in each of their forms.

S3 sends them itself (docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html) or
through EventBridge (docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html); CloudTrail sends API calls to
EventBridge. SNS may deliver any of them, as a text in an envelope or, with raw delivery, unchanged. Programs may
send `{"table": "shop.orders"}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_plus

_NEW_OBJECT_EVENTS: Final = ("ObjectCreated:", "ObjectRestore:Completed")
"""Prefixes of the names of S3 events after which an object can be read."""

_NEW_OBJECT_DETAIL_TYPES: Final = ("Object Created", "Object Restore Completed")
"""The detail types of EventBridge for the same."""

_NEW_OBJECT_CALLS: Final = ("CompleteMultipartUpload", "CopyObject", "PostObject", "PutObject")
"""The API calls after which an object can be read."""


@dataclass(frozen=True, slots=True)
class MessageContent:
    """The content of a message: URLs of new objects, and names of tables. Deleted objects are not in it."""

    objects: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


def read_message(text: str) -> MessageContent | None:
    """Return the content of a message, or None if its form is unknown.

    >>> read_message('{"table": "shop.orders"}')
    MessageContent(objects=(), tables=('shop.orders',))
    """
    content = _parse_object(text)
    if content is not None and content.get("Type") == "Notification" and isinstance(content.get("Message"), str):
        content = _parse_object(content["Message"])
    return None if content is None else _read_event(content)


def _parse_object(text: str) -> Mapping[str, Any] | None:
    """Return a JSON object; None for any other text."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _read_event(content: Mapping[str, Any]) -> MessageContent | None:
    """Return the content of an event; None if its form is unknown or incomplete."""
    try:
        if "Records" in content:
            return MessageContent(objects=tuple(_objects_of_records(content["Records"])))
        if content.get("source") == "aws.s3":
            return MessageContent(objects=tuple(_objects_of_event(content)))
        if content.get("Event") == "s3:TestEvent":
            return MessageContent()
        table = content["table"]
        return MessageContent(tables=(table,)) if isinstance(table, str) else None
    except (AttributeError, KeyError, TypeError):
        return None


def _objects_of_records(records: Any) -> Iterator[str]:
    """Yield the URLs of the objects in S3 records, whose keys are encoded like a web form: a blank is a plus."""
    if not isinstance(records, list):
        raise TypeError(records)
    for record in records:
        s3_details = record["s3"]
        if record["eventName"].removeprefix("s3:").startswith(_NEW_OBJECT_EVENTS):
            yield _url(s3_details["bucket"]["name"], unquote_plus(s3_details["object"]["key"]))


def _objects_of_event(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield the URL of the object of an EventBridge event, whose key is not encoded."""
    detail = event["detail"]
    if event["detail-type"] == "AWS API Call via CloudTrail":
        if detail["eventName"] in _NEW_OBJECT_CALLS and "errorCode" not in detail:
            yield _url(detail["requestParameters"]["bucketName"], detail["requestParameters"]["key"])
    elif event["detail-type"] in _NEW_OBJECT_DETAIL_TYPES:
        yield _url(detail["bucket"]["name"], detail["object"]["key"])


def _url(bucket: str, key: str) -> str:
    return "/".join(("s3:/", bucket, key))
