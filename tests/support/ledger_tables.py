"""Ledgers in a DynamoDB of moto, as several machines open them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import pytest
from tenancies import DynamoDb

from lakeward.adapters.aws.dynamodb import client as dynamodb_client
from lakeward.adapters.ledgers.dynamodb.ledger import DynamoDbLedger

NUMBERS = count(1)
KEYS = {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("ledger", "item", "state")],
    "KeySchema": [{"AttributeName": "ledger", "KeyType": "HASH"}, {"AttributeName": "item", "KeyType": "RANGE"}],
    "LocalSecondaryIndexes": [
        {
            "IndexName": "by_state",
            "KeySchema": [
                {"AttributeName": "ledger", "KeyType": "HASH"},
                {"AttributeName": "state", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
}


@dataclass
class LedgerTable:
    """A table of ledgers. `asked` has the operations. Items read for queries and batches are counted."""

    table: str = field(default_factory=lambda: f"ledgers-{next(NUMBERS)}")
    asked: list[str] = field(default_factory=list)
    items_read: int = 0

    @cached_property
    def client(self) -> Any:
        own_client = dynamodb_client.create_dynamodb_client()
        own_client.meta.events.register("after-call.dynamodb", self._count)
        return own_client

    def _count(self, parsed: Any, model: Any, **_: Any) -> None:
        self.asked.append(model.name)
        self.items_read += parsed.get("ScannedCount", 0)
        self.items_read += sum(map(len, parsed.get("Responses", {}).values()))

    def make(self) -> None:
        self.client.create_table(TableName=self.table, **KEYS)
        self.asked.clear()

    def ledger(
        self, client: Any = None, pipeline: str = "shop", pause: Callable[[float], None] = time.sleep
    ) -> DynamoDbLedger:
        """Open the ledger as another machine would."""
        return DynamoDbLedger(self.client if client is None else client, self.table, pipeline, pause)

    def items(self, prefix: str = "") -> list[str]:
        own_items = self.client.scan(TableName=self.table, ConsistentRead=True)["Items"]
        return sorted(item["item"]["S"] for item in own_items if item["item"]["S"].startswith(prefix))


@pytest.fixture
def ledger_table(dynamodb: DynamoDb) -> Iterator[LedgerTable]:
    """Return an empty table of ledgers in a DynamoDB set in the environment."""
    table = LedgerTable()
    table.make()
    yield table
    table.client.close()
