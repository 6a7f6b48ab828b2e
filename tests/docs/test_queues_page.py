"""`docs/reference/queues.md`: its queue accepts what S3 writes, and its permissions are those that are used."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from buckets import Buckets
from pages import fences, text
from queues_of_aws import Clock, Sqs

from lakeward.adapters.queues.sqlite import FILE, SqliteQueue
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.settings.configuration import validate

PAGE = "docs/reference/queues.md"


def json_of(name: str) -> dict[str, Any]:
    (result,) = [json.loads(block.content) for block in fences(PAGE, "json") if block.name == name]
    return dict(result)


def commands() -> list[tuple[str, str, dict[str, str]]]:
    """Return the commands of the page: service, operation, options."""
    result = []
    for block in fences(PAGE, "console"):
        for line in block.content.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "))
            if words[0] == "aws":
                result.append((words[1], words[2], dict(zip(words[3::2], words[4::2], strict=True))))
    return result


def content_of(value: str) -> dict[str, Any]:
    """Read `name=value`, or `file://name`, as `aws` does."""
    if value.startswith("file://"):
        return json_of(value.removeprefix("file://"))
    return dict(pair.split("=") for pair in value.split(","))


def carry_out(sqs: Any, s3: Any) -> None:
    """Run the commands of the page, up to where S3 writes to the queue."""
    for service, operation, options in commands():
        if operation == "create-queue":
            sqs.create_queue(QueueName=options["--queue-name"], Attributes=content_of(options["--attributes"]))
        elif operation == "put-bucket-notification-configuration":
            value = content_of(options["--notification-configuration"])
            s3.put_bucket_notification_configuration(Bucket=options["--bucket"], NotificationConfiguration=value)
        else:
            assert (service, operation) in {("sqs", "receive-message"), ("sqs", "purge-queue")}


@pytest.fixture
def queue_of_page(s3: Buckets, sqs: Sqs) -> Any:
    place = {"LocationConstraint": "eu-central-1"}
    s3.client.create_bucket(Bucket="shop-landing", CreateBucketConfiguration=place)
    carry_out(sqs.client, s3.client)
    return sqs


def test_a_file_in_the_bucket_gives_a_notice_of_its_table(queue_of_page: Sqs, s3: Buckets, tmp_path: Path) -> None:
    (first, _) = [block.content for block in fences(PAGE, "toml")]
    content = {**tomllib.loads(first), "target": {"kind": "memory"}}
    queue: Any = Container(configured=validate(content, tmp_path / "lakeward.toml")).queue()
    host = queue_of_page.client.meta.endpoint_url
    queue.url = queue.url.replace("https://sqs.eu-central-1.amazonaws.com", host)
    queue.wait = 0
    queue.receive()  # what S3 writes to try the queue out
    s3.put("s3://shop-landing/dms/shop/orders/LOAD00000001.csv", "1,new\n")
    s3.put("s3://shop-landing/else/shop/orders/LOAD00000001.csv", "1,new\n")
    queue_of_page.asked.clear()
    queue.client.meta.events.register("after-call.sqs", lambda model, **_: queue_of_page.asked.append(model.name))
    notices = queue.receive()
    assert [notice.table for notice in notices] == ["shop.orders"]
    queue.give_back(notices)
    notices = queue.receive()
    queue_of_page.pass_time(4)
    queue.extend(notices)
    queue.acknowledge(notices)
    (statement,) = json_of("")["Statement"]
    used = {f"sqs:{name.removesuffix('Batch')}" for name in queue_of_page.asked}
    assert sorted(statement["Action"]) == sorted(used)
    arn = json_of("notification.json")["QueueConfigurations"][0]["QueueArn"]
    assert statement["Resource"] == arn
    assert content["queue"]["url"].endswith("/".join(arn.split(":")[-2:]))
    queue.client.close()


def test_the_policies_of_the_queue_are_of_the_queues_and_the_bucket_of_the_page() -> None:
    attributes, (configuration,) = json_of("queue.json"), json_of("notification.json")["QueueConfigurations"]
    (statement,) = json.loads(attributes["Policy"])["Statement"]
    assert statement["Resource"] == configuration["QueueArn"]
    assert statement["Condition"]["ArnLike"]["aws:SourceArn"] == "arn:aws:s3:::shop-landing"
    dead = json.loads(attributes["RedrivePolicy"])["deadLetterTargetArn"]
    assert dead == f"{configuration['QueueArn']}-dead"


def test_the_row_of_the_page_is_a_notice_of_its_table(tmp_path: Path) -> None:

    queue = SqliteQueue(tmp_path / FILE, Clock(), 60, 5)
    queue.receive()
    (statement,) = re.findall(r'sqlite3 state/queue\.db "(.*)"', text(PAGE))
    with closing(sqlite3.connect(queue.file)) as db:
        db.execute(statement)
        db.commit()
    assert [notice.table for notice in queue.receive()] == ["shop.orders"]
