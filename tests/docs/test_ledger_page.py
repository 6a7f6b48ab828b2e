"""`docs/reference/ledger.md`: its table holds ledgers, and its permissions are those that are used."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from ledger_tables import KEYS, LedgerTable
from pages import fences

from lakeward.adapters.ledgers.dynamodb import ledger as module
from lakeward.core.ledger.objects import Notes, ObjectRecord, ObjectState, SourceObject

PAGE = "docs/reference/ledger.md"
TABLE = "shop.orders"

WITHIN_A_TRANSACTION = {"TransactWriteItems": "PutItem"}
"""A transaction needs only the permissions of the requests in it."""


def parse_pairs(words: list[str]) -> list[dict[str, str]]:
    """Read `AttributeName=lease,KeyType=HASH` as `aws` does."""
    return [dict(pair.split("=") for pair in word.split(",")) for word in words]


def options() -> dict[str, list[str]]:
    """Return the options of the command that makes the table."""
    (command,) = [fence.content for fence in fences(PAGE, "console") if "aws dynamodb" in fence.content]
    aws, service, operation, *words = shlex.split(command.removeprefix("$ ").replace("\\\n", " "))
    assert (aws, service, operation) == ("aws", "dynamodb", "create-table")
    result: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            result[word] = []
        else:
            result[[*result][-1]].append(word)
    return result


def create_page_table(ledger_table: LedgerTable) -> str:
    parameters = options()
    (table,), (billing,), (indexes,) = (
        parameters[name] for name in ("--table-name", "--billing-mode", "--local-secondary-indexes")
    )
    keys: Any = {
        "AttributeDefinitions": parse_pairs(parameters["--attribute-definitions"]),
        "KeySchema": parse_pairs(parameters["--key-schema"]),
        "LocalSecondaryIndexes": json.loads(indexes),
        "BillingMode": billing,
    }
    assert keys == KEYS, "other tests make another table than the page"
    ledger_table.client.create_table(TableName=table, **keys)
    return table


def test_the_table_that_is_made_holds_ledgers_and_the_permissions_are_those_that_are_used(
    ledger_table: LedgerTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PART", 100)
    ledger_table.table = create_page_table(ledger_table)
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
