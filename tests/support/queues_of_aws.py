"""Queues of moto's SQS with a clock of the tests: standard and FIFO, each with a dead-letter queue."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import pytest
from buckets import Buckets, set_environment
from moto.sqs import models

from lakeward.adapters.queues.sqs import client as sqs_client
from lakeward.adapters.queues.sqs.queue import SqsQueue
from lakeward.plugins.testing import QueueUnderTest
from lakeward.plugins.testing.laws import queues

NUMBERS = count(1)
VISIBILITY = 60


@dataclass
class Clock:
    """The clock of this machine plus the seconds added by tests. SQS has the same."""

    added: float = 0.0

    def __call__(self) -> int:
        return round((time.time() + self.added) * 1_000_000)

    def millis(self) -> float:
        return (time.time() + self.added) * 1000


@dataclass
class Sqs:
    """An SQS with a queue. `asked` has the operations since the queue was made."""

    clock: Clock
    is_fifo: bool = False
    asked: list[str] = field(default_factory=list)
    places: dict[str, list[str]] = field(default_factory=dict)

    @cached_property
    def client(self) -> Any:
        own_client = sqs_client.create_sqs_client(None, None, 0)
        own_client.meta.events.register("after-call.sqs", lambda model, **_: self.asked.append(model.name))
        return own_client

    @cached_property
    def dead(self) -> str:
        return self._make({})

    @cached_property
    def url(self) -> str:
        arn = self.client.get_queue_attributes(QueueUrl=self.dead, AttributeNames=["QueueArn"])
        redrive = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": "5"}
        own_url = self._make({"RedrivePolicy": json.dumps(redrive)})
        self.asked.clear()
        return own_url

    def _make(self, attributes: dict[str, str]) -> str:
        fifo = {"FifoQueue": "true"} if self.is_fifo else {}
        name = f"landing-{next(NUMBERS)}" + (".fifo" if self.is_fifo else "")
        return str(self.client.create_queue(QueueName=name, Attributes={**attributes, **fifo})["QueueUrl"])

    def send(self, body: str, group: str = "a") -> None:
        fifo = {"MessageGroupId": group, "MessageDeduplicationId": str(next(NUMBERS))} if self.is_fifo else {}
        self.client.send_message(QueueUrl=self.url, MessageBody=body, **fifo)

    def ring(self, table: str) -> None:
        """Send a notice that a table may have something new."""
        self.send(json.dumps({"table": table}), table)

    def open(self) -> SqsQueue:
        """Open the queue as a new process would."""
        return SqsQueue(
            client=self.client,
            url=self.url,
            tables=queues.TABLES,
            tables_at=lambda url: self.places.get(url, []),
            now=self.clock,
            visibility=VISIBILITY,
            wait=0,
        )

    def pass_time(self, part: float) -> None:
        """Let this part of the visibility timeout pass."""
        self.clock.added += part * VISIBILITY

    def texts(self, url: str) -> list[str]:
        answer = self.client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        return [message["Body"] for message in answer.get("Messages", ())]

    def bell(self) -> QueueUnderTest:
        return QueueUnderTest(open=self.open, ring=self.ring, pass_time=self.pass_time)


@pytest.fixture
def sqs_clock(s3_server: Buckets, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of an SQS set in the environment."""
    set_environment(monkeypatch, AWS_ENDPOINT_URL_SQS=s3_server.endpoint, AWS_ACCESS_KEY_ID="of-a-test")
    monkeypatch.setattr(sqs_client, "_TIMEOUT", 60)  # the machine may be slow
    clock = Clock()
    monkeypatch.setattr(models, "unix_time_millis", clock.millis)
    return clock


@pytest.fixture
def sqs(sqs_clock: Clock) -> Iterator[Sqs]:
    queue = Sqs(sqs_clock)
    yield queue
    queue.client.close()


@pytest.fixture
def fifo(sqs_clock: Clock) -> Iterator[Sqs]:
    queue = Sqs(sqs_clock, is_fifo=True)
    yield queue
    queue.client.close()
