"""Read messages about objects in S3, in all the forms in which they arrive.

S3 writes them itself (docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html) or through
EventBridge (docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html); CloudTrail sends API calls to
EventBridge. Each may come through SNS, as text in an envelope, unless the subscription has raw delivery. lakeward's
own form is `{"table": "shop.orders"}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_plus

_CAME: Final = ("ObjectCreated:", "ObjectRestore:Completed")
"""Prefixes of the names of S3 events after which an object can be read."""

_CAME_BY_BRIDGE: Final = ("Object Created", "Object Restore Completed")
_CAME_BY_TRAIL: Final = ("CompleteMultipartUpload", "CopyObject", "PostObject", "PutObject")


@dataclass(frozen=True, slots=True)
class MessageContent:
    """The content of a message: URLs of new objects, and names of tables. Deletes are ignored."""

    objects: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


def read_message(text: str) -> MessageContent | None:
    """Return the content of a message, or None if its form is unknown.

    >>> read_message('{"table": "shop.orders"}')
    MessageContent(objects=(), tables=('shop.orders',))
    """
    content = _object_in(text)
    if content is not None and content.get("Type") == "Notification" and isinstance(content.get("Message"), str):
        content = _object_in(content["Message"])
    return None if content is None else _read_event(content)


def _object_in(text: str) -> Mapping[str, Any] | None:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _read_event(content: Mapping[str, Any]) -> MessageContent | None:
    """Return the content of an event; None if its form is unknown or incomplete."""
    try:
        if "Records" in content:
            return MessageContent(objects=tuple(_of_records(content["Records"])))
        if content.get("source") == "aws.s3":
            return MessageContent(objects=tuple(_of_bridge(content)))
        if content.get("Event") == "s3:TestEvent":
            return MessageContent()
        table = content["table"]
        return MessageContent(tables=(table,)) if isinstance(table, str) else None
    except (AttributeError, KeyError, TypeError):
        return None


def _of_records(records: Any) -> Iterator[str]:
    """Yield the objects of S3 records. Their keys are encoded like a web form: a blank is a plus."""
    if not isinstance(records, list):
        raise TypeError(records)
    for record in records:
        of_s3 = record["s3"]
        if record["eventName"].removeprefix("s3:").startswith(_CAME):
            yield _url(of_s3["bucket"]["name"], unquote_plus(of_s3["object"]["key"]))


def _of_bridge(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield the object of an EventBridge event, whose key is not encoded."""
    detail = event["detail"]
    if event["detail-type"] == "AWS API Call via CloudTrail":
        if detail["eventName"] in _CAME_BY_TRAIL and "errorCode" not in detail:
            yield _url(detail["requestParameters"]["bucketName"], detail["requestParameters"]["key"])
    elif event["detail-type"] in _CAME_BY_BRIDGE:
        yield _url(detail["bucket"]["name"], detail["object"]["key"])


def _url(bucket: str, key: str) -> str:
    return "/".join(("s3:/", bucket, key))
