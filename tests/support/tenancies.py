"""A clock of the tests, and leases with it: in memory, and in a DynamoDB of moto."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cached_property
from itertools import count
from typing import Any

import pytest
from buckets import Buckets, set_environment

from lakeward.adapters.aws.dynamodb import client as dynamodb_client
from lakeward.adapters.leases.dynamodb.lease import MAX_CLOCK_ERROR, DynamoDbLease
from lakeward.adapters.memory import MemoryLease
from lakeward.plugins.testing import LeaseUnderTest


class Clock:
    """A clock in microseconds since 1970, which moves only when a test moves it."""

    def __init__(self) -> None:
        self.micros = 1_795_000_000_000_000

    def __call__(self) -> int:
        return self.micros

    def advance(self, micros: float) -> None:
        self.micros += round(micros)


def in_memory(kind: type[MemoryLease] = MemoryLease) -> LeaseUnderTest:
    clock = Clock()
    lease = kind(clock)
    return LeaseUnderTest(
        open=lambda: lease, now=clock, pass_time=lambda part: clock.advance(part * lease.duration)
    )


NUMBERS = count(1)
KEY = {
    "AttributeDefinitions": [{"AttributeName": "lease", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "lease", "KeyType": "HASH"}],
    "BillingMode": "PAY_PER_REQUEST",
}


@dataclass
class DynamoDb:
    """A DynamoDB with a table of leases and the clock of the test. `asked` has the operations."""

    clock: Clock = field(default_factory=Clock)
    table: str = field(default_factory=lambda: f"leases-{next(NUMBERS)}")
    duration: int = 60_000_000
    asked: list[str] = field(default_factory=list)

    @cached_property
    def client(self) -> Any:
        own_client = dynamodb_client.create_dynamodb_client()
        own_client.meta.events.register("after-call.dynamodb", self._date)
        return own_client

    def _date(self, parsed: Any, model: Any, **_: Any) -> None:
        self.asked.append(model.name)
        parsed["ResponseMetadata"]["HTTPHeaders"]["date"] = formatdate(self.clock() / 1_000_000, usegmt=True)

    def make(self) -> None:
        self.client.create_table(TableName=self.table, **KEY)
        self.asked.clear()

    def lease(self, now: Callable[[], int] | None = None) -> DynamoDbLease:
        """Open the leases as another machine would, by its own clock."""
        return DynamoDbLease(self.client, self.table, self.duration, now or self.clock)

    def pass_time(self, part: float) -> None:
        """Let a part of a grant pass, and of the allowance for clocks that differ."""
        self.clock.advance(part * (self.duration + 2 * MAX_CLOCK_ERROR))

    def tenancy(self) -> LeaseUnderTest:
        return LeaseUnderTest(open=self.lease, now=self.clock, pass_time=self.pass_time)


@pytest.fixture
def dynamodb(s3_server: Buckets, monkeypatch: pytest.MonkeyPatch) -> Iterator[DynamoDb]:
    """Return a DynamoDB set in the environment, with an empty table of leases."""
    set_environment(monkeypatch, AWS_ENDPOINT_URL_DYNAMODB=s3_server.endpoint, AWS_ACCESS_KEY_ID="of-a-test")
    monkeypatch.setattr(dynamodb_client, "_TIMEOUT", 60)  # the machine may be slow
    tenancy = DynamoDb()
    tenancy.make()
    yield tenancy
    tenancy.client.close()
