"""`docs/reference/queues.md`: the queue that it makes takes what S3 writes, its permissions are those in use."""

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
    (found,) = [json.loads(block.content) for block in fences(PAGE, "json") if block.name == name]
    return dict(found)


def commands() -> list[tuple[str, str, dict[str, str]]]:
    """Return the commands of the page: service, operation, options."""
    found = []
    for block in fences(PAGE, "console"):
        for line in block.content.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "))
            if words[0] == "aws":
                found.append((words[1], words[2], dict(zip(words[3::2], words[4::2], strict=True))))
    return found


def content_of(said: str) -> dict[str, Any]:
    """Read `name=value`, or `file://name`, as `aws` does."""
    if said.startswith("file://"):
        return json_of(said.removeprefix("file://"))
    return dict(pair.split("=") for pair in said.split(","))


def carry_out(sqs: Any, s3: Any) -> None:
    """Do what the page says up to where S3 writes to the queue."""
    for service, operation, options in commands():
        if operation == "create-queue":
            sqs.create_queue(QueueName=options["--queue-name"], Attributes=content_of(options["--attributes"]))
        elif operation == "put-bucket-notification-configuration":
            said = content_of(options["--notification-configuration"])
            s3.put_bucket_notification_configuration(Bucket=options["--bucket"], NotificationConfiguration=said)
        else:
            assert (service, operation) in {("sqs", "receive-message"), ("sqs", "purge-queue")}


@pytest.fixture
def made(s3: Buckets, sqs: Sqs) -> Any:
    place = {"LocationConstraint": "eu-central-1"}
    s3.client.create_bucket(Bucket="shop-landing", CreateBucketConfiguration=place)
    carry_out(sqs.client, s3.client)
    return sqs


def test_a_file_that_comes_into_the_bucket_calls_for_its_table(made: Sqs, s3: Buckets, tmp_path: Path) -> None:
    (first, _) = [block.content for block in fences(PAGE, "toml")]
    content = {**tomllib.loads(first), "target": {"kind": "memory"}}
    queue: Any = Container(configured=validate(content, tmp_path / "lakeward.toml")).queue()
    host = made.client.meta.endpoint_url
    queue.url = queue.url.replace("https://sqs.eu-central-1.amazonaws.com", host)
    queue.wait = 0
    queue.receive()  # what S3 writes to try the queue out
    s3.put("s3://shop-landing/dms/shop/orders/LOAD00000001.csv", "1,new\n")
    s3.put("s3://shop-landing/else/shop/orders/LOAD00000001.csv", "1,new\n")
    made.asked.clear()
    queue.client.meta.events.register("after-call.sqs", lambda model, **_: made.asked.append(model.name))
    notices = queue.receive()
    assert [notice.table for notice in notices] == ["shop.orders"]
    queue.give_back(notices)
    notices = queue.receive()
    made.pass_time(4)
    queue.extend(notices)
    queue.acknowledge(notices)
    (statement,) = json_of("")["Statement"]
    used = {f"sqs:{name.removesuffix('Batch')}" for name in made.asked}
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


def test_the_row_that_calls_for_a_table_is_one_that_the_queue_takes(tmp_path: Path) -> None:

    queue = SqliteQueue(tmp_path / FILE, Clock(), 60, 5)
    queue.receive()
    (statement,) = re.findall(r'sqlite3 state/queue\.db "(.*)"', text(PAGE))
    with closing(sqlite3.connect(queue.file)) as db:
        db.execute(statement)
        db.commit()
    assert [notice.table for notice in queue.receive()] == ["shop.orders"]
