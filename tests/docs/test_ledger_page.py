"""`docs/reference/ledger.md`: its table holds ledgers, and its permissions are those that are used."""

from __future__ import annotations

import json

import pytest
from ledger_tables import KEYS, LedgerTable
from pages import create_table, fences

from lakeward.adapters.ledgers.dynamodb import ledger as module
from lakeward.core.ledger.objects import Notes, ObjectRecord, ObjectState, SourceObject

PAGE = "docs/reference/ledger.md"
TABLE = "shop.orders"

WITHIN_A_TRANSACTION = {"TransactWriteItems": "PutItem"}
"""A transaction needs only the permissions of the requests in it."""


def test_the_table_that_is_made_holds_ledgers_and_the_permissions_are_those_that_are_used(
    ledger_table: LedgerTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PART", 100)
    request = create_table(PAGE)
    ledger_table.table = request["TableName"]
    assert request == {**KEYS, "TableName": ledger_table.table}, "other tests make another table than the page"
    ledger_table.client.create_table(**request)
    ledger_table.asked.clear()
    ledger, record = ledger_table.ledger(), ObjectRecord(object=SourceObject("f", 1, 1, 1), state=ObjectState.SEEN)
    for anew in (False, True):
        ledger.write(TABLE, Notes(replaces_all=anew, records=[record]))
    assert ledger.account(TABLE).waiting == {"f": record.object}
    assert list(ledger.objects(TABLE, names=["f"])) == [record]
    (policy,) = [json.loads(block.content) for block in fences(PAGE, "json")]
    (statement,) = policy["Statement"]
    used = {f"dynamodb:{WITHIN_A_TRANSACTION.get(name, name)}" for name in ledger_table.asked}
    assert sorted(statement["Action"]) == sorted(used)
    table, index = statement["Resource"]
    assert table.endswith(f":table/{ledger_table.table}")
    assert index == f"{table}/index/by_state"
