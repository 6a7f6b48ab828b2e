"""The requests of a ledger to DynamoDB, in a dictionary: for tests with a crash or a writer at each request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError


class FakeDynamoDb:
    """A client of one table of ledgers. It passes the laws of a ledger like moto."""

    meta = SimpleNamespace(region_name="eu-central-1")

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], Mapping[str, Any]] = {}

    def get_item(self, *, TableName: str, Key: Any, ConsistentRead: bool) -> Any:  # noqa: N803  # boto3's names
        item = self.items.get(_key(Key))
        return {} if item is None else {"Item": item}

    def batch_get_item(self, *, RequestItems: Any) -> Any:  # noqa: N803
        ((table, asked),) = RequestItems.items()
        assert 0 < len({_key(key) for key in asked["Keys"]}) == len(asked["Keys"]) <= 100
        items = [self.items[_key(key)] for key in asked["Keys"] if _key(key) in self.items]
        return {"Responses": {table: items}}

    def query(self, *, KeyConditionExpression: str, ExpressionAttributeValues: Any, **_: Any) -> Any:  # noqa: N803
        return {"Items": [*self._queried(KeyConditionExpression, ExpressionAttributeValues)]}

    def _queried(self, condition: str, values: Any) -> Iterator[Mapping[str, Any]]:
        given = {name: value["S"] for name, value in values.items()}
        for (ledger, item), attributes in sorted(self.items.items()):
            state = attributes.get("state", {}).get("S")
            held = {
                "#ledger = :ledger AND begins_with(#item, :item)": item.startswith(given.get(":item", "")),
                "#ledger = :ledger AND #state = :state": state is not None and state == given.get(":state"),
                "#ledger = :ledger AND #item BETWEEN :first AND :behind": (
                    given.get(":first", "") <= item <= given.get(":behind", "")
                ),
            }
            if ledger == given[":ledger"] and held[condition]:
                yield attributes

    def put_item(self, *, TableName: str, Item: Any, **condition: Any) -> Any:  # noqa: N803
        if not self._holds(Item, **condition):
            raise ClientError({"Error": {"Code": "ConditionalCheckFailedException", "Message": ""}}, "PutItem")
        self.items[_key(Item)] = Item
        return {}

    def transact_write_items(self, *, TransactItems: Any) -> Any:  # noqa: N803
        puts = [{name: value for name, value in one["Put"].items() if name != "TableName"} for one in TransactItems]
        assert 0 < len({_key(put["Item"]) for put in puts}) == len(puts) <= 100
        codes = ["None" if self._holds(**put) else "ConditionalCheckFailed" for put in puts]
        if {*codes} != {"None"}:
            reasons: Any = {"CancellationReasons": [{"Code": code} for code in codes]}
            error = {"Code": "TransactionCanceledException", "Message": ""}
            raise ClientError({"Error": error, **reasons}, "TransactWriteItems")
        self.items.update({_key(put["Item"]): put["Item"] for put in puts})
        return {}

    def batch_write_item(self, *, RequestItems: Any) -> Any:  # noqa: N803
        ((_, asked),) = RequestItems.items()
        assert 0 < len(asked) <= 25
        for one in asked:
            self.items.pop(_key(one["DeleteRequest"]["Key"]), None)
        return {}

    def _holds(
        self,
        Item: Any,  # noqa: N803
        ConditionExpression: str = "",  # noqa: N803
        ExpressionAttributeNames: Any = None,  # noqa: N803
        ExpressionAttributeValues: Any = None,  # noqa: N803
    ) -> bool:
        item = self.items.get(_key(Item), {})
        if ConditionExpression.startswith("attribute_not_exists"):
            if not item or not ConditionExpression.endswith(" OR #note <= :note"):
                return not item
            return int(item["note"]["N"]) <= int(ExpressionAttributeValues[":note"]["N"])
        wanted = {name[1:]: value for name, value in (ExpressionAttributeValues or {}).items()}
        return all(item.get(name) == value for name, value in wanted.items())


def _key(item: Any) -> tuple[str, str]:
    return item["ledger"]["S"], item["item"]["S"]
