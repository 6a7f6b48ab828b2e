"""Leases in DynamoDB: their laws, wrong clocks, races, lost responses, and the requests."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tenancies import Clock, DynamoDb

from lakeward.adapters.leases.dynamodb.lease import MAX_CLOCK_ERROR
from lakeward.core.errors import ConfigError
from lakeward.core.ports import LeaseGrant
from lakeward.plugins.testing import LeaseUnderTest, lease_contract


def in_dynamodb(dynamodb: DynamoDb) -> LeaseUnderTest:
    return dynamodb.tenancy()


TestDynamoDb = lease_contract(in_dynamodb)

SECOND = 1_000_000


def item(dynamodb: DynamoDb) -> Any:
    response = dynamodb.client.get_item(TableName=dynamodb.table, Key={"lease": {"S": "shop"}})
    return response.get("Item")


def test_two_machines_with_allowed_clock_errors_never_own_a_lease_together(dynamodb: DynamoDb) -> None:
    random, grants = Random(3), dict[str, LeaseGrant]()
    clocks = {"a": lambda: dynamodb.clock() - MAX_CLOCK_ERROR, "b": lambda: dynamodb.clock() + MAX_CLOCK_ERROR}
    leases = {owner: dynamodb.lease(clock) for owner, clock in clocks.items()}
    changes = 0
    for _ in range(150):
        owner = random.choice("ab")
        dynamodb.clock.advance(random.randrange(40) * SECOND)
        grant = leases[owner].take("shop", owner)
        if grant.owner == owner:
            changes += grant.fence != grants.get(owner, grant).fence
            grants[owner] = grant
        assert sum(clocks[one]() < grant.until for one, grant in grants.items()) <= 1
    assert changes > 3, "they never took turns"


@pytest.mark.parametrize("seconds", [-120, -7, 7, 120])
def test_a_wrong_clock_is_refused_before_anything_is_written(dynamodb: DynamoDb, seconds: int) -> None:
    with pytest.raises(ConfigError, match="the clock of this machine is") as raised:
        dynamodb.lease(lambda: dynamodb.clock() + seconds * SECOND).take("shop", "a")
    assert ("ahead of" if seconds > 0 else "behind") in raised.value.what
    assert "NTP" in str(raised.value.todo)
    assert item(dynamodb) is None


@pytest.mark.parametrize("seconds", [-5, -1, 0, 1, 5])
def test_a_small_clock_error_is_accepted(dynamodb: DynamoDb, seconds: int) -> None:
    assert dynamodb.lease(lambda: dynamodb.clock() + seconds * SECOND).take("shop", "a").owner == "a"


def test_a_slow_response_is_no_clock_error(dynamodb: DynamoDb) -> None:
    def slow() -> int:
        dynamodb.clock.advance(8 * SECOND)
        return dynamodb.clock()

    assert dynamodb.lease(slow).take("shop", "a").owner == "a"


def test_renewing_a_lease_checks_the_clock(dynamodb: DynamoDb) -> None:
    machine = Clock()
    lease = dynamodb.lease(machine)
    grant = lease.take("shop", "a")
    machine.advance(60 * SECOND)
    with pytest.raises(ConfigError, match="59 s ahead"):
        lease.renew(grant)


class Interrupted:
    """A client that calls a function before its next write."""

    def __init__(self, client: Any, does: Any) -> None:
        self.client, self.does = client, does

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def put_item(self, **request: Any) -> Any:
        does, self.does = self.does, lambda _: None
        does(request)
        return self.client.put_item(**request)


def interrupted(dynamodb: DynamoDb, does: Any) -> Any:
    lease = dynamodb.lease()
    object.__setattr__(lease, "client", Interrupted(dynamodb.client, does))
    return lease


def test_a_lease_taken_between_read_and_write_stays_with_its_owner(dynamodb: DynamoDb) -> None:
    lease = interrupted(dynamodb, lambda _: dynamodb.lease().take("shop", "b"))
    assert lease.take("shop", "a").owner == "b"


@pytest.mark.parametrize(("method", "owner"), [("renew", "b"), ("give_back", "a")])
def test_a_write_of_the_owner_between_read_and_write_decides(dynamodb: DynamoDb, method: str, owner: str) -> None:
    grant = dynamodb.lease().take("shop", "b")
    dynamodb.pass_time(1.1)
    lease = interrupted(dynamodb, lambda _: getattr(dynamodb.lease(), method)(grant))
    assert (lease.take("shop", "a").owner, item(dynamodb)["owner"]) == (owner, {"S": owner})


def test_a_repeated_write_after_a_lost_response_takes_the_lease(dynamodb: DynamoDb) -> None:
    lease = interrupted(dynamodb, lambda request: dynamodb.client.put_item(**request))
    grant = lease.take("shop", "a")
    assert (grant.owner, grant.fence) == ("a", 1)
    assert lease.renew(grant).fence == 1


def test_a_deleted_item_ends_the_lease_and_frees_it(dynamodb: DynamoDb) -> None:
    lease = dynamodb.lease()
    grant = lease.take("shop", "a")
    dynamodb.client.delete_item(TableName=dynamodb.table, Key={"lease": {"S": "shop"}})
    assert (lease.renew(grant).owner, lease.renew(grant).fence) == ("", 0)
    assert lease.take("shop", "b").owner == "b"


def test_taking_a_lease_is_a_read_and_a_write_and_renewing_it_a_write(dynamodb: DynamoDb) -> None:
    lease = dynamodb.lease()
    grant = lease.take("shop", "a")
    assert dynamodb.asked == ["GetItem", "PutItem"]
    lease.give_back(lease.renew(grant))
    assert dynamodb.asked == ["GetItem", "PutItem", "PutItem", "PutItem"]


def test_an_item_that_is_no_lease_is_refused(dynamodb: DynamoDb) -> None:
    dynamodb.client.put_item(TableName=dynamodb.table, Item={"lease": {"S": "shop"}, "rows": {"N": "1"}})
    with pytest.raises(ConfigError, match="the item 'shop' of the DynamoDB table is no lease"):
        dynamodb.lease().take("shop", "a")
