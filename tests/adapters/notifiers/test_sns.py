"""Notices of SNS, as a queue that subscribes to the topic receives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from buckets import set_environment

from lakeward.adapters.notifiers import build_sns, sns
from lakeward.core.errors import ConfigError, StoreUnreachable
from lakeward.core.ports import Notifier
from lakeward.plugins import Runtime
from lakeward.plugins.testing import NotifierUnderTest, notifier_contract
from lakeward.plugins.testing.laws.notifiers import NOTICE

NUMBERS = count(1)
RUNTIME = Runtime(lambda: None, file=Path("lakeward.toml"))


@dataclass
class Topic:
    """A topic with a queue that subscribes to it, and the messages that the queue received."""

    sns: Any
    sqs: Any
    is_fifo: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    arn: str = ""
    queue: str = ""

    def make(self) -> None:
        name = f"notices-{next(NUMBERS)}" + (".fifo" if self.is_fifo else "")
        fifo = {"FifoQueue": "true"} if self.is_fifo else {}
        topic_fifo = {"FifoTopic": "true"} if self.is_fifo else {}
        self.queue = self.sqs.create_queue(QueueName=name, Attributes=fifo)["QueueUrl"]
        self.arn = self.sns.create_topic(Name=name, Attributes=topic_fifo)["TopicArn"]
        response = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=["QueueArn"])
        queue = response["Attributes"]["QueueArn"]
        self.sns.subscribe(TopicArn=self.arn, Protocol="sqs", Endpoint=queue)

    def received(self) -> list[dict[str, Any]]:
        while received := self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages"):
            self.messages += [json.loads(one["Body"]) for one in received]
            for one in received:
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=one["ReceiptHandle"])
        return self.messages

    def notifier(self) -> Notifier:
        return build_sns({"topic": self.arn}, RUNTIME)


@pytest.fixture
def make_topic(aws_services: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Topic]]:
    """Return a function that creates topics, in another region than that of the environment."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setattr(sns, "_TIMEOUT", 60)  # the machine may be slow
    session = boto3.Session(region_name="eu-central-1")
    clients = [session.client(name) for name in ("sns", "sqs")]

    def make(*, is_fifo: bool = False) -> Topic:
        topic = Topic(*clients, is_fifo=is_fifo)
        topic.make()
        return topic

    yield make
    for client in clients:
        client.close()


def bench(make_topic: Callable[..., Topic]) -> NotifierUnderTest:
    topic = make_topic()
    gone = build_sns({"topic": topic.arn + "-gone"}, RUNTIME)
    received = partial(lambda: [one["Message"] for one in topic.received()])
    return NotifierUnderTest(notifier=topic.notifier(), received=received, unreachable=gone)


TestSns = notifier_contract(bench)


def test_the_subject_is_one_line_and_the_pipeline_an_attribute(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic()
    topic.notifier().send(replace(NOTICE, pipeline="shop" * 40))
    (message,) = topic.received()
    assert message["Subject"] == f"lakeward {'shop' * 40}"[:99]
    assert message["MessageAttributes"]["pipeline"] == {"Type": "String", "Value": "shop" * 40}


def test_the_notices_of_a_pipeline_are_a_message_group(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(is_fifo=True)
    topic.notifier().send(NOTICE)
    topic.notifier().send(replace(NOTICE, at=NOTICE.at + 1))
    assert len(topic.received()) == 2


def test_the_error_for_a_missing_topic_names_it(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic()
    with pytest.raises(ConfigError, match="does not exist") as error:
        build_sns({"topic": topic.arn + "-gone"}, RUNTIME).send(NOTICE)
    assert topic.arn in str(error.value)


def test_an_unreachable_server_is_a_retryable_error(monkeypatch: pytest.MonkeyPatch, closed_port: int) -> None:
    set_environment(monkeypatch)
    options = {"topic": "arn:aws:sns:eu-central-1:123456789012:gone", "endpoint": f"http://127.0.0.1:{closed_port}"}
    with pytest.raises(StoreUnreachable, match="cannot be published to now"):
        build_sns(options, RUNTIME).send(NOTICE)


@pytest.mark.parametrize("topic", ["data-team", "arn:aws:sqs:eu-central-1:123456789012:data-team", ""])
def test_a_topic_is_named_by_its_arn(topic: str) -> None:
    with pytest.raises(ConfigError, match=r"\[notify.topic\]"):
        build_sns({"topic": topic}, RUNTIME)
