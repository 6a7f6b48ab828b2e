"""Messages about objects in S3, in each of their forms; the examples in `events/` are those of AWS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from lakeward.adapters.aws.s3.events import MessageContent, read_message

EVENTS: Final = Path(__file__).parent / "events"

OBJECTS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "cloudtrail_put": ("s3://amzn-s3-demo-bucket1/example key",),
    "eventbridge_created": ("s3://amzn-s3-demo-bucket1/example-key",),
    "eventbridge_created_plain_key": ("s3://amzn-s3-demo-bucket1/dms/shop/red orders/1+1=2%20.csv",),
    "s3_put": ("s3://amzn-s3-demo-bucket/HappyFace.jpg",),
    "s3_put_encoded_key": ("s3://amzn-s3-demo-bucket/dms/shop/red orders/2026+01/été=1.csv",),
    "s3_restore_completed": ("s3://amzn-s3-demo-bucket/HappyFace.jpg",),
    "s3_two_records": ("s3://amzn-s3-demo-bucket/a/1.csv", "s3://amzn-s3-demo-bucket/b/2.csv"),
    "sns_confirmation": None,
    "sns_eventbridge_created": ("s3://amzn-s3-demo-bucket1/example-key",),
    "sns_put": ("s3://amzn-s3-demo-bucket/red flower.jpg",),
    **dict.fromkeys(("cloudtrail_put_denied", "eventbridge_deleted", "s3_delete", "s3_delete_marker"), ()),
    **dict.fromkeys(("s3_lifecycle_expiration", "s3_replication_failed", "s3_test_event", "sns_test_event"), ()),
}
"""The content of each example; None if it is not an event."""


@pytest.mark.parametrize("file", sorted(EVENTS.glob("*.json")), ids=lambda file: file.stem)
def test_each_form_of_message_has_its_objects(file: Path) -> None:
    objects = OBJECTS[file.stem]
    assert read_message(file.read_text("utf-8")) == (None if objects is None else MessageContent(objects))


def test_every_example_is_tested() -> None:
    assert sorted(file.stem for file in EVENTS.glob("*.json")) == sorted(OBJECTS)


def test_a_raw_message_of_sns_is_the_event_itself() -> None:
    envelope = json.loads((EVENTS / "sns_put.json").read_text("utf-8"))
    assert read_message(envelope["Message"]) == read_message(json.dumps(envelope))


def test_event_names_may_have_the_prefix_s3() -> None:
    text = (EVENTS / "s3_put.json").read_text("utf-8").replace('"ObjectCreated:Put"', '"s3:ObjectCreated:Put"')
    assert read_message(text) == MessageContent(OBJECTS["s3_put"] or ())


def test_a_message_may_name_a_table_also_through_sns() -> None:
    message = json.dumps({"table": "shop.orders"})
    for text in (message, json.dumps({"Type": "Notification", "Message": message})):
        assert read_message(text) == MessageContent(tables=("shop.orders",))


@pytest.mark.parametrize(
    "text",
    [
        *("", "shop.orders", "[]", "7", "null", "{", "[" * 100_000, "{}", '{"table": 7}'),
        *('{"Records": null}', '{"Records": {}}', '{"Records": [7]}'),
        '{"Records": [{"eventName": "ObjectCreated:Put"}]}',
        '{"Records": [{"eventName": "INSERT", "eventSource": "aws:dynamodb", "dynamodb": {}}]}',
        '{"Records": [{"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {}}}]}',
        '{"Records": [{"eventName": 1, "s3": {"bucket": {"name": "b"}, "object": {"key": "k"}}}]}',
        '{"Records": [{"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": 1}}}]}',
        '{"source": "aws.s3"}',
        '{"source": "aws.s3", "detail-type": "AWS API Call via CloudTrail", "detail": {"eventName": "PutObject"}}',
        '{"source": "aws.s3", "detail-type": "Object Created", "detail": {"bucket": {}}}',
        '{"source": "aws.s3", "detail-type": "Object Created", "detail": {"bucket": {"name": "b"}, '
        '"object": {"key": null}}}',
        '{"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "detail": {}}',
        '{"Type": "Notification", "Message": "Hello"}',
        '{"Type": "Notification", "Message": {"table": "shop.orders"}}',
    ],
    ids=lambda text: text[:60],
)
def test_a_message_of_an_unknown_form_has_no_content_and_is_no_error(text: str) -> None:
    assert read_message(text) is None
