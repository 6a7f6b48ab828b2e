"""`lease.md` and `ledger.md`: their tables hold them, and their permissions are those that are used."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from ledger_tables import KEYS, LedgerTable
from pages import create_table, fences, text
from tenancies import DynamoDb

from lakeward.adapters.leases.dynamodb.lease import MAX_CLOCK_ERROR, DynamoDbLease
from lakeward.adapters.ledgers.dynamodb import ledger as module
from lakeward.core.ledger.objects import Notes, ObjectRecord, ObjectState, SourceObject

LEASE, LEDGER = "docs/reference/lease.md", "docs/reference/ledger.md"
WITHIN_A_TRANSACTION = {"TransactWriteItems": "PutItem"}
"""A transaction needs only the permissions of the requests in it."""


def resources_of(page: str, requests: Iterable[str]) -> Sequence[str] | str:
    """Check that the policy of a page allows these requests and no other; return the resources that it names."""
    (policy,) = [json.loads(block.content) for block in fences(page, "json")]
    (statement,) = policy["Statement"]
    used = {f"dynamodb:{WITHIN_A_TRANSACTION.get(name, name)}" for name in requests}
    assert sorted(statement["Action"]) == sorted(used)
    resources: Sequence[str] | str = statement["Resource"]
    return resources


def test_the_table_of_leases_holds_them_and_the_permissions_are_those_that_are_used(dynamodb: DynamoDb) -> None:
    request = create_table(LEASE)
    dynamodb.client.create_table(**request)
    dynamodb.asked.clear()
    lease: Any = DynamoDbLease(dynamodb.client, request["TableName"], 60_000_000, dynamodb.clock)
    lease.give_back(lease.renew(lease.take("shop", "a")))
    assert str(resources_of(LEASE, dynamodb.asked)).endswith(f":table/{request['TableName']}")


def test_the_seconds_that_clocks_may_differ_by_are_those_of_the_code() -> None:
    assert MAX_CLOCK_ERROR == 5_000_000
    page = " ".join(text(LEASE).split())
    assert "differ from that of DynamoDB by up to five seconds. A lease is taken over only ten seconds" in page


def test_the_table_of_ledgers_holds_them_and_the_permissions_are_those_that_are_used(
    ledger_table: LedgerTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PART", 100)
    request = create_table(LEDGER)
    ledger_table.table = request["TableName"]
    assert request == {**KEYS, "TableName": ledger_table.table}, "other tests make another table than the page"
    ledger_table.client.create_table(**request)
    ledger_table.asked.clear()
    ledger, record = ledger_table.ledger(), ObjectRecord(object=SourceObject("f", 1, 1, 1), state=ObjectState.SEEN)
    for anew in (False, True):
        ledger.write("shop.orders", Notes(replaces_all=anew, records=[record]))
    assert ledger.account("shop.orders").waiting == {"f": record.object}
    assert list(ledger.objects("shop.orders", names=["f"])) == [record]
    table, index = resources_of(LEDGER, ledger_table.asked)
    assert table.endswith(f":table/{ledger_table.table}")
    assert index == f"{table}/index/by_state"
